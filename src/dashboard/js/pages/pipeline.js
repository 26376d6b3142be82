// The pipeline: how many jobs are in each state and how many come into it, and what is going on.

import { h, svg, icon, say, keyed } from "../dom.js";
import * as api from "../api.js";
import { short, perMinute, number, plural, duration } from "../format.js";
import { kindOf, walk, badge } from "../states.js";
import { throttled } from "../refresh.js";
import { Spark, batchBar, workBar } from "../bars.js";
import { batchLink, jobLink, section, text, when } from "../table.js";
import { nodeActions } from "../node_actions.js";

const PARTS = 20;

/** One state in the picture. */
class Station {
  #count = h("strong.number", "–");
  #rate = h("span.rate");
  #pool = h("span.pool");
  #spark = new Spark(PARTS);

  constructor(state, isLane) {
    this.state = state;
    const link = h(
      "a",
      { href: `#/${state === "failed" ? "failed" : `jobs?state=${encodeURIComponent(state)}`}` },
      h("span.name", icon(kindOf(state)), state),
      this.#count,
      this.#spark.element,
      this.#rate,
      this.#pool,
    );
    this.element = h(`li.station.is-${kindOf(state)}${isLane ? ".lane" : ""}`, { data: { state } }, link);
  }

  draw(count, flow, pool) {
    say(this.#count, count === undefined ? "–" : short(count));
    const rate = flow.rate(this.state);
    say(this.#rate, rate > 0 ? perMinute(rate) : "");
    this.#spark.draw(flow.bars(this.state, PARTS));
    this.element.classList.toggle("moving", rate > 0);
    this.element.classList.toggle("some", count > 0);
    if (pool) {
      say(this.#pool, pool.size === 0 ? "left to other nodes" : `${number(pool.busy)} of ${number(pool.size)} at work`);
    }
  }
}

export function pipeline(view) {
  const { app } = view;
  const picture = h("div.pipeline");
  const working = h("ul.rows");
  const latest = h("ul.rows");
  const reasons = h("ul.rows");
  const restarts = h("ul.rows");
  const sums = h("p.sums");
  let stations = [];
  let node = null;
  let known = null;

  const actions = h("div.actions");
  view.actions.append(actions);
  view.content.append(
    picture,
    sums,
    h(
      "div.columns",
      section("At work on this node", working),
      section("Latest batches", latest),
      section("Why jobs failed", reasons),
      section("Latest restarts", restarts),
    ),
  );

  const draw = throttled(
    () => {
      const busy = new Map();
      for (const { pool } of node?.working ?? []) {
        busy.set(pool, (busy.get(pool) ?? 0) + 1);
      }
      for (const station of stations) {
        const pool = node?.pools?.[station.state];
        station.draw(
          app.counts?.[station.state],
          app.flow,
          pool && { size: pool.size, busy: busy.get(station.state) ?? 0 },
        );
      }
      if (known && app.counts) {
        const all = Object.values(app.counts).reduce((sum, count) => sum + count, 0);
        const { small = 0, large = 0 } = known.access;
        const access = `access: ${number(small)} small, ${number(large)} large`;
        say(sums, `${plural(all, "job")} in the queues · ${plural(known.batches, "batch", "batches")} · ${access}`);
      }
      if (app.flow.isMoving()) {
        // A minute without events has to become a rate of nothing by itself.
        setTimeout(draw, 2_000);
      }
    },
    500,
    view.signal,
  );
  view.on(["counts", "flow"], draw);

  view.reads(async () => {
    const tables = await app.tables();
    const chain = walk(tables.jobs);
    const lanes = ["held", "failed"].filter((state) => tables.jobs.states.includes(state));
    stations = [...chain.map((state) => new Station(state, false)), ...lanes.map((state) => new Station(state, true))];
    const main = h(
      "ol.stations",
      { "aria-label": "States of a job, in their order" },
      stations.slice(0, chain.length).map(({ element }) => element),
    );
    main.style.setProperty("--stations", String(chain.length));
    picture.replaceChildren(
      main,
      branches(tables.jobs, chain),
      h(
        "ul.lanes",
        { "aria-label": "Jobs that wait for somebody" },
        stations.slice(chain.length).map(({ element }) => element),
      ),
    );
    draw();
  });

  view.reads(
    async (signal) => {
      const counts = await api.get("/states/counts", signal);
      app.counts = counts.jobs;
      known = counts;
      draw();
    },
    { on: ["batches", "access"], pause: 2_000 },
  );

  view.reads(
    async (signal) => {
      node = await api.get("/node", signal);
      actions.replaceChildren(...nodeActions(app, node, () => view.again()));
      rows(
        working,
        node.working.slice(0, 8),
        ({ worker }) => worker,
        (work) => [
          h("span.lead", jobLink(work.job ?? ""), h("span.hint", work.worker)),
          workBar(work),
          h("span.end", duration(work.running_ms)),
        ],
        node.working.length > 8 ? `and ${number(node.working.length - 8)} more` : "Nothing: all workers are idle.",
      );
      draw();
      // The comments of the stream are a slow clock: bytes move without any event.
    },
    { on: ["jobs", "node", "beat"], pause: 2_000 },
  );

  view.reads(
    async (signal) => {
      const { batches } = await api.get(`/batches${api.query({ limit: 6, order: "newest" })}`, signal);
      rows(
        latest,
        batches,
        ({ bid }) => bid,
        (batch) => [
          h("span.lead", batchLink(batch.bid), badge(batch.state)),
          batchBar(batch),
          h("span.end", when(batch.last_modified)),
        ],
        "No batches yet.",
      );
    },
    { on: "batches", pause: 2_000 },
  );

  view.reads(
    async (signal) => {
      const { groups } = await api.get("/jobs/reasons", signal);
      rows(
        reasons,
        groups.slice(0, 5),
        ({ reason }) => reason,
        ({ example, count }) => [
          h("a.lead.text", { href: "#/failed" }, example || "no message"),
          h("span.end.number", number(count)),
        ],
        "No job has failed.",
      );
    },
    { on: "counts", pause: 5_000 },
  );

  view.reads(
    async (signal) => {
      const list = (await api.get("/restarts?limit=5", signal)).restarts;
      rows(
        restarts,
        list.slice(0, 5),
        ({ at, node, actor }) => at + node + actor,
        ({ at, actor, reason, message }) => [
          h("span.lead", h("code", actor), h("span.tag", reason)),
          text(message),
          h("span.end", when(at)),
        ],
        "Nothing was restarted.",
      );
    },
    { on: ["restart", "nodes"], pause: 1_000 },
  );
}

/** Short lists, with a word for what is not there or not shown. */
function rows(list, items, keyOf, cells, rest) {
  const lines = items.map((item) => ({ item }));
  const isCut = items.length > 0 && rest.startsWith("and ");
  keyed(
    list,
    items.length === 0 || isCut ? [...lines, { rest }] : lines,
    (line) => (line.rest ? "rest" : keyOf(line.item)),
    (line) => (line.rest ? h("li.empty", line.rest) : h("li", cells(line.item))),
  );
}

/** The ways out of the row of states: to held, and to failed. */
function branches(table, chain) {
  const drawing = svg("svg", {
    class: "branches",
    viewBox: `0 0 ${chain.length * 10} 10`,
    preserveAspectRatio: "none",
    "aria-hidden": "true",
  });
  const targets = { held: 0.25, failed: 0.75 };
  for (const [state, share] of Object.entries(targets)) {
    const from = chain.filter((one) =>
      table.moves.some((move) => move.from.includes(one) && move.to.includes(state) && move.kind === "state"),
    );
    const end = share * chain.length * 10;
    for (const one of from) {
      const x = chain.indexOf(one) * 10 + (state === "held" ? 4 : 6);
      const level = state === "held" ? 3.4 : 6.4;
      drawing.append(
        svg("path", { d: `M${x} 0V${level}H${end}V10`, class: `is-${state}`, "vector-effect": "non-scaling-stroke" }),
      );
    }
  }
  return drawing;
}
