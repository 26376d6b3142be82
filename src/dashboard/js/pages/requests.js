// What was asked of the nodes by the tree, the newest first, and what came of it.

import { h } from "../dom.js";
import * as api from "../api.js";
import { table, text, when } from "../table.js";

export function requests(view) {
  const forget = async (id) => {
    await api.remove(`/requests/${api.part(id)}`);
    reader.now();
  };
  const list = table({
    caption: "Requests",
    keyOf: ({ id }) => id,
    empty: "Nothing is asked of the nodes by the tree.",
    columns: [
      { title: "When", cell: ({ at }) => when(at) },
      { title: "Action", cell: ({ action, id }) => [text(action), h("span.hint", id)], isWide: true },
      { title: "State", cell: ({ state, progress }) => [text(state), progress ? h("span.hint", progress) : ""] },
      { title: "Node", cell: ({ taken_by: by, node }) => text(by ?? node ?? "any") },
      { title: "Who", cell: ({ who, from }) => [text(who), h("span.hint", from)] },
      {
        title: "Do",
        cell: ({ id, state, action }) =>
          state === "running"
            ? ""
            : h(
                "button",
                { type: "button", onclick: () => forget(id), "aria-label": `Take ${action} ${id} away` },
                "Take away",
              ),
      },
    ],
  });
  view.content.append(list.element, h("p.hint", "Results stay until they are read, or for a while."));
  const reader = view.reads(
    async (signal) => list.show((await api.get("/requests?limit=1000", signal)).requests.reverse()),
    { pause: 2_000 },
  );
  view.actions.append(h("button", { type: "button", onclick: () => reader.now() }, "Read again"));
}
