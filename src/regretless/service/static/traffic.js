// How the traffic is split among settings; there is no card for a study that splits none.

import { card, h, number, percent, when } from "./tools.js";
import { inWords } from "./verdict.js";

export function traffic() {
  const note = h("p", { class: "note" });
  const heads = ["Setting", "Role", "Share", "Units so far", "Mean result", "Why"];
  const head = h(
    "tr",
    { role: "row" },
    heads.map((text) => h("th", { scope: "col", role: "columnheader" }, text)),
  );
  const body = h("tbody", { role: "rowgroup" });
  const table = h(
    "table",
    { role: "table", class: "stacked", id: "traffic" },
    h("caption", {}, "What each part of the users sees"),
    h("thead", { role: "rowgroup" }, head),
    body,
  );
  const element = card("Traffic", "wide", note, table);
  const cell = (label, text) => h("td", { role: "cell", "data-label": label }, text);
  const row = (each) =>
    h(
      "tr",
      { role: "row" },
      h("th", { scope: "row", role: "rowheader", "data-label": "Setting" }, inWords(each.params)),
      cell("Role", each.role),
      cell("Share", percent(each.share)),
      cell("Units so far", number(each.count)),
      cell("Mean result", each.mean === null ? "–" : number(each.mean)),
      cell("Why", each.why ?? ""),
    );
  const update = ({ allocation }) => {
    element.hidden = !allocation;
    if (!allocation) return;
    const { version, made_at, ttl, rows } = allocation;
    note.textContent = `Table ${version}, made ${when(made_at)}, renewed after about ${number(ttl / 2, 2)} s if results have come in.`;
    body.replaceChildren(...rows.map(row));
  };
  return { element, update };
}
