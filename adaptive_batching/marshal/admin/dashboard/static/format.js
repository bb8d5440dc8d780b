// Numbers as operators read them: three digits, a unit, the same width from second to second.

const thousands = new Intl.NumberFormat("en", { maximumFractionDigits: 0 });

export function count(value) {
  return thousands.format(value);
}

// Three significant digits, never an exponent.
export function number(value) {
  const size = Math.abs(value);
  if (size >= 100) return thousands.format(value);
  return size ? value.toFixed(size >= 10 ? 1 : size >= 1 ? 2 : 3) : "0";
}

export function seconds(value) {
  if (value === null) return "–";
  if (!value) return "0 s";
  if (value >= 1) return `${number(value)} s`;
  return value >= 1e-3 ? `${number(value * 1e3)} ms` : `${number(value * 1e6)} µs`;
}

// Rounded so that neither "none" nor "all" is said of what is neither.
export function share(value) {
  const percent = value * 100;
  if (percent > 0 && percent < 0.01) return "< 0.01 %";
  if (percent < 100 && percent > 99.99) return "> 99.99 %";
  const digits = !percent || percent >= 100 ? 0 : percent < 1 || percent > 99 ? 2 : 1;
  return `${percent.toFixed(digits)} %`;
}

// For a glance: no decimals from one per cent on.
export function percent(value) {
  return `${value && value < 0.01 ? "< 1" : Math.round(value * 100)} %`;
}

export function plural(value, one, many) {
  return `${count(value)} ${value === 1 ? one : many}`;
}
