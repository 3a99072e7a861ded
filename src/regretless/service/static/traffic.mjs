// Settings for requests without a call for each, in browsers and in Node 20 or newer. One file, no
// packages:
//
//     curl -O http://127.0.0.1:8080/static/traffic.mjs     # or copy it from the Python package
//
//     import { Traffic } from "./traffic.mjs";
//     const traffic = await Traffic.open("http://127.0.0.1:8080", "shop", { token });
//     const seen = traffic.assign(customerId);             // { params, trial, row }, at once
//     traffic.record(seen, revenue);                       // also if it is 0
//     await traffic.close();                               // sends what was recorded
//
// docs/traffic.md has the hash, and what happens if something fails. The Python client
// (regretless.client.Traffic) does the same, and both keep to tests/assets/assignment_vectors.json.

const MOST_REPORTS = 500; // of one call
const LARGEST = 1e40; // a value: the service takes sums of squares up to 1e100
const REFRESHES = 8; // in the time for which a table is valid
const AGAIN_SECONDS = 5; // until another try, if the table could not be fetched
const MAY_PASS = [401, 403, 408, 429]; // statuses below 500 after which a request is worth repeating
const MAY_PASS_KINDS = ["UnknownStudyError", "ArchivedError"];

// -- the hash -------------------------------------------------------------------------------------

const CRC = Uint32Array.from({ length: 256 }, (_, byte) => {
  let crc = byte;
  for (let bit = 0; bit < 8; bit++) crc = crc & 1 ? (crc >>> 1) ^ 0xedb88320 : crc >>> 1;
  return crc;
});

const encoder = new TextEncoder(); // half a character becomes U+FFFD

/** CRC-32, as in zip files, of a text as UTF-8. */
function crc32(text) {
  let crc = -1;
  for (let i = 0; i < text.length; i++) {
    const code = text.charCodeAt(i);
    if (code > 127) return crc32OfBytes(encoder.encode(text));
    crc = CRC[(crc ^ code) & 255] ^ (crc >>> 8);
  }
  return ~crc;
}

function crc32OfBytes(bytes) {
  let crc = -1;
  for (const byte of bytes) crc = CRC[(crc ^ byte) & 255] ^ (crc >>> 8);
  return ~crc;
}

/** The finaliser of MurmurHash3: a bijection of 32 bits, each of which changes all others. */
function mixed(h) {
  h = Math.imul(h ^ (h >>> 16), 0x85ebca6b);
  h = Math.imul(h ^ (h >>> 13), 0xc2b2ae35);
  return (h ^ (h >>> 16)) >>> 0;
}

/** A unit as text: a whole number is written in decimals. */
function textOf(unit) {
  if (typeof unit === "string") return unit;
  if (typeof unit === "bigint" || Number.isSafeInteger(unit)) return String(unit);
  throw new TypeError(`unit: need text or a whole number, got ${String(unit)}`);
}

/** The slot of a unit: 0, 1, …, slots - 1. */
export function slotOf(unit, salt, slots = 10_000) {
  return slotWith(textOf(unit), mixed(crc32(salt)), slots);
}

function slotWith(text, salt, slots) {
  return Math.floor((mixed(crc32(text) ^ salt) * slots) / 4294967296); // exact: below 2 ** 53
}

// -- the table ------------------------------------------------------------------------------------

const now = () => performance.now() / 1000; // seconds; clocks that are set do not change it

/** Reads a table of the service, and checks that every slot has exactly one row. */
function readTable(answer, askedAt) {
  const owners = new Array(answer.slots).fill(null);
  for (const { params, trial, row, slots } of answer.rows) {
    const owner = Object.freeze({ params: Object.freeze({ ...params }), trial, row });
    for (const [start, end] of slots) {
      for (let slot = start; slot < end; slot++) {
        if (owners[slot] !== null) throw new Error(`not a table: slot ${slot}`);
        owners[slot] = owner;
      }
    }
  }
  if (!owners.length || owners.includes(null)) throw new Error("not a table: a slot without a row");
  const numbers = [answer.version, answer.valid_for, answer.ttl];
  if (!numbers.every(Number.isFinite)) throw new Error(`not a table: ${numbers}`);
  const most = answer.rows.reduce((a, b) => (b.share > a.share ? b : a));
  return {
    version: answer.version,
    until: askedAt + answer.valid_for,
    salt: mixed(crc32(answer.salt)),
    slots: answer.slots,
    owners,
    fallback: answer.baseline ?? most.params,
    seconds: answer.ttl,
  };
}

const NONE = { version: -1, until: -Infinity, fallback: null };

function key() {
  const bytes = crypto.getRandomValues(new Uint8Array(16));
  return Array.from(bytes, (byte) => byte.toString(16).padStart(2, "0")).join("");
}

// -- the client -----------------------------------------------------------------------------------

export class Traffic {
  #api; // the address of the study
  #query;
  #headers;
  #baseline;
  #flushSeconds;
  #timeout;
  #table = NONE;
  #totals = new Map(); // trial -> [count, sum, sum of squares]
  #batches = []; // under way: { key, reports }
  #sending = null; // the promise of the flush that is under way
  #timers = new Map();
  #failing = new Set();
  #closed = false;
  #givenUp = false; // at the end of the process the service could not be reached
  #leaving = async () => {
    if (!this.#givenUp) this.#givenUp = !(await this.flush(true)); // else Node would never end
  };
  #hidden = () => document.visibilityState === "hidden" && this.flush(true);

  /**
   * Fetches the table and starts the timers.
   *
   * url       the address of the service, or of your own server that passes its two calls on
   * study     the name of the study
   * token     the token, if the service needs one; never give one to a browser
   * baseline  the setting to use while there is no valid table; without it, the baseline of the
   *           study, or if it has none, the setting with the largest share of the last table
   * arms, ttl, delay    how the service makes the table; without them, its defaults
   * flushSeconds, timeout    how often outcomes are sent, and how long to wait for an answer
   *
   * It throws if there is no table yet and no baseline was given.
   */
  static async open(url, study, options = {}) {
    const traffic = new Traffic(url, study, options);
    try {
      await traffic.#fetchTable();
    } catch (error) {
      if (!options.baseline) throw error;
      traffic.#failed("fetch the table", error, AGAIN_SECONDS);
    }
    traffic.#begin();
    return traffic;
  }

  constructor(url, study, { token, baseline, arms, ttl, delay, flushSeconds = 5, timeout = 10 }) {
    if (typeof study !== "string" || !study) throw new TypeError(`study: need a name, got ${study}`);
    this.#api = `${url.replace(/\/+$/, "")}/api/studies/${encodeURIComponent(study)}`;
    const wish = Object.entries({ arms, ttl, delay }).filter(([, each]) => each !== undefined);
    this.#query = wish.length ? `?${new URLSearchParams(wish)}` : "";
    this.#headers = token ? { Authorization: `Bearer ${token}` } : {};
    this.#baseline = baseline ? Object.freeze({ ...baseline }) : null;
    this.#flushSeconds = flushSeconds;
    this.#timeout = timeout;
    this.study = study;
  }

  /** The setting of a unit: the same one while its row is in the table. */
  assign(unit) {
    const table = this.#table;
    const text = textOf(unit);
    if (now() >= table.until) {
      const params = this.#baseline ?? table.fallback;
      if (!params) throw new Error("baseline: the service has sent no table yet, so give a baseline");
      return { params, trial: null, row: null };
    }
    return table.owners[slotWith(text, table.salt, table.slots)];
  }

  /** Adds an outcome to the result of a trial: what `assign` returned, or its trial. */
  record(seen, value) {
    const trial = seen !== null && typeof seen === "object" ? seen.trial : seen;
    if (typeof value !== "number" || !(Math.abs(value) <= LARGEST)) {
      throw new TypeError(`value: need a number up to ${LARGEST}, got ${String(value)}`);
    }
    if (trial === null) return;
    if (!Number.isSafeInteger(trial) || trial < 0) {
      throw new TypeError(`trial: need an assignment or its trial, got ${String(trial)}`);
    }
    if (this.#closed) throw new Error(`traffic of ${this.study} is closed, and takes no more outcomes`);
    let total = this.#totals.get(trial);
    if (!total) this.#totals.set(trial, (total = [0, 0, 0]));
    total[0] += 1;
    total[1] += value;
    total[2] += value * value;
  }

  /** Sends all outcomes now; resolves to whether the service has taken them. */
  async flush(leaving = false) {
    while (this.#sending) await this.#sending;
    this.#sending = this.#sendAll(leaving);
    try {
      return await this.#sending;
    } finally {
      this.#sending = null;
    }
  }

  /** Fetches the table now; resolves to whether the service has answered with one. */
  async refresh() {
    try {
      await this.#fetchTable();
    } catch (error) {
      this.#failed("fetch the table", error, AGAIN_SECONDS);
      return false;
    }
    this.#works("fetch the table");
    return true;
  }

  /** Sends the outcomes, for up to `patience` seconds, and ends the timers. */
  async close(patience = 10) {
    this.#closed = true;
    for (const timer of this.#timers.values()) clearTimeout(timer);
    this.#timers.clear();
    globalThis.process?.removeListener?.("beforeExit", this.#leaving);
    globalThis.document?.removeEventListener("visibilitychange", this.#hidden);
    const deadline = now() + patience;
    while (!(await this.flush()) && now() < deadline) {
      await new Promise((resolve) => setTimeout(resolve, 200));
    }
    if (this.unsent) console.warn(`${this.study}: ${this.unsent} outcomes were not sent`);
  }

  /** The version of the table; null if there is none yet. */
  get version() {
    return this.#table.version < 0 ? null : this.#table.version;
  }

  /** Whether there is no valid table, so that units get the baseline. */
  get expired() {
    return now() >= this.#table.until;
  }

  /** The number of outcomes that the service has not acknowledged. */
  get unsent() {
    let count = 0;
    for (const [each] of this.#totals.values()) count += each;
    for (const { reports } of this.#batches) for (const each of reports) count += each.count;
    return count;
  }

  #begin() {
    this.#later("flush", this.#flushSeconds * (0.5 + Math.random() / 2), () => this.#tick());
    globalThis.process?.on?.("beforeExit", this.#leaving); // Node has nothing else to do
    globalThis.document?.addEventListener("visibilitychange", this.#hidden); // a tab is left
  }

  async #tick() {
    await this.flush();
    const pause = this.#flushSeconds * (0.9 + Math.random() / 5);
    this.#later("flush", pause, () => this.#tick());
  }

  #later(name, seconds, run) {
    if (this.#closed) return;
    clearTimeout(this.#timers.get(name));
    const timer = setTimeout(run, Math.min(1000 * seconds, 2 ** 31 - 1));
    timer.unref?.(); // in Node, a timer alone does not keep the process alive
    this.#timers.set(name, timer);
  }

  async #fetchTable() {
    const askedAt = now(); // so that a slow answer is not valid for longer than it says
    const table = readTable(await this.#call("GET", `/allocation${this.#query}`), askedAt);
    // A cache may answer with an older one.
    if (table.version >= this.#table.version || askedAt >= this.#table.until) this.#table = table;
    const left = Math.max(table.until - now(), 0.5) / 2; // a table that is old when it comes
    const pause = Math.min(Math.max(table.seconds, 1) / REFRESHES, left);
    this.#later("refresh", pause * (0.8 + Math.random() / 5), () => this.refresh());
  }

  async #sendAll(leaving) {
    for (;;) {
      if (!this.#batches.length) this.#gather();
      if (!this.#batches.length) return true;
      if (!(await this.#send(this.#batches[0], leaving))) return false;
    }
  }

  #gather() {
    const reports = Array.from(this.#totals, ([trial, [count, sum, sum_squares]]) => {
      return { trial, count, sum, sum_squares };
    });
    this.#totals.clear();
    for (let first = 0; first < reports.length; first += MOST_REPORTS) {
      this.#batches.push({ key: key(), reports: reports.slice(first, first + MOST_REPORTS) });
    }
  }

  /** Whether a batch is settled: it was acknowledged, or refused for good. */
  async #send(batch, leaving) {
    const headers = { "Content-Type": "application/json", "Idempotency-Key": batch.key };
    try {
      await this.#call("POST", "/reports", headers, { reports: batch.reports }, leaving);
    } catch (error) {
      if (mayPass(error)) {
        this.#failed("send outcomes", error);
        return false;
      }
      this.#refused(batch.reports, error);
      return true;
    }
    this.#batches.shift();
    this.#works("send outcomes");
    return true;
  }

  /** One wrong report must not hold up the others: send each alone, then drop what is wrong. */
  #refused(reports, error) {
    this.#batches.shift();
    if (reports.length > 1) {
      this.#batches.unshift(...reports.map((each) => ({ key: key(), reports: [each] })));
    } else {
      const outcomes = JSON.stringify(reports[0]);
      console.error(`${this.study}: the service refused the outcomes ${outcomes}: ${error.message}`);
    }
  }

  async #call(method, path, headers = {}, body = undefined, keepalive = false) {
    const response = await fetch(this.#api + path, {
      method,
      headers: { ...this.#headers, ...headers },
      body: body && JSON.stringify(body),
      cache: "no-store",
      keepalive, // the browser finishes the call after the page is gone
      signal: AbortSignal.timeout(1000 * this.#timeout),
    });
    if (response.ok) return response.status === 204 ? null : await response.json();
    const problem = await response.json().catch(() => ({}));
    const error = new Error(problem.detail ?? `${response.status} ${response.statusText}`);
    throw Object.assign(error, { status: response.status, kind: problem.error });
  }

  #failed(what, error, againSeconds = null) {
    if (againSeconds !== null) {
      this.#later("refresh", againSeconds * (0.5 + Math.random() / 2), () => this.refresh());
    }
    if (this.#failing.has(what)) return;
    this.#failing.add(what);
    console.warn(`${this.study}: can't ${what}: ${error.message}`);
  }

  #works(what) {
    if (this.#failing.delete(what)) console.warn(`${this.study}: can ${what} again`);
  }
}

/** Whether the same request may succeed later: an outage, a token, a study that was archived. */
function mayPass({ status, kind }) {
  return !status || status >= 500 || MAY_PASS.includes(status) || MAY_PASS_KINDS.includes(kind);
}
