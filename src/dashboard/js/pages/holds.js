// Holds: queues and collections that nothing is taken from.

import { h, icon } from "../dom.js";
import * as api from "../api.js";
import { ask, field, reasonField, tick } from "../dialogs.js";
import { told } from "../notices.js";
import { plural } from "../format.js";
import { section, table, text, when } from "../table.js";

const QUEUES = { ingest: "Ingest", accessSmall: "Access, small objects", accessLarge: "Access, large objects" };

export function holds(view) {
  const queues = table({
    caption: "Queues",
    keyOf: ({ name }) => name,
    columns: [
      { title: "Queue", cell: ({ name }) => h("strong", QUEUES[name] ?? name) },
      {
        title: "Now",
        cell: ({ hold }) =>
          hold
            ? h("span.state.is-held", icon("held"), "held")
            : h("span.state.is-completed", icon("completed"), "open"),
      },
      { title: "Why", cell: ({ hold }) => text(hold?.why), isWide: true },
      { title: "Who", cell: ({ hold }) => (hold ? [text(hold.who), " ", when(hold.when)] : h("span.none", "–")) },
      {
        title: "Actions",
        isBare: true,
        cell: ({ name, hold }) =>
          hold
            ? h(
                "button",
                {
                  type: "button",
                  "aria-label": `Lift the hold of ${QUEUES[name] ?? name}`,
                  onclick: () => lift("queues", name, QUEUES[name] ?? name),
                },
                "Lift…",
              )
            : h(
                "button",
                {
                  type: "button",
                  "aria-label": `Hold ${QUEUES[name] ?? name}`,
                  onclick: () => hold_("queues", name, QUEUES[name] ?? name),
                },
                "Hold…",
              ),
      },
    ],
  });
  const collections = table({
    caption: "Held collections",
    keyOf: ({ name }) => name,
    empty: "No collection is held.",
    columns: [
      { title: "Collection", cell: ({ name }) => h("strong.text", name) },
      { title: "Why", cell: ({ why }) => text(why), isWide: true },
      { title: "Who", cell: ({ who, when: at }) => [text(who), " ", when(at)] },
      {
        title: "Actions",
        isBare: true,
        cell: ({ name }) =>
          h(
            "button",
            {
              type: "button",
              "aria-label": `Lift the hold of ${name}`,
              onclick: () => lift("collections", name, name),
            },
            "Lift…",
          ),
      },
    ],
  });
  const hold_ = (kind, name, title) =>
    ask({
      title: `Hold ${title}`,
      confirm: "Hold",
      text: "Nothing new is taken from it, on any node, until the hold is lifted. What runs goes on.",
      fields: [reasonField()],
      act: async ({ reason }) =>
        done(await api.put(`/holds/${kind}/${api.part(name)}`, { reason: reason || undefined }), title),
    });
  const lift = (kind, name, title) =>
    ask({
      title: `Lift the hold of ${title}`,
      confirm: "Lift",
      fields:
        kind === "collections"
          ? [
              tick("Also release the batches and jobs that it has stopped", {
                name: "all",
                value: "true",
                checked: true,
              }),
            ]
          : [],
      act: async ({ all }) => done(await api.remove(`/holds/${kind}/${api.part(name)}${api.query({ all })}`), title),
    });
  const add = () =>
    ask({
      title: "Hold a collection",
      confirm: "Hold",
      text: "Its new batches and jobs are put aside until the hold is lifted.",
      fields: [
        field(
          "Collection",
          h("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" }),
          "Its mnemonic, as in its profile.",
        ),
        reasonField(),
      ],
      act: async ({ name, reason }) =>
        done(
          await api.put(`/holds/collections/${api.part(name.trim())}`, { reason: reason || undefined }),
          name.trim(),
        ),
    });
  const done = ({ held, changed, released }, title) => {
    const also = released
      ? ` ${plural(released.batches, "batch", "batches")} and ${plural(released.jobs, "job")} were released.`
      : "";
    told(
      (changed ? `${title} is ${held ? "held" : "open"} now.` : `${title} was ${held ? "held" : "open"} already.`) +
        also,
    );
    if (released?.refused?.length > 0) {
      told(`${plural(released.refused.length, "release")} refused.`);
    }
    reader.now();
  };
  view.content.append(
    section("Queues", queues.element),
    section(
      "Collections",
      collections.element,
      h("div.actions", h("button", { type: "button", onclick: add }, "Hold a collection…")),
    ),
  );
  const reader = view.reads(
    async (signal) => {
      const now = await api.get("/holds", signal);
      queues.show(Object.keys(QUEUES).map((name) => ({ name, hold: now.queues.find((queue) => queue.name === name) })));
      collections.show(now.collections);
    },
    { on: "holds", pause: 300 },
  );
}
