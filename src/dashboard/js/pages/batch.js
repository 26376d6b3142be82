// One batch: how far it is, what was submitted, what its depositor was told, and its jobs.

import { h, fill } from "../dom.js";
import * as api from "../api.js";
import { number, plural } from "../format.js";
import { badge } from "../states.js";
import { batchBar } from "../bars.js";
import { batchActions } from "../actions.js";
import { bulk } from "../bulk.js";
import { failed } from "../notices.js";
import { anything, facts, jobLink, pager, section, table, text, when, PAGE } from "../table.js";

const STATES = [
  ["", "All"],
  ["failed", "Failed"],
  ["held", "Held"],
  ["completed", "Completed"],
];

export function batch(view) {
  const { app, id } = view;
  const path = `/batches/${api.part(id)}`;
  const about = h("div");
  const report = h("div");
  const submission = h("div");
  const jobs = table({
    caption: `Jobs of ${id}`,
    keyOf: ({ jid }) => jid,
    empty: "No jobs here.",
    columns: [
      { title: "Job", cell: ({ jid }) => jobLink(jid) },
      { title: "State", cell: ({ state }) => badge(state) },
      {
        title: "Object",
        cell: ({ primary_id, local_ids }) => [
          text(primary_id),
          local_ids?.length > 0 ? h("span.hint", local_ids.join(", ")) : null,
        ],
      },
      { title: "Message", cell: ({ message }) => text(message), isWide: true },
      { title: "Changed", cell: ({ last_modified }) => when(last_modified) },
    ],
  });
  const pages = pager(view);
  const chosen = view.params.get("state") ?? "";
  const tabs = h(
    "nav.tabs",
    { "aria-label": "Jobs by state" },
    STATES.map(([state, title]) =>
      h("a", { href: view.address({ state, after: "" }), "aria-current": state === chosen ? "true" : null }, title),
    ),
  );
  view.title.replaceChildren("Batch ", h("span.id", id));
  view.content.append(about, report, section("Jobs", tabs, jobs.element, pages.element), submission);

  let known = null;
  const touches = ({ changed = [], gone = [], more }) =>
    more > 0 || changed.includes(known?.bid ?? id) || gone.includes(known?.bid ?? id);
  view.reads(
    async (signal) => {
      const [line, tables] = await Promise.all([api.get(path, signal), app.tables()]);
      known = line;
      const bid = line.bid;
      const requeue =
        app.may("operator") && line.jobs.failed > 0
          ? h(
              "button",
              {
                type: "button",
                onclick: () =>
                  bulk(
                    app,
                    tables,
                    {
                      filter: { states: ["failed"], batch: bid },
                      about: `Requeue the failed jobs of ${bid}`,
                      expected: line.jobs.failed,
                    },
                    () => view.again(),
                  ),
              },
              "Requeue failed…",
            )
          : null;
      fill(
        view.actions,
        batchActions(app, line, tables, () => view.again()),
        requeue,
      );
      fill(
        about,
        h(
          "section.panel.lead",
          h("div.headline", badge(line.state), line.message ? text(line.message) : null),
          batchBar(line),
          line.held_jobs > 0
            ? h(
                "p.callout.is-held",
                `It waits for ${plural(line.held_jobs, "held job")}. `,
                h("a", { href: view.address({ state: "held", after: "" }) }, "Show them"),
              )
            : null,
          facts([
            ["Profile", text(line.profile)],
            ["Collection", text(line.collection)],
            ["Submitter", text(line.submitter)],
            ["UUID", h("code.text", line.uuid ?? "–")],
            ["Changed", when(line.last_modified)],
            ["Worked on by", line.locked_by && h("span", line.locked_by.node, " since ", when(line.locked_by.since))],
          ]),
        ),
      );
      fill(report, line.report ? reportPanel(path, bid, line.report) : null);
      fill(submission, h("details.panel", h("summary", "What was submitted"), anything(line.submission)));
    },
    { on: "batches", when: touches, pause: 1_000 },
  );

  let shown = new Set();
  view.reads(
    async (signal) => {
      const page = await api.get(
        `/jobs${api.query({ batch: known?.bid ?? id, state: chosen, after: view.params.get("after"), limit: PAGE })}`,
        signal,
      );
      shown = new Set(page.jobs.map(({ jid }) => jid));
      jobs.show(page.jobs);
      pages.show({ ...page, shown: page.jobs.length });
    },
    {
      on: ["jobs", "batches"],
      pause: 2_000,
      when: (data) => (data.moved ? data.more > 0 || data.moved.some(({ jid }) => shown.has(jid)) : touches(data)),
    },
  );
}

function reportPanel(path, bid, { number: which, sent, completed, failed: bad, deleted }) {
  const save = (format, type) =>
    h(
      "button",
      {
        type: "button",
        onclick: async () => {
          try {
            await api.download(
              `${path}/report${api.query({ format })}`,
              `${bid}-report.${format === "text" ? "txt" : format || "json"}`,
              type,
            );
          } catch (error) {
            failed(error, "The report was not fetched.");
          }
        },
      },
      format === "" ? "JSON" : format === "csv" ? "CSV" : "Text",
    );
  return section(
    `Report ${which}`,
    h("p", "Sent ", when(sent), ` · ${number(completed)} completed, ${number(bad)} failed, ${number(deleted)} deleted`),
    h(
      "div.actions",
      h("span.hint", "Save it as"),
      save("text", "text/plain"),
      save("csv", "text/csv"),
      save("", "application/json"),
    ),
  );
}
