// Why batches leave: what each reason means, and its colour in all figures.

export const REASONS = {
  full: ["full", "could take no more", "blue"],
  idle: ["idle", "a worker was idle, and waiting gained nothing", "teal"],
  not_worth_waiting: ["not worth waiting", "holding it would have cost more than it gained", "violet"],
  deadline: ["deadline", "its oldest request would have been late", "amber"],
  timeout: ["timeout", "the time to fill was over", "rose"],
  preferred: ["preferred", "a size that the policy prefers", "sky"],
  probe: ["probe", "puts a hopeless prediction to the test", "red"],
  bisect: ["bisect", "halves of a batch that failed", "red"],
  retry: ["retry", "runs again, through no fault of its own", "rose"],
  drain: ["drain", "the program is ending", "grey"],
};

export function reason(name) {
  return REASONS[name] ?? [name.replaceAll("_", " "), "", "grey"];
}

export function colour(name) {
  return getComputedStyle(document.documentElement).getPropertyValue(`--${name}`).trim();
}
