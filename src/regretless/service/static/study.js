// The page of one study. Each section is built once and has an `update`: what a person is typing,
// or has put the focus on, is still there after news have come in.
//
// What everybody asks comes first. What is for experts is under "Details", which is closed at first
// and drawn when somebody opens it.

import { ahead } from "./ahead.js";
import { contexts, guardrails, model, ribbon } from "./facts.js";
import { manage } from "./manage.js";
import { calibration, gate, regret, results, reward, slices, worth } from "./pictures.js";
import { trials } from "./table.js";
import { age, h, number, plural, recall, remember, withUnit } from "./tools.js";
import { traffic } from "./traffic.js";
import { begin, bestSetting, verdict } from "./verdict.js";
import { pending, proposals } from "./waiting.js";

export function studyView(name, refresh, announce) {
  const doing = manage(name, refresh);
  const under = pending(name, refresh);
  const first = [
    verdict(),
    begin(name),
    proposals(name, refresh),
    bestSetting(),
    results(),
    under,
    doing,
    traffic(),
    guardrails(),
  ];
  const more = [
    contexts(),
    ribbon(),
    reward(),
    regret(name),
    ahead(name),
    model(),
    slices(),
    worth(),
    gate(),
    calibration(),
    trials(name, refresh),
  ];
  let shown = null;
  const subtitle = h("p", { class: "subtitle" });
  const grid = gridOf(first);
  const inside = gridOf(more);
  const details = h("details", { class: "more" }, h("summary", {}, "Details"), inside);
  details.open = recall("details") === "open";
  details.addEventListener("toggle", () => {
    remember("details", details.open ? "open" : "");
    if (details.open && shown) for (const section of more) section.update(shown);
  });
  const page = h("div", { hidden: true }, grid, details);
  const heading = h("h1", { tabindex: -1 }, name);
  const lost = h("div", { class: "card lost", hidden: true });
  const element = h("div", {}, heading, subtitle, lost, page);
  const tick = () => {
    if (!shown) return;
    subtitle.textContent = about(shown);
    for (const section of first) section.tick?.();
  };
  const update = (data) => {
    if (!shown) performance.mark("study-shown");
    page.hidden = false; // first: a chart draws at the width that it finds
    lost.hidden = true;
    for (const section of details.open ? [...first, ...more] : first) section.update(data);
    doing.element.classList.toggle("wide", under.element.hidden); // nothing is beside it
    if (shown && data.counts.told > shown.counts.told) announce(news(data));
    shown = data;
    tick();
  };
  const missing = (message, status) => {
    page.hidden = true;
    lost.hidden = false;
    subtitle.textContent = "";
    if (lost.dataset.said === message) return;
    lost.dataset.said = message;
    lost.replaceChildren(...notFound(message, status));
  };
  return { element, update, tick, missing };
}

const gridOf = (sections) =>
  h(
    "div",
    { class: "grid" },
    sections.map((section) => section.element),
  );

// An unknown study: what is wrong, and where to go from here.
function notFound(message, status) {
  const unknown = status === 404;
  return [
    h("h2", {}, unknown ? "404: there is no such study" : "You may not see this study"),
    h("p", {}, message),
    unknown
      ? h(
          "p",
          {},
          "Perhaps it has another name, or nobody has created it yet. As soon as it exists, it appears here. ",
          h("a", { href: "#/" }, "See all studies, or create one"),
          ".",
        )
      : h("p", {}, "Ask whoever gave you the link or the token."),
  ];
}

function about({ direction, metric, unit, mode, archived, counts, time }) {
  const what = metric || unit ? ` ${metric ?? "the result"}${unit ? ` (${unit})` : ""}` : "";
  const prior = counts.observed ? ` · ${plural(counts.observed, "result")} known before` : "";
  const how = mode === "recommend" ? " · trials need approval" : "";
  const where = archived ? " · archived" : "";
  return `${direction}${what}${how}${prior}${where} · last event ${age(time)} ago`;
}

function news({ counts, best, unit, verdict: v }) {
  const left = counts.budget === null ? "" : `, ${counts.remaining} left`;
  return `${plural(counts.told, "result")}${left}. ${v.title}. Best mean ${withUnit(number(best?.mean), unit)}.`;
}
