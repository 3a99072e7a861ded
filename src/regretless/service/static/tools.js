// Small things that everything else uses: elements, numbers for people, and the API.

// -- elements -------------------------------------------------------------------------------------

// Names come from users: text goes in as text nodes, never as markup.
function fill(element, attributes, children) {
  for (const [name, value] of Object.entries(attributes)) {
    if (value === null || value === undefined || value === false) continue;
    if (name.startsWith("on")) element.addEventListener(name.slice(2), value);
    else element.setAttribute(name, value === true ? "" : String(value));
  }
  // Not append(...children): a long study has more of them than a function may have arguments.
  for (const child of children.flat()) {
    if (child !== null && child !== undefined) element.append(child);
  }
  return element;
}

export function h(tag, attributes = {}, ...children) {
  return fill(document.createElement(tag), attributes, children);
}

export function svg(tag, attributes = {}, ...children) {
  return fill(document.createElementNS("http://www.w3.org/2000/svg", tag), attributes, children);
}

// A table whose rows become blocks on a narrow screen. `cell` makes the cells of its rows.
export function stackedTable(heads, caption, body, attributes = {}) {
  const cells = heads.map((text) => h("th", { scope: "col", role: "columnheader" }, text));
  return h(
    "table",
    { role: "table", class: "stacked", ...attributes },
    caption,
    h("thead", { role: "rowgroup" }, h("tr", { role: "row" }, cells)),
    body,
  );
}

export const cell = (label, ...content) =>
  h("td", { role: "cell", "data-label": label }, ...content);

// A section of a page, with its heading.
export function card(title, size, ...content) {
  const id = `section-${title.toLowerCase().replaceAll(" ", "-")}`;
  return h(
    "section",
    { class: `card ${size}`, "aria-labelledby": id },
    h("h2", { id }, title),
    content,
  );
}

// Asks before something is done that others will see. It is not part of what news replace, so what
// a person is typing stays. `field` is the label of a text to type, if there is one.
export function question({ title, text, field, needed, value, content, yes, run }) {
  const input = field
    ? h("input", { id: "answer", maxlength: 10_000, required: needed, autocomplete: "off" })
    : null;
  if (input && value) input.value = value;
  const problem = h("p", { class: "problem", role: "alert" });
  const dialog = h(
    "dialog",
    { class: "card question", "aria-labelledby": "question", onclose: () => dialog.remove() },
    h(
      "form",
      {
        onsubmit: async (event) => {
          event.preventDefault();
          problem.textContent = "";
          try {
            await run(input?.value.trim());
            dialog.close();
          } catch (error) {
            problem.textContent = error.message;
          }
        },
      },
      h("h2", { id: "question" }, title),
      h("p", {}, text),
      input && h("p", { class: "field" }, h("label", { for: "answer" }, field), input),
      content,
      problem,
      h(
        "div",
        { class: "actions" },
        h("button", { type: "submit" }, yes),
        h("button", { type: "button", class: "quiet", onclick: () => dialog.close() }, "Cancel"),
      ),
    ),
  );
  document.body.append(dialog);
  dialog.showModal();
}

// A button that puts a text on the clipboard, and says so.
export function copyButton(label, text, name = null) {
  const said = h("span", { class: "unseen", role: "status" });
  const copy = async () => {
    const done = await copied(text());
    button.firstChild.textContent = done ? "Copied" : "Cannot copy";
    said.textContent = done ? "Copied" : "The browser does not allow it";
    setTimeout(() => {
      button.firstChild.textContent = label;
      said.textContent = "";
    }, 1500);
  };
  const button = h(
    "button",
    { type: "button", class: "quiet small", "aria-label": name, onclick: copy },
    label,
    said,
  );
  return button;
}

// Browsers allow the clipboard only on secure pages; on others there is the older way.
async function copied(text) {
  try {
    await navigator.clipboard.writeText(text);
    return true;
  } catch {
    const field = h("textarea", { class: "unseen", "aria-hidden": "true" });
    field.value = text;
    document.body.append(field);
    field.select();
    const done = document.execCommand("copy");
    field.remove();
    return done;
  }
}

// Hands a file to the person.
export function download(name, blob) {
  const url = URL.createObjectURL(blob);
  const link = h("a", { href: url, download: name });
  link.click();
  setTimeout(() => URL.revokeObjectURL(url), 10_000);
}

// Runs what a button asks for, shows what went wrong, and looks for news at once.
export function verbs(refresh) {
  const problem = h("p", { class: "problem", role: "alert" });
  const run = async (verb, after) => {
    problem.textContent = "";
    try {
      await verb();
      after?.();
    } catch (error) {
      problem.textContent = error.message;
    }
    refresh();
  };
  const submit = (verb, after) => (event) => {
    event.preventDefault();
    return run(verb, after);
  };
  return { problem, run, submit };
}

// -- numbers for people ---------------------------------------------------------------------------

const extreme = (x) => x !== 0 && (Math.abs(x) < 1e-4 || Math.abs(x) >= 1e7);
const exponent = (x, digits) =>
  x
    .toExponential(digits)
    .replace(/\.?0+e/, "e")
    .replace("e+", "e");
const tidy = (text) => text.replace(/^-/, "−").replace("e-", "e−");

export function number(x, digits = 4) {
  if (x === null || x === undefined) return "–";
  if (extreme(x)) return tidy(exponent(x, digits - 1));
  return tidy(x.toLocaleString("en", { maximumSignificantDigits: digits }));
}

// Not Math.max(...values): a long study has more of them than a function may have arguments.
export const largest = (values) => values.reduce((a, b) => Math.max(a, b), -Infinity);
export const smallest = (values) => values.reduce((a, b) => Math.min(a, b), Infinity);

// The index of the value nearest to a place.
export function nearest(values, place) {
  const distance = values.map((value) => Math.abs(value - place));
  return distance.indexOf(smallest(distance));
}

// As many decimals as a difference of `step` needs: 1234.57 ± 0.02 is not "1,235".
export function rounded(x, step) {
  if (x === null || x === undefined) return "–";
  if (!(step > 0)) return number(x);
  const decimals = Math.min(12, Math.max(0, 1 - Math.floor(Math.log10(step))));
  const tiny = decimals > 5 && Math.abs(x) < 1e-3;
  if (tiny || decimals > 8 || Math.abs(x) >= 1e7) {
    const digits = Math.ceil(Math.log10(Math.max(Math.abs(x), step) / step)) + 1;
    return tidy(exponent(x, Math.min(12, Math.max(1, digits))));
  }
  const text = x.toLocaleString("en", {
    minimumFractionDigits: decimals,
    maximumFractionDigits: decimals,
  });
  return tidy(/[1-9]/.test(text) ? text : text.replace("-", ""));
}

// For a glance: the digits that an interval of this width leaves. 26.9 (24 to 30) is 27.
export const glance = (x, width) => rounded(x, 2.5 * width);
export const glanced = (low, high) => `${glance(low, high - low)} to ${glance(high, high - low)}`;

export const interval = (low, high) =>
  `${rounded(low, (high - low) / 4)} to ${rounded(high, (high - low) / 4)}`;

export const percent = (share) => (share === null ? "–" : `${Math.round(100 * share)} %`);

// For a glance: fractions are rounded, whole numbers are not, since 16,380 is not 16384.
export const scalar = (value) => {
  if (value !== null && typeof value === "object") return JSON.stringify(value); // has parts
  return typeof value === "number" && !Number.isSafeInteger(value) ? number(value) : String(value);
};

export const plural = (count, thing) =>
  `${count.toLocaleString("en")} ${thing}${count === 1 ? "" : "s"}`;

export const withUnit = (text, unit) => (unit ? `${text}\u00a0${unit}` : text);

// A date and a time of day, where the person is. `time` is ISO text or seconds since 1970.
export function when(time) {
  const date = new Date(typeof time === "number" ? 1000 * time : time);
  const year = date.getFullYear() === new Date().getFullYear() ? undefined : "numeric";
  return date.toLocaleString("en-GB", {
    day: "numeric",
    month: "short",
    year,
    hour: "2-digit",
    minute: "2-digit",
  });
}

export function age(iso) {
  const seconds = Math.max(0, (Date.now() - Date.parse(iso)) / 1000);
  for (const [unit, size] of [
    ["d", 86400],
    ["h", 3600],
    ["min", 60],
  ]) {
    if (seconds >= size) return `${number(seconds / size, 2)} ${unit}`;
  }
  return `${Math.round(seconds)} s`;
}

// What a person typed: null for nothing, NaN for what is no number.
export function typed(text) {
  const plain = text.trim().replaceAll("−", "-");
  return plain === "" ? null : Number(plain);
}

// -- what this tab remembers ----------------------------------------------------------------------

// A browser may forbid it; then the tab just forgets.
export function recall(key, storage = "sessionStorage") {
  try {
    return window[storage].getItem(`regretless ${key}`) ?? "";
  } catch {
    return "";
  }
}

export function remember(key, value, storage = "sessionStorage") {
  try {
    window[storage].setItem(`regretless ${key}`, value);
  } catch {
    // See above.
  }
}

// Whether this tab can only look: it came by a link to share, or its token is read-only.
export const reads = () =>
  recall("token").startsWith("link.") ||
  (recall("reads") === recall("token") && recall("token") !== "");

// -- the API --------------------------------------------------------------------------------------

export class ApiError extends Error {
  constructor(status, message) {
    super(message);
    this.status = status; // 0: no answer
  }
}

export async function call(path, { method = "GET", body, etag, as = "json" } = {}) {
  const headers = { Accept: as === "json" ? "application/json" : "*/*" };
  const token = recall("token");
  if (token) headers.Authorization = `Bearer ${token}`;
  if (etag) headers["If-None-Match"] = etag;
  if (body !== undefined) headers["Content-Type"] = "application/json";
  let response;
  try {
    const text = body === undefined ? undefined : JSON.stringify(body);
    response = await fetch(`/api${path}`, { method, headers, body: text, cache: "no-store" });
  } catch {
    throw new ApiError(0, "The service does not answer.");
  }
  if (response.status === 304) return { unchanged: true };
  const data = await (response.ok ? response[as]() : response.json()).catch(() => null);
  if (!response.ok) {
    if (response.status === 403 && data?.detail === "the token is read-only")
      remember("reads", recall("token"));
    if (response.status === 401) document.dispatchEvent(new Event("token-needed"));
    throw new ApiError(response.status, explanation(data, response.status));
  }
  return { data, etag: response.headers.get("ETag") };
}

function explanation(problem, status) {
  if (typeof problem?.detail === "string") return problem.detail;
  return problem?.title ?? `The service answered ${status}.`;
}

// A name may hold half a character, which no address can.
export const inAddress = (name) => encodeURIComponent(name.toWellFormed());
const pathOf = (name) => `/studies/${inAddress(name)}`;
const said = (why) => (why ? { why } : {});
export const api = {
  studies: "/studies?archived=true",
  panels: (name) => `${pathOf(name)}/panels`,
  forecast: (name) => call(`${pathOf(name)}/forecast`),
  startForecast: (name, draws) =>
    call(`${pathOf(name)}/forecast`, { method: "POST", body: { draws } }),
  create: (study) => call("/studies", { method: "POST", body: study }),
  ask: (name) => call(`${pathOf(name)}/ask`, { method: "POST", body: {} }),
  extend: (name, budget) => call(`${pathOf(name)}/extend`, { method: "POST", body: { budget } }),
  tell: (name, trial, result) =>
    call(`${pathOf(name)}/trials/${trial}/tell`, { method: "POST", body: result }),
  abandon: (name, trial) =>
    call(`${pathOf(name)}/trials/${trial}/abandon`, { method: "POST", body: {} }),
  approve: (name, trial) =>
    call(`${pathOf(name)}/trials/${trial}/approve`, { method: "POST", body: {} }),
  reject: (name, trial, why) =>
    call(`${pathOf(name)}/trials/${trial}/reject`, { method: "POST", body: { why } }),
  reconsider: (name, trial, why) =>
    call(`${pathOf(name)}/trials/${trial}/reconsider`, { method: "POST", body: said(why) }),
  retract: (name, trial, why) =>
    call(`${pathOf(name)}/trials/${trial}/retract`, { method: "POST", body: said(why) }),
  retractPrior: (name, index, why) =>
    call(`${pathOf(name)}/observations/${index}/retract`, { method: "POST", body: said(why) }),
  archive: (name) => call(`${pathOf(name)}/archive`, { method: "POST", body: {} }),
  unarchive: (name) => call(`${pathOf(name)}/unarchive`, { method: "POST", body: {} }),
  setBaseline: (name, params) =>
    call(`${pathOf(name)}/baseline`, { method: "POST", body: { params } }),
  share: (name, days) => call(`${pathOf(name)}/link`, { method: "POST", body: { days } }),
  csv: (name) => call(`${pathOf(name)}/export`, { as: "blob" }),
  rename: (name, next) => call(`${pathOf(name)}/rename`, { method: "POST", body: { name: next } }),
};

const EVERY = 2;
const SELDOM = 30;

// Asks again and again, less often while nobody looks or nobody answers. `show` gets what is new,
// `report` gets the error, or null, and the seconds until the next try.
export class Poll {
  constructor(path, show, report) {
    Object.assign(this, { path, show, report, etag: null, failures: 0, busy: false, ended: false });
    this.wake = () => this.now();
    document.addEventListener("visibilitychange", this.wake);
    this.now();
  }

  stop() {
    this.ended = true;
    clearTimeout(this.timer);
    document.removeEventListener("visibilitychange", this.wake);
  }

  async now() {
    clearTimeout(this.timer);
    this.again = this.busy; // somebody could not wait: look once more after this answer
    if (this.busy || this.ended) return;
    this.busy = true;
    const error = await this.look();
    this.busy = false;
    if (this.ended) return;
    this.failures = error ? this.failures + 1 : 0;
    const patience = Math.min(SELDOM, EVERY * 2 ** this.failures);
    const pause = document.hidden ? SELDOM : patience;
    this.report(error, pause);
    this.timer = setTimeout(() => this.now(), this.again ? 0 : 1000 * pause);
  }

  async look() {
    try {
      const answer = await call(this.path, { etag: this.etag });
      if (!answer.unchanged && !this.ended) {
        this.show(answer.data);
        this.etag = answer.etag; // once it is shown: or it would never be tried again
      }
      return null;
    } catch (error) {
      return error;
    }
  }
}
