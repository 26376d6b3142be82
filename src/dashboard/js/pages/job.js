// One job: where it is, how it came there, what is known of it, and what can be done.

import { h, fill, keyed } from "../dom.js";
import * as api from "../api.js";
import { bytes } from "../format.js";
import { badge, kindOf } from "../states.js";
import { jobActions } from "../actions.js";
import { anything, batchLink, facts, section, text, when } from "../table.js";

export function job(view) {
  const { app, id } = view;
  const path = `/jobs/${api.part(id)}`;
  const about = h("div");
  const history = h("ol.history");
  const details = h("div.columns");
  view.title.replaceChildren("Job ", h("span.id", id));
  view.content.append(about, section("History", history), details);

  view.reads(
    async (signal) => {
      const [one, past, tables] = await Promise.all([
        api.get(path, signal),
        api.get(`${path}/history`, signal),
        app.tables(),
      ]);
      const { status = {}, schedule = {}, lock } = one;
      fill(
        view.actions,
        jobActions(app, one, tables, () => view.again()),
      );
      fill(
        about,
        h(
          "section.panel.lead",
          h("div.headline", badge(one.state), status.message ? text(status.message) : null),
          facts([
            ["Batch", batchLink(one.bid)],
            ["Object", text(one.identifiers?.primary_id)],
            [
              "Local ids",
              one.identifiers?.local_id?.length > 0 ? text(one.identifiers.local_id.join(", ")) : undefined,
            ],
            ["Last successful", status.last_successful_status],
            ["Attempt", status.attempt],
            ["Retries", status.retry_count],
            ["Priority", one.priority],
            ["Space needed", one.space_needed === undefined ? undefined : bytes(one.space_needed)],
            ["Changed", when(status.last_modification_date)],
            ["Not before", schedule.process_date && when(schedule.process_date)],
            ["Not after", schedule.expiration_date && when(schedule.expiration_date)],
            ["Crashed its worker", schedule.timeout_count > 0 ? `${schedule.timeout_count} times` : undefined],
            ["Worked on by", lock && h("span", lock.node, " since ", when(lock.since))],
          ]),
          one.state === "failed" && status.recoverable === false
            ? h(
                "p.callout.is-held",
                "It cannot be requeued: the payload is not what was announced. It has to be submitted again.",
              )
            : null,
        ),
      );
      keyed(history, [...past.history].reverse(), ({ at, to, commit }) => `${at} ${to} ${commit ?? ""}`, entry);
      fill(
        details,
        [
          ["Configuration", one.configuration],
          ["Identifiers", one.identifiers],
          ["Metadata", one.metadata],
          ["Schedule", one.schedule],
          ["Working directory", one.work],
          ["Inventory", one.inventory],
          ["Lock", one.lock],
        ]
          .filter(([, what]) => what && Object.keys(what).length > 0)
          .map(([title, what]) => section(title, anything(what))),
      );
    },
    { on: "jobs", pause: 700, when: ({ moved, more }) => more > 0 || moved.some(({ jid }) => jid === id) },
  );
}

function entry({ at, from, to, node, attempt, message, who }) {
  return h(
    `li.is-${kindOf(to ?? "deleted")}`,
    h("div.step", from ? h("span.hint", from, " → ") : null, badge(to)),
    h(
      "div",
      message ? text(message) : null,
      h("p.hint", [node, who, attempt === undefined ? null : `attempt ${attempt}`].filter(Boolean).join(" · ")),
    ),
    when(at),
  );
}
