// The frame: what the address says to show, the connection, the token, light and dark.

import { listView } from "./studies.js";
import { compareView } from "./compare.js";
import { studyView } from "./study.js";
import { api, h, Poll, recall, remember } from "./tools.js";

const $ = (id) => document.getElementById(id);
let poll = null;

// -- which page -----------------------------------------------------------------------------------

function route() {
  takeToken();
  const study = location.hash.match(/^#\/studies\/(.+)$/);
  const compared = location.hash.match(/^#\/compare(\/.*)?$/);
  const name = study && decoded(study[1]);
  const view = name
    ? studyView(name, () => poll?.now(), announce)
    : compared
      ? compareView((compared[1] ?? "").split("/").slice(1).map(decoded))
      : listView();
  document.title = name ? `${name} – regretless` : "regretless";
  $("main").replaceChildren(view.element);
  if (route.moved) view.element.querySelector("h1").focus();
  route.moved = true;
  follow(name ? api.panels(name) : api.studies, view);
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

function follow(path, view) {
  poll?.stop();
  $("lost").hidden = true;
  $("connection").textContent = "Connecting…";
  poll = new Poll(path, view.update, (error, pause) => {
    report(error, pause);
    if ([403, 404].includes(error?.status)) view.missing(error.message, error.status);
    else view.tick?.();
  });
}

// -- the connection -------------------------------------------------------------------------------

function report(error, pause) {
  const lost = Boolean(error) && ![401, 403, 404].includes(error.status);
  const state = lost ? "lost" : error ? "waiting" : "live";
  const words = { live: "Live", lost: "Connection lost", waiting: "Not connected" }[state];
  $("connection").className = `connection ${state}`;
  if ($("connection").textContent !== words) $("connection").textContent = words;
  if (lost) {
    // What is on the page is kept: it was true a moment ago.
    since ??= new Date().toLocaleTimeString("en-GB");
    const text = `Connection lost at ${since}: ${error.message} Trying again every ${pause} s. `;
    const again = h("button", { type: "button", onclick: () => poll.now() }, "Try now");
    if ($("lost").hidden || $("lost").firstChild?.textContent !== text)
      $("lost").replaceChildren(text, again);
  } else {
    since = null;
  }
  $("lost").hidden = !lost;
  if (!error) $("token-form").hidden = true;
}
let since = null;

// For those who listen: what is new, but not every two seconds.
const QUIET = 15_000;
function announce(text) {
  if (Date.now() - (announce.last ?? 0) < QUIET) return;
  announce.last = Date.now();
  $("news").textContent = text;
}

// -- the token ------------------------------------------------------------------------------------

document.addEventListener("token-needed", () => {
  $("token-problem").textContent = recall("token") ? "The service does not know this token." : "";
  if (!$("token-form").hidden) return;
  $("token-form").hidden = false;
  $("token").focus();
});
$("token-form").addEventListener("submit", (event) => {
  event.preventDefault();
  remember("token", $("token").value);
  $("token").value = "";
  poll?.now();
});

// A link may bring a token behind the #, which browsers do not send. It does not stay in the address.
function takeToken() {
  const link = location.hash.match(/^(#.*)\?token=([\w.-]+)$/);
  if (!link) return;
  remember("token", link[2]);
  history.replaceState(null, "", link[1]);
}

// -- skipping, light and dark -------------------------------------------------------------------------------

// Not by the address, which says what to show.
$("skip").addEventListener("click", (event) => {
  event.preventDefault();
  $("main").focus();
});

const THEMES = ["auto", "light", "dark"];
function paint(theme) {
  document.documentElement.dataset.theme = theme;
  $("theme").textContent = `Theme: ${theme}`;
  remember("theme", theme, "localStorage");
}
$("theme").addEventListener("click", () => {
  const now = THEMES.indexOf(document.documentElement.dataset.theme);
  paint(THEMES[(now + 1) % THEMES.length]);
});
const before = recall("theme", "localStorage");
paint(THEMES.includes(before) ? before : "auto");

window.addEventListener("hashchange", route);
route();
