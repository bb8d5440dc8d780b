// The connection to the program: it comes back by itself, and says how old what it told is.

const STALE_AFTER = 3500; // milliseconds; something comes every second
const AGAIN_AFTER = 2000;

export class Stream {
  constructor(address, { whole, news, state }) {
    this.address = address;
    this.hear = { whole, news };
    this.state = state;
    this.source = null;
    this.lastHeard = performance.now();
    setInterval(() => this.look(), 500);
    document.addEventListener("visibilitychange", () => this.sleepOrWake());
    this.open();
  }

  open() {
    this.source?.close();
    this.source = new EventSource(this.address);
    for (const kind of ["whole", "news"]) {
      this.source.addEventListener(kind, event => {
        this.lastHeard = performance.now();
        this.hear[kind](JSON.parse(event.data));
        this.look();
      });
    }
  }

  // A browser gives up for good on an answer that is no stream, such as 503.
  look() {
    const silence = performance.now() - this.lastHeard;
    const stale = silence > STALE_AFTER;
    if (stale && this.source?.readyState === EventSource.CLOSED && silence % AGAIN_AFTER < 500) this.open();
    this.state(stale ? "stale" : "live", Math.floor(silence / 1e3));
  }

  // Nobody sees a hidden page; it begins anew when it is shown.
  sleepOrWake() {
    if (document.hidden) {
      this.source?.close();
      this.source = null;
    } else if (this.source === null) {
      this.lastHeard = performance.now();
      this.open();
    }
  }
}
