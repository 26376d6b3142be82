// Who has changed what, the newest first.

import { h } from "../dom.js";
import * as api from "../api.js";
import { table, text, when } from "../table.js";

export function audit(view) {
  const list = table({
    caption: "Changes",
    keyOf: ({ at, what, who, from }) => `${at} ${who} ${from} ${what}`,
    empty: "Nothing was changed yet.",
    columns: [
      { title: "When", cell: ({ at }) => when(at) },
      { title: "Who", cell: ({ who, role }) => [text(who), h("span.hint", role)] },
      { title: "From", cell: ({ from }) => text(from) },
      {
        title: "What",
        cell: ({ what, details }) => [h("code.text", what), details ? h("code.text.hint", details) : null],
        isWide: true,
      },
      { title: "Answer", cell: ({ status }) => status, isNumber: true },
    ],
  });
  view.content.append(list.element, h("p.hint", "The latest 200."));
  const reader = view.reads(async (signal) => list.show((await api.get("/audit?limit=200", signal)).entries), {
    // Nothing tells of a change that was written down, but what it has changed; and the slow clock of the stream.
    on: ["requests", "holds", "jobs", "batches", "nodes", "node", "access", "beat"],
    pause: 5_000,
  });
  view.actions.append(h("button", { type: "button", onclick: () => reader.now() }, "Read again"));
}
