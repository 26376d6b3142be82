// What the whole dashboard knows: who looks, the state tables, and the counts and the node as the events tell them.

import * as api from "./api.js";
import { Live } from "./live.js";
import { Flow } from "./flow.js";
import { alerted } from "./notices.js";
import { walk } from "./states.js";

const ROLES = ["depositor", "operator", "admin"];

export class App extends EventTarget {
  live = new Live();
  flow = new Flow();
  /** Jobs by state; `null` until they are known. */
  counts = null;
  /** mode, session and ready of this node; `null` until they are known. */
  node = null;
  /** Held queues and collections. */
  holds = null;
  #tables = null;

  constructor(me) {
    super();
    this.me = me;
  }

  /** Whether whoever looks has this role, or a higher one. */
  may(role) {
    return ROLES.indexOf(this.me.role) >= ROLES.indexOf(role);
  }

  start() {
    const { live } = this;
    if (!this.may("operator")) {
      // The node tells them of their own batches, and of nothing else.
      live.start();
      return;
    }
    live.addEventListener("reset", () => this.#reset());
    live.addEventListener("counts", ({ detail }) => {
      this.counts = detail.jobs;
      this.#changed("counts");
    });
    live.addEventListener("jobs", ({ detail }) => {
      this.flow.moved(detail.moved ?? []);
      this.#changed("flow");
    });
    live.addEventListener("node", ({ detail }) => {
      this.node = detail;
      this.#changed("node");
    });
    live.addEventListener("holds", () => this.readHolds());
    live.addEventListener("alert", ({ detail }) => alerted(detail));
    live.start();
  }

  stop() {
    this.live.stop();
  }

  /** The state tables of the node: read once. */
  tables() {
    this.#tables ??= api.get("/states").then(
      (tables) => {
        this.flow.follow(walk(tables.jobs));
        return tables;
      },
      (error) => {
        this.#tables = null;
        throw error;
      },
    );
    return this.#tables;
  }

  #reset() {
    this.readHolds();
    this.#quietly(async () => {
      const { jobs } = await api.get("/jobs?limit=1&order=newest");
      this.flow.begin(jobs[0]?.jid);
    });
    this.#quietly(async () => {
      const { mode, session, ready } = await api.get("/node");
      this.node = { mode, session, ready };
      this.#changed("node");
    });
  }

  readHolds() {
    return this.#quietly(async () => {
      this.holds = await api.get("/holds");
      this.#changed("holds");
    });
  }

  /** For what only decorates: the page itself says what cannot be read. */
  async #quietly(work) {
    try {
      await work();
    } catch {
      // The banner tells about the connection.
    }
  }

  #changed(name) {
    this.dispatchEvent(new CustomEvent(name));
  }
}
