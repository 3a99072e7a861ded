// The table of all trials, in which a person takes back what was wrong.

import {
  api,
  card,
  cell,
  h,
  number,
  question,
  reads,
  stackedTable,
  when,
  withUnit,
} from "./tools.js";
import { inWords } from "./verdict.js";

const FIRST_ROWS = 12;

// -- the table ------------------------------------------------------------------------------------

export function trials(name, refresh) {
  const heads = ["Trial", "Date", "Result", "Parameters", "Why", "Change"];
  const body = h("tbody", { role: "rowgroup" });
  const caption = h("caption");
  const more = h("button", { type: "button", onclick: () => ((all = !all), update(shown)) });
  const table = stackedTable(heads, caption, body, { class: "stacked trials" });
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
    const change = (trial) => (reads() ? null : changeOf(name, trial, refresh));
    body.replaceChildren(...rows.map((trial) => trialRow(trial, change(trial), data.unit)));
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
        onclick: () => question({ field: "Reason (optional)", ...options }),
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
      text: `Reconsider it if the reason no longer holds: “${trial.note}”. Its point and points near it may then be proposed again.`,
      yes: "Reconsider",
      run: done((why) => api.reconsider(name, trial.number, why)),
    });
  }
  return null;
}

function trialRow(trial, change, unit) {
  const sem = trial.sem === null ? "" : ` ± ${number(trial.sem, 2)}`;
  const count = trial.count > 1 ? ` (mean of ${trial.count})` : "";
  const result =
    trial.value === null
      ? trial.status
      : `${withUnit(`${number(trial.value, 5)}${sem}`, unit)}${count}`;
  const date = trial.told_at ?? trial.asked_at;
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
    cell("Date", date ? h("time", { datetime: date }, when(date)) : ""),
    cell("Result", result),
    cell("Parameters", inWords({ ...trial.params, ...trial.context })),
    cell(
      "Why",
      trial.note && h("span", { class: "remark" }, trial.note),
      h("span", {}, trial.sentence || "known before the study"),
    ),
    cell("Change", change),
  );
}
