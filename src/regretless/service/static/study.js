// The page of one study. Each section is built once and has an `update`: what a person is typing,
// or has put the focus on, is still there after news have come in.

import { calibration, gate, regret, reward, slices, worth } from "./pictures.js";
import {
  age,
  api,
  card,
  h,
  interval,
  number,
  percent,
  plural,
  rounded,
  scalar,
  typed,
} from "./tools.js";

const REASONS = {
  design: "the start: spread over the space",
  explore: "a new point, expected to be worse, that may be better",
  exploit: "a new point, expected to be at least as good",
  resample: "a point that was tried before",
  exhausted: "past the budget: the best point",
  given: "somebody else’s choice",
};
const FIRST_ROWS = 12;
const MOST_CELLS = 2000;

export function studyView(name, refresh, announce) {
  const sections = [
    incumbent(),
    state(name, refresh),
    pending(name, refresh),
    ribbon(),
    reward(name),
    regret(name),
    worth(),
    gate(),
    slices(),
    calibration(),
    trials(),
  ];
  const subtitle = h("p", { class: "subtitle" });
  const grid = h(
    "div",
    { class: "grid" },
    sections.map((section) => section.element),
  );
  const element = h("div", {}, h("h1", { tabindex: -1 }, name), subtitle, grid);
  grid.hidden = true;
  let shown = null;
  const tick = () => {
    if (!shown) return;
    const { direction, policy, counts, time } = shown;
    const prior = counts.observed ? ` · ${plural(counts.observed, "result")} known before` : "";
    subtitle.textContent = `${direction} · policy ${policy}${prior} · last event ${age(time)} ago`;
    for (const section of sections) section.tick?.();
  };
  const update = (data) => {
    grid.hidden = false; // first: a chart draws at the width that it finds
    for (const section of sections) section.update(data);
    if (shown && data.counts.told > shown.counts.told) announce(news(data));
    shown = data;
    tick();
  };
  const missing = (message) => (subtitle.textContent = message);
  return { element, update, tick, missing };
}

function news({ counts, best }) {
  return `${plural(counts.told, "result")}, ${counts.remaining} left. Best mean ${number(best.mean)}.`;
}

// -- the incumbent --------------------------------------------------------------------------------

function incumbent() {
  const content = h("div", { id: "incumbent" });
  const element = card("Best point so far", "third", content);
  const update = ({ best }) => {
    if (!best) return content.replaceChildren(h("p", { class: "note" }, "Nothing was told yet."));
    const step = (best.high - best.low) / 4;
    const times = best.count === 1 ? "once" : `${best.count} times`;
    content.replaceChildren(
      h(
        "p",
        { class: "headline" },
        h("strong", { id: "best-mean" }, rounded(best.mean, step)),
        h("span", { id: "best-interval" }, ` 95 %: ${interval(best.low, best.high)}`),
      ),
      list(best.params),
      h(
        "p",
        { id: "best-count", class: "note" },
        `Tried ${times}, sample mean ${rounded(best.sample_mean, step)}. The luckiest result anywhere was ${rounded(best.luckiest, step)}.`,
      ),
    );
  };
  return { element, update };
}

const list = (params) =>
  h(
    "dl",
    { class: "params" },
    Object.entries(params).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", { title: String(value) }, scalar(value))),
    ),
  );

const inWords = (params, shown = scalar) =>
  Object.entries(params)
    .map(([name, value]) => `${name}\u00a0=\u00a0${shown(value)}`)
    .join(", ");

// -- budget, noise, and what a person can do -------------------------------------------------------

function state(name, refresh) {
  const bar = h("progress", { "aria-label": "Budget spent" });
  const words = h("p", { id: "budget" });
  const facts = h("dl", { class: "facts" });
  const total = h("input", { id: "extend-to", type: "number", min: 1, step: 1, required: true });
  const doing = verbs(refresh);
  const ask = h(
    "button",
    { type: "button", id: "ask", onclick: () => doing.run(() => api.ask(name)) },
    "Ask for a trial",
  );
  const extend = h(
    "form",
    {
      class: "inline",
      onsubmit: doing.submit(
        () => api.extend(name, Number(total.value)),
        () => (total.value = ""),
      ),
    },
    h("label", { for: "extend-to" }, "New total budget"),
    total,
    h("button", { type: "submit" }, "Extend"),
  );
  const element = card(
    "Budget and noise",
    "third",
    bar,
    words,
    facts,
    h("div", { class: "actions" }, ask, extend),
    doing.problem,
  );
  const update = ({ counts, noise_sd, periods, worth_exploring, calibration }) => {
    bar.max = Math.max(counts.budget, counts.asked);
    bar.value = counts.asked;
    words.textContent = `${counts.remaining.toLocaleString("en")} of ${counts.budget.toLocaleString("en")} evaluations left`;
    const rows = [
      ["Told", counts.told],
      ["Pending", counts.pending],
      ["Abandoned", counts.abandoned],
      ["Noise sd of a result", number(noise_sd, 3)],
      ["Of the space still worth exploring", percent(worth_exploring)],
      ["Results inside their 95 % prediction", percent(calibration.inside)],
    ];
    if (periods)
      rows.push(
        ["Sd of the effect of a period", number(periods.effect_sd, 3)],
        ["A result with its control counts as", `${number(periods.saved, 3)} without`],
      );
    facts.replaceChildren(
      ...rows.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, String(value)))),
    );
    total.min = counts.asked;
    total.placeholder = String(2 * counts.budget);
  };
  return { element, update };
}

// Runs what a button asks for, shows what went wrong, and looks for news at once.
function verbs(refresh) {
  const problem = h("p", { class: "problem", role: "alert" });
  const run = async (verb, after) => {
    problem.textContent = "";
    try {
      await verb();
      after?.();
    } catch (error) {
      problem.textContent = error.message;
    }
    refresh();
  };
  const submit = (verb, after) => (event) => {
    event.preventDefault();
    return run(verb, after);
  };
  return { problem, run, submit };
}

// -- pending trials -------------------------------------------------------------------------------

function pending(name, refresh) {
  const none = h("p", { class: "note" }, "None.");
  const items = h("ul", { class: "waiting" });
  const doing = verbs(refresh);
  const element = card("Pending trials", "third", none, items, doing.problem);
  const shown = new Map();
  const update = (data) => {
    const there = new Set(data.pending.map((trial) => trial.number));
    for (const [number, item] of shown) {
      if (there.has(number)) continue;
      if (item.element.contains(document.activeElement)) element.querySelector("h2").focus();
      item.element.remove();
      shown.delete(number);
    }
    for (const trial of data.pending) {
      if (shown.has(trial.number)) continue;
      shown.set(trial.number, waiting(name, trial, doing));
      items.append(shown.get(trial.number).element);
    }
    none.hidden = shown.size > 0;
  };
  element.querySelector("h2").tabIndex = -1;
  return { element, update, tick: () => shown.forEach((item) => item.tick()) };
}

function waiting(name, trial, doing) {
  const since = h("time", { datetime: trial.asked_at, title: trial.asked_at });
  const value = h("input", {
    id: `tell-${trial.number}`,
    inputmode: "decimal",
    required: true,
    autocomplete: "off",
    class: "short",
  });
  const tell = () => {
    const result = typed(value.value);
    if (!Number.isFinite(result))
      throw new Error(`The result must be a number, not “${value.value}”.`);
    return api.tell(name, trial.number, result);
  };
  const abandon = () => doing.run(() => api.abandon(name, trial.number));
  const element = h(
    "li",
    {},
    h(
      "p",
      {},
      h("strong", {}, `Trial ${trial.number}`),
      " asked ",
      since,
      " ago: ",
      inWords(trial.params, String), // somebody is to try these very values
    ),
    h("p", { class: "note" }, trial.sentence),
    h(
      "form",
      { class: "inline", onsubmit: doing.submit(async () => tell()) },
      h("label", { for: value.id }, "Result"),
      value,
      h(
        "button",
        { type: "submit", "aria-label": `Tell the result of trial ${trial.number}` },
        "Tell",
      ),
      h(
        "button",
        {
          type: "button",
          class: "quiet",
          "aria-label": `Abandon trial ${trial.number}`,
          onclick: abandon,
        },
        "Abandon",
      ),
    ),
  );
  return { element, tick: () => (since.textContent = age(trial.asked_at)) };
}

// -- the ribbon -----------------------------------------------------------------------------------

function ribbon() {
  const cells = h("div", { class: "ribbon", role: "img" });
  const legend = h("p", { class: "legend" });
  const note = h("p", { class: "note" });
  const element = card("Explore or exploit", "wide", note, cells, legend);
  const update = ({ decisions, trials }) => {
    element.hidden = decisions.number.length === 0;
    const sentences = new Map(trials.map((trial) => [trial.number, trial.sentence]));
    const cell = (number, i) => {
      const [reason, status] = [decisions.reason[i], decisions.status[i]];
      const title = `Trial ${number} (${status}): ${sentences.get(number) ?? reason}`;
      return h("span", { class: `cell ${reason} ${status}`, title });
    };
    const hidden = decisions.number.length - MOST_CELLS;
    note.textContent =
      "One cell a trial, in the order in which they were asked for" +
      (hidden > 0 ? `; the first ${hidden.toLocaleString("en")} are left out.` : ".");
    cells.classList.toggle("fine", decisions.number.length > 400);
    cells.replaceChildren(...decisions.number.map(cell).slice(-MOST_CELLS));
    const counts = Object.keys(REASONS).map((reason) => [
      reason,
      decisions.reason.filter((r) => r === reason).length,
    ]);
    const seen = counts.filter(([, count]) => count > 0);
    const waiting = decisions.status.filter((status) => status === "pending").length;
    const described = seen.map(([reason, count]) => `${count} ${reason}`).join(", ");
    cells.setAttribute(
      "aria-label",
      `${plural(decisions.number.length, "trial")} in order: ${described || "none yet"}`,
    );
    legend.replaceChildren(
      ...seen.map(([reason, count]) =>
        h(
          "span",
          { class: "entry", title: REASONS[reason] },
          h("span", { class: `cell ${reason}`, "aria-hidden": "true" }),
          `${reason} ${count}`,
        ),
      ),
      ...(waiting
        ? [
            h(
              "span",
              { class: "entry" },
              h("span", { class: "cell pending", "aria-hidden": "true" }),
              `still pending ${waiting}`,
            ),
          ]
        : []),
    );
  };
  return { element, update };
}

// -- the table ------------------------------------------------------------------------------------

function trials() {
  const heads = ["Trial", "Result", "Parameters", "Why"];
  const head = h(
    "tr",
    { role: "row" },
    heads.map((text) => h("th", { scope: "col", role: "columnheader" }, text)),
  );
  const body = h("tbody", { role: "rowgroup" });
  const caption = h("caption");
  const more = h("button", { type: "button", onclick: () => ((all = !all), update(shown)) });
  const table = h(
    "table",
    { role: "table", class: "stacked trials" },
    caption,
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const element = card("Trials", "wide", table, more);
  let all = false;
  let shown = null;
  const update = (data) => {
    shown = data;
    element.hidden = data.trials.length === 0;
    const newest = [...data.trials].reverse();
    const rows = all ? newest : newest.slice(0, FIRST_ROWS);
    const missing = data.counts.asked + data.counts.observed - data.trials.length;
    body.replaceChildren(...rows.map(trialRow));
    const earlier = missing
      ? ` (the ${missing} before them are in the API: /api/studies/…/trials)`
      : "";
    caption.textContent = `${rows.length} of ${data.trials.length} trials and prior results, the newest first${earlier}`;
    more.hidden = newest.length <= FIRST_ROWS;
    more.textContent = all ? `Show the last ${FIRST_ROWS}` : `Show all ${newest.length}`;
  };
  return { element, update };
}

function trialRow(trial) {
  const cell = (label, ...content) => h("td", { role: "cell", "data-label": label }, ...content);
  const sem = trial.sem === null ? "" : ` ± ${number(trial.sem, 2)}`;
  const count = trial.count > 1 ? ` (mean of ${trial.count})` : "";
  const result = trial.value === null ? trial.status : `${number(trial.value, 5)}${sem}${count}`;
  const mark = trial.reason
    ? h("span", { class: `cell ${trial.reason}`, "aria-hidden": "true" })
    : null;
  return h(
    "tr",
    { role: "row", class: trial.status },
    h(
      "th",
      { scope: "row", role: "rowheader", "data-label": "Trial" },
      mark,
      trial.number === null ? "prior" : String(trial.number),
    ),
    cell("Result", result),
    cell("Parameters", inWords(trial.params)),
    cell("Why", trial.sentence || "known before the study"),
  );
}
