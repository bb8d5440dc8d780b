// What is said in words and tables: the SLO, figures of now, reasons, totals, all endpoints.

import { count, number, percent, plural, seconds, share } from "./format.js";
import { colour, reason, REASONS } from "./reasons.js";
import { lately } from "./store.js";

const NOW = 10; // seconds that "now" is the mean of
const MINUTE = 60;
const OUTCOMES = {
  done: "answered in time", failed: "failed", expired: "accepted, but late", shed: "refused: would be late",
  queue_full: "refused: queue full", cancelled: "client left",
};

const WORDS = { idle: "Idle", kept: "✓ Met", refusing: "▲ Met by refusing", broken: "✕ Missed", failing: "✕ Failing" };

// Whether max_latency held for the accepted requests of the last minute, and how many were refused for it.
export function verdict({ promise, max_latency: latest }) {
  if (promise.verdict === "idle") return ["idle", WORDS.idle, "No requests in the last minute"];
  const said = `${share(promise.in_time)} of accepted requests were answered${latest === null ? "" : " in time"}`;
  const word = promise.verdict === "kept" && latest === null ? "✓ All answered" : WORDS[promise.verdict];
  const more = {
    kept: ", in the last minute",
    refusing: `; ${share(promise.refused)} of all were refused`,
  }[promise.verdict] ?? `: ${count(promise.expired)} late, ${count(promise.failed)} failed`;
  return [promise.verdict, word, said + more];
}

export function showTiles(endpoint) {
  const now = lately(endpoint, NOW);
  const [kind, word, sentence] = verdict(endpoint);
  const p99 = endpoint.lately[2];
  const promise = endpoint.max_latency === null ? "no max_latency" : `of ${seconds(endpoint.max_latency)}`;
  text("promise-verdict", word, p99 === null ? promise : `p99 ${seconds(p99)} ${promise}`);
  text("promise-detail", sentence);
  document.getElementById("promise").dataset.verdict = kind;
  const rate = value => now.length ? value / now.length : 0;
  text("answered", number(rate(now.done)), "/s");
  text("arrived", `of ${number(rate(now.arrived))} /s that arrived`);
  text("refused", now.arrived ? share(now.refused / now.arrived) : "–");
  text("refused-detail", refusals(now));
  text("batch", now.batches ? number(now.items / now.batches) : "–", `of ${endpoint.max_batch_size}`);
  text("batch-detail", `${number(rate(now.batches))} batches/s${padding(now)}`);
  text("queued", count(endpoint.queued), "items");
  text("queued-detail", endpoint.queued ? `${seconds(endpoint.queued_seconds)} of work` : "nothing waits");
  const alive = endpoint.workers.filter(worker => worker.alive);
  const busy = alive.filter(worker => worker.busy_since !== null).length;
  text("workers", `${alive.length}`, `${busy} busy now`);
  const slow = alive.filter(worker => worker.slowness >= 1.5).length;
  const held = now.available ? `busy ${percent(now.busy / now.available)}, ` : "";
  const carried = `${held}${percent(endpoint.saturation)} of what full batches could carry`;
  text("workers-detail", slow ? `${plural(slow, "is", "are")} slow; ${carried}` : carried);
  document.title = `${word.replace(/^\W+/, "")} · ${endpoint.name} · adaptive_batching`;
}

// Where items don't cost the same, or batches are filled up to a few sizes.
function padding(now) {
  return now.cost ? `; ${percent(Math.max(0, 1 - now.ownCost / now.cost))} of the work is padding` : "";
}

function refusals(now) {
  if (!now.refused) return "none in ten seconds";
  const parts = [[now.shed, "would be late"], [now.queueFull, "queue full"]];
  return parts.filter(([many]) => many).map(([many, why]) => `${share(many / now.refused)} ${why}`).join(", ");
}

export function showReasons(endpoint) {
  const { releases, batches } = lately(endpoint, MINUTE);
  const names = Object.keys(REASONS).concat(Object.keys(releases).filter(name => !(name in REASONS)));
  const rows = names.filter(name => releases[name]).map(name => {
    const [title, meaning, hue] = reason(name);
    const part = releases[name] / batches;
    const head = cell("th", swatch(hue), title, small(meaning));
    head.scope = "row";
    const bar = document.createElement("i");
    bar.className = "bar";
    bar.style.width = `${part * 100}%`;
    bar.style.background = colour(hue);
    head.append(bar);
    const left = cell("td", count(releases[name]));
    left.dataset.reason = name;
    return row(head, cell("td", share(part)), left);
  });
  document.querySelector("#reasons thead").hidden = !rows.length;
  fill("reasons-rows", rows, "No batch has left in the last minute");
}

export function showTotals(endpoint) {
  const rows = Object.entries(OUTCOMES).map(([name, meaning]) => [name, meaning, endpoint.requests[name]]);
  rows.push(["batches", "batches", endpoint.batches], ["items", "items in them", endpoint.items]);
  fill("totals-rows", rows.map(([name, meaning, total]) => {
    const value = cell("td", count(total));
    value.dataset.total = name;
    const head = cell("th", meaning);
    head.scope = "row";
    return row(head, value);
  }), "");
}

// All endpoints on one line each; choosing one shows it below.
export function showOverview(endpoints, chosen, choose) {
  document.getElementById("overview").hidden = endpoints.length < 2;
  const held = document.activeElement?.dataset?.endpoint; // the button under the keyboard stays there
  fill("endpoints", endpoints.map(endpoint => {
    const button = document.createElement("button");
    button.textContent = button.dataset.endpoint = endpoint.name;
    button.onclick = () => choose(endpoint.name);
    if (endpoint.name === chosen) button.setAttribute("aria-current", "true");
    const now = lately(endpoint, NOW);
    const [kind, word] = verdict(endpoint);
    const kept = cell("td", word);
    kept.dataset.verdict = kind;
    const answered = `${number(now.length ? now.done / now.length : 0)} /s`;
    const refused = now.arrived ? share(now.refused / now.arrived) : "–";
    return row(cell("td", button), kept, cell("td", answered), cell("td", seconds(endpoint.lately[2])),
      cell("td", refused), cell("td", count(endpoint.queued)));
  }), "");
  if (held) [...document.querySelectorAll("#endpoints button")].find(each => each.dataset.endpoint === held)?.focus();
}

export function text(id, value, unit) {
  const place = document.getElementById(id);
  place.replaceChildren(value, ...(unit ? [" ", small(unit)] : []));
}

function fill(id, rows, empty) {
  const nothing = cell("td", empty);
  nothing.className = "empty";
  document.getElementById(id).replaceChildren(...(rows.length ? rows : [row(nothing)]));
}

function row(...cells) {
  const line = document.createElement("tr");
  line.append(...cells);
  return line;
}

function cell(kind, ...content) {
  const made = document.createElement(kind);
  made.append(...content);
  return made;
}

function small(content) {
  return cell("small", content);
}

function swatch(hue) {
  const made = document.createElement("i");
  made.className = "swatch";
  made.style.background = colour(hue);
  return made;
}
