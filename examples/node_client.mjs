// Tune a system from Node, over HTTP. No packages: Node 18 or newer brings all that is needed.
//
//     regretless serve --storage checkout.sqlite            # in another terminal
//     node examples/node_client.mjs 30                    # trials; again to go on
//
// REGRETLESS_URL (default http://127.0.0.1:8080) says where the service is, and REGRETLESS_TOKEN holds
// a token if it wants one. Start it several times at once: they share the study.

import { randomUUID } from "node:crypto";
import { setTimeout as sleep } from "node:timers/promises";

const URL_OF_SERVICE = process.env.REGRETLESS_URL ?? "http://127.0.0.1:8080";
const PATIENCE_MS = 60_000;

const AGAIN = [408, 429, 502, 503, 504]; // statuses that are worth another try

async function send(method, path, headers, body) {
  const signal = AbortSignal.timeout(30_000);
  const text = method === "GET" ? undefined : JSON.stringify(body);
  const response = await fetch(URL_OF_SERVICE + path, { method, headers, body: text, signal });
  if (response.ok) return response.status === 204 ? null : await response.json();
  const problem = await response.json().catch(() => ({}));
  const error = new Error(problem.detail ?? response.statusText);
  const wishedMs = 1000 * (Number(response.headers.get("Retry-After")) || 0);
  throw Object.assign(error, { status: response.status, kind: problem.error, wishedMs });
}

/** Without an answer it is sent again with the same key, so that it counts once. */
async function call(method, path, body) {
  const headers = { "Content-Type": "application/json", "Idempotency-Key": randomUUID() };
  if (process.env.REGRETLESS_TOKEN) headers.Authorization = `Bearer ${process.env.REGRETLESS_TOKEN}`;
  const deadline = Date.now() + PATIENCE_MS;
  for (let pause = 100; ; pause = Math.min(2 * pause, 2000)) {
    let wait = pause * (0.5 + Math.random() / 2);
    try {
      return await send(method, path, headers, body);
    } catch (error) {
      const lasting = error.status && !AGAIN.includes(error.status);
      wait = Math.max(wait, error.wishedMs ?? 0);
      if (lasting || Date.now() + wait > deadline) throw error;
    }
    await sleep(wait);
  }
}

/** What you would measure: the mean latency in ms of some customers who were served like this. */
function serveCustomers({ timeout_ms, retries, provider }) {
  const far = Math.abs(Math.log(timeout_ms / 250)) * 40;
  const slow = provider === "north" ? 0 : 35;
  const noise = 5 * (Math.random() + Math.random() + Math.random() - 1.5);
  return 120 + far + slow + 8 * Math.abs(retries - 2) + noise;
}

const budget = Number(process.argv[2] ?? 30);
const study = "/api/studies/checkout";
await call("POST", "/api/studies", {
  name: "checkout",
  direction: "minimize",
  budget,
  space: {
    parameters: [
      { name: "timeout_ms", type: "float", low: 20, high: 5000, log: true },
      { name: "retries", type: "int", low: 0, high: 5 },
      { name: "provider", type: "categorical", choices: ["north", "south"] },
    ],
  },
});

for (;;) {
  let trial;
  try {
    trial = await call("POST", `${study}/ask`, { within_budget: true });
  } catch (error) {
    if (error.kind === "BudgetError") break;
    throw error;
  }
  const value = serveCustomers(trial.params);
  await call("POST", `${study}/trials/${trial.number}/tell`, { value });
  console.log(`${trial.number}: ${value.toFixed(1)} ms. ${trial.decision.sentence}`);
}
const best = await call("GET", `${study}/best`);
console.log(`best: ${JSON.stringify(best.params)}, ${best.mean.toFixed(1)} ms`);
