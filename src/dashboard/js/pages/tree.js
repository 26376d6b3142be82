// The supervision tree: every actor with its health, and who was restarted.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { number, plural, moment } from "../format.js";

/** How many children are drawn one by one; of more than these only the sums are. */
const DRAWN = 64;
const WELL = "running";

export function tree(view) {
  const picture = h("div.tree");
  view.content.append(
    h(
      "ul.legend",
      h("li", dot(WELL, 0), "running"),
      h("li", dot("starting", 0), "starting, stopping or stopped"),
      h("li", dot(WELL, 1), "running, and restarted before"),
    ),
    picture,
  );
  const read = view.reads(
    async (signal) => {
      const [root, { restarts }] = await Promise.all([
        api.get("/tree", signal),
        api.get(`/restarts${api.query({ node: view.app.me.node, limit: 200 })}`, signal),
      ]);
      const marks = new Map();
      for (const restart of restarts) {
        const known = marks.get(restart.actor);
        marks.set(restart.actor, { count: (known?.count ?? 0) + 1, last: known?.last ?? restart });
      }
      const open = new Set([...picture.querySelectorAll("details[open]")].map(({ dataset }) => dataset.name));
      const focused = document.activeElement?.closest?.("[data-name]")?.dataset.name;
      fill(picture, h("ul.root", branch(root, marks, open)));
      if (focused) {
        picture
          .querySelector(`[data-name="${CSS.escape(focused)}"] summary, a[data-name="${CSS.escape(focused)}"]`)
          ?.focus();
      }
      // Batches come and go with the jobs; the slow clock of the stream is often enough for them.
    },
    { on: ["restart", "node", "nodes", "beat"], pause: 1_000 },
  );
  view.actions.append(h("button", { type: "button", onclick: () => read.now() }, "Read again"));
}

function branch(actor, marks, open) {
  const children = actor.children ?? [];
  const leaves = children.filter(({ children: below }) => !below || below.length === 0);
  const isCrowd = children.length > 0 && leaves.length === children.length && actor.name !== "root";
  return h(
    "li",
    { data: { name: actor.name } },
    node(actor, marks, children.length),
    isCrowd
      ? crowd(actor, leaves, marks, open)
      : children.length > 0
        ? h(
            "ul",
            children.map((child) => branch(child, marks, open)),
          )
        : null,
  );
}

/** An actor with its name, its state and its restarts. */
function node({ name, status }, marks, below) {
  const mark = marks.get(name);
  return h(
    `div.actor${status === WELL ? ".well" : ".unwell"}`,
    dot(status, mark?.count ?? 0),
    h("span.name", name),
    status === WELL ? h("span.hidden", "running") : h("span.tag", status),
    below > DRAWN ? h("span.hint", number(below)) : null,
    mark
      ? h(
          "a.tag.restarted",
          {
            href: `#/restarts${api.query({ actor: name })}`,
            data: { name: `restarts of ${name}` },
            title: `last ${moment(mark.last.at)}: ${mark.last.reason}`,
          },
          plural(mark.count, "restart"),
        )
      : null,
  );
}

/** Many of one kind, such as the workers of a pool: a dot each, their names below it. */
function crowd({ name, children }, leaves, marks, open) {
  const ill = leaves.filter(({ status }) => status !== WELL);
  const restarted = leaves.filter(({ name: one }) => marks.has(one));
  const words = [
    plural(leaves.length, "actor"),
    ill.length > 0 ? `${number(ill.length)} not running` : "all running",
    restarted.length > 0 ? `${number(restarted.length)} restarted` : null,
  ]
    .filter(Boolean)
    .join(", ");
  const drawn = leaves.length <= DRAWN ? leaves : [...ill, ...restarted].slice(0, DRAWN);
  return h(
    "details.crowd",
    { open: open.has(name), data: { name } },
    h(
      "summary",
      h(
        "span.dots",
        { "aria-hidden": "true" },
        (leaves.length <= DRAWN ? leaves : drawn).map(({ name: one, status }) =>
          dot(status, marks.get(one)?.count ?? 0, one),
        ),
      ),
      h("span.hint", words),
    ),
    h(
      "ul.names",
      drawn.map((leaf) => h("li", node(leaf, marks, 0))),
      children.length > drawn.length ? h("li.hint", `and ${number(children.length - drawn.length)} more`) : null,
    ),
  );
}

function dot(status, restarts, title) {
  const kind = status === WELL ? (restarts > 0 ? "again" : "well") : "unwell";
  const drawing = icon(kind === "unwell" ? "failed" : kind === "again" ? "restarts" : "working");
  return h(`span.dot.${kind}`, title ? { title: `${title}: ${status}` } : {}, drawing);
}
