// Bars and small curves. What they show also stands there as a text.

import { h, svg } from "./dom.js";
import { number, bytes } from "./format.js";

function bar(parts, total, label) {
  const element = h("div.bar", { role: "img", "aria-label": label });
  for (const [kind, count] of parts) {
    if (count > 0 && total > 0) {
      const part = h(`span.part.is-${kind}`);
      part.style.flexGrow = String(count / total);
      element.append(part);
    }
  }
  const rest = total - parts.reduce((sum, [, count]) => sum + count, 0);
  if (rest > 0 || total === 0) {
    const part = h("span.part.rest");
    part.style.flexGrow = String(total > 0 ? rest / total : 1);
    element.append(part);
  }
  return element;
}

/** How far a batch is: completed, failed and deleted jobs of all that it has or will have. */
export function batchBar({ jobs = {}, expansion }) {
  const { processing = 0, failed = 0, completed = 0, deleted = 0 } = jobs;
  const made = processing + failed + completed + deleted;
  const total = Math.max(made, expansion && !expansion.done ? expansion.total : 0);
  const words = [
    [completed, "completed"],
    [failed, "failed"],
    [deleted, "deleted"],
    [processing, "under way"],
    [total - made, "still to be made"],
  ]
    .filter(([count]) => count > 0)
    .map(([count, word]) => `${number(count)} ${word}`);
  const label = total === 0 ? "no jobs yet" : words.join(", ");
  return h(
    "div.progress",
    bar(
      [
        ["completed", completed],
        ["failed", failed],
        ["gone", deleted],
      ],
      total,
      label,
    ),
    h(
      "span.caption",
      total === 0
        ? "no jobs yet"
        : [
            `${number(completed + failed + deleted)} of ${number(total)}`,
            failed > 0 ? h("span.is-failed", ` · ${number(failed)} failed`) : null,
          ],
    ),
  );
}

/** How far a piece of work is, if that is known; else what it has done so far. */
export function workBar({ done_files = 0, done_bytes = 0, all_files = 0, all_bytes = 0 }) {
  if (all_bytes > 0) {
    return progress(done_bytes, all_bytes, `${bytes(done_bytes)} of ${bytes(all_bytes)}`);
  }
  const soFar = done_bytes > 0 ? `${bytes(done_bytes)} so far` : "";
  if (all_files > 1) {
    const files = `${number(done_files)} of ${number(all_files)} files`;
    return progress(done_files, all_files, soFar ? `${files}, ${soFar}` : files);
  }
  return soFar ? h("span.caption", soFar) : h("span.none", "–");
}

function progress(done, all, label) {
  return h("div.progress", bar([["working", Math.min(done, all)]], all, label), h("span.caption", label));
}

/** The last minute as a row of bars, to be drawn again and again. */
export class Spark {
  #bars;
  #written = "";

  constructor(parts) {
    this.#bars = Array.from({ length: parts }, (_, index) =>
      svg("rect", { x: index * 4, y: 19, width: 3, height: 1, rx: 0.5 }),
    );
    this.element = svg(
      "svg",
      { class: "spark", viewBox: `0 0 ${parts * 4 - 1} 20`, preserveAspectRatio: "none", "aria-hidden": "true" },
      this.#bars,
    );
  }

  draw(values) {
    const written = values.join();
    if (written === this.#written) {
      return;
    }
    this.#written = written;
    const top = Math.max(...values, 1);
    values.forEach((value, index) => {
      const height = value === 0 ? 1 : Math.max(3, (value / top) * 20);
      this.#bars[index].setAttribute("height", height);
      this.#bars[index].setAttribute("y", 20 - height);
      this.#bars[index].setAttribute("class", value === 0 ? "zero" : "some");
    });
  }
}
