// What was asked of the nodes by the tree, the newest first, and what came of it.

import { h, icon } from "../dom.js";
import * as api from "../api.js";
import { ask, open } from "../dialogs.js";
import { asked, filters } from "../filters.js";
import { failed, problem, told } from "../notices.js";
import { PAGE, facts, pager, table, text, when } from "../table.js";

/** How much of a result is shown; the API has all of it. */
const SHOWN = 20_000;

export function requests(view) {
  const list = table({
    caption: "Requests",
    keyOf: ({ id }) => id,
    empty: view.params.size > 0 ? "No request matches." : "Nothing is asked of the nodes by the tree.",
    columns: [
      { title: "When", cell: ({ at }) => when(at) },
      { title: "Action", cell: ({ action, id }) => [h("strong", action), h("span.hint", id)] },
      { title: "State", cell: state },
      { title: "What came of it", cell: end },
      { title: "Node", cell: ({ taken_by: by, node }) => text(by ?? node ?? "any") },
      { title: "Who", cell: ({ who, from }) => [text(who), h("span.hint", from)] },
      { title: "Actions", isBare: true, cell: (request) => actions(request, () => reader.now()) },
    ],
  });
  const pages = pager(view);
  view.content.append(
    filters(view, [{ name: "state", label: "State", values: [["", "any"], "waiting", "running", "done"] }]),
    list.element,
    pages.element,
    h("p.hint", "Results stay until they are read, or for a while."),
  );
  const reader = view.reads(
    async (signal) => {
      const wanted = { ...asked(view, ["state", "after"]), limit: PAGE, order: "newest" };
      const page = await api.get(`/requests${api.query(wanted)}`, signal);
      list.show(page.requests);
      pages.show({ ...page, shown: page.requests.length });
    },
    { on: "requests", pause: 1_000 },
  );
}

/** Done and refused are two things. */
function state({ state: now, ok }) {
  const [kind, word] = {
    waiting: ["waiting", "waiting"],
    running: ["working", "running"],
    done: ok === false ? ["failed", "refused"] : ["completed", "done"],
  }[now] ?? ["gone", now];
  return h(`span.state.is-${kind}`, icon(kind), word);
}

function end({ progress, problem: why }) {
  if (!why) {
    return text(progress);
  }
  const parts = (why.problems ?? []).map(({ field, message }) => (field ? `${field}: ${message}` : message));
  return [text(parts.join("\n") || why.detail || why.title), h("span.hint", why.title)];
}

function actions({ id, action, state: now }, again) {
  const path = `/requests/${api.part(id)}`;
  const take = () =>
    ask({
      title: `Take ${action} away`,
      confirm: "Take away",
      danger: true,
      text:
        now === "done"
          ? "Its result goes with it: whoever has put it and not read it yet will not."
          : "It is taken back, and no node does it.",
      act: async () => {
        await api.remove(path);
        told(`${action} was taken away.`);
        again();
      },
    });
  const look = async () => {
    try {
      result(action, await api.get(`${path}/result`));
    } catch (error) {
      failed(error, `The result of ${action} cannot be shown.`);
    }
  };
  const button = (label, title, act) => h("button", { type: "button", "aria-label": title, onclick: act }, label);
  return h(
    "div.actions",
    now === "done" ? button("Result…", `Show the result of ${action} ${id}`, look) : null,
    now === "running" ? null : button("Take away…", `Take ${action} ${id} away`, take),
  );
}

function result(action, { ok, data, problem: why, node, at, attempt, id }) {
  const written = data === undefined || data === null ? "" : JSON.stringify(data, null, 2);
  return open(
    `Result of ${action}`,
    () =>
      h(
        "div",
        h("div.headline", state({ state: "done", ok })),
        why ? h("div.callout.is-failed", icon("failed"), problem(new api.Problem(why.status, why))) : null,
        facts([
          ["Node", text(node)],
          ["At", when(at)],
          ["Attempt", attempt],
        ]),
        written ? h("pre", written.slice(0, SHOWN)) : null,
        written.length > SHOWN ? h("p.hint", `Cut here. All of it: ingestd requests show ${id}`) : null,
      ),
    { wide: true },
  );
}
