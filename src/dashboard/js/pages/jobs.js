// Jobs: searched, in pages, and acted upon together.

import { h, fill } from "../dom.js";
import * as api from "../api.js";
import { badge } from "../states.js";
import { bulk } from "../bulk.js";
import { asked, date, filters, priority } from "../filters.js";
import { PAGE, batchLink, jobLink, pager, table, text, unreadable, when } from "../table.js";
import { failed } from "../notices.js";

const NAMES = [
  "text",
  "state",
  "batch",
  "collection",
  "submitter",
  "min_priority",
  "max_priority",
  "newer_than",
  "older_than",
  "scheduled",
  "group",
];
const STATES = [
  "pending",
  "held",
  "estimating",
  "provisioning",
  "downloading",
  "processing",
  "storing",
  "recording",
  "notify",
  "completed",
  "failed",
];

export function jobs(view) {
  const { app } = view;
  const damaged = h("div");
  const values = asked(view, NAMES);
  const filter = { ...values, newer_than: date(values.newer_than), older_than: date(values.older_than) };
  const isFiltered = Object.values(filter).some(Boolean);
  const list = table({
    caption: "Jobs",
    keyOf: ({ jid }) => jid,
    empty: isFiltered ? "No job matches on this page." : "No jobs.",
    columns: [
      { title: "Job", cell: ({ jid }) => jobLink(jid) },
      { title: "State", cell: ({ state }) => badge(state) },
      { title: "Batch", cell: ({ bid }) => batchLink(bid) },
      { title: "Profile", cell: ({ profile, submitter }) => [text(profile), h("span.hint", submitter)] },
      {
        title: "Message",
        cell: ({ message, local_ids }) => [
          text(message),
          local_ids?.length > 0 ? h("span.hint", local_ids.join(", ")) : null,
        ],
        isWide: true,
      },
      { title: "Priority", cell: ({ priority }) => priority ?? "–", isNumber: true },
      { title: "Not before", cell: ({ process_date }) => (process_date ? when(process_date) : "–") },
      { title: "Changed", cell: ({ last_modified }) => when(last_modified) },
    ],
  });
  const pages = pager(view);
  view.content.append(
    filters(view, [
      { name: "text", label: "Text", type: "search", placeholder: "id, message, URL, ARK…" },
      { name: "state", label: "State", values: [["", "any"], ...STATES] },
      { name: "batch", label: "Batch", placeholder: "bid…" },
      {
        name: "scheduled",
        label: "Scheduled",
        values: [
          ["", "any"],
          ["true", "waits for its date"],
          ["false", "has no date to wait for"],
        ],
        isMore: true,
      },
      { name: "group", label: "Group of reasons", placeholder: "g1-…", isMore: true },
      { name: "collection", label: "Collection", isMore: true },
      { name: "submitter", label: "Submitter", isMore: true },
      { name: "min_priority", label: "Priority from", placeholder: "0 to 99, or a class", isMore: true },
      { name: "max_priority", label: "Priority to", placeholder: "as 20, or slow", isMore: true },
      { name: "newer_than", label: "Changed after", type: "date", isMore: true },
      { name: "older_than", label: "Changed before", type: "date", isMore: true },
    ]),
    damaged,
    list.element,
    pages.element,
  );
  if (app.may("operator")) {
    fill(
      view.actions,
      isFiltered
        ? h("button", { type: "button", onclick: () => together(view, filter) }, "Act on all that match…")
        : h("span.hint", "Search for some to act on all of them."),
    );
  }

  let shown = new Set();
  let isFull = true;
  view.reads(
    async (signal) => {
      const page = await api.get(
        `/jobs${api.query({ ...filter, after: view.params.get("after"), limit: PAGE, order: "newest" })}`,
        signal,
      );
      shown = new Set(page.jobs.map(({ jid }) => jid));
      isFull = page.jobs.length >= PAGE;
      list.show(page.jobs);
      pages.show({ ...page, shown: page.jobs.length });
      unreadable(damaged, page.unreadable);
    },
    {
      on: "jobs",
      pause: 2_000,
      when: ({ moved, more }) => more > 0 || !isFull || moved.some(({ jid }) => shown.has(jid)),
    },
  );
}

/** The filter of the list as that of a bulk action. */
async function together(view, { state, min_priority, max_priority, scheduled, ...rest }) {
  const some = Object.fromEntries(Object.entries(rest).filter(([, value]) => value));
  const filter = {
    ...some,
    ...(state ? { states: state.split(",") } : {}),
    ...(min_priority ? { min_priority: priority(min_priority) } : {}),
    ...(max_priority ? { max_priority: priority(max_priority) } : {}),
    ...(scheduled ? { scheduled: scheduled === "true" } : {}),
  };
  const actions = ["requeue", "hold", "release", "priority", ...(view.app.may("admin") ? ["delete"] : [])];
  const action = state === "held" ? "release" : state === "failed" || !state ? "requeue" : "hold";
  try {
    await bulk(
      view.app,
      await view.app.tables(),
      { filter, action, actions, about: "Act on all jobs that match" },
      () => view.again(),
    );
  } catch (error) {
    failed(error);
  }
}
