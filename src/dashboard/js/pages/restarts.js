// The restart logs of all nodes, the newest first.

import { h, fill } from "../dom.js";
import * as api from "../api.js";
import { duration } from "../format.js";
import { asked, filters } from "../filters.js";
import { PAGE, batchLink, jobLink, table, text, when } from "../table.js";

const NAMES = ["node", "actor", "pool", "job", "batch", "reason"];

export function restarts(view) {
  const list = table({
    caption: "Restarts",
    keyOf: ({ at, node, actor, count }) => `${at} ${node} ${actor} ${count}`,
    empty: view.params.size > 0 ? "No restart matches." : "Nothing was restarted.",
    columns: [
      { title: "When", cell: ({ at }) => when(at) },
      { title: "Actor", cell: ({ actor, node }) => [h("code.text", actor), h("span.hint", node)] },
      { title: "Reason", cell: ({ reason }) => h("span.tag", reason) },
      {
        title: "Message",
        cell: ({ message, location: where }) => [text(message), where ? h("span.hint", where) : null],
        isWide: true,
      },
      { title: "Job", cell: ({ job, batch }) => [jobLink(job), batch ? h("span.hint", batchLink(batch)) : null] },
      { title: "In a row", cell: ({ count }) => count, isNumber: true },
      { title: "Pause", cell: ({ backoff_ms }) => duration(backoff_ms), isNumber: true },
    ],
  });
  const fewer = h("p.hint", { hidden: true }, `The latest ${PAGE} are shown; search to see others.`);
  const missing = h("ul.rows", { hidden: true, "aria-label": "Nodes that could not be asked" });
  view.content.append(
    filters(view, [
      { name: "actor", label: "Actor", type: "search", placeholder: "downloading-" },
      { name: "reason", label: "Reason", values: [["", "any"], "panic", "error", "stall", "killed", "expired"] },
      { name: "node", label: "Node", isMore: true },
      { name: "pool", label: "Pool", isMore: true },
      { name: "job", label: "Job", isMore: true },
      { name: "batch", label: "Batch", isMore: true },
    ]),
    list.element,
    fewer,
    missing,
  );
  view.reads(
    async (signal) => {
      const path = `/restarts${api.query({ ...asked(view, NAMES), limit: PAGE })}`;
      const { restarts: found, missing: silent } = await api.get(path, signal);
      list.show(found);
      fewer.hidden = found.length < PAGE;
      missing.hidden = silent.length === 0;
      fill(
        missing,
        silent.map(({ node, why }) => h("li", `Without the restarts of ${node ?? "the other nodes"}: ${why}`)),
      );
      // Those of other nodes come with what the nodes say of themselves.
    },
    { on: ["restart", "nodes"], pause: 500 },
  );
}
