// Holds: queues and collections that nothing is taken from, and limits: what only so much is taken of.

import { h, icon } from "../dom.js";
import * as api from "../api.js";
import { ask, field, reasonField, tick } from "../dialogs.js";
import { told } from "../notices.js";
import { number, plural } from "../format.js";
import { PAGE, jobLink, pager, section, table, text, when } from "../table.js";

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
  const done = ({ held, changed, released, warning, still_held: still }, title) => {
    const also = released
      ? ` ${plural(released.batches, "batch", "batches")} and ${plural(released.jobs, "job")} were released.`
      : "";
    told(
      (changed ? `${title} is ${held ? "held" : "open"} now.` : `${title} was ${held ? "held" : "open"} already.`) +
        also,
    );
    if (warning) {
      told(`${title}: ${warning}`, { stays: true });
    }
    if (still?.command) {
      told(
        `${plural(still.batches, "batch", "batches")} and ${plural(still.jobs, "job")} of ${title} stay held. To release them: ${still.command}`,
        { stays: true },
      );
    }
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
    limits(view),
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

const KINDS = ["collection", "host", "profile", "name"];

function limits(view) {
  const all = table({
    caption: "Limits over all nodes",
    keyOf: ({ kind, name }) => `${kind} ${name}`,
    empty: "Nothing is limited.",
    columns: [
      { title: "Limit", cell: ({ kind, name }) => [h("strong.text", name), h("span.tag", kind)] },
      { title: "At a time", cell: ({ limit }) => (limit === undefined ? "no limit" : number(limit)), isNumber: true },
      { title: "Held", cell: ({ held }) => (held === undefined ? "–" : number(held)), isNumber: true },
      { title: "Waiting", cell: ({ waiting }) => (waiting === undefined ? "–" : number(waiting)), isNumber: true },
      {
        title: "Who",
        cell: ({ holders }) =>
          (holders ?? []).flatMap(({ job, node }) => [jobLink(job), " ", h("span.hint", node), " "]),
        isWide: true,
      },
      { title: "From", cell: ({ from }) => text(from) },
      {
        title: "Actions",
        isBare: true,
        cell: ({ kind, name, limit }) =>
          h(
            "button",
            {
              type: "button",
              "aria-label": `Change the limit of ${kind} ${name}`,
              onclick: () => change(kind, name, limit),
            },
            "Change…",
          ),
      },
    ],
  });
  const amount = (limit) =>
    field(
      "At a time",
      h("input", { name: "limit", type: "number", min: "0", max: "10000", value: limit ?? "" }),
      "Over all nodes. Empty: what the configuration says.",
    );
  const set = async (kind, name, limit) => {
    const at = `/limits/${api.part(kind)}/${api.part(name)}`;
    const now = limit === "" ? await api.remove(at) : await api.put(at, { limit: Number(limit) });
    told(
      now.limit === undefined ? `The ${kind} ${name} has no limit.` : `The ${kind} ${name} has a limit of ${now.limit}.`,
    );
    reader.now();
  };
  const change = (kind, name, limit) =>
    ask({
      title: `Limit the ${kind} ${name}`,
      confirm: "Set",
      text: "It holds at once. Whoever works keeps going; a smaller limit is reached when enough of them are done.",
      fields: [amount(limit)],
      act: async ({ limit: wanted }) => set(kind, name, wanted),
    });
  const add = () =>
    ask({
      title: "Set a limit",
      confirm: "Set",
      text: "What waits for a slot stands aside, and others overtake it.",
      fields: [
        field(
          "Kind",
          h("select", { name: "kind" }, ...KINDS.map((kind) => h("option", { value: kind }, kind))),
          "A name is what profiles ask for with semaphores.",
        ),
        field(
          "Name",
          h("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" }),
          "Or default, for all that are not named.",
        ),
        amount(),
      ],
      act: async ({ kind, name, limit }) => set(kind, name.trim(), limit),
    });
  const pages = pager(view);
  const reader = view.reads(
    async (signal) => {
      const after = view.params.get("after");
      const now = await api.get(`/limits${api.query({ after, limit: PAGE })}`, signal);
      const defaults = Object.entries(now.defaults).map(([kind, limit]) => ({ kind, name: "default", limit }));
      all.show([...(after ? [] : defaults), ...now.limits]);
      pages.show({ ...now, shown: now.limits.length });
    },
    { on: ["jobs", "counts"], pause: 2_000 },
  );
  return section(
    "Limits",
    all.element,
    pages.element,
    h("div.actions", h("button", { type: "button", onclick: add }, "Set a limit…")),
  );
}
