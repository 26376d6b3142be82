// Nodes, and the pools of this one: sizes that can be changed while they work.

import { h, fill } from "../dom.js";
import * as api from "../api.js";
import { duration, number } from "../format.js";
import { ask, field } from "../dialogs.js";
import { told, failed } from "../notices.js";
import { workBar } from "../bars.js";
import { facts, jobLink, section, table, text, when } from "../table.js";
import { nodeActions } from "../node_actions.js";

const WAITING = {
  ready: "ready",
  taken: "taken",
  locked: "locked elsewhere",
  parked: "put aside",
  delayed: "waiting for a retry",
  not_due: "not due",
  busy: "busy",
};

export function nodes(view) {
  const { app } = view;
  const about = h("div");
  const pools = table({
    caption: "Pools of this node",
    keyOf: ({ name }) => name,
    columns: [
      { title: "Pool", cell: ({ name }) => h("strong", name) },
      { title: "Workers", cell: (pool) => resizer(app, pool, () => view.again()) },
      { title: "Alive", cell: ({ live }) => (live === undefined ? "–" : number(live)), isNumber: true },
      { title: "Waiting", cell: ({ waiting }) => waits(waiting), isWide: true },
      { title: "Stalled after", cell: (pool) => stall(app, pool, () => view.again()) },
    ],
  });
  const working = table({
    caption: "At work on this node",
    keyOf: ({ worker }) => worker,
    empty: "All workers are idle.",
    columns: [
      { title: "Worker", cell: ({ worker }) => h("code", worker) },
      { title: "Job", cell: ({ job }) => jobLink(job) },
      { title: "Progress", cell: workBar, isWide: true },
      { title: "For", cell: ({ running_ms }) => duration(running_ms), isNumber: true },
    ],
  });
  const all = table({
    caption: "All nodes",
    keyOf: ({ component }) => component,
    columns: [
      {
        title: "Node",
        cell: ({ node, this: isThis, url }) => [
          isThis || !url ? h("strong", node) : h("a.text", { href: url, rel: "noreferrer" }, node),
          isThis ? h("span.tag", "this one") : null,
        ],
      },
      { title: "State", cell: ({ state }) => h("span", state) },
      { title: "Version", cell: ({ version }) => text(version) },
      {
        title: "Workers",
        cell: ({ pools: sizes }) => number(Object.values(sizes ?? {}).reduce((sum, size) => sum + size, 0)),
        isNumber: true,
      },
      {
        title: "Restarts",
        cell: ({ restarts, last_restart }) => [
          number(restarts),
          last_restart ? h("span.hint", "last ", when(last_restart)) : null,
        ],
        isNumber: true,
      },
      { title: "Leads", cell: ({ leads }) => text((leads ?? []).join(", ")) },
      {
        title: "Profiles and settings",
        cell: ({ profiles, settings, lags }) => [
          h("code.text", `${profiles} · ${settings}`),
          lags ? h("span.tag", "behind the tree") : null,
        ],
      },
      { title: "File system", cell: ({ file_system }) => text(file_system) },
      { title: "Since", cell: ({ since }) => when(since) },
    ],
  });
  const upkeep = table({
    caption: "What one node does for all",
    keyOf: ({ name }) => name,
    columns: [
      { title: "Routine", cell: ({ name }) => h("strong", name) },
      { title: "Removes", cell: ({ about: what }) => text(what), isWide: true },
      { title: "Every", cell: ({ every_ms }) => duration(every_ms), isNumber: true },
      {
        title: "Last run",
        cell: ({ last, running }) =>
          running ? `now, on ${running}` : last ? [when(last.at), " ", text(last.node)] : h("span.none", "never"),
      },
      { title: "Removed", cell: ({ last }) => (last ? number(last.removed) : "–"), isNumber: true },
      { title: "Problem", cell: ({ last }) => text(last?.error) },
      ...(app.may("admin") ? [{ title: "Actions", isBare: true, cell: (routine) => runner(routine) }] : []),
    ],
  });
  const runner = ({ name, about: what }) =>
    h(
      "button",
      {
        type: "button",
        "aria-label": `Run ${name} now`,
        onclick: () =>
          ask({
            title: `Run ${name} now`,
            confirm: "Run",
            text: ["It runs on this node, as it would by itself when its time has come.", `It removes ${what}.`],
            act: async () => {
              const { removed, error } = await api.post(`/upkeep/${api.part(name)}/run`);
              told(error ? `${name} ran, with a problem: ${error}` : `${name} ran: ${number(removed)} removed.`);
              routines.now();
            },
          }),
      },
      "Run…",
    );
  const over = table({
    caption: "Over time, all nodes together",
    keyOf: ({ at }) => at,
    empty: "Nothing was written down yet.",
    columns: [
      { title: "At", cell: ({ at }) => when(at) },
      { title: "Completed", cell: ({ completed }) => number(completed), isNumber: true },
      { title: "Failed", cell: ({ failed: count }) => number(count), isNumber: true },
      {
        title: "Waited",
        cell: ({ waiting }) =>
          Object.entries(waiting)
            .map(([state, count]) => `${number(count)} ${state}`)
            .join(" · ") || h("span.none", "nothing"),
        isWide: true,
      },
    ],
  });
  view.content.append(
    section("All nodes", all.element),
    section("Pools of this node", pools.element),
    section("At work on this node", working.element),
    section("Upkeep", upkeep.element),
    section("Over time", over.element),
    about,
  );

  view.reads(
    async (signal) => {
      const node = await api.get("/node", signal);
      fill(
        view.actions,
        nodeActions(app, node, () => view.again()),
      );
      working.show(node.working);
      fill(
        about,
        section(
          `Node ${node.node}`,
          facts([
            ["Mode", node.mode],
            ["Session", node.session],
            ["Ready", node.ready ? "yes" : "no"],
            ["Component", h("code.text", node.component)],
            ["Version", node.version],
            ["Transitions", number(node.moved)],
            ["Handed over", number(node.handed_over)],
            ["Restarts", number(node.restarts)],
            ["Stalls", number(node.stalls)],
            ["Sessions", number(node.sessions)],
            ["Healed by the sweep", number(node.sweep_healed)],
          ]),
        ),
      );
    },
    { on: ["jobs", "node", "beat"], pause: 2_000 },
  );
  view.reads(async (signal) => pools.show((await api.get("/pools", signal)).pools), {
    on: ["nodes", "counts"],
    pause: 2_000,
  });
  view.reads(async (signal) => all.show((await api.get("/nodes", signal)).nodes), { on: "nodes", pause: 1_000 });
  const routines = view.reads(async (signal) => upkeep.show((await api.get("/upkeep", signal)).routines), {
    on: ["node", "beat"],
    pause: 10_000,
  });
  view.reads(async (signal) => over.show((await api.get("/stats", signal)).lines.slice(-12).reverse()), {
    on: "node",
    pause: 10_000,
  });
}

function waits(waiting) {
  if (!waiting) {
    return h("span.none", "–");
  }
  const some = Object.entries(waiting)
    .filter(([, count]) => count > 0)
    .map(([name, count]) => `${number(count)} ${WAITING[name] ?? name}`);
  return some.length > 0 ? some.join(" · ") : h("span.none", "nothing");
}

/** The size, and how to change it: type or step, then Enter or Set. */
function resizer(app, { name, size }, done) {
  if (!app.may("admin")) {
    return number(size);
  }
  const input = h("input", {
    type: "number",
    min: 0,
    max: 1000,
    required: true,
    value: size,
    "aria-label": `Workers of ${name}`,
  });
  const set = h("button", { type: "submit", hidden: true, "aria-label": `Set the workers of ${name}` }, "Set");
  input.addEventListener("input", () => {
    set.hidden = input.value === String(size);
  });
  return h(
    "form.resizer",
    {
      onsubmit: async (event) => {
        event.preventDefault();
        set.disabled = true;
        try {
          const pool = await api.patch(`/pools/${api.part(name)}`, { size: Number(input.value) });
          told(`${name} has ${pool.size} workers now, until the configuration is read again.`);
          if (pool.warning) {
            told(`${name}: ${pool.warning}`, { stays: true });
          }
          done();
        } catch (error) {
          failed(error, `${name} keeps its size.`);
          input.value = size;
          set.hidden = true;
        }
        set.disabled = false;
        input.focus();
      },
    },
    input,
    set,
  );
}

function stall(app, { name, stall: time }, done) {
  if (!app.may("admin")) {
    return time;
  }
  return h(
    "button.plain.text-button",
    {
      type: "button",
      "aria-label": `Change when a step of ${name} is stalled, now after ${time}`,
      onclick: () =>
        ask({
          title: `Stalls of ${name}`,
          confirm: "Set",
          text: "A step without any progress for so long is stopped, counted and tried again.",
          fields: [
            field(
              "After",
              h("input", { name: "stall", required: true, value: time, autocomplete: "off" }),
              "As 90s, 10m or 1h.",
            ),
          ],
          act: async (values) => {
            const pool = await api.patch(`/pools/${api.part(name)}`, { stall: values.stall.trim() });
            told(`A step of ${name} is stalled after ${pool.stall} now.`);
            done();
          },
        }),
    },
    time,
  );
}
