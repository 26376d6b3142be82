// Tables of things: at most a page of them is ever in memory, and on a narrow screen each row becomes a card.

import { h, fill, keyed } from "./dom.js";
import { moment, number } from "./format.js";

/** How many lines a page of a list has. */
export const PAGE = 50;

/** A moment, in the time of whoever reads; the exact one is in the title. */
export function when(date) {
  return date ? h("time", { datetime: date, title: date }, moment(date)) : h("span.none", "–");
}

export function batchLink(bid) {
  return bid ? h("a.id", { href: `#/batch/${encodeURIComponent(bid)}` }, bid) : h("span.none", "–");
}

export function jobLink(jid) {
  return jid ? h("a.id", { href: `#/job/${encodeURIComponent(jid)}` }, jid) : h("span.none", "–");
}

/** A text of unknown length and content. */
export function text(value) {
  return value ? h("span.text", value) : h("span.none", "–");
}

/**
 * A table. `columns` are `{title, cell, isWide, isNumber, isBare}`; `cell` makes an element or a text from an item, and the
 * title of a bare column is only read out.
 * `table.show(items)` makes its rows those items.
 */
export function table({ caption, columns, keyOf, empty }) {
  const body = h("tbody");
  const nothing = h("p.empty", { hidden: true }, empty ?? "Nothing here.");
  const head = columns.map(({ title, isNumber, isBare }) =>
    h(isNumber ? "th.number" : "th", { scope: "col" }, isBare ? h("span.hidden", title) : title),
  );
  const frame = h(
    "div.table-frame",
    h("table.list", h("caption.hidden", caption), h("thead", h("tr", head)), body),
    nothing,
  );
  const row = (item) =>
    h(
      "tr",
      columns.map(({ title, cell, isNumber, isWide }) => {
        const kind = isNumber ? "td.number" : isWide ? "td.wide" : "td";
        return h(kind, { data: { label: title } }, cell(item));
      }),
    );
  return {
    element: frame,
    show(items) {
      keyed(body, items, keyOf, row);
      nothing.hidden = items.length > 0;
      frame.classList.toggle("is-empty", items.length === 0);
    },
  };
}

/** Below a page of a list: where the next one begins. */
export function pager(view) {
  const element = h("nav.pager", { "aria-label": "Pages of the list" });
  return {
    element,
    show({ next, left, shown }) {
      const isFirst = !view.params.get("after");
      const first = isFirst ? null : h("a.button", { href: view.address({ after: "" }) }, "First page");
      const back = isFirst ? null : h("button", { type: "button", onclick: () => history.back() }, "Back");
      const more = next ? h("a.button", { href: view.address({ after: next }) }, "Next page") : null;
      const rest = left > 0 ? `, ${number(left)} more to look at` : "";
      fill(
        element,
        h("span.summary", isFirst && !next ? `${number(shown)} shown` : `${number(shown)} on this page${rest}`),
        first,
        back,
        more,
      );
      element.hidden = isFirst && !next && shown === 0;
    },
  };
}

/** What of the tree could not be read for a list. */
export function unreadable(place, list) {
  if (!list || list.length === 0) {
    fill(place);
    return;
  }
  fill(
    place,
    h(
      "details.callout.is-held",
      h("summary", `${number(list.length)} could not be read; ingestd fsck says more`),
      h(
        "ul",
        list.slice(0, 20).map(({ path, why }) => h("li", h("code", path), " ", why)),
      ),
    ),
  );
}

/** Names and values. Empty values are left out. */
export function facts(entries) {
  return h(
    "dl.facts",
    entries
      .filter(([, value]) => value !== undefined && value !== null && value !== "")
      .map(([name, value]) => h("div", h("dt", name), h("dd", value))),
  );
}

/** Whatever an object has, as facts; for what others may have written there. */
export function anything(object) {
  return facts(Object.entries(object ?? {}).map(([name, value]) => [name.replaceAll("_", " "), plain(value)]));
}

function plain(value) {
  if (value === null || value === undefined || value === "") {
    return undefined;
  }
  if (Array.isArray(value) && value.every((item) => typeof item !== "object")) {
    return value.length > 0 ? h("span.text", value.join(", ")) : undefined;
  }
  if (typeof value === "object") {
    return h("code.text", JSON.stringify(value));
  }
  const isDate = typeof value === "string" && /^\d{4}-\d\d-\d\dT[\d:.]+Z$/.test(value);
  return isDate ? when(value) : h("span.text", String(value));
}

/** A part of a page with its heading. */
export function section(title, ...children) {
  return h("section.panel", h("h2", title), children);
}
