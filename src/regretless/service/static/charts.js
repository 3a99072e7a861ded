// Charts in SVG: a few layers on two axes, drawn anew at the width that there is.
//
// A chart is { label, x: {label, log?, categories?, whole?}, y: {log?, include?}, layers, probe? }.
// A layer has a `kind`, a `class` for its colour, and columns: line and dots {x, y}, band and
// bars {x, low, high}, rule {at, axis}. A probe {x, text(i), rest} is read with a pointer or the arrow
// keys; entry `rest`, by default the last, is what is read while nobody does.

import { h, largest, nearest, number, rounded, svg } from "./tools.js";

const HEIGHT = 220;
const NARROWEST = 120;
const MARGIN = { top: 10, right: 12, bottom: 36, left: 8 };
const LETTER = 6.6; // about the width of a digit in the axes' font
const there = (value) => value !== null && value !== undefined && Number.isFinite(value);

export class Chart {
  constructor() {
    this.legend = h("p", { class: "legend" });
    this.canvas = h("div", { class: "canvas" });
    this.readout = h("p", { class: "readout" });
    this.caption = h("figcaption");
    this.element = h("figure", {}, this.legend, this.canvas, this.readout, this.caption);
    this.chosen = null;
    this.canvas.addEventListener("pointermove", (event) => this.point(event));
    this.canvas.addEventListener("pointerleave", () => this.choose(null));
    this.canvas.addEventListener("keydown", (event) => this.step(event));
    // Read out to those who use the keys here, and to nobody when news come in.
    this.canvas.addEventListener("focus", () => this.readout.setAttribute("aria-live", "polite"));
    this.canvas.addEventListener("blur", () => {
      this.readout.removeAttribute("aria-live");
      this.choose(null);
    });
    new ResizeObserver(() => this.paint()).observe(this.canvas);
  }

  draw(spec, caption) {
    this.spec = spec;
    this.caption.textContent = caption;
    this.legend.replaceChildren(...spec.layers.filter((layer) => layer.name).map(entry));
    if (spec.probe) {
      this.canvas.tabIndex = 0;
      this.canvas.setAttribute("role", "group");
      this.canvas.setAttribute("aria-label", `${spec.label}. The arrow keys read its values.`);
    }
    this.paint();
  }

  paint() {
    const width = this.canvas.clientWidth;
    if (!this.spec || width < NARROWEST) return; // hidden, or not laid out yet
    const { x, y, layers } = this.spec;
    const vertical = scale(y, domain(layers, "y", y), [HEIGHT - MARGIN.bottom, MARGIN.top]);
    const left =
      MARGIN.left + LETTER * largest(vertical.ticks.map((t) => vertical.format(t).length)) + 8;
    const horizontal = scale(x, domain(layers, "x", x), [left, width - MARGIN.right]);
    this.across = horizontal;
    const clip = `clip-${(this.id ??= Chart.count = (Chart.count ?? 0) + 1)}`;
    const box = {
      x: left - 4,
      y: MARGIN.top - 4,
      width: width - MARGIN.right - left + 8,
      height: HEIGHT - MARGIN.bottom - MARGIN.top + 8,
    };
    const drawn = layers.flatMap((layer) => shapes[layer.kind](layer, horizontal, vertical));
    this.cursor = svg("line", {
      class: "cursor",
      y1: MARGIN.top,
      y2: HEIGHT - MARGIN.bottom,
      visibility: "hidden",
    });
    const picture = svg(
      "svg",
      { width, height: HEIGHT, role: "img", "aria-label": this.spec.label },
      svg("clipPath", { id: clip }, svg("rect", box)),
      axes(horizontal, vertical, { left, width, x, y }),
      svg("g", { "clip-path": `url(#${clip})` }, drawn),
      this.cursor,
    );
    this.canvas.replaceChildren(picture);
    this.choose(this.chosen);
  }

  // -- reading values -----------------------------------------------------------------------------

  point(event) {
    const places = this.spec?.probe?.x ?? [];
    const at = event.clientX - this.canvas.getBoundingClientRect().left;
    if (places.length) this.choose(nearest(places.map(this.across), at));
  }

  step(event) {
    const last = (this.spec?.probe?.x.length ?? 0) - 1;
    const from = this.chosen ?? (event.key === "ArrowRight" ? -1 : last + 1);
    const to = { ArrowLeft: from - 1, ArrowRight: from + 1, Home: 0, End: last, Escape: null }[
      event.key
    ];
    if (to === undefined || last < 0) return;
    event.preventDefault();
    this.choose(to === null ? null : Math.min(last, Math.max(0, to)));
  }

  choose(index) {
    const probe = this.spec?.probe;
    this.chosen = probe && index !== null && index < probe.x.length ? index : null;
    const read = this.chosen ?? probe?.rest ?? (probe?.x.length ?? 0) - 1;
    const text = read < 0 ? "" : probe.text(read);
    if (this.readout.textContent !== text) this.readout.textContent = text;
    this.cursor?.setAttribute("visibility", this.chosen === null ? "hidden" : "visible");
    if (this.chosen === null) return;
    const at = this.across(probe.x[this.chosen]);
    this.cursor.setAttribute("x1", at);
    this.cursor.setAttribute("x2", at);
  }
}

// -- layers ---------------------------------------------------------------------------------------

const shapes = {
  line({ x, y, ...layer }, across, up) {
    let pen = "M";
    const path = x.map((at, i) => {
      if (!there(y[i])) return ((pen = "M"), "");
      const move = `${pen}${across(at).toFixed(1)} ${up(y[i]).toFixed(1)}`;
      pen = "L";
      return move;
    });
    return [svg("path", { class: `line ${layer.class}`, d: path.join("") })];
  },

  band({ x, low, high, ...layer }, across, up) {
    const known = x.map((_, i) => i).filter((i) => there(low[i]) && there(high[i]));
    const corner = (i, y) => `${across(x[i]).toFixed(1)} ${up(y[i]).toFixed(1)}`;
    const forth = known.map((i) => corner(i, high));
    const back = known.map((i) => corner(i, low)).reverse();
    return [
      svg("polygon", { class: `band ${layer.class}`, points: [...forth, ...back].join(" ") }),
    ];
  },

  bars({ x, low, high, ...layer }, across, up) {
    return x.map((at, i) =>
      svg("line", {
        class: `bar ${layer.class}`,
        x1: across(at),
        x2: across(at),
        y1: up(low[i]),
        y2: up(high[i]),
      }),
    );
  },

  dots({ x, y, size, strength, ...layer }, across, up) {
    const known = x.map((_, i) => i).filter((i) => there(y[i]));
    return known.map((i) =>
      mark(layer, across(x[i]), up(y[i]), size?.[i] ?? 2.5, strength?.[i] ?? 1),
    );
  },

  rule({ at, axis, ...layer }, across, up) {
    const [x1, x2] = axis === "x" ? [across(at), across(at)] : across.range;
    const [y1, y2] = axis === "x" ? up.range : [up(at), up(at)];
    return [svg("line", { class: `rule ${layer.class}`, x1, x2, y1, y2 })];
  },
};

// Squares and circles, so that two kinds of dots differ in more than their colour.
function mark(layer, x, y, r, opacity) {
  const look = { class: `dot ${layer.class}`, opacity };
  if (layer.square)
    return svg("rect", { ...look, x: x - r, y: y - r, width: 2 * r, height: 2 * r });
  return svg("circle", { ...look, cx: x, cy: y, r });
}

function entry(layer) {
  const swatch = svg("svg", { class: "swatch", width: 22, height: 12, "aria-hidden": "true" });
  const draw = {
    line: () => svg("line", { class: `line ${layer.class}`, x1: 0, x2: 22, y1: 6, y2: 6 }),
    rule: () => svg("line", { class: `rule ${layer.class}`, x1: 0, x2: 22, y1: 6, y2: 6 }),
    bars: () => svg("line", { class: `bar ${layer.class}`, x1: 11, x2: 11, y1: 0, y2: 12 }),
    band: () => svg("rect", { class: `band ${layer.class}`, width: 22, height: 12 }),
    dots: () => mark(layer, 11, 6, 3.5, 1),
  };
  swatch.append(draw[layer.kind]());
  return h("span", { class: "entry" }, swatch, layer.name);
}

// -- axes -----------------------------------------------------------------------------------------

function domain(layers, axis, { log, include = [], categories, whole }) {
  if (categories) return [-0.5, categories.length - 0.5];
  const columns = { x: ["x"], y: ["y", "low", "high"] }[axis];
  const within = layers.filter((layer) => !layer.loose || axis === "x");
  const values = within.flatMap((layer) => [
    ...columns.flatMap((column) => layer[column] ?? []),
    ...(layer.kind === "rule" && (layer.axis ?? "y") === axis ? [layer.at] : []),
  ]);
  const known = [...values, ...include].filter((value) => there(value) && (!log || value > 0));
  const [low, high] = known.reduce(
    ([a, b], v) => [Math.min(a, v), Math.max(b, v)],
    [Infinity, -Infinity],
  );
  if (low > high) return log ? [0.1, 1] : [0, 1];
  if (low < high) return [low, high];
  if (whole) return [low - 0.5, high + 0.5];
  return log
    ? [low / 2, high * 2]
    : [low - (Math.abs(low) / 10 || 1), high + (Math.abs(high) / 10 || 1)];
}

function scale({ log, categories, tight, whole }, [low, high], range) {
  const forth = log ? Math.log10 : (value) => value;
  const slack = tight || categories ? 0 : 0.04 * (forth(high) - forth(low));
  const [a, b] = [forth(low) - slack, forth(high) + slack];
  const place = (value) => range[0] + ((range[1] - range[0]) * (forth(value) - a)) / (b - a || 1);
  const length = Math.abs(range[1] - range[0]);
  if (categories) {
    const every = Math.ceil((categories.length * 60) / length);
    const ticks = categories.map((_, i) => i).filter((i) => i % Math.max(1, every) === 0);
    return Object.assign(place, { range, ticks, format: (i) => shorten(categories[i]) });
  }
  const room = Math.max(2, length / (range[1] > range[0] ? 80 : 40)); // a number is wider than high
  const { ticks, format } = log ? powers(a, b, room) : evenly(a, b, room, whole ? 1 : 0);
  return Object.assign(place, { range, ticks, format });
}

// By characters: half of one is no text.
const shorten = (text) => (text.length > 12 ? `${[...text].slice(0, 11).join("")}…` : text);

function evenly(a, b, room, least) {
  const rough = Math.max(least, (b - a) / room);
  const power = 10 ** Math.floor(Math.log10(rough));
  const step = power * [1, 2, 5, 10].find((factor) => factor * power >= rough * 0.999);
  const first = Math.ceil(a / step);
  const ticks = Array.from(
    { length: Math.floor(b / step) - first + 1 },
    (_, i) => (first + i) * step,
  );
  return {
    ticks,
    format: (value) => (Math.abs(value) < step / 2 ? "0" : rounded(value, step * 10)),
  };
}

function powers(a, b, room) {
  const every = Math.max(1, Math.ceil((b - a) / room));
  const whole = Array.from(
    { length: Math.floor(b) - Math.ceil(a) + 1 },
    (_, i) => Math.ceil(a) + i,
  );
  const decades = whole.filter((power) => power % every === 0).map((power) => 10 ** power);
  if (decades.length > 1 || b - a > 2)
    return { ticks: decades, format: (value) => number(value, 3) };
  const powersBelow = [Math.floor(a), Math.floor(a) + 1, Math.floor(a) + 2];
  const finer = powersBelow.flatMap((power) => [1, 2, 5].map((factor) => factor * 10 ** power));
  const inside = finer.filter((value) => Math.log10(value) >= a && Math.log10(value) <= b);
  const ticks = inside.length > 1 ? inside : [10 ** a, 10 ** b];
  return { ticks, format: (value) => number(value, 3) };
}

function axes(across, up, { left, width, x, y }) {
  const bottom = HEIGHT - MARGIN.bottom;
  const right = width - MARGIN.right;
  const rows = up.ticks.flatMap((tick) => [
    svg("line", { class: "gridline", x1: left, x2: right, y1: up(tick), y2: up(tick) }),
    svg("text", { x: left - 6, y: up(tick) + 4, "text-anchor": "end" }, up.format(tick)),
  ]);
  const columns = across.ticks.flatMap((tick) => [
    svg("line", { class: "tick", x1: across(tick), x2: across(tick), y1: bottom, y2: bottom + 4 }),
    svg("text", { x: across(tick), y: bottom + 16, "text-anchor": "middle" }, across.format(tick)),
  ]);
  return svg(
    "g",
    { class: "axes", "aria-hidden": "true" },
    rows,
    columns,
    svg("line", { class: "tick", x1: left, x2: right, y1: bottom, y2: bottom }),
    svg(
      "text",
      { class: "axis-name", x: (left + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" },
      x.label,
    ),
  );
}
