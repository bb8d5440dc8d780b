// What the stream has told: all that is known at first, then what is new once a second.

const SECOND = ["until", "length", "arrived", "done", "failed", "expired", "shed", "queueFull",
  "cancelled", "batches", "items", "p50", "p90", "p99", "queued", "running", "workers", "busy", "releases",
  "cost", "ownCost"];
const BATCH = ["number", "released", "finished", "size", "worker", "reason", "outcome", "predicted", "cost"];
const SECONDS_KEPT = 120;
const BATCHES_KEPT = 512;

export class Store {
  constructor() {
    this.endpoints = new Map();
    this.now = 0; // on the server's monotonic clock
    this.offset = 0; // seconds from that clock to the time of day
  }

  // Forget what was; a stream that begins anew says it all again.
  whole(view) {
    this.endpoints.clear();
    this.offset = Date.now() / 1e3 - view.now;
    this.news(view);
  }

  news(view) {
    this.now = view.now;
    const known = this.endpoints;
    this.endpoints = new Map(view.endpoints.map(each => [each.name, joined(known.get(each.name), each)]));
  }
}

// Sums of some seconds, the last ones.
export function lately(endpoint, span) {
  const sums = { length: 0, arrived: 0, done: 0, failed: 0, expired: 0, refused: 0, shed: 0,
    queueFull: 0, batches: 0, items: 0, busy: 0, available: 0, cost: 0, ownCost: 0,
    releases: {} };
  for (const second of endpoint.seconds.slice(-span)) {
    for (const key of Object.keys(sums)) if (key in second && key !== "releases") sums[key] += second[key];
    sums.refused += second.shed + second.queueFull;
    sums.available += second.workers * second.length;
    for (const [reason, batches] of Object.entries(second.releases)) {
      sums.releases[reason] = (sums.releases[reason] ?? 0) + batches;
    }
  }
  return sums;
}

function joined(before, endpoint) {
  const seconds = (before?.seconds ?? []).concat(endpoint.seconds.map(row => named(SECOND, row)));
  const ran = (before?.ran ?? []).concat(endpoint.ran.map(row => named(BATCH, row)));
  return { ...endpoint, seconds: seconds.slice(-SECONDS_KEPT), ran: ran.slice(-BATCHES_KEPT) };
}

function named(names, row) {
  return Object.fromEntries(names.map((name, index) => [name, row[index]]));
}
