// Which worker ran what when: one bar a batch. Staggered bars are what spacing releases looks like.

import { count, seconds } from "./format.js";
import { colour, reason } from "./reasons.js";

const LEAST_LANE = 24; // pixels; lanes fill the card, which is as high as the one beside it
const MOST_LANE = 120;
const LEAST = 72; // of all lanes together
const AXIS = 22;
const NAMES = 30;
const BARS = 12; // batches of each worker that are shown, about
const MOST_LANES = 16;

export class Timeline {
  constructor(figure, span) {
    this.place = document.createElement("div");
    this.place.className = "plot";
    this.place.setAttribute("role", "img");
    this.canvas = document.createElement("canvas");
    this.place.append(this.canvas);
    figure.append(this.place);
    this.span = span;
    new ResizeObserver(() => this.draw()).observe(this.place);
  }

  show(endpoint, now) {
    const running = endpoint.workers
      .map((worker, index) => ({ worker: index, released: worker.busy_since, finished: now, running: true }))
      .filter(bar => bar.released !== null);
    const lanes = endpoint.workers.map((worker, index) => index)
      .filter(index => endpoint.workers[index].alive || endpoint.ran.some(batch => batch.worker === index))
      .slice(0, MOST_LANES);
    const newest = endpoint.ran.slice(-BARS * Math.max(1, lanes.length));
    this.lanes = lanes;
    this.end = running.length ? now : Math.max(...newest.map(batch => batch.finished));
    this.start = Math.min(...newest.map(batch => batch.released), this.end);
    this.bars = [...newest, ...running];
    if (this.bars.length) delete this.place.dataset.empty;
    else this.place.dataset.empty = "No batch yet";
    const length = this.bars.length ? this.end - this.start : 0;
    this.span.textContent = length ? `the last ${seconds(length)}; one bar a batch, with its items` : "";
    this.place.setAttribute("aria-label", `${lanes.length} workers, ${count(newest.length)} batches in ${seconds(length)}`);
    this.draw();
  }

  draw() {
    const lanes = Math.max(1, this.lanes?.length ?? 0);
    this.place.style.minHeight = `${Math.max(LEAST, lanes * LEAST_LANE) + AXIS}px`;
    const { clientWidth: width, clientHeight: height } = this.place;
    this.lane = Math.min((height - AXIS) / lanes, MOST_LANE);
    const dots = window.devicePixelRatio || 1;
    Object.assign(this.canvas, { width: width * dots, height: height * dots });
    Object.assign(this.canvas.style, { width: `${width}px`, height: `${height}px` });
    if (!this.bars?.length || this.end <= this.start) return;
    const pen = this.canvas.getContext("2d");
    pen.scale(dots, dots);
    pen.font = "12px system-ui, sans-serif";
    pen.textBaseline = "middle";
    const scale = (width - NAMES) / (this.end - this.start);
    this.rule(pen, width, scale);
    for (const bar of this.bars) this.bar(pen, bar, scale);
  }

  // Lanes, and times before the right edge.
  rule(pen, width, scale) {
    const bottom = this.lanes.length * this.lane;
    pen.strokeStyle = colour("grid");
    pen.fillStyle = colour("quiet");
    this.lanes.forEach((worker, lane) => {
      pen.fillText(`${worker}`, 6, (lane + 0.5) * this.lane);
      pen.strokeRect(NAMES + 0.5, Math.round((lane + 1) * this.lane) - 0.5, width - NAMES, 0);
    });
    const step = round((this.end - this.start) / Math.max(2, width / 110));
    for (let before = 0; before < this.end - this.start; before += step) {
      const x = width - before * scale;
      pen.strokeRect(x, 0, 0, bottom);
      pen.textAlign = before ? "center" : "right";
      if (x > NAMES + 20) pen.fillText(before ? `−${seconds(before).replace(/\.0+ /, " ")}` : "newest", x, bottom + AXIS / 2);
    }
    pen.textAlign = "left";
  }

  bar(pen, bar, scale) {
    const lane = this.lanes.indexOf(bar.worker);
    const from = Math.max(bar.released, this.start);
    const wide = Math.max(1.5, (bar.finished - from) * scale - 1);
    if (lane < 0 || bar.finished < this.start) return;
    const [x, y] = [NAMES + (from - this.start) * scale, lane * this.lane + 4];
    pen.globalAlpha = bar.running ? 0.35 : 1;
    pen.fillStyle = colour(bar.running ? "grey" : reason(bar.reason)[2]);
    pen.fillRect(x, y, wide, this.lane - 8);
    pen.globalAlpha = 1;
    pen.fillStyle = colour("card");
    const text = bar.running ? "" : count(bar.size);
    if (text && pen.measureText(text).width + 6 < wide) pen.fillText(text, x + 3, y + this.lane / 2 - 3.5);
  }
}

// 1, 2 or 5 times a power of ten, at least as much.
function round(value) {
  const power = 10 ** Math.floor(Math.log10(value));
  return power * ([1, 2, 5].find(factor => factor * power >= value) ?? 10);
}
