// Batches, the newest first, with how far each is.

import { h } from "../dom.js";
import * as api from "../api.js";
import { badge } from "../states.js";
import { batchBar } from "../bars.js";
import { asked, date, filters } from "../filters.js";
import { PAGE, batchLink, pager, table, text, unreadable, when } from "../table.js";

const NAMES = ["text", "state", "collection", "submitter", "newer_than", "older_than", "after"];
const STATES = ["pending", "held", "processing", "reporting", "update-reporting", "completed", "failed", "deleted"];

export function batches(view) {
  const damaged = h("div");
  const list = table({
    caption: "Batches",
    keyOf: ({ bid }) => bid,
    empty:
      view.params.size > 0 ? "No batch matches." : ["No batches yet. ", h("a", { href: "#/submit" }, "Submit one")],
    columns: [
      { title: "Batch", cell: ({ bid }) => batchLink(bid) },
      {
        title: "State",
        cell: ({ state, deleting }) => [badge(state), deleting ? h("span.tag", "is being deleted") : null],
      },
      { title: "Jobs", cell: batchBar, isWide: true },
      {
        title: "Profile",
        cell: ({ profile, collection }) => [text(profile), collection !== profile ? h("span.hint", collection) : null],
      },
      { title: "Submitter", cell: ({ submitter }) => text(submitter) },
      { title: "Changed", cell: ({ last_modified }) => when(last_modified) },
    ],
  });
  const pages = pager(view);
  view.actions.append(h("a.button.primary", { href: "#/submit" }, "Submit…"));
  view.content.append(
    filters(view, [
      { name: "text", label: "Text", type: "search", placeholder: "id, uuid, message, file…" },
      { name: "state", label: "State", values: [["", "any"], ...STATES] },
      { name: "collection", label: "Collection", isMore: true },
      { name: "submitter", label: "Submitter", isMore: true },
      { name: "newer_than", label: "Changed after", type: "date", isMore: true },
      { name: "older_than", label: "Changed before", type: "date", isMore: true },
    ]),
    damaged,
    list.element,
    pages.element,
  );

  let shown = new Set();
  view.reads(
    async (signal) => {
      const values = asked(view, NAMES);
      const wanted = {
        ...values,
        newer_than: date(values.newer_than),
        older_than: date(values.older_than),
        limit: PAGE,
        order: "newest",
      };
      const page = await api.get(`/batches${api.query(wanted)}`, signal);
      shown = new Set(page.batches.map(({ bid }) => bid));
      list.show(page.batches);
      pages.show({ ...page, shown: page.batches.length });
      unreadable(damaged, page.unreadable);
    },
    {
      on: "batches",
      pause: 1_500,
      // The newest come first: on a later page only what is shown can have changed.
      when: ({ changed = [], gone = [], more }) =>
        more > 0 || !view.params.get("after") || [...changed, ...gone].some((bid) => shown.has(bid)),
    },
  );
}
