// The charts of a study's page: what it has cost, whether exploring is worth it, what each parameter
// does, and whether the predictions were right.

import { Chart } from "./charts.js";
import {
  card,
  h,
  interval,
  largest,
  nearest,
  number,
  percent,
  plural,
  recall,
  remember,
  rounded,
  scalar,
  smallest,
  typed,
  when,
  withUnit,
} from "./tools.js";

const WITHIN = 1.96;
const TRIALS = { label: "trial", trials: true, whole: true, tight: true };

// The axis of trials, with the date of each under its number.
function trialAxis({ number: x, time }) {
  const known = time.filter((each) => each !== null);
  const sameDay = known.length > 0 && largest(known) - smallest(known) < 86_400;
  const options = sameDay
    ? { hour: "2-digit", minute: "2-digit" }
    : { day: "numeric", month: "short" };
  const at = new Map(x.map((trial, i) => [trial, time[i]]));
  const under = (trial) => {
    const seconds = at.get(trial);
    if (seconds === undefined || seconds === null) return "";
    return new Date(1000 * seconds).toLocaleString("en-GB", options);
  };
  return { label: "trial", trials: true, whole: true, tight: true, under };
}

const dated = ({ number: x, time }, i) => `trial ${x[i]}${time[i] ? ` (${when(time[i])})` : ""}`;
const named = ({ metric, unit }, otherwise = "result") =>
  `${metric ?? otherwise}${unit ? ` (${unit})` : ""}`;

// -- results --------------------------------------------------------------------------------------

// Each result by trial, with what today's setting and the best one are expected to bring.
export function results() {
  const chart = new Chart();
  const element = card("Results", "half", chart.element);
  const update = (data) => {
    const { running, best, verdict: v, unit } = data;
    element.hidden = !(running?.number.length > 0);
    if (element.hidden) return;
    const { number: x, value: y } = running;
    const today =
      { baseline: "today", "observed setting": "observed before" }[v.over] ?? "first point";
    const layers = [
      { kind: "rule", at: v.value, class: "faint", name: `${today}, expected` },
      { kind: "rule", at: best.mean, class: "best", name: "best setting, expected" },
      { kind: "dots", x, y, class: "told", name: "result" },
    ];
    const probe = {
      x,
      text: (i) => `${sentence(dated(running, i))}: ${withUnit(number(y[i], 5), unit)}`,
    };
    const label = `${sentence(named(data))} by trial`;
    const spec = { label, x: trialAxis(running), y: { label: named(data) }, layers, probe };
    const better = data.direction === "maximize" ? "Higher" : "Lower";
    chart.draw(
      spec,
      `${better} is better. A single result is noisy; the lines are what the model expects.`,
    );
  };
  return { element, update };
}

const sentence = (text) => text[0].toUpperCase() + text.slice(1);

// -- gain and regret ------------------------------------------------------------------------------

// A number that only the person knows; kept for this tab, by study.
function reference(study, id, label, redraw) {
  const key = `${id} of ${study}`;
  const input = h("input", { id, inputmode: "decimal", autocomplete: "off", class: "short" });
  const problem = h("span", { class: "problem", role: "alert" });
  input.value = recall(key);
  input.addEventListener("input", () => {
    remember(key, input.value);
    problem.textContent = Number.isNaN(typed(input.value)) ? "not a number" : "";
    redraw();
  });
  const element = h("p", { class: "inline" }, h("label", { for: id }, label), input, problem);
  const value = () => (Number.isFinite(typed(input.value)) ? typed(input.value) : null);
  return { element, input, value };
}

const signOf = (data) => (data.direction === "maximize" ? 1 : -1);

// A sum over trials against t times a given value c: the sd does not depend on c.
function against(served, sign, c) {
  return { mean: served.mean.map((total, t) => sign * (total - (t + 1) * c)), sd: served.sd };
}

const negated = ({ mean, sd }) => ({ mean: mean.map((value) => -value), sd });
const low = ({ mean, sd }) => mean.map((value, t) => value - WITHIN * sd[t]);
const high = ({ mean, sd }) => mean.map((value, t) => value + WITHIN * sd[t]);
const last = (values) => values[values.length - 1];
const within = (sum) =>
  `${rounded(last(sum.mean), last(sum.sd))} (95 %: ${interval(last(low(sum)), last(high(sum)))})`;

function sumChart(label, { running, unit }, sum, colour, more, text) {
  const numbers = running.number;
  const layers = [
    { kind: "rule", at: 0, class: "faint" },
    { kind: "band", x: numbers, low: low(sum), high: high(sum), class: colour, name: "95 % band" },
    { kind: "line", x: numbers, y: sum.mean, class: colour, name: "by the posterior" },
    ...more,
  ];
  const probe = {
    x: numbers,
    text: (i) =>
      `After ${dated(running, i)}: ${rounded(sum.mean[i], sum.sd[i])} ± ${withUnit(number(WITHIN * sum.sd[i], 2), unit)}${text?.(i) ?? ""}`,
  };
  return { label, x: trialAxis(running), y: { label: unit ?? "" }, layers, probe };
}

export function reward() {
  const chart = new Chart();
  const element = card("Total gain", "half", chart.element);
  const update = (data) => {
    const { running } = data;
    element.hidden = !(running?.number.length > 1); // one trial makes no curve
    if (element.hidden) return;
    const sign = signOf(data);
    let total = 0;
    const observed = running.value.map((value) => (total += sign * (value - running.first)));
    const dashed = {
      kind: "line",
      x: running.number,
      y: observed,
      class: "told",
      name: "by the results",
    };
    const names = { baseline: "the baseline", "observed setting": "the setting observed before" };
    const label = `Total gain over ${names[running.over] ?? "keeping the first point"}`;
    const text = (i) => `, by the results ${number(observed[i])}`;
    chart.draw(
      sumChart(label, data, running.gain, "gain", [dashed], text),
      `${label}: ${within(running.gain)} in ${plural(running.number.length, "trial")} by the model, ${number(total)} by the results alone. ${paid(running.number, running.gain.mean)}`,
    );
  };
  return { element, update };
}

function paid(numbers, gained) {
  const behind = gained
    .map((value, i) => (value < 0 ? i : -1))
    .reduce((a, b) => Math.max(a, b), -1);
  if (behind === gained.length - 1) return "Exploration has not paid for itself yet.";
  return behind < 0
    ? "The run was never behind."
    : `Exploration has paid for itself since trial ${numbers[behind + 1]}.`;
}

export function regret(name) {
  const chart = new Chart();
  let shown = null;
  const optimum = reference(name, "optimum", "Known optimum f*", () => shown && update(shown));
  const element = card("Cumulative regret", "half", optimum.element, chart.element);
  const update = (data) => {
    shown = data;
    const { running, best } = data;
    element.hidden = !(running?.number.length > 1); // one trial makes no curve
    if (element.hidden) return;
    const known = best.regret === null ? null : (data.known?.value ?? null); // null if contradicted
    const given = optimum.value() ?? known;
    const sum =
      given === null ? running.regret : negated(against(running.served, signOf(data), given));
    optimum.input.placeholder = number(known ?? best.mean);
    const trials = running.number.length;
    const each = `${number(last(sum.mean) / trials, 3)} a trial`;
    const caption =
      given === null
        ? `Estimated regret: ${within(sum)}, ${each}, against the best point so far. If there is a better point that was never tried, the true regret is larger. If you know the optimum, type it in.`
        : `Regret against the optimum ${number(given)}: ${within(sum)}, ${each}.`;
    chart.draw(sumChart("Cumulative regret", data, sum, "loss", []), caption);
  };
  return { element, update };
}

// -- is exploring worth it ------------------------------------------------------------------------

const FLOOR = 1e-6; // of the largest: what is smaller is drawn there

export function worth() {
  const chart = new Chart();
  const element = card("Expected gain against its cost", "half", chart.element);
  const update = ({ decisions, unit }) => {
    const { number: x, expected_improvement: gains, evaluation_cost: costs } = decisions;
    const known = x.map((_, i) => i).filter((i) => gains[i] !== null);
    element.hidden = known.length === 0;
    if (element.hidden) return;
    const top = largest(known.map((i) => Math.max(gains[i], costs[i])));
    const drawn = (values) =>
      values.map((value) => (value === null ? null : Math.max(value, FLOOR * top)));
    const layers = [
      ...both(x, drawn(gains), { class: "gain", name: "expected improvement a trial" }),
      ...both(x, drawn(costs), {
        class: "loss dashed",
        square: true,
        name: "evaluation cost a trial",
      }),
    ];
    const probe = {
      x,
      text: (i) =>
        `Trial ${x[i]} (${decisions.reason[i]}): expected improvement ${number(gains[i], 3)}, cost ${number(costs[i], 3)}`,
    };
    const caption =
      "Both numbers of each trial are those at the time of its decision. A new point is worth a trial if its expected improvement is at least its cost.";
    chart.draw(
      {
        label: "Expected improvement and evaluation cost by trial",
        x: TRIALS,
        y: { log: true, label: unit ?? "" },
        layers,
        probe,
      },
      caption,
    );
  };
  return { element, update };
}

const both = (x, y, look) => [
  { kind: "line", x, y, ...look, name: null },
  { kind: "dots", x, y, ...look },
];

export function gate() {
  const chart = new Chart();
  const element = card("The gate", "half", chart.element);
  const update = ({ decisions }) => {
    const { number: x, gate: gates, z } = decisions;
    const known = x.map((_, i) => i).filter((i) => z[i] !== null);
    element.hidden = known.length === 0;
    if (element.hidden) return;
    const open = gates.every((value) => value === null);
    const layers = [
      { kind: "rule", at: 0, class: "faint" },
      {
        kind: "line",
        x,
        y: gates,
        class: "loss dashed",
        name: open ? null : "the gate: no new point is tried below it",
      },
      { kind: "dots", x, y: z, class: "gain", name: "z of the point chosen" },
    ];
    const probe = {
      x,
      text: (i) =>
        `Trial ${x[i]} (${decisions.reason[i]}): z ${rounded(z[i], 0.1)}, gate ${rounded(gates[i], 0.1)}`,
    };
    const meaning =
      "z says by how many sds a point is expected to be better than the best one so far. If it is negative, the point is expected to be worse.";
    const now = open
      ? "This policy has no gate."
      : "A new point is tried only if its z is at least the gate. The gate rises while fewer and fewer trials are left, because there is less time to use a better point.";
    chart.draw(
      {
        label: "z of the point chosen, and the gate, by trial",
        x: TRIALS,
        y: {},
        layers,
        probe,
      },
      `${meaning} ${now}`,
    );
  };
  return { element, update };
}

// -- what each parameter does ---------------------------------------------------------------------

const FEW = 15; // levels that are drawn one by one
const FAR = 0.05; // correlation below which a point says nothing about a slice
const NEAR = 0.95; // and above which it is as good as on the slice

export function slices() {
  const holder = h("div", { class: "slices" });
  const note =
    "What the model expects along one parameter, if the others are as in the best point. A dot is the mean of the results at a point. It is larger if the point was tried more often, and fainter if its other parameters are far from the best point.";
  const element = card("What each parameter does", "wide", h("p", { class: "note" }, note), holder);
  const charts = new Map();
  const update = (data) => {
    element.hidden = data.slices.length === 0;
    for (const slice of data.slices) {
      if (!charts.has(slice.name)) {
        charts.set(slice.name, new Chart());
        holder.append(h("div", {}, h("h3", {}, slice.name), charts.get(slice.name).element));
      }
      charts.get(slice.name).draw(...sliceChart(slice));
    }
  };
  return { element, update };
}

function sliceChart(slice) {
  const listed =
    slice.kind === "categorical" || slice.values.some((value) => typeof value !== "number");
  const categories = listed ? slice.values.map(String) : null;
  const place = listed ? (value) => slice.values.indexOf(value) : (value) => value;
  const x = slice.values.map(place);
  const few = slice.kind !== "continuous" && x.length <= FEW;
  const near = slice.points.filter((point) => point.near >= FAR);
  const on = near.filter((point) => point.near >= NEAR);
  const most = largest([1, ...near.map((point) => point.count)]);
  const dots = {
    kind: "dots",
    class: "told",
    name: "results",
    loose: true, // a bad result far away must not flatten the curve
    x: near.map((point) => place(point.x)),
    y: near.map((point) => point.y),
    size: near.map((point) => 2 + 4 * Math.sqrt(point.count / most)),
    strength: near.map((point) => 0.15 + 0.75 * point.near),
  };
  const { mean, low, high } = slice;
  const posterior = few
    ? [
        { kind: "bars", x, low, high, class: "curve", name: "95 %" },
        {
          kind: "dots",
          square: true,
          x,
          y: mean,
          class: "curve",
          size: x.map(() => 4),
          name: "mean",
        },
      ]
    : [
        { kind: "band", x, low, high, class: "curve", name: "95 %" },
        { kind: "line", x, y: mean, class: "curve", name: "mean" },
      ];
  const best = {
    kind: "rule",
    axis: "x",
    at: place(slice.incumbent),
    class: "best",
    name: "best point",
  };
  const rest = nearest(x, place(slice.incumbent));
  const at = along(slice);
  const probe = {
    x,
    rest,
    text: (i) =>
      `At ${at(slice.values[i])}: ${rounded(mean[i], (high[i] - low[i]) / 4)} (95 %: ${interval(low[i], high[i])})`,
  };
  const axis = { label: "", log: slice.log && !listed, categories, tight: !few };
  const spec = {
    label: `Posterior along ${slice.name}`,
    x: axis,
    y: { include: on.map((point) => point.y) },
    layers: [best, ...posterior, dots],
    probe,
  };
  return [spec, sliceWords(slice)];
}

// Values of a parameter with the digits that tell two of them apart: 1e9 + 0.3 is not "1e9".
function along({ values, log }) {
  const narrow = values.every((value) => typeof value === "number") && !log;
  const step = narrow ? (largest(values) - smallest(values)) / 100 : 0;
  return (value) =>
    step > 0 && !Number.isSafeInteger(value) ? rounded(value, step) : scalar(value);
}

function sliceWords(slice) {
  const { values, mean, low, high, incumbent } = slice;
  const [least, most] = [smallest(mean), largest(mean)];
  const step = largest(high.map((value, i) => value - low[i])) / 4;
  const at = along(slice);
  const where = (value) => at(values[mean.indexOf(value)]);
  return `The model expects from ${rounded(least, step)} (at ${where(least)}) to ${rounded(most, step)} (at ${where(most)}). The best point has ${at(incumbent)}.`;
}

// -- calibration ----------------------------------------------------------------------------------

export function calibration() {
  const chart = new Chart();
  const element = card("Were the predictions right", "wide", chart.element);
  const update = ({ calibration: { number: x, z, mean, sd, inside } }) => {
    element.hidden = x.length === 0;
    if (element.hidden) return;
    const layers = [
      {
        kind: "band",
        x,
        low: x.map(() => -WITHIN),
        high: x.map(() => WITHIN),
        class: "curve",
        name: "95 % expected here",
      },
      { kind: "rule", at: 0, class: "faint" },
      { kind: "dots", x, y: z, class: "told", name: "result, in sds from its prediction" },
    ];
    const probe = { x, text: (i) => `Trial ${x[i]}: ${rounded(z[i], 0.1)} sd from its prediction` };
    const caption = `Each dot compares a result with the prediction at the time of its decision (${plural(x.length, "result")}). The dots have the mean ${rounded(mean, 0.1)} (0 is right) and the sd ${rounded(sd, 0.1)} (1 is right). ${percent(inside)} are inside the 95 % interval.`;
    chart.draw(
      {
        label: "Results in sds from their predictions, by trial",
        x: TRIALS,
        y: { include: [-2.5, 2.5] },
        layers,
        probe,
      },
      caption,
    );
  };
  return { element, update };
}
