// Why jobs failed: grouped by their messages, each group to be requeued together.

import { h, keyed, say } from "../dom.js";
import * as api from "../api.js";
import { number, plural } from "../format.js";
import { bulk } from "../bulk.js";
import { failed as wrong } from "../notices.js";
import { jobLink } from "../table.js";

export function failed(view) {
  const { app } = view;
  const summary = h("p.summary", { role: "status" });
  const list = h("ol.groups", { "aria-label": "Reasons, the most frequent first" });
  let total = 0;
  const requeue = async (about, filter, expected) => {
    try {
      await bulk(app, await app.tables(), { filter, about, expected }, () => view.again());
    } catch (error) {
      wrong(error);
    }
  };
  const all = h(
    "button.primary",
    { type: "button", hidden: true, onclick: () => requeue("Requeue all failed jobs", { states: ["failed"] }, total) },
    "Requeue all…",
  );
  view.actions.append(all, h("a.button", { href: "#/jobs?state=failed" }, "As a list"));
  view.content.append(summary, list);

  view.reads(
    async (signal) => {
      const { groups, looked_at, left } = await api.get("/jobs/reasons", signal);
      total = looked_at + left;
      all.hidden = total === 0;
      say(
        summary,
        total === 0
          ? "No job has failed."
          : `${plural(total, "job")} failed, for ${plural(groups.length, "reason")}.${left > 0 ? ` The first ${number(looked_at)} were looked at.` : ""}`,
      );
      keyed(
        list,
        groups,
        ({ reason }) => reason,
        (group) => card(group, requeue, left),
      );
    },
    { on: "counts", pause: 3_000 },
  );
}

function card({ reason, example, count, jobs }, requeue, left) {
  const sought = common(reason, example);
  const filter = { states: ["failed"], ...(sought ? { text: sought } : {}) };
  const shown = jobs.slice(0, 20);
  return h(
    "li.group",
    h("div.count", h("strong.number", number(count)), h("span.hint", count === 1 ? "job" : "jobs")),
    h(
      "div.why",
      h("p.text", example || "No message was left."),
      h(
        "details",
        h("summary", shown.length < count ? `The first ${shown.length} of them` : plural(count, "job")),
        h(
          "ul.inline",
          shown.map((jid) => h("li", jobLink(jid))),
        ),
      ),
    ),
    h(
      "div.actions",
      sought ? h("a.button", { href: `#/jobs${api.query({ state: "failed", text: sought })}` }, "Show them") : null,
      sought
        ? h(
            "button",
            {
              type: "button",
              "aria-label": `Requeue jobs that failed with: ${example}`,
              onclick: () => requeue("Requeue jobs with this reason", filter, left > 0 ? undefined : count),
            },
            "Requeue…",
          )
        : null,
    ),
  );
}

/** The longest text that all messages of a group have in common: what stands between the numbers. */
function common(reason, example) {
  const parts = reason
    .split("#")
    .map((part) => part.trim())
    .filter((part) => example.toLowerCase().includes(part.toLowerCase()));
  const longest = parts.reduce((found, part) => (part.length > found.length ? part : found), "");
  // A comma is in every message.
  return longest.length >= 3 ? longest : "";
}
