// The form above a list: what it says stands in the address.

import { h, icon } from "./dom.js";
import { query } from "./api.js";
import { choice } from "./dialogs.js";

/**
 * `fields` are `{name, label, values | type, isMore}`; those that are more are folded away unless they say something.
 * A page of the list begins anew when the filter changes.
 */
export function filters(view, fields) {
  const control = ({ name, label, values, type = "text", placeholder }) => {
    const value = view.params.get(name) ?? "";
    const input = values
      ? choice(name, values, value)
      : h("input", { name, type, value, placeholder, autocomplete: "off", spellcheck: "false", maxlength: 200 });
    return h("label", h("span", label), input);
  };
  const [more, main] = [fields.filter((one) => one.isMore), fields.filter((one) => !one.isMore)];
  const isAsked = fields.some(({ name }) => view.params.get(name));
  const form = h(
    "form.filters",
    {
      role: "search",
      "aria-label": "Filter the list",
      onsubmit: (event) => {
        event.preventDefault();
        const values = Object.fromEntries(new FormData(form));
        location.hash = location.hash.split("?")[0] + query(values);
      },
    },
    main.map(control),
    more.length > 0
      ? h(
          "details",
          { open: more.some(({ name }) => view.params.get(name)) },
          h("summary", "More"),
          h("div.more", more.map(control)),
        )
      : null,
    h(
      "div.buttons",
      h("button.primary", { type: "submit" }, "Search"),
      isAsked ? h("a.button", { href: location.hash.split("?")[0] }, icon("close"), "Clear") : null,
    ),
  );
  return form;
}

/** What the address says of these fields. */
export function asked(view, names) {
  return Object.fromEntries(names.map((name) => [name, view.params.get(name) ?? ""]));
}

/** The names that a priority may have, the first one first. */
export const CLASSES = "now, important, new, reset, updates, slow, review, time-allows";

/** A priority as people type it: a number, or the name of a class, which is left to the node. */
export function priority(text) {
  const typed = text.trim();
  return /^\d+$/.test(typed) ? Number(typed) : typed;
}

/** A date as people type it (2026-11-17, or with a time), as the node wants it; anything else is left to the node. */
export function date(text) {
  if (!text) {
    return "";
  }
  const parsed = new Date(text.length <= 10 ? `${text}T00:00` : text);
  return Number.isNaN(parsed.getTime()) ? text : parsed.toISOString();
}
