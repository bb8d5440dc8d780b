// Figures with axes, by uPlot: over the last two minutes, or durations by batch size.

import { count, number } from "./format.js";
import { colour } from "./reasons.js";

const HEIGHT = 180;
const WINDOW = 120; // seconds
const WHOLE = [0, 1, 2, 3, 4, 5].flatMap(power => [1, 2, 5].map(step => step * 10 ** power)); // of items
const NEAR = 1 / 3; // of a limit, from where a figure is drawn as high as that
const FONT = "12px system-ui, sans-serif";

export class Chart {
  // series: [{ label, colour, value: second => number | null, dashed, fill, far: may lie above the figure }]
  // items: the axis, x or y, that counts items, which are whole.
  constructor(figure, series, { scatter = false, items = "", empty = "Nothing in the last two minutes" } = {}) {
    this.series = series;
    this.scatter = scatter;
    this.items = items;
    this.empty = empty;
    this.place = document.createElement("div");
    this.place.className = "plot";
    this.place.tabIndex = 0;
    this.place.setAttribute("role", "img");
    this.title = figure.querySelector("h2").textContent;
    this.legend = document.createElement("ul");
    this.legend.className = "legend";
    figure.append(this.place, this.legend);
    this.values = series.map(each => this.entry(each));
    this.data = [[], ...series.map(() => [])];
    this.draw();
    new ResizeObserver(() => this.fit()).observe(this.place);
    this.place.addEventListener("keydown", event => this.step(event));
  }

  entry(series) {
    const item = document.createElement("li");
    const swatch = document.createElement("i");
    swatch.className = "swatch";
    const label = document.createElement("span");
    label.textContent = `${series.label} `;
    const value = document.createElement("b");
    item.append(swatch, label, value);
    this.legend.append(item);
    return { swatch, value };
  }

  // Anew, as after a change of the colours.
  draw() {
    this.plot?.destroy();
    this.values.forEach(({ swatch }, index) => {
      swatch.style.background = colour(this.series[index].colour);
    });
    const axis = { stroke: colour("quiet"), font: FONT, grid: { stroke: colour("grid"), width: 1 },
      ticks: { stroke: colour("line"), width: 1 } };
    this.plot = new uPlot({
      width: this.width,
      height: HEIGHT,
      legend: { show: false },
      cursor: { y: false, drag: { x: false, y: false }, points: { size: 6 },
        ...(this.scatter ? {} : { sync: { key: "seconds" } }) },
      scales: {
        x: this.scatter ? { time: false, range: (_, low, high) => [0, Math.max(1, high) * 1.05] } : { time: true },
        y: { range: (_, low, high) => [0, this.top(high)] },
      },
      axes: [
        { ...axis, size: 32, space: 70, values: this.scatter ? undefined : clock, ...this.steps("x") },
        { ...axis, size: 52, values: (_, ticks) => ticks.map(short), ...this.steps("y") },
      ],
      series: [{}, ...this.series.map(each => ({
        label: each.label,
        stroke: colour(each.colour),
        width: 1.8,
        auto: !each.far,
        dash: each.dashed ? [6, 4] : undefined,
        fill: each.fill ? `${colour(each.colour)}30` : undefined,
        paths: each.points ? () => null : undefined,
        points: each.points ? { show: true, size: 5, fill: colour(each.colour), width: 0 } : { show: false },
      }))],
      hooks: { setCursor: [() => this.tell()] },
    }, this.data, this.place);
    this.plot.setData(this.data, false);
    this.rescale();
  }

  steps(axis) {
    return this.items === axis ? { incrs: WHOLE } : {};
  }

  // Where the figure ends, above its highest value.
  top(high) {
    const limits = this.data.slice(1).filter((_, index) => this.series[index].far).map(column => column.at(-1) ?? 0);
    const highest = Math.max(high, ...limits.filter(limit => high >= limit * NEAR));
    if (this.items === "y") return Math.ceil(highest * 1.1) || 1;
    return highest > 0 ? highest * 1.1 : 1;
  }

  get width() {
    return Math.max(200, this.place.clientWidth);
  }

  fit() {
    if (this.plot.width !== this.width) this.plot.setSize({ width: this.width, height: HEIGHT });
  }

  // Rows of what the series read; x is the time of day, or the batch size.
  show(rows, x, now) {
    this.now = now;
    this.data = [rows.map(x), ...this.series.map(each => rows.map(each.value))];
    const nothing = this.data.slice(1).every((column, index) =>
      this.series[index].dashed || column.every(value => !value));
    if (nothing) this.place.dataset.empty = this.empty;
    else delete this.place.dataset.empty;
    this.plot.setData(this.data, false);
    this.rescale();
    this.tell();
  }

  rescale() {
    this.plot.batch(() => {
      const sizes = this.data[0];
      if (this.scatter) this.plot.setScale("x", { min: 0, max: sizes.at(-1) ?? 1 });
      else if (this.now) this.plot.setScale("x", { min: this.now - WINDOW, max: this.now });
    });
  }

  // The values under the cursor, else the newest.
  tell() {
    if (!this.plot) return;
    const last = this.data[0].length - 1;
    const index = this.plot.cursor.idx ?? last;
    const said = this.series.map((series, number_) => {
      const value = this.data[number_ + 1][index];
      const unsaid = this.scatter && this.plot.cursor.idx == null;
      const text = unsaid ? "" : value == null ? "–" : Number.isInteger(value) ? count(value) : number(value);
      this.values[number_].value.textContent = text;
      return text && `${series.label} ${text}`;
    });
    this.place.setAttribute("aria-label", `${this.title}: ${said.filter(Boolean).join(", ") || this.empty}`);
  }

  // Left and right move the cursor from value to value, Escape takes it away.
  step(event) {
    const last = this.data[0].length - 1;
    const at = this.plot.cursor.idx ?? last + 1;
    const to = { ArrowLeft: at - 1, ArrowRight: at + 1, Home: 0, End: last }[event.key];
    if (event.key === "Escape") this.plot.setCursor({ left: -10, top: -10 });
    else if (to === undefined || last < 0) return;
    else {
      const index = Math.min(Math.max(to, 0), last);
      this.plot.setCursor({ left: this.plot.valToPos(this.data[0][index], "x"), top: 10 });
    }
    event.preventDefault();
  }
}

function clock(_, ticks) {
  return ticks.map(tick => new Date(tick * 1e3).toTimeString().slice(0, 8));
}

function short(value) {
  return value >= 1e4 ? `${value / 1e3}k` : String(+value.toFixed(3));
}
