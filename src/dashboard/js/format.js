// Numbers, sizes, dates and times as people read them.

const whole = new Intl.NumberFormat("en");

export function number(value) {
  return whole.format(value ?? 0);
}

/** A number for a narrow place: exact up to 999,999. */
export function short(value) {
  const count = value ?? 0;
  return count < 1_000_000 ? whole.format(count) : `${(count / 1_000_000).toFixed(count < 10_000_000 ? 2 : 1)} M`;
}

/** `plural(1, "job")`, `plural(3, "batch", "batches")`. */
export function plural(count, one, many = `${one}s`) {
  return `${number(count)} ${count === 1 ? one : many}`;
}

export function bytes(value) {
  let size = value ?? 0;
  let unit = 0;
  const units = ["B", "KiB", "MiB", "GiB", "TiB", "PiB"];
  while (size >= 1024 && unit < units.length - 1) {
    size /= 1024;
    unit += 1;
  }
  return `${unit === 0 || size >= 100 ? Math.round(size) : size.toFixed(1)} ${units[unit]}`;
}

export function duration(milliseconds) {
  const seconds = Math.round((milliseconds ?? 0) / 1000);
  if ((milliseconds ?? 0) < 1000) {
    return `${Math.round(milliseconds ?? 0)} ms`;
  }
  const parts = [
    [86_400, "d"],
    [3_600, "h"],
    [60, "min"],
    [1, "s"],
  ];
  const first = parts.findIndex(([length]) => seconds >= length);
  let rest = seconds;
  return parts
    .slice(first, first + 2)
    .map(([length, name]) => {
      const count = Math.floor(rest / length);
      rest -= count * length;
      return count > 0 ? `${count} ${name}` : "";
    })
    .filter(Boolean)
    .join(" ");
}

const clock = new Intl.DateTimeFormat("en-GB", { hour: "2-digit", minute: "2-digit", second: "2-digit" });
const day = new Intl.DateTimeFormat("en-CA", { year: "numeric", month: "2-digit", day: "2-digit" });

/** In the time of whoever reads: the time alone for today, else with the day. */
export function moment(text) {
  const date = text instanceof Date ? text : new Date(text);
  if (Number.isNaN(date.getTime())) {
    return String(text);
  }
  const today = day.format(new Date()) === day.format(date);
  return today ? clock.format(date) : `${day.format(date)} ${clock.format(date)}`;
}

/** How often a minute, from how often in the last minute. */
export function perMinute(count) {
  return `${short(count)}/min`;
}
