// Shows one endpoint, chosen in the address behind #, as the stream tells of it.

import { Chart } from "./charts.js";
import { seconds } from "./format.js";
import { showOverview, showReasons, showTiles, showTotals, text } from "./panels.js";
import { Store } from "./store.js";
import { Stream } from "./stream.js";
import { Timeline } from "./timeline.js";

const figure = id => document.getElementById(id);
const milliseconds = value => value === null ? null : value * 1e3;
const rate = key => second => second[key] / second.length;

const store = new Store();
const charts = {
  latency: new Chart(figure("latency"), [
    { label: "p50", colour: "sky", value: second => milliseconds(second.p50) },
    { label: "p90", colour: "blue", value: second => milliseconds(second.p90) },
    { label: "p99", colour: "violet", value: second => milliseconds(second.p99) },
    { label: "max_latency", colour: "red", dashed: true, value: second => milliseconds(second.promise) },
  ]),
  rates: new Chart(figure("rates"), [
    { label: "arrived", colour: "grey", value: rate("arrived") },
    { label: "answered", colour: "blue", fill: true, value: rate("done") },
    { label: "refused", colour: "amber", value: second => (second.shed + second.queueFull) / second.length },
    { label: "late or failed", colour: "red", value: second => (second.expired + second.failed) / second.length },
  ]),
  sizes: new Chart(figure("sizes"), [
    { label: "mean", colour: "teal", fill: true, value: second => second.batches ? second.items / second.batches : null },
    { label: "at most", colour: "grey", dashed: true, far: true, value: second => second.most },
  ], { items: "y" }),
  queue: new Chart(figure("queue"), [
    { label: "waiting", colour: "amber", fill: true, value: second => second.queued },
  ], { items: "y", empty: "No item has waited in the last two minutes" }),
  fit: new Chart(figure("fit"), [
    { label: "batches", colour: "teal", points: true, value: batch => milliseconds(batch.taken) },
    { label: "fitted", colour: "red", value: batch => milliseconds(batch.fitted) },
  ], { scatter: true, items: "x", empty: "No batch yet" }),
};
const timeline = new Timeline(figure("timeline"), figure("timeline-span"));
const picker = figure("endpoint");

function chosen() {
  const wanted = decodeURIComponent(location.hash.slice(1));
  return store.endpoints.get(wanted) ?? store.endpoints.values().next().value;
}

function choose(name) {
  location.hash = encodeURIComponent(name);
}

function show() {
  const endpoint = chosen();
  if (!endpoint) return;
  offer([...store.endpoints.keys()], endpoint.name);
  showOverview([...store.endpoints.values()], endpoint.name, choose);
  showTiles(endpoint);
  showReasons(endpoint);
  showTotals(endpoint);
  timeline.show(endpoint, store.now);
  const { max_latency: promise, max_batch_size: most } = endpoint;
  const rows = endpoint.seconds.map(second => ({ ...second, promise, most }));
  const time = second => second.until + store.offset;
  for (const name of ["latency", "rates", "sizes", "queue"]) charts[name].show(rows, time, store.now + store.offset);
  showFit(endpoint);
}

function showFit(endpoint) {
  const { fixed, per_item: perItem, per_cost: perCost, mean_cost: usual } = endpoint;
  const by = usual ? "cost" : "size"; // the line is that of batches whose items cost as much as most
  const fitted = amount => fixed + perItem * (usual ? amount / usual : amount);
  const batches = endpoint.ran.filter(batch => batch.outcome === "done")
    .map(batch => ({ amount: batch[by], taken: batch.finished - batch.released, fitted: fitted(batch[by]) }))
    .sort((one, other) => one.amount - other.amount);
  if (batches.length) batches.unshift({ amount: 0, taken: null, fitted: fitted(0) });
  charts.fit.show(batches, batch => batch.amount);
  const per = usual ? ` + ${seconds(perItem - perCost * usual)} × items + ${seconds(perCost)} × cost` : ` + ${seconds(perItem)} × items`;
  const axis = `milliseconds by ${usual ? "cost" : "items"}`;
  text("fit-line", endpoint.batches ? `${axis}; fitted: ${seconds(fixed)}${per}` : axis);
  if (figure("advice").textContent !== endpoint.advice) text("advice", endpoint.advice); // said aloud when it changes
}

function offer(names, current) {
  const offered = [...picker.options].map(option => option.value);
  if (names.join("\n") !== offered.join("\n")) {
    picker.replaceChildren(...names.map(name => new Option(name, name)));
  }
  picker.value = current;
}

function showState(state, silence) {
  const link = figure("link");
  link.dataset.state = state;
  const said = state === "live" ? "live" : "no data";
  if (figure("link-state").textContent !== said) text("link-state", said); // said aloud when it changes
  text("silence", state === "live" ? "" : `for ${silence} s; trying again`);
  document.body.classList.toggle("stale", state === "stale");
}

picker.addEventListener("change", () => choose(picker.value));
addEventListener("hashchange", show);
matchMedia("(prefers-color-scheme: dark)").addEventListener("change", () => {
  for (const chart of Object.values(charts)) chart.draw();
  show();
});
new Stream("debug/live/stream", {
  whole: view => { store.whole(view); show(); },
  news: view => { store.news(view); show(); },
  state: showState,
});
