// Facts in words and cells: guardrails, contexts, the ribbon of decisions, and the model.

import {
  card,
  cell,
  h,
  interval,
  number,
  percent,
  plural,
  rounded,
  stackedTable,
  withUnit,
} from "./tools.js";
import { inWords } from "./verdict.js";

const REASONS = {
  design: "the start: points that are spread over the space",
  explore: "a new point that is expected to be worse, but may be better",
  exploit: "a new point that is expected to be at least as good",
  resample: "a point that was tried before",
  exhausted: "the best point, after the budget was spent",
  given: "a point that was not chosen by the policy",
  baseline: "the setting that runs today",
};
const MOST_CELLS = 2000;

// -- guardrails -----------------------------------------------------------------------------------

export function guardrails() {
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
      data.best && !data.best.allowed ? "No tried point is known to keep to all of them." : "";
  };
  return { element, update };
}

const broken = ({ told, observed, trials, expected }) =>
  told === 0
    ? "its metric was never told"
    : `${observed} of ${plural(told, "result")} were beyond it, ${number(expected, 2)} of ${plural(trials, "trial")} were expected to break it`;

// -- contexts --------------------------------------------------------------------------------------

// The best setting for several values of each context. The card is only there if there are contexts.
export function contexts() {
  const note = h("p", { class: "note" });
  const heads = ["Context", "Best setting", "Mean", "95 %"];
  const body = h("tbody", { role: "rowgroup" });
  const rule = "Each row changes one context. The others have their last values.";
  const table = stackedTable(heads, h("caption", {}, rule), body, { id: "contexts" });
  const element = card("Best setting by context", "wide", note, table);
  const row = (each) =>
    h(
      "tr",
      { role: "row" },
      h(
        "th",
        { scope: "row", role: "rowheader", "data-label": "Context" },
        inWords({ [each.context]: each.value }),
      ),
      cell("Best setting", inWords(each.params)),
      cell("Mean", rounded(each.mean, (each.high - each.low) / 4)),
      cell("95 %", interval(each.low, each.high)),
    );
  const update = (data) => {
    element.hidden = data.contexts.length === 0;
    if (element.hidden) return;
    note.textContent = `Seen last: ${inWords(data.contexts[0].at)}.`;
    body.replaceChildren(...data.contexts.map(row));
  };
  return { element, update };
}

// -- the ribbon -----------------------------------------------------------------------------------

export function ribbon() {
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
      "Each cell is a trial, in the order of their numbers" +
      (hidden > 0 ? `. The first ${hidden.toLocaleString("en")} are left out.` : ".");
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

// -- the model ------------------------------------------------------------------------------------

export function model() {
  const facts = h("dl", { class: "facts", id: "model" });
  const scatter = h("p", { id: "noise-differs", class: "note" });
  const element = card("Counts, noise and model", "half", facts, scatter);
  const update = (data) => {
    const { counts, drift, noise_sd, noise_differs, periods, worth_exploring, unit } = data;
    const rows = [
      ["Told", counts.told],
      ["Pending", counts.pending],
      ["Abandoned", counts.abandoned],
      ...(data.mode === "recommend"
        ? [
            ["Waiting for approval", counts.proposed],
            ["Rejected", counts.rejected],
          ]
        : []),
      ["Policy", data.policy],
      ["Noise sd of a result", withUnit(number(noise_sd, 3), noise_sd === null ? null : unit)],
      ["Share of the space that is worth a trial", percent(worth_exploring)],
      ["Results inside their 95 % interval", percent(data.calibration.inside)],
    ];
    if (noise_differs)
      rows.push(
        ["Smallest noise sd over the space", number(noise_differs.least.sd, 3)],
        ["Largest noise sd over the space", number(noise_differs.most.sd, 3)],
      );
    for (const jump of drift?.jumps ?? [])
      rows.push(["Something changed", `at trial ${jump.number}, noticed at trial ${jump.noticed}`]);
    if (drift) rows.push(["Drift", drift.sentence || "not known yet"]);
    if (periods)
      rows.push(
        ["Sd of the effect of a period", number(periods.effect_sd, 3)],
        ["A result with a control is worth", `${number(periods.saved, 3)} without one`],
      );
    scatter.textContent = noise_differs?.sentence ?? "";
    facts.replaceChildren(
      ...rows.map(([term, value]) => h("div", {}, h("dt", {}, term), h("dd", {}, String(value)))),
    );
  };
  return { element, update };
}
