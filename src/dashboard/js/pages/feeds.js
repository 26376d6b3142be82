// Feeds: where submissions come from by themselves, how far they were consumed, and by whom.

import { h, icon } from "../dom.js";
import * as api from "../api.js";
import { ask, field, reasonField } from "../dialogs.js";
import { told } from "../notices.js";
import { duration, number } from "../format.js";
import { PAGE, pager, section, table, text, when } from "../table.js";

/** Who may consume a feed. */
const POLICIES = { automatic: "automatic: any node", manual: "manual: chosen nodes" };

export function feeds(view) {
  const { app } = view;
  const all = table({
    caption: "Feeds",
    keyOf: ({ name }) => name,
    empty: "There are no feeds: the configuration has none.",
    columns: [
      {
        title: "Feed",
        cell: ({ name, kind, configured }) => [
          h("strong.text", name),
          h("span.tag", kind),
          configured
            ? [
                h("span.hint", configured.place),
                h("span.hint", `${configured.profile}, by ${configured.submitter}`),
                h("span.hint", POLICIES[configured.policy] ?? configured.policy),
              ]
            : h("span.hint", "not in this node's configuration"),
        ],
        isWide: true,
      },
      { title: "Now", cell: state },
      { title: "Node", cell: ({ node, since }) => (node ? [text(node), " ", when(since)] : h("span.none", "–")) },
      {
        title: "Items",
        cell: ({ items, skipped, skipped_items: last = [] }) => [
          number(items),
          skipped > 0 ? h("span.hint", `${number(skipped)} passed over`) : null,
          last.length > 0 ? h("span.hint.text", `${last.at(-1).item}: ${last.at(-1).why}`) : null,
        ],
        isNumber: true,
      },
      {
        title: "Checkpoint",
        cell: ({ last, moved }) => [
          last ? text(last) : h("span.none", "the beginning"),
          moved ? h("span.hint", when(moved)) : null,
        ],
      },
      { title: "Lag", cell: ({ here }) => (here ? duration(here.lag_ms) : h("span.none", "–")), isNumber: true },
      { title: "Actions", isBare: true, cell: (feed) => actions(app, feed, () => reader.now()) },
    ],
  });
  const workers = table({
    caption: "Nodes that consume feeds",
    keyOf: ({ worker }) => worker,
    empty: "No node consumes feeds.",
    columns: [
      { title: "Node", cell: ({ node }) => h("strong.text", node) },
      { title: "Consumes", cell: ({ consumes }) => number(consumes), isNumber: true },
      { title: "Assigned", cell: ({ assigned }) => number(assigned), isNumber: true },
      { title: "Could", cell: ({ offers }) => number(offers), isNumber: true },
      { title: "Worker", cell: ({ worker }) => h("code", worker) },
    ],
  });
  const pages = pager(view);
  view.content.append(section("Feeds", all.element, pages.element), section("Nodes that consume feeds", workers.element));
  const reader = view.reads(
    async (signal) => {
      const wanted = { after: view.params.get("after"), limit: PAGE };
      const now = await api.get(`/feeds${api.query(wanted)}`, signal);
      all.show(now.feeds);
      pages.show({ ...now, shown: now.feeds.length });
      workers.show(now.workers);
    },
    { on: ["nodes", "batches", "beat"], pause: 1_000 },
  );
}

function state({ paused, trouble, node }) {
  if (paused) {
    return [
      h("span.state.is-held", icon("held"), "paused"),
      h("span.hint.text", `by ${paused.who}${paused.why ? `: ${paused.why}` : ""}`),
    ];
  }
  if (trouble) {
    return [h("span.state.is-failed", icon("failed"), "failing"), h("span.hint", trouble)];
  }
  return node
    ? h("span.state.is-completed", icon("completed"), "consumed")
    : h("span.state.is-waiting", icon("waiting"), "waiting");
}

function actions(app, { name, paused, last, node }, again) {
  const button = (label, title, act) =>
    h("button", { type: "button", "aria-label": `${title} ${name}`, onclick: act }, label);
  const path = `/feeds/${api.part(name)}`;
  const done = (words, already) => (answer) => {
    told(`${name} ${answer.changed === false ? already : words}.`);
    again();
  };
  const pause = () =>
    ask({
      title: `Pause ${name}`,
      confirm: "Pause",
      text: "Nothing of it becomes a batch, on any node, until it is resumed.",
      fields: [reasonField()],
      act: async ({ reason }) =>
        done("is paused now", "was paused already")(await api.post(`${path}/pause`, { reason: reason || undefined })),
    });
  const resume = () =>
    ask({
      title: `Resume ${name}`,
      confirm: "Resume",
      text: "It goes on where it stopped.",
      fields: [],
      act: async () => done("goes on", "was not paused")(await api.post(`${path}/resume`, {})),
    });
  const askNow = () =>
    ask({
      title: `Ask ${name} now`,
      confirm: "Ask",
      text: "The node that consumes it asks the source at once.",
      fields: [],
      act: async () => done("is asked now", "is about to be asked already")(await api.post(`${path}/ask`, {})),
    });
  const reset = () =>
    ask({
      title: `Set the checkpoint of ${name}`,
      confirm: "Set",
      text: "What lies behind it comes again. Items whose batches are gone from the tree are submitted again.",
      fields: [
        field(
          "Checkpoint",
          h("input", { name: "last", value: last, autocomplete: "off", spellcheck: "false" }),
          "A date, or one as it stands here; empty: from the beginning.",
        ),
        field(
          "The feed's name",
          h("input", { name: "confirm", required: true, autocomplete: "off", spellcheck: "false" }),
          "Again, because it is meant.",
        ),
      ],
      act: async ({ last: to, confirm }) =>
        done("goes on at its new checkpoint")(
          await api.post(`${path}/reset`, { last: (to ?? "").trim(), confirm: confirm.trim() }),
        ),
    });
  const forget = () =>
    ask({
      title: `Forget ${name}`,
      confirm: "Forget the feed",
      danger: true,
      text: [
        "Its checkpoint goes with it, for good. Its batches stay.",
        "It is refused while a node consumes it: remove it from the configuration of all nodes first.",
      ],
      act: async () => done("is forgotten", "was forgotten already")(await api.remove(path)),
    });
  return h(
    "div.actions",
    paused ? button("Resume…", "Resume", resume) : button("Pause…", "Pause", pause),
    paused ? null : button("Ask…", "Ask", askNow),
    app.may("admin") ? button("Set back…", "Set the checkpoint of", reset) : null,
    app.may("admin") && !node
      ? h("button.danger", { type: "button", "aria-label": `Forget ${name}`, onclick: forget }, "Forget…")
      : null,
  );
}
