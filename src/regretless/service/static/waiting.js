// Trials that are under way: those that wait for a result, and proposals that wait for approval.

import { age, api, card, h, question, reads, typed, verbs, when } from "./tools.js";
import { inWords } from "./verdict.js";

const FIRST = 2; // trials that are listed at once

// -- pending trials -------------------------------------------------------------------------------

export function pending(name, refresh) {
  const doing = verbs(refresh);
  const make = (trial, data) => waiting(name, trial, data, doing, refresh);
  const listed = underWay("Pending trials", "half", doing, make, (data) => data.pending);
  const update = (data) => {
    listed.update(data);
    // Results of trials that split the traffic are reported by programs.
    listed.element.hidden = data.pending.length === 0 || Boolean(data.allocation);
  };
  return { ...listed, update };
}

// Trials that wait for approval. The card is only there where trials need it.
export function proposals(name, refresh) {
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
  const more = h("button", {
    type: "button",
    class: "quiet small",
    onclick: () => ((all = !all), fold()),
  });
  const element = card(title, size, none, items, more, doing.problem);
  const shown = new Map();
  let all = false;
  const fold = () => {
    [...items.children].forEach((item, i) => (item.hidden = !all && i >= FIRST));
    more.hidden = shown.size <= FIRST;
    more.textContent = all ? `Show the first ${FIRST}` : `Show all ${shown.size}`;
  };
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
    fold();
  };
  element.querySelector("h2").tabIndex = -1;
  return { element, update, tick: () => shown.forEach((item) => item.tick()) };
}

const exact = (value) =>
  value !== null && typeof value === "object" ? JSON.stringify(value) : String(value);

// What a trial is: its number, its age, its parameters and why they were chosen.
function about(trial) {
  const since = h("time", { datetime: trial.asked_at });
  const lines = [
    h(
      "p",
      { class: "note" },
      h("strong", {}, `Trial ${trial.number}`),
      ` ${when(trial.asked_at)}, `,
      since,
      " ago",
    ),
    h(
      "p",
      { class: "setting" },
      inWords(trial.params, exact), // somebody is to try these very values
      trial.context ? ` if ${inWords(trial.context, exact)}` : "",
    ),
    trial.note && h("p", { class: "note remark" }, trial.note),
    h(
      "details",
      { class: "why" },
      h("summary", {}, "Why"),
      h("p", { class: "note" }, trial.sentence),
    ),
  ];
  return { lines, tick: () => (since.textContent = age(trial.asked_at)) };
}

function proposal(name, trial, doing, refresh) {
  const { lines, tick } = about(trial);
  const reject = () =>
    question({
      title: `Reject trial ${trial.number}?`,
      text: "This point and points near it are not proposed again, until you reconsider. A rejected trial uses no budget.",
      field: "Reason",
      needed: true,
      yes: "Reject",
      run: async (why) => (await api.reject(name, trial.number, why), refresh()),
    });
  const button = (text, label, options) =>
    h(
      "button",
      { type: "button", "aria-label": `${label} trial ${trial.number}`, ...options },
      text,
    );
  const element = h(
    "li",
    {},
    lines,
    h(
      "div",
      { class: "inline", hidden: reads() },
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

function waiting(name, trial, { metrics, metric, unit }, doing, refresh) {
  const { lines, tick } = about(trial);
  const label = `${metric ?? "Result"}${unit ? ` (${unit})` : ""}`;
  const value = numberField(`tell-${trial.number}`, label, { required: true });
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
  const abandon = () =>
    question({
      title: `Abandon trial ${trial.number}?`,
      text: "The study no longer waits for its result. The trial still counts in the budget. If the result comes after all, you can still tell it.",
      yes: "Abandon",
      run: async () => (await api.abandon(name, trial.number), refresh()),
    });
  const element = h(
    "li",
    {},
    lines,
    h(
      "form",
      { class: "inline", hidden: reads(), onsubmit: doing.submit(async () => tell()) },
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
        "Abandon…",
      ),
    ),
  );
  return { element, tick };
}
