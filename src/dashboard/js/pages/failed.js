// Why jobs failed: grouped by their reasons, each group to be requeued together, and by its key, so that no other is.

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
        ({ group }) => group,
        (group) => card(group, requeue, left),
      );
    },
    { on: "counts", pause: 3_000 },
  );
}

function card({ group, example, count, jobs }, requeue, left) {
  const filter = { states: ["failed"], group };
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
      h("a.button", { href: `#/jobs${api.query({ state: "failed", group })}` }, "Show them"),
      h(
        "button",
        {
          type: "button",
          "aria-label": `Requeue jobs that failed with: ${example || "no message"}`,
          onclick: () => requeue("Requeue jobs with this reason", filter, left > 0 ? undefined : count),
        },
        "Requeue…",
      ),
    ),
  );
}
