// What the states of jobs, batches and access items are to somebody who looks: a kind, which has a colour and a shape.

import { h, icon } from "./dom.js";

const KINDS = {
  pending: "waiting",
  held: "held",
  failed: "failed",
  completed: "completed",
  deleted: "gone",
  cleaned: "gone",
};

/** One of waiting, working, held, failed, completed, gone. */
export function kindOf(state) {
  return KINDS[state] ?? "working";
}

/** A state as a word with its sign. */
export function badge(state) {
  const name = state ?? "gone";
  return h(`span.state.is-${state ? kindOf(state) : "gone"}`, icon(state ? kindOf(state) : "gone"), h("span", name));
}

/** The states that a job walks through when all goes well, from the tables of the node. */
export function walk(table) {
  const next = new Map();
  for (const move of table.moves) {
    if (move.why === "success" && move.kind === "state" && move.to.length === 1) {
      for (const from of move.from) {
        next.set(from, next.get(from) ?? move.to[0]);
      }
    }
  }
  const chain = ["pending"];
  while (next.has(chain.at(-1)) && !chain.includes(next.get(chain.at(-1)))) {
    chain.push(next.get(chain.at(-1)));
  }
  return chain;
}

/** Where a failed job may be put, from the same tables. */
export function restarts(table) {
  return table.moves.find((move) => move.why === "requeue" && move.kind === "restart")?.to ?? [];
}
