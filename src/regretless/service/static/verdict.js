// The first two cards of a study: where it stands, and the best setting to copy. For a study
// without a result, how to begin.

import {
  card,
  copyButton,
  glance,
  glanced,
  h,
  interval,
  number,
  percent,
  plural,
  rounded,
  scalar,
  when,
  withUnit,
} from "./tools.js";

const MEANING = {
  waiting: "No result was told yet.",
  exploring: "The study still tries new settings that may be better.",
  settling: "The study seldom tries new settings, and improves the best one in small steps.",
  settled: "The study repeats the best settings, because new ones are no longer worth a trial.",
  spent: "All trials of the budget were asked for.",
  changed: "The same settings now give other results, so older results count less.",
};
const THAN = {
  baseline: "today",
  "observed setting": "the setting observed before the study",
  "first point": "the first point",
};

// -- where it stands ------------------------------------------------------------------------------

export function verdict() {
  const state = h("p", { class: "state", id: "state" });
  const headline = h("p", { class: "headline", id: "gain" });
  const meaning = h("p", { class: "note", id: "meaning" });
  const tiles = h("dl", { class: "tiles" });
  const bar = h("progress", { "aria-label": "Trials asked for" });
  const next = h("p", { id: "next" });
  const element = h(
    "section",
    { class: "card wide verdict", "aria-label": "Verdict" },
    state,
    headline,
    meaning,
    tiles,
    bar,
    next,
  );
  const update = (data) => {
    const { verdict: v, counts } = data;
    state.textContent = v.title;
    element.dataset.state = v.state;
    headline.replaceChildren(...gained(data));
    meaning.textContent = `${changes(data) || MEANING[v.state]} ${measuredFrom(data)}`.trim();
    tiles.replaceChildren(...facts(data).map(tile));
    bar.hidden = counts.budget === null;
    bar.max = Math.max(counts.budget, counts.asked, 1);
    bar.value = counts.asked;
    next.textContent = nextStep(data);
  };
  return { element, update };
}

const tile = ([term, id, value, note]) =>
  h("div", {}, h("dt", {}, term), h("dd", {}, h("span", { id }, value), h("small", {}, note)));

// "16 % better than today (95 %: 13 to 20)", or the same in the unit of the results.
function gained({ verdict: v, unit, metric, direction }) {
  const goal = `${direction} ${withUnit(metric ?? "the result", unit && `(${unit})`)}`;
  if (v.gain === null) return [`The aim: ${goal}.`];
  if (v.gain_low === v.gain_high)
    return [
      v.over === "baseline"
        ? "Today’s setting is the best so far"
        : `${sentence(THAN[v.over])} is the best so far`,
    ];
  const share = v.percent !== null;
  const [mean, low, high] = share
    ? [v.percent, v.percent_low, v.percent_high]
    : [v.gain, v.gain_low, v.gain_high];
  const amount = glance(Math.abs(mean), high - low);
  const ends = mean < 0 ? [-high, -low] : [low, high];
  const text = share ? `${amount} %` : withUnit(amount, unit);
  const than = `${mean < 0 ? "worse" : "better"} than ${THAN[v.over]}`;
  if (low <= 0 && high >= 0)
    return [
      `Not clearly better than ${THAN[v.over]}`,
      h("small", {}, ` (${text} ${mean < 0 ? "worse" : "better"}; 95 %: ${glanced(...ends)})`),
    ];
  return [h("strong", {}, text), ` ${than}`, h("small", {}, ` (95 %: ${glanced(...ends)})`)];
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

// What the gain is measured from.
function measuredFrom({ verdict: v, best, unit, has_contexts }) {
  if (v.value === null || v.gain_low === v.gain_high) return "";
  const which = {
    baseline: "Today’s setting",
    "observed setting": "The setting observed before the study",
  };
  const name = which[v.over] ?? "The first point";
  const average = has_contexts ? " Both are averages over the contexts seen." : "";
  const hint = v.over === "baseline" ? "" : " Set the baseline to compare with what runs today.";
  return `${name} is expected to bring ${withUnit(glance(v.value, best.high - best.low), unit)}.${average}${hint}`;
}

function facts({ verdict: v, best, counts, unit, metric }) {
  const rows = [];
  if (best) {
    const name = sentence(metric ?? "result");
    const of = best.in ? " if as last seen" : "";
    rows.push([
      `${name} of the best setting${of}`,
      "best-mean",
      withUnit(glance(best.mean, best.high - best.low), unit),
      `95 %: ${glanced(best.low, best.high)}`,
    ]);
  }
  const asked = counts.asked.toLocaleString("en");
  rows.push(
    counts.budget === null
      ? [
          "Trials so far",
          "budget",
          asked,
          `no end; it looks ${plural(counts.remaining, "trial")} ahead`,
        ]
      : [
          "Trials left",
          "budget",
          counts.remaining.toLocaleString("en"),
          `of ${counts.budget.toLocaleString("en")}; ${plural(counts.told, "result")} told`,
        ],
  );
  if (v.expected_end !== null && best) {
    const end = glance(v.expected_end, best.high - best.low);
    rows.push(["Expected to end near", "end", withUnit(end, unit), "a rough figure"]);
  }
  return rows;
}

function changes({ drift, verdict: v, running }) {
  if (v.state !== "changed") return "";
  const jump = drift.jumps[drift.jumps.length - 1];
  const time = running?.time[running.number.indexOf(jump.number)];
  const date = time ? `, ${when(time)}` : "";
  return `Something changed at trial ${jump.number}${date}. The same settings now give other results, so older results count less.`;
}

// What happens next, and who has to do it.
function nextStep({ verdict: v, counts, archived, mode, has_contexts, allocation }) {
  if (archived) return "Next: nothing. The study is archived; unarchive it to go on.";
  if (counts.proposed) return `Next: ${plural(counts.proposed, "proposal")} to approve or reject.`;
  if (allocation)
    return "Next: nothing to do by hand. Programs report the results of the settings under Traffic.";
  const open = counts.pending
    ? `Next: tell ${counts.pending === 1 ? "the result of the pending trial" : `the results of ${counts.pending} pending trials`}`
    : "";
  if (v.state === "spent")
    return open
      ? `${open}. Nothing else is left.`
      : "Next: run the best setting, or extend the budget.";
  if (counts.asked === 0 && !has_contexts) return "Next: ask for the first trial.";
  if (has_contexts)
    return open ? `${open}.` : "Next: a program asks for a trial, with its context.";
  const ask = mode === "recommend" ? "ask for a proposal" : "ask for a trial";
  return open ? `${open}, or ${ask}.` : `Next: ${ask}.`;
}

// -- the best setting -----------------------------------------------------------------------------

export function bestSetting() {
  const content = h("div", { id: "incumbent" });
  const copies = h("div", { class: "actions" });
  const element = card("Best setting so far", "half", content, copies);
  let exact = {};
  copies.append(
    copyButton("Copy as JSON", () => JSON.stringify(exact)),
    copyButton("as environment", () => environment(exact)),
    copyButton("as flags", () => flags(exact)),
  );
  const update = (data) => {
    const { best, known, loss, unit } = data;
    element.hidden = !best;
    if (!best) return;
    exact = best.params;
    const step = (best.high - best.low) / 4;
    const times = best.count === 1 ? "once" : `${best.count} times`;
    const seen = best.in ? h("p", { id: "best-in", class: "note" }, `If ${inWords(best.in)}:`) : "";
    const lines = [
      [
        "best-count",
        `Tried ${times}, sample mean ${withUnit(rounded(best.sample_mean, step), unit)}. The luckiest result anywhere was ${withUnit(rounded(best.luckiest, step), unit)}.`,
      ],
      best.gain === null ? null : ["best-gain", overBaseline(best, unit)],
      loss ? ["loss", loss.sentence] : null,
      known ? ["best-regret", ofKnown(known, best, step)] : null,
    ];
    const notes = lines.filter(Boolean).map(([id, text]) => h("p", { id, class: "note" }, text));
    content.replaceChildren(seen, list(best.params), ...notes);
  };
  return { element, update };
}

function overBaseline({ gain, gain_low, gain_high, prob_better }, unit) {
  if (gain === 0 && prob_better === 0) return "It is the baseline.";
  const step = (gain_high - gain_low) / 4;
  return `Gain over the baseline: ${withUnit(rounded(gain, step), unit)} a trial (95 %: ${interval(gain_low, gain_high)}). It is better with a probability of ${percent(prob_better)}.`;
}

// What is left to gain, if the optimum or a bound was given.
function ofKnown({ value, exact }, best, step) {
  const what = `${exact ? "optimum" : "bound"} ${number(value)}`;
  return best.regret === null
    ? `Results are clearly better than the ${what} that was given, so it is not used.`
    : `Within ${rounded(best.regret, step)} of the known ${what}.`;
}

// In full digits: somebody is to run these very values.
const full = (value) =>
  value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);

const list = (params) =>
  h(
    "dl",
    { class: "params" },
    Object.entries(params).map(([name, value]) =>
      h("div", {}, h("dt", {}, name), h("dd", {}, full(value))),
    ),
  );

export const inWords = (params, shown = scalar) =>
  Object.entries(params)
    .map(([name, value]) => `${name}\u00a0=\u00a0${shown(value)}`)
    .join(", ");

const quoted = (text) =>
  /^[\w.,:/@%+-]+$/.test(text) ? text : `'${text.replaceAll("'", "'\\''")}'`;

const environment = (params) =>
  Object.entries(params)
    .map(([name, value]) => `${name.toUpperCase().replace(/\W/g, "_")}=${quoted(full(value))}`)
    .join("\n");

const flags = (params) =>
  Object.entries(params)
    .map(([name, value]) => `${quoted(`--${name.replaceAll("_", "-")}`)} ${quoted(full(value))}`)
    .join(" ");

// -- how to begin ---------------------------------------------------------------------------------

export function begin(name) {
  const ways = [
    ["Python", python(name)],
    ["curl", curl(name)],
    ["Command line", shell(name)],
  ];
  const parts = ways.map(([title, text]) =>
    h(
      "div",
      { class: "way" },
      h(
        "div",
        { class: "inline" },
        h("h3", {}, title),
        copyButton("Copy", () => text, `Copy for ${title}`),
      ),
      h("pre", { tabindex: 0, "aria-label": `${title} program` }, text),
    ),
  );
  const note =
    "There is no trial yet. Ask for a trial, run it, tell its result, and repeat. If the service has tokens, send yours with each request.";
  const element = card(
    "How to begin",
    "wide",
    h("p", { class: "note" }, note),
    h("div", { class: "ways" }, parts),
  );
  return { element, update: ({ counts }) => (element.hidden = counts.asked + counts.observed > 0) };
}

const python = (name) => `import regretless as rl

study = rl.Client(${JSON.stringify(location.origin)}).study(${JSON.stringify(name)})
for trial in study:
    study.tell(trial, measure(trial.params))  # your own function`;

const curl = (name) => {
  const address = `${location.origin}/api/studies/${encodeURIComponent(name.toWellFormed())}`;
  return `curl -X POST ${address}/ask -H 'Content-Type: application/json' -d '{}'
curl -X POST ${address}/trials/0/tell -H 'Content-Type: application/json' -d '{"value": 12.5}'`;
};

const shell = (name) => `export REGRETLESS_STORAGE=…   # what the service was started with
eval "$(regretless ask ${quoted(name)} --shell)"   # sets trial, params_…
regretless tell ${quoted(name)} "$trial" "$(./measure)"   # your own program`;
