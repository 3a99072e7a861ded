// Charts in SVG: a few layers on two axes, drawn anew at the width that there is.
//
// A chart is { label, x: {label, log?, categories?, whole?, under?}, y: {label?, log?, include?},
// layers, probe? }. `under` returns a second line for a tick of the x axis, such as its date.
// A layer has a `kind`, a `class` for its colour, and columns: line and dots {x, y}, band and
// bars {x, low, high}, rule {at, axis}. A probe {x, text(i), rest} is read with a pointer or the arrow
// keys; entry `rest`, by default the last, is what is read while nobody does.

import { download, h, largest, nearest, number, rounded, svg } from "./tools.js";

const HEIGHT = 220;
const NARROWEST = 120;
const MARGIN = { top: 10, right: 12, bottom: 36, left: 8 };
const LINE = 13; // height of a line of text at an axis
const FEWEST = 10; // trials for which there is room from the beginning
const MANY = 400; // dots that are drawn one by one; more of them are one path
const there = (value) => value !== null && value !== undefined && Number.isFinite(value);

export class Chart {
  constructor() {
    this.legend = h("p", { class: "legend" });
    this.canvas = h("div", { class: "canvas" });
    this.readout = h("p", { class: "readout" });
    this.caption = h("figcaption");
    this.save = h(
      "button",
      { type: "button", class: "quiet small save", onclick: () => this.picture() },
      "PNG",
    );
    this.element = h("figure", {}, this.legend, this.canvas, this.readout, this.caption, this.save);
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
    this.save.setAttribute("aria-label", `Download as PNG: ${spec.label}`);
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
    const top = MARGIN.top + (y.label ? LINE : 0);
    const bottom = HEIGHT - MARGIN.bottom - (x.under ? LINE : 0);
    const vertical = scale(y, domain(layers, "y", y), [bottom, top]);
    const left =
      MARGIN.left + largest([0, ...vertical.ticks.map((t) => wide(vertical.format(t)))]) + 8;
    const horizontal = scale(x, domain(layers, "x", x), [left, width - MARGIN.right]);
    this.across = horizontal;
    const clip = `clip-${(this.id ??= Chart.count = (Chart.count ?? 0) + 1)}`;
    const box = {
      x: left - 4,
      y: top - 4,
      width: width - MARGIN.right - left + 8,
      height: bottom - top + 8,
    };
    const drawn = layers.flatMap((layer) => shapes[layer.kind](layer, horizontal, vertical));
    this.cursor = svg("line", {
      class: "cursor",
      y1: top,
      y2: bottom,
      visibility: "hidden",
    });
    const picture = svg(
      "svg",
      { width, height: HEIGHT, role: "img", "aria-label": this.spec.label },
      svg("clipPath", { id: clip }, svg("rect", box)),
      axes(horizontal, vertical, { left, width, bottom, x, y }),
      svg("g", { "clip-path": `url(#${clip})` }, drawn),
      this.cursor,
    );
    this.canvas.replaceChildren(picture);
    this.choose(this.chosen);
  }

  // The chart as a file: the picture itself, with its name and the colours of the page.
  async picture() {
    const svg = this.canvas.querySelector("svg");
    if (!svg) return;
    const name = this.spec.label.toLowerCase().replace(/[^a-z0-9]+/g, "-");
    download(`${name}.png`, await drawn(svg, this.spec.label));
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
    if (known.length > MANY && !size && !strength && !layer.square) {
      // A line without a length, with round ends, is a dot.
      const spots = known.map((i) => `M${across(x[i]).toFixed(1)} ${up(y[i]).toFixed(1)}h0`);
      return [svg("path", { class: `spots ${layer.class}`, d: spots.join("") })];
    }
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

function domain(layers, axis, { log, include = [], categories, whole, trials }) {
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
  if (trials && low <= high) return [low - 0.5, Math.max(high, low + FEWEST - 1) + 0.5];
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

// As many of 1, 2 and 5 times a power of ten as there is room for; at least two.
function powers(a, b, room) {
  const first = Math.floor(a);
  const decades = Array.from({ length: Math.ceil(b) - first + 1 }, (_, i) => first + i);
  const inside = (values) =>
    values.filter((value) => Math.log10(value) >= a && Math.log10(value) <= b);
  const times = (factors) =>
    inside(decades.flatMap((power) => factors.map((factor) => factor * 10 ** power)));
  const every = Math.max(1, Math.ceil((b - a) / room));
  const coarse = inside(decades.filter((power) => power % every === 0).map((power) => 10 ** power));
  const choices = [times([1, 2, 5]), times([1, 3]), coarse, times([1, 2, 5])];
  const fits = choices.find((ticks) => ticks.length > 1 && ticks.length <= room + 1);
  const ticks = fits ?? [10 ** a, 10 ** b];
  return { ticks, format: power };
}

// The labels of a log axis, for the tests.
export const ticksOf = (low, high, room) => {
  const { ticks, format } = powers(Math.log10(low), Math.log10(high), room);
  return ticks.map(format);
};

const RAISED = {
  "-": "⁻",
  0: "⁰",
  1: "¹",
  2: "²",
  3: "³",
  4: "⁴",
  5: "⁵",
  6: "⁶",
  7: "⁷",
  8: "⁸",
  9: "⁹",
};

// 0.001 and 10,000 as they are; what has more digits as 2×10⁷.
function power(value) {
  const exponent = Math.floor(Math.log10(value) + 1e-9);
  if (exponent > -4 && exponent < 5) return number(value, 3);
  const factor = value / 10 ** exponent;
  const raised = [...String(exponent)].map((letter) => RAISED[letter]).join("");
  return `${Math.abs(factor - 1) < 1e-6 ? "" : `${number(factor, 3)}×`}10${raised}`;
}

// The width of a text at an axis.
const pen = document.createElement("canvas").getContext("2d");
function wide(text) {
  pen.font = `11px ${getComputedStyle(document.body).fontFamily}`;
  return pen.measureText(text).width;
}

function axes(across, up, { left, width, bottom, x, y }) {
  const right = width - MARGIN.right;
  const rows = up.ticks.flatMap((tick) => [
    svg("line", { class: "gridline", x1: left, x2: right, y1: up(tick), y2: up(tick) }),
    svg("text", { x: left - 6, y: up(tick) + 4, "text-anchor": "end" }, up.format(tick)),
  ]);
  return svg(
    "g",
    { class: "axes", "aria-hidden": "true" },
    rows,
    columns(across, { width, bottom, under: x.under }),
    svg("line", { class: "tick", x1: left, x2: right, y1: bottom, y2: bottom }),
    y.label ? svg("text", { class: "axis-name", x: 2, y: LINE - 2 }, y.label) : null,
    svg(
      "text",
      { class: "axis-name", x: (left + right) / 2, y: HEIGHT - 4, "text-anchor": "middle" },
      x.label,
    ),
  );
}

// The ticks of the x axis. A label stays inside the picture, and is left out where it would touch
// the one before.
function columns(across, { width, bottom, under }) {
  const ends = [-Infinity, -Infinity];
  const last = ["", ""];
  const label = (text, at, line) => {
    const half = wide(text) / 2;
    const middle = Math.min(Math.max(at, half + 1), width - half - 1);
    if (!text || text === last[line] || middle - half < ends[line] + 6) return null;
    ends[line] = middle + half;
    last[line] = text;
    return svg("text", { x: middle, y: bottom + 16 + line * LINE, "text-anchor": "middle" }, text);
  };
  return across.ticks.flatMap((tick) => [
    svg("line", { class: "tick", x1: across(tick), x2: across(tick), y1: bottom, y2: bottom + 4 }),
    label(across.format(tick), across(tick), 0),
    under ? label(under(tick), across(tick), 1) : null,
  ]);
}

// -- files ----------------------------------------------------------------------------------------

const LOOKS = ["fill", "stroke", "stroke-width", "stroke-dasharray", "stroke-linecap", "opacity"];
const LETTERS = ["font-family", "font-size", "text-anchor"];
const DENSITY = 2; // pixels per point

// An SVG as PNG. An image knows no style sheets, so each shape takes its own looks along.
async function drawn(picture, title) {
  const { width, height } = picture.getBoundingClientRect();
  const twin = picture.cloneNode(true);
  const [from, to] = [picture, twin].map((each) => [...each.querySelectorAll("*")]);
  from.forEach((shape, i) => {
    const style = getComputedStyle(shape);
    for (const look of shape.tagName === "text" ? [...LOOKS, ...LETTERS] : LOOKS)
      to[i].setAttribute(look, style.getPropertyValue(look));
  });
  twin.setAttribute("xmlns", "http://www.w3.org/2000/svg");
  const image = new Image();
  image.src = `data:image/svg+xml,${encodeURIComponent(new XMLSerializer().serializeToString(twin))}`;
  await image.decode();
  const head = 26;
  const canvas = h("canvas", { width: DENSITY * width, height: DENSITY * (height + head) });
  const paper = canvas.getContext("2d");
  const style = getComputedStyle(document.body);
  paper.scale(DENSITY, DENSITY);
  paper.fillStyle = getComputedStyle(picture.closest(".card") ?? document.body).backgroundColor;
  paper.fillRect(0, 0, width, height + head);
  paper.fillStyle = style.color;
  paper.font = `600 13px ${style.fontFamily}`;
  paper.fillText(title, 8, 17, width - 16);
  paper.drawImage(image, 0, head, width, height);
  return new Promise((done) => canvas.toBlob(done, "image/png"));
}
