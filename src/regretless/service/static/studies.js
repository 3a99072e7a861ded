// The list of studies, and the form for a new one.

import {
  age,
  api,
  cell,
  h,
  inAddress,
  interval,
  recall,
  remember,
  rounded,
  stackedTable,
  withUnit,
} from "./tools.js";

const HEADS = ["Study", "Verdict", "Progress", "Best mean (95 % interval)", "Updated"];

export function listView() {
  const body = h("tbody", { role: "rowgroup" });
  const caption = h("caption", {}, "All studies in this service’s storage");
  const table = stackedTable(HEADS, caption, body, { hidden: true });
  const empty = h("p", { class: "note" }, "Looking…");
  const create = createForm();
  const archived = h("input", {
    id: "show-archived",
    type: "checkbox",
    onchange: () => {
      remember("archived", archived.checked ? "shown" : "");
      show();
    },
  });
  archived.checked = recall("archived") === "shown";
  const count = h("label", { for: "show-archived" });
  const filter = h("p", { class: "filter", hidden: true }, archived, " ", count);
  const compare = h("p", { hidden: true }, h("a", { href: "#/compare" }, "Compare two studies"));
  const list = h(
    "section",
    { class: "card", "aria-label": "Studies" },
    empty,
    table,
    filter,
    compare,
  );
  const element = h("div", {}, h("h1", { tabindex: -1 }, "Studies"), list, create);
  const rows = new Map();
  let all = [];
  const show = () => {
    const hidden = all.filter((study) => study.archived);
    const shown = archived.checked ? all.length : all.length - hidden.length;
    filter.hidden = hidden.length === 0;
    count.textContent = `Show archived studies (${hidden.length})`;
    for (const study of all) {
      rows.get(study.name).element.hidden = study.archived && !archived.checked;
    }
    empty.textContent = all.length
      ? "All studies are archived."
      : "There is no study yet. Create the first one below.";
    empty.hidden = shown > 0;
    compare.hidden = all.length < 2;
    table.hidden = shown === 0;
  };
  const update = (studies) => {
    all = studies;
    if (studies.length === 0) create.open = true;
    for (const name of [...rows.keys()]) {
      if (studies.some((study) => study.name === name)) continue;
      rows.get(name).element.remove(); // it has another name now
      rows.delete(name);
    }
    // The latest first; a row that is there stays where it is, for whoever is about to click it.
    for (const study of [...studies].sort((a, b) => a.updated.localeCompare(b.updated))) {
      if (!rows.has(study.name)) {
        rows.set(study.name, studyRow(study.name));
        body.prepend(rows.get(study.name).element);
      }
      rows.get(study.name).update(study);
    }
    show();
  };
  const tick = () => rows.forEach((row) => row.tick());
  const missing = (message) => (empty.textContent = message);
  return { element, update, missing, tick };
}

function studyRow(name) {
  const link = h("a", { href: `#/studies/${inAddress(name)}` }, name);
  const direction = h("span", { class: "note" });
  const progress = h("progress", { "aria-label": "Budget spent" });
  const done = h("span");
  const best = h("span");
  const verdict = h("span");
  const updated = h("time");
  const element = h(
    "tr",
    { role: "row" },
    h("th", { scope: "row", role: "rowheader" }, link, " ", direction),
    cell("Verdict", verdict),
    cell("Progress", progress, " ", done),
    cell("Best mean", best),
    cell("Updated", updated),
  );
  const tick = () => (updated.textContent = `${age(updated.dateTime)} ago`);
  const update = (study) => {
    updated.dateTime = updated.title = study.updated;
    best.className = study.error ? "problem" : "";
    best.textContent = study.error ?? bestOf(study);
    progress.hidden = done.hidden = Boolean(study.error);
    if (study.error) return;
    progress.hidden = study.budget === null; // no end
    verdict.textContent = standing(study.verdict);
    const what = study.metric ? ` ${study.metric}` : "";
    direction.textContent = `${study.direction}${what}${study.archived ? " · archived" : ""}`;
    progress.max = Math.max(study.budget, study.asked);
    progress.value = study.asked;
    const proposed = study.proposed ? `, ${study.proposed} to approve` : "";
    const waiting = (study.pending ? `, ${study.pending} pending` : "") + proposed;
    const of = study.budget === null ? "" : ` of ${study.budget}`;
    done.textContent = `${study.asked}${of} asked${waiting}`;
  };
  return { element, update, tick };
}

// The state and the gain; what is left stands in another column.
const standing = (sentence) => sentence.split(/, (?=\d+ trials? left|no end)/)[0];

function bestOf({ best, unit }) {
  if (!best) return "nothing told yet";
  const mean = withUnit(rounded(best.mean, (best.high - best.low) / 4), unit);
  return `${mean} (${interval(best.low, best.high)})`;
}

// -- a new study ----------------------------------------------------------------------------------

const EXAMPLE = `{"parameters": [
  {"name": "dose", "type": "float", "low": 0.1, "high": 10, "log": true},
  {"name": "visits", "type": "int", "low": 1, "high": 12},
  {"name": "drug", "type": "categorical", "choices": ["A", "B", "C"]}
]}`;

const SETTINGS = `{"baseline": {"dose": 1.0, "visits": 4, "drug": "A"}, "loss_budget": 20}`;

function createForm() {
  const name = h("input", { id: "new-name", required: true, autocomplete: "off" });
  const budget = h("input", {
    id: "new-budget",
    type: "number",
    min: 1,
    step: 1,
    value: 100,
  });
  const metric = h("input", { id: "new-metric", autocomplete: "off", placeholder: "p99 latency" });
  const unit = h("input", {
    id: "new-unit",
    autocomplete: "off",
    class: "short",
    placeholder: "ms",
  });
  const horizon = h("input", { id: "new-horizon", type: "number", min: 1, step: 1 });
  const direction = h(
    "select",
    { id: "new-direction" },
    h("option", { value: "maximize" }, "maximize"),
    h("option", { value: "minimize" }, "minimize"),
  );
  const space = h("textarea", {
    id: "new-space",
    rows: 6,
    spellcheck: "false",
    required: true,
    "aria-describedby": "space-help",
  });
  space.value = EXAMPLE;
  const others = h("textarea", {
    id: "new-settings",
    rows: 3,
    spellcheck: "false",
    placeholder: SETTINGS,
    "aria-describedby": "settings-help",
  });
  const problem = h("p", { class: "problem", role: "alert" });
  const submit = async (event) => {
    event.preventDefault();
    problem.textContent = "";
    try {
      const given = {
        name: name.value.trim(),
        direction: direction.value,
        budget: budget.value ? Number(budget.value) : null,
        horizon: horizon.value ? Number(horizon.value) : null,
        space: parsedSpace(space.value),
        ...(metric.value.trim() && { metric: metric.value.trim() }),
        ...(unit.value.trim() && { unit: unit.value.trim() }),
        ...parsed("settings", others.value.trim() || "{}"),
      };
      await api.create(given);
      location.hash = `#/studies/${inAddress(given.name)}`;
    } catch (error) {
      problem.textContent = error.message;
    }
  };
  const field = (label, input) =>
    h("p", { class: "field" }, h("label", { for: input.id }, label), input);
  return h(
    "details",
    { class: "card create" },
    h("summary", {}, "New study"),
    h(
      "form",
      { onsubmit: submit },
      h(
        "div",
        { class: "fields" },
        field("Name", name),
        field("Direction", direction),
        field("What the result measures", metric),
        field("Its unit", unit),
        field("Budget (trials; empty: no end)", budget),
        field("Horizon (trials to look ahead)", horizon),
      ),
      field("Space (JSON)", space),
      h(
        "p",
        { id: "space-help", class: "note" },
        "Types: float (low, high, log or step), int (low, high, log), categorical (choices), ordinal (values).",
      ),
      field("Other settings (JSON, may be left empty)", others),
      h(
        "p",
        { id: "settings-help", class: "note" },
        "For example baseline, loss_budget, guardrails and max_step. All settings are described in the ",
        h("a", { href: "/docs" }, "HTTP interface"),
        ".",
      ),
      problem,
      h("button", { type: "submit" }, "Create"),
    ),
  );
}

function parsedSpace(text) {
  const space = parsed("space", text);
  return Array.isArray(space) ? { parameters: space } : space;
}

function parsed(what, text) {
  let value;
  try {
    value = JSON.parse(text);
  } catch (error) {
    throw new Error(`The ${what} ${what === "space" ? "is" : "are"} not JSON: ${error.message}`);
  }
  if (what === "settings" && (value === null || typeof value !== "object" || Array.isArray(value)))
    throw new Error(`The settings must be a JSON object such as ${SETTINGS}`);
  return value;
}
