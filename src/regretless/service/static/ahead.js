// What the rest of the run is expected to bring: simulations, which somebody starts by a button.

import { Chart } from "./charts.js";
import { api, card, h, interval, number, percent, plural, rounded } from "./tools.js";

const DRAWS = 16;
const LOOK = 1000; // milliseconds between two looks at simulations that are under way
const TRIALS = { label: "trial", trials: true, whole: true, tight: true };

export function ahead(name) {
  const chart = new Chart();
  const words = h("p", { id: "forecast", class: "note" });
  const bar = h("progress", { "aria-label": "Simulations done", hidden: true });
  const problem = h("p", { class: "problem", role: "alert" });
  const start = h("button", { type: "button", id: "start-forecast", onclick: () => begin() });
  const actions = h("div", { class: "actions" }, start, bar);
  const picture = h("div"); // empty until there is something to draw
  const element = card(
    "What the rest is expected to bring",
    "half",
    words,
    picture,
    actions,
    problem,
  );
  let shown = null; // the last answer
  let seq = null; // the last event that the page knows
  let timer = null;

  const begin = () => look(() => api.startForecast(name, DRAWS));

  async function look(ask) {
    clearTimeout(timer);
    problem.textContent = "";
    try {
      show((await ask()).data);
    } catch (error) {
      problem.textContent = error.message;
      start.disabled = false;
      bar.hidden = true;
    }
  }

  function show(answer) {
    shown = answer;
    const { state, done, draws, detail, forecast } = answer;
    const underWay = state === "waiting" || state === "running";
    if (underWay && element.isConnected) {
      timer = setTimeout(() => look(() => api.forecast(name)), LOOK);
    }
    start.disabled = underWay;
    bar.hidden = !underWay;
    bar.max = draws || DRAWS;
    bar.value = done;
    if (state === "failed") problem.textContent = detail;
    start.textContent = forecast ? "Simulate again" : "Simulate the rest";
    if (state === "none") {
      words.textContent = `This simulates the rest of the run ${DRAWS} times. It takes a while.`;
    }
    if (state === "waiting") words.textContent = "Another forecast is under way; this one is next.";
    if (state === "running") words.textContent = `${done} of ${draws} simulations are done.`;
    if (forecast) draw(forecast, answer.is_current);
  }

  function draw(found, isCurrent) {
    const { told, steps, low, high, mean } = found;
    const numbers = mean.map((_, i) => told + i);
    const layers = [
      { kind: "rule", at: 0, class: "faint" },
      { kind: "band", x: numbers, low, high, class: "gain", name: "80 % band" },
      { kind: "line", x: numbers, y: mean, class: "gain", name: "mean of the simulations" },
    ];
    const text = (i) =>
      `After ${plural(numbers[i], "trial")}: ${number(mean[i])} (80 %: ${interval(low[i], high[i])})`;
    picture.replaceChildren(chart.element); // first: a chart draws at the width that it finds
    chart.draw(
      { label: "Total gain", x: TRIALS, y: {}, layers, probe: { x: numbers, text } },
      `The total gain is expected to go from ${number(mean[0])} to ${number(mean[steps])} in ${plural(steps, "trial")}.`,
    );
    words.textContent = `${sentence(found)}${isCurrent ? "" : " The study has changed since then: simulate again."}`;
  }

  const update = (data) => {
    // Nobody knows the contexts to come.
    element.hidden =
      !data.best || data.contexts.length > 0 || !(data.counts.remaining || shown?.forecast);
    if (element.hidden || seq === data.seq) return;
    const first = seq === null;
    seq = data.seq;
    // A forecast that somebody else asked for is shown as well.
    if (first || shown?.forecast) look(() => api.forecast(name));
  };
  show({ state: "none", done: 0, draws: 0, detail: null, forecast: null });
  return { element, update };
}

function sentence({ expected, low, high, steps, draws, told, pays_after, change_prob }) {
  const [from, to] = [low[steps], high[steps]];
  const paid =
    pays_after === null
      ? "Exploration is not expected to pay for itself within the budget."
      : pays_after <= told
        ? "Exploration has paid for itself already."
        : `Exploration will have paid for itself after ${plural(pays_after, "trial")}.`;
  return (
    `Expected gain of the whole run: ${rounded(expected, (to - from) / 4)} (80 %: ${interval(from, to)}). ${paid} ` +
    `The best point changes with a probability of ${percent(change_prob)}. From ${plural(draws, "simulation")} of ${plural(steps, "trial")}.`
  );
}
