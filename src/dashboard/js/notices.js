// What people are told: that something was done, and what went wrong.

import { h, icon } from "./dom.js";
import { Problem } from "./api.js";

const done = h("div.notices", { role: "status", "aria-live": "polite" });
const wrong = h("div.notices.wrong", { role: "alert" });
const region = h("section.notice-region", { "aria-label": "Messages" }, wrong, done);

export function noticeRegion() {
  return region;
}

function show(place, notice, time) {
  const button = h(
    "button.plain",
    { type: "button", "aria-label": "Dismiss this message", onclick: () => notice.remove() },
    icon("close"),
  );
  notice.append(button);
  place.append(notice);
  while (place.children.length > 4) {
    place.firstElementChild.remove();
  }
  if (time) {
    setTimeout(() => notice.remove(), time);
  }
}

/** Something was done. What is left to do stays until it is dismissed. */
export function told(text, { stays = false } = {}) {
  const kind = stays ? "held" : "completed";
  show(done, h(`div.notice.is-${kind}`, icon(kind), h("p", text)), stays ? 0 : 8_000);
}

/** People should hear of it: a job that nobody survives, a feed that fails. It stays until it is dismissed. */
export function alerted({ jid, feed, what }) {
  const thing = jid ? h("a", { href: `#/job/${jid}` }, jid) : h("a", { href: "#/feeds" }, feed ?? "Feeds");
  const body = h("div", h("p.what", thing), h("p", what));
  show(wrong, h("div.notice.is-failed", icon("failed"), body));
}

/** Something was not done. It stays until it is dismissed. */
export function failed(error, what) {
  if (error?.name === "AbortError") {
    return;
  }
  const body = h("div", what ? h("p.what", what) : null, problem(error));
  show(wrong, h("div.notice.is-failed", icon("failed"), body));
}

/** A problem as people can read it: what it is, every part of it, and what to do. */
export function problem(error) {
  if (!(error instanceof Problem)) {
    return h("div.problem", h("p", h("strong", "The page has failed")), h("p", String(error?.message ?? error)));
  }
  const parts = error.problems.map(({ field, message }) =>
    h("li", field ? h("code", field) : null, field ? ": " : "", message),
  );
  return h(
    "div.problem",
    h("p", h("strong", error.title)),
    parts.length > 0 ? h("ul", parts) : error.detail ? h("p", error.detail) : null,
    error.advice ? h("p.advice", error.advice) : null,
    error.instance ? h("p.advice", "Instance: ", h("code", error.instance)) : null,
  );
}
