// The page of one study. Each section is built once and has an `update`: what a person is typing,
// or has put the focus on, is still there after news have come in.

import { ahead } from "./ahead.js";
import { calibration, gate, regret, reward, slices, worth } from "./pictures.js";
import {
  age,
  api,
  card,
  h,
  inAddress,
  interval,
  number,
  percent,
  plural,
  question,
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
  baseline: "the setting that runs today",
};
const FIRST_ROWS = 12;
const MOST_CELLS = 2000;

export function studyView(name, refresh, announce) {
  const sections = [
    incumbent(),
    state(name, refresh),
    pending(name, refresh),
    guardrails(),
    proposals(name, refresh),
    ribbon(),
    reward(name),
    regret(name),
    ahead(name),
    worth(),
    gate(),
    slices(),
    calibration(),
    trials(name, refresh),
    management(name, refresh),
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
    const { direction, policy, mode, archived, counts, time } = shown;
    const prior = counts.observed ? ` · ${plural(counts.observed, "result")} known before` : "";
    const how = mode === "recommend" ? " · trials need approval" : "";
    const where = archived ? " · archived" : "";
    subtitle.textContent = `${direction} · policy ${policy}${how}${prior}${where} · last event ${age(time)} ago`;
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
  const left = counts.budget === null ? "" : `, ${counts.remaining} left`;
  return `${plural(counts.told, "result")}${left}. Best mean ${number(best.mean)}.`;
}

// -- the incumbent --------------------------------------------------------------------------------

function incumbent() {
  const content = h("div", { id: "incumbent" });
  const element = card("Best point so far", "third", content);
  const update = ({ best, known, loss }) => {
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
      best.gain === null
        ? ""
        : h("p", { id: "best-gain", class: "note" }, overBaseline(best)),
      loss ? h("p", { id: "loss", class: "note" }, loss.sentence) : "",
      known ? h("p", { id: "best-regret", class: "note" }, ofKnown(known, best, step)) : "",
    );
  };
  return { element, update };
}

function overBaseline({ gain, gain_low, gain_high, prob_better }) {
  if (gain === 0 && prob_better === 0) return "It is the baseline.";
  const step = (gain_high - gain_low) / 4;
  return `Over the baseline ${rounded(gain, step)} a trial (95 %: ${interval(gain_low, gain_high)}), better with ${percent(prob_better)}.`;
}

// What is left to gain, if the optimum or a bound was given.
function ofKnown({ value, exact }, best, step) {
  const what = `${exact ? "optimum" : "bound"} ${number(value)}`;
  return best.regret === null
    ? `Results are clearly better than the ${what} that was given, so it is not used.`
    : `Within ${rounded(best.regret, step)} of the known ${what}.`;
}

const list = (params) =>
  h(
    "dl",
    { class: "params" },
    Object.entries(params).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", { title: scalar(value) }, scalar(value))),
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
  const changed = h("p", { id: "changes", class: "problem", role: "status" });
  const facts = h("dl", { class: "facts" });
  const scatter = h("p", { id: "noise-differs", class: "note" });
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
    changed,
    facts,
    scatter,
    h("div", { class: "actions" }, ask, extend),
    doing.problem,
  );
  const update = (data) => {
    const { counts, drift, noise_sd, noise_differs, periods, worth_exploring } = data;
    const { calibration, mode, archived } = data;
    ask.textContent = mode === "recommend" ? "Ask for a proposal" : "Ask for a trial";
    ask.disabled = archived;
    const endless = counts.budget === null;
    bar.hidden = endless;
    bar.max = Math.max(counts.budget, counts.asked);
    bar.value = counts.asked;
    words.textContent = endless
      ? `${counts.asked.toLocaleString("en")} evaluations so far, no end; each gain counts for the next ${counts.remaining.toLocaleString("en")}`
      : `${counts.remaining.toLocaleString("en")} of ${counts.budget.toLocaleString("en")} evaluations left`;
    const rows = [
      ["Told", counts.told],
      ["Pending", counts.pending],
      ["Abandoned", counts.abandoned],
      ...(mode === "recommend"
        ? [
            ["Waiting for approval", counts.proposed],
            ["Rejected", counts.rejected],
          ]
        : []),
      ["Noise sd of a result", number(noise_sd, 3)],
      ["Of the space still worth exploring", percent(worth_exploring)],
      ["Results inside their 95 % prediction", percent(calibration.inside)],
    ];
    if (noise_differs)
      rows.push(
        ["Least noise sd over the space", number(noise_differs.least.sd, 3)],
        ["Largest noise sd over the space", number(noise_differs.most.sd, 3)],
      );
    changed.hidden = !drift?.jumps.length;
    changed.textContent = (drift?.jumps ?? [])
      .map((jump) => `Something changed at trial ${jump.number} (noticed at trial ${jump.noticed}).`)
      .join(" ");
    if (drift) rows.push(["Drift", drift.sentence || "not known yet"]);
    if (periods)
      rows.push(
        ["Sd of the effect of a period", number(periods.effect_sd, 3)],
        ["A result with its control counts as", `${number(periods.saved, 3)} without`],
      );
    scatter.textContent = noise_differs?.sentence ?? "";
    facts.replaceChildren(
      ...rows.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, String(value)))),
    );
    total.min = counts.asked;
    total.placeholder = String(2 * (counts.budget ?? counts.asked));
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
  const doing = verbs(refresh);
  const make = (trial, data) => waiting(name, trial, data.metrics, doing);
  return underWay("Pending trials", "third", doing, make, (data) => data.pending);
}

// Trials that wait for approval. The card is only there where trials need it.
function proposals(name, refresh) {
  const doing = verbs(refresh);
  const make = (trial) => proposal(name, trial, doing, refresh);
  const listed = underWay("Proposals", "wide", doing, make, (data) => data.proposed);
  const update = (data) => {
    listed.element.hidden = data.mode !== "recommend";
    listed.update(data);
  };
  return { ...listed, update };
}

// A card with an item for each trial, which stays as it is while the trial is there.
function underWay(title, size, doing, make, wanted) {
  const none = h("p", { class: "note" }, "None.");
  const items = h("ul", { class: "waiting" });
  const element = card(title, size, none, items, doing.problem);
  const shown = new Map();
  const update = (data) => {
    const there = new Set(wanted(data).map((trial) => trial.number));
    for (const [number, item] of shown) {
      if (there.has(number)) continue;
      if (item.element.contains(document.activeElement)) element.querySelector("h2").focus();
      item.element.remove();
      shown.delete(number);
    }
    for (const trial of wanted(data)) {
      if (shown.has(trial.number)) continue;
      shown.set(trial.number, make(trial, data));
      items.append(shown.get(trial.number).element);
    }
    none.hidden = shown.size > 0;
  };
  element.querySelector("h2").tabIndex = -1;
  return { element, update, tick: () => shown.forEach((item) => item.tick()) };
}

// What a trial is: its number, its age, its parameters and why they were chosen.
function about(trial) {
  const since = h("time", { datetime: trial.asked_at, title: trial.asked_at });
  const lines = [
    h(
      "p",
      {},
      h("strong", {}, `Trial ${trial.number}`),
      " asked ",
      since,
      " ago: ",
      inWords(trial.params, String), // somebody is to try these very values
    ),
    trial.note && h("p", { class: "note remark" }, trial.note),
    h("p", { class: "note" }, trial.sentence),
  ];
  return { lines, tick: () => (since.textContent = age(trial.asked_at)) };
}

function proposal(name, trial, doing, refresh) {
  const { lines, tick } = about(trial);
  const reject = () =>
    question({
      title: `Reject trial ${trial.number}?`,
      text: "Neither this point nor one near it is proposed while the reason stands. It uses no budget.",
      field: "Reason",
      needed: true,
      yes: "Reject",
      run: async (why) => (await api.reject(name, trial.number, why), refresh()),
    });
  const button = (text, label, options) =>
    h("button", { type: "button", "aria-label": `${label} trial ${trial.number}`, ...options }, text);
  const element = h(
    "li",
    {},
    lines,
    h(
      "div",
      { class: "inline" },
      button("Approve", "Approve", {
        onclick: () => doing.run(() => api.approve(name, trial.number)),
      }),
      button("Reject…", "Reject", { class: "quiet", onclick: reject }),
    ),
  );
  return { element, tick };
}

// A field for a number; `read` returns null if it is empty.
function numberField(id, label, options) {
  const input = h("input", {
    id,
    inputmode: "decimal",
    autocomplete: "off",
    class: "short",
    ...options,
  });
  const read = () => {
    const number = typed(input.value);
    if (number !== null && !Number.isFinite(number))
      throw new Error(`${label} must be a number, not “${input.value}”.`);
    return number;
  };
  return { read, elements: [h("label", { for: id }, label), input] };
}

function waiting(name, trial, metrics, doing) {
  const { lines, tick } = about(trial);
  const value = numberField(`tell-${trial.number}`, "Result", { required: true });
  const beside = metrics.map((metric, i) => [
    metric,
    numberField(`tell-${trial.number}-${i}`, metric),
  ]);
  const tell = () => {
    const known = beside.map(([metric, field]) => [metric, field.read()]);
    const told = known.filter(([, number]) => number !== null);
    const result = { value: value.read() };
    if (told.length) result.metrics = Object.fromEntries(told);
    return api.tell(name, trial.number, result);
  };
  const abandon = () => doing.run(() => api.abandon(name, trial.number));
  const element = h(
    "li",
    {},
    lines,
    h(
      "form",
      { class: "inline", onsubmit: doing.submit(async () => tell()) },
      value.elements,
      beside.flatMap(([, field]) => field.elements),
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
  return { element, tick };
}

// -- guardrails -----------------------------------------------------------------------------------

function guardrails() {
  const lines = h("dl", { class: "facts", id: "guardrails" });
  const warning = h("p", { class: "note" });
  const element = card("Guardrails", "third", lines, warning);
  const update = (data) => {
    element.hidden = data.guardrails.length === 0;
    lines.replaceChildren(
      ...data.guardrails.map((each) =>
        h(
          "div",
          {},
          h("dt", {}, `${each.guardrail} with ${percent(each.prob)}`),
          h("dd", {}, broken(each)),
        ),
      ),
    );
    warning.textContent =
      data.best && !data.best.allowed ? "No visited point is known to keep to all of them." : "";
  };
  return { element, update };
}

const broken = ({ told, observed, trials, expected }) =>
  told === 0
    ? "its metric was never told"
    : `${observed} of ${plural(told, "result")} beyond it, ${number(expected, 2)} of ${plural(trials, "trial")} expected to break it`;

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
    const open = (wanted) => decisions.status.filter((status) => status === wanted).length;
    const others = { pending: "still pending", proposed: "to approve", rejected: "rejected" };
    const waiting = Object.keys(others).filter((status) => open(status) > 0);
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
      ...waiting.map((status) =>
        h(
          "span",
          { class: "entry" },
          h("span", { class: `cell ${status}`, "aria-hidden": "true" }),
          `${others[status]} ${open(status)}`,
        ),
      ),
    );
  };
  return { element, update };
}

// -- the table ------------------------------------------------------------------------------------

function trials(name, refresh) {
  const heads = ["Trial", "Result", "Parameters", "Why", "Change"];
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
    const { asked, rejected, observed, retracted } = data.counts;
    const missing = asked + rejected + observed + retracted - data.trials.length;
    body.replaceChildren(...rows.map((trial) => trialRow(trial, changeOf(name, trial, refresh))));
    const earlier = missing
      ? ` (the ${missing} before them are in the API: /api/studies/…/trials)`
      : "";
    caption.textContent = `${rows.length} of ${data.trials.length} trials and prior results, the newest first${earlier}`;
    more.hidden = newest.length <= FIRST_ROWS;
    more.textContent = all ? `Show the last ${FIRST_ROWS}` : `Show all ${newest.length}`;
  };
  return { element, update };
}

// The button by which a person takes back what was told or decided, if that can be done.
function changeOf(name, trial, refresh) {
  const which = trial.number === null ? `prior result ${trial.prior}` : `trial ${trial.number}`;
  const button = (text, options) =>
    h(
      "button",
      {
        type: "button",
        class: "quiet small",
        "aria-label": `${text.replace("…", "")} ${which}`,
        onclick: () => question({ field: "Reason (if you like)", ...options }),
      },
      text,
    );
  const done = (verb) => async (why) => (await verb(why), refresh());
  if (trial.status === "told") {
    return button("Retract…", {
      title: `Retract the result of ${which}?`,
      text: `The result ${number(trial.value, 5)} no longer counts, and the trial is pending again. The log keeps both.`,
      yes: "Retract",
      run: done((why) => api.retract(name, trial.number, why)),
    });
  }
  if (trial.status === "observed") {
    return button("Retract…", {
      title: `Retract ${which}?`,
      text: `The result ${number(trial.value, 5)} no longer counts. The log keeps it.`,
      yes: "Retract",
      run: done((why) => api.retractPrior(name, trial.prior, why)),
    });
  }
  if (trial.status === "rejected") {
    return button("Reconsider…", {
      title: `Reconsider ${which}?`,
      text: `Its reason no longer stands: “${trial.note}”. Its point and those near it may be proposed again.`,
      yes: "Reconsider",
      run: done((why) => api.reconsider(name, trial.number, why)),
    });
  }
  return null;
}

function trialRow(trial, change) {
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
      trial.number === null ? `prior ${trial.prior}` : String(trial.number),
    ),
    cell("Result", result),
    cell("Parameters", inWords(trial.params)),
    cell(
      "Why",
      trial.note && h("span", { class: "remark" }, trial.note),
      h("span", {}, trial.sentence || "known before the study"),
    ),
    cell("Change", change),
  );
}

// -- the study itself -----------------------------------------------------------------------------

function management(name, refresh) {
  const rename = h(
    "button",
    {
      type: "button",
      class: "quiet",
      onclick: () =>
        question({
          title: "Rename the study?",
          text: "Programs that use the old name get an error with the new one. All events stay.",
          field: "New name",
          needed: true,
          value: name,
          yes: "Rename",
          run: async (next) => {
            await api.rename(name, next);
            location.hash = `#/studies/${inAddress(next)}`;
          },
        }),
    },
    "Rename…",
  );
  const archive = h("button", { type: "button", class: "quiet" });
  const note = h("p", { class: "note" });
  const element = card(
    "This study",
    "wide",
    note,
    h("div", { class: "actions" }, rename, archive),
  );
  let archived = false;
  archive.addEventListener("click", () =>
    question({
      title: archived ? "Go on with the study?" : "Archive the study?",
      text: archived
        ? "It is in the list again, and there may be new trials."
        : "The list leaves it out, and there are no new trials. Results of trials under way may still be told.",
      yes: archived ? "Unarchive" : "Archive",
      run: async () => (await (archived ? api.unarchive(name) : api.archive(name)), refresh()),
    }),
  );
  const update = (data) => {
    archived = data.archived;
    archive.textContent = archived ? "Unarchive…" : "Archive…";
    note.textContent = archived
      ? "It is archived: there are no new trials, and the list of studies leaves it out."
      : "Nothing is ever erased: every change below is a line of the log.";
  };
  return { element, update };
}
