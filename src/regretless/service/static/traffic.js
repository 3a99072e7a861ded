// How the traffic is split among settings; there is no card for a study that splits none.

import { card, cell, h, number, percent, stackedTable, when, withUnit } from "./tools.js";
import { inWords } from "./verdict.js";

const FIRST = 2; // rows that are listed at once: those with the largest shares

const results = ({ count, mean }, unit) =>
  mean === null ? "none yet" : `${withUnit(number(mean), unit)} from ${number(count)} units`;

export function traffic() {
  const note = h("p", { class: "note" });
  const heads = ["Setting", "Role", "Share", "Results", "Why"];
  const body = h("tbody", { role: "rowgroup" });
  const caption = h("caption", {}, "What each part of the users sees");
  const table = stackedTable(heads, caption, body, { id: "traffic" });
  const more = h("button", { type: "button", class: "quiet small", onclick: () => unfold() });
  const element = card("Traffic", "wide", note, table, more);
  const row = (unit) => (each) =>
    h(
      "tr",
      { role: "row" },
      h("th", { scope: "row", role: "rowheader", "data-label": "Setting" }, inWords(each.params)),
      cell("Role", each.role),
      cell("Share", percent(each.share)),
      cell("Results", results(each, unit)),
      cell("Why", each.why ?? ""),
    );
  let all = false;
  const fold = () => {
    [...body.children].forEach((each, i) => (each.hidden = !all && i >= FIRST));
    more.hidden = body.children.length <= FIRST;
    more.textContent = all ? `Show the first ${FIRST}` : `Show all ${body.children.length}`;
  };
  const unfold = () => ((all = !all), fold());
  const update = ({ allocation, unit }) => {
    element.hidden = !allocation;
    if (!allocation) return;
    const { version, made_at, ttl, rows } = allocation;
    note.textContent = `Table ${version}, made ${when(made_at)}. A new one is made after about ${number(ttl / 2, 2)} s, if results have come in.`;
    const largest = [...rows].sort((a, b) => b.share - a.share);
    body.replaceChildren(...largest.map(row(unit)));
    fold();
  };
  return { element, update };
}
