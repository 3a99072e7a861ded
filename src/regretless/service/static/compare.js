// Two studies side by side: where each stands, its best setting, and its results.

import { results } from "./pictures.js";
import { api, call, h, inAddress, plural, rounded, interval, withUnit } from "./tools.js";
import { bestSetting, verdict } from "./verdict.js";

const EVERY = 5000; // milliseconds between two looks

export function compareView(names) {
  const chosen = [names[0] ?? "", names[1] ?? ""];
  const selects = chosen.map((name, i) => chooser(i, name, (next) => go(chosen, i, next)));
  const sides = chosen.map((name) => (name ? side(name) : h("div")));
  const table = h("div", { class: "card wide", hidden: true });
  const said = h("p", { class: "note" });
  const element = h(
    "div",
    {},
    h("h1", { tabindex: -1 }, "Compare two studies"),
    h(
      "div",
      { class: "card inline" },
      selects.map((each) => each.element),
    ),
    said,
    h(
      "div",
      { class: "grid" },
      table,
      sides.map((each) => each.element ?? each),
    ),
  );
  let timer = null;
  const look = async () => {
    clearTimeout(timer);
    const found = await Promise.all(sides.map((each) => each.look?.()));
    if (found.every(Boolean)) draw(table, chosen, found);
    if (element.isConnected) timer = setTimeout(look, EVERY);
  };
  const update = (studies) => {
    for (const each of selects) each.update(studies);
    said.textContent = chosen.every(Boolean) ? "" : "Choose two studies.";
    if (timer === null) look();
  };
  return { element, update, missing: (message) => (said.textContent = message) };
}

function go(chosen, i, next) {
  const both = [...chosen];
  both[i] = next;
  location.hash = `#/compare/${both.map(inAddress).join("/")}`;
}

function chooser(i, name, choose) {
  const id = `compare-${i}`;
  const select = h("select", { id, onchange: () => choose(select.value) });
  const element = h(
    "span",
    { class: "inline" },
    h("label", { for: id }, i ? "and" : "Compare"),
    select,
  );
  const update = (studies) => {
    const names = ["", ...studies.map((study) => study.name)];
    if (name && !names.includes(name)) names.push(name);
    if (select.children.length === names.length) return;
    select.replaceChildren(
      ...names.map((each) =>
        h("option", { value: each, selected: each === name }, each || "choose…"),
      ),
    );
  };
  return { element, update };
}

// One of the two, with the cards of its own page.
function side(name) {
  const sections = [verdict(), bestSetting(), results()];
  const problem = h("p", { class: "problem", role: "alert" });
  const link = h("a", { href: `#/studies/${inAddress(name)}` }, name);
  const cards = sections.map((section) => section.element);
  const element = h("div", { class: "half side" }, h("h2", {}, link), problem, cards);
  for (const card of cards) {
    card.hidden = true;
    // The same card is there twice: ids are for the page of one study.
    for (const each of [card, ...card.querySelectorAll("[id]")]) each.removeAttribute("id");
    card.removeAttribute("aria-labelledby");
    card.removeAttribute("aria-label");
  }
  let etag = null;
  let last = null;
  const look = async () => {
    try {
      const answer = await call(api.panels(name), { etag });
      if (answer.unchanged) return last;
      [last, etag] = [answer.data, answer.etag];
      problem.textContent = "";
      for (const card of cards) card.hidden = false;
      for (const section of sections) section.update(last);
      for (const each of element.querySelectorAll("[id]")) each.removeAttribute("id");
    } catch (error) {
      problem.textContent = error.message;
    }
    return last;
  };
  return { element, look };
}

const ROWS = [
  ["Aim", (d) => `${d.direction} ${d.metric ?? "the result"}${d.unit ? ` (${d.unit})` : ""}`],
  ["State", (d) => d.verdict.title],
  ["Gain", (d) => d.verdict.sentence.replace(/^[^:]*: /, "").split(/, (?=\d+ trial|no end)/)[0]],
  [
    "Mean of the best setting",
    (d) =>
      d.best
        ? `${withUnit(mean(d.best), d.unit)} (95 %: ${interval(d.best.low, d.best.high)})`
        : "–",
  ],
  ["Results told", (d) => plural(d.counts.told, "result")],
  ["Trials left", (d) => (d.counts.budget === null ? "no end" : String(d.counts.remaining))],
  [
    "Expected to end near",
    (d) =>
      d.verdict.expected_end === null || !d.best
        ? "–"
        : withUnit(rounded(d.verdict.expected_end, (d.best.high - d.best.low) / 4), d.unit),
  ],
];
const mean = (best) => rounded(best.mean, (best.high - best.low) / 4);

function draw(holder, names, found) {
  holder.hidden = false;
  const head = [h("td"), names.map((text) => h("th", { scope: "col" }, text))];
  const rows = ROWS.map(([title, of]) =>
    h(
      "tr",
      {},
      h("th", { scope: "row" }, title),
      found.map((data) => h("td", {}, of(data))),
    ),
  );
  holder.replaceChildren(
    h(
      "table",
      { id: "compared" },
      h("caption", {}, "Both at a glance"),
      h("thead", {}, h("tr", {}, head)),
      h("tbody", {}, rows),
    ),
  );
}
