// What a person can do with a study: ask, extend, set the baseline, share, export, rename, archive.

import {
  api,
  card,
  copyButton,
  download,
  h,
  inAddress,
  plural,
  question,
  reads,
  verbs,
} from "./tools.js";

const DAYS = 30; // how long a link to share is good for

export function manage(name, refresh) {
  const doing = verbs(refresh);
  const ask = h("button", {
    type: "button",
    id: "ask",
    onclick: () => doing.run(() => api.ask(name)),
  });
  const why = h("p", { class: "note", id: "ask-off" });
  const total = h("input", { id: "extend-to", type: "number", min: 1, step: 1, required: true });
  const extend = h(
    "form",
    {
      class: "inline",
      onsubmit: doing.submit(
        () => api.extend(name, Number(total.value)),
        () => (total.value = ""),
      ),
    },
    h("label", { for: "extend-to" }, "New total of trials"),
    total,
    h("button", { type: "submit" }, "Extend"),
  );
  let shown = null;
  const button = (text, run) => h("button", { type: "button", class: "quiet", onclick: run }, text);
  const baseline = button("Set the baseline…", () => askBaseline(name, shown, refresh));
  const rename = button("Rename…", () => askName(name));
  const archive = button("", () => askArchive(name, shown.archived, refresh));
  const share = button("Share a link…", () => shareLink(name));
  const csv = button("Download CSV", () => doing.run(() => exportCsv(name)));
  const compare = h(
    "a",
    { class: "button quiet", href: `#/compare/${inAddress(name)}` },
    "Compare…",
  );
  const changes = h("div", { class: "change" }, h("div", { class: "actions" }, ask, extend), why);
  const others = h("div", { class: "actions" }, baseline, share, csv, compare, rename, archive);
  const element = card("What you can do", "half", changes, others, doing.problem);
  const update = (data) => {
    shown = data;
    const { counts, mode, archived } = data;
    for (const each of [changes, baseline, share, rename, archive]) each.hidden = reads();
    ask.textContent = mode === "recommend" ? "Ask for a proposal" : "Ask for a trial";
    why.textContent = whyNot(data);
    ask.disabled = why.textContent !== "";
    archive.textContent = archived ? "Unarchive…" : "Archive…";
    total.min = counts.asked;
    total.placeholder = String(2 * (counts.budget ?? Math.max(1, counts.asked)));
    why.hidden = !why.textContent;
  };
  return { element, update };
}

// Why nobody can ask here; empty if one can.
function whyNot({ counts, has_contexts, archived }) {
  if (archived) return "The study is archived, so there are no new trials.";
  if (has_contexts) return "A trial needs a context, so only programs can ask.";
  if (counts.budget !== null && counts.remaining === 0)
    return `All ${plural(counts.budget, "trial")} were asked for. Extend the total to go on.`;
  return "";
}

function askBaseline(name, { baseline, verdict, best }, refresh) {
  const now = baseline ?? verdict.reference ?? best?.params ?? {};
  question({
    title: "Set the baseline?",
    text: "The baseline is the setting that runs today. Gains are measured from it, for everybody who looks at this study. Limits such as a loss budget use it as well.",
    field: "Setting (JSON)",
    needed: true,
    value: JSON.stringify(now),
    yes: "Set the baseline",
    run: async (text) => {
      let params;
      try {
        params = JSON.parse(text);
      } catch (error) {
        throw new Error(`Not JSON: ${error.message}`);
      }
      await api.setBaseline(name, params);
      refresh();
    },
  });
}

function askName(name) {
  question({
    title: "Rename the study?",
    text: "Programs that use the old name get an error that says the new name. All events stay.",
    field: "New name",
    needed: true,
    value: name,
    yes: "Rename",
    run: async (next) => {
      await api.rename(name, next);
      location.hash = `#/studies/${inAddress(next)}`;
    },
  });
}

function askArchive(name, archived, refresh) {
  question({
    title: archived ? "Unarchive the study?" : "Archive the study?",
    text: archived
      ? "The study appears in the list again, and programs can ask for new trials."
      : "The list leaves the study out, and nobody can ask for new trials. You can still tell the results of pending trials. Nothing is erased.",
    yes: archived ? "Unarchive" : "Archive",
    run: async () => (await (archived ? api.unarchive(name) : api.archive(name)), refresh()),
  });
}

// A link by which others can look and change nothing.
function shareLink(name) {
  question({
    title: "Share a read-only link?",
    text: `Everybody who has the link can look at this study for ${DAYS} days, but change nothing. If the service has no tokens, the link is just the address of this page.`,
    yes: "Make the link",
    run: async () => {
      const { data } = await api.share(name, DAYS);
      const token = data.token ? `?token=${data.token}` : "";
      const link = `${location.origin}/#/studies/${inAddress(name)}${token}`;
      question({
        title: "The link",
        text: data.token
          ? `The link is valid until ${new Date(data.until).toLocaleDateString("en-GB")}.`
          : "This service has no tokens: everybody who can reach it can do everything.",
        content: h(
          "p",
          {},
          h("code", { id: "link" }, link),
          " ",
          copyButton("Copy", () => link),
        ),
        yes: "Done",
        run: () => {},
      });
    },
  });
}

async function exportCsv(name) {
  download(`${name.replace(/[^\w.-]+/g, "-")}.csv`, (await api.csv(name)).data);
}
