// The stream of events. It is read with fetch and not with EventSource, which cannot send a token.
//
// A stream that breaks is opened again, after pauses that double up to half a minute; where it broke is told to the
// node, which goes on from there or says `reset`. A stream that says nothing for longer than the node's own comments
// take is a broken one.
//
// A browser has six connections to a node, for all its tabs: a tab that nobody has looked at for a minute, or that was
// left, gives its own back, and goes on when it is looked at again.

import { headers, problemOf, Problem } from "./api.js";

const FIRST_PAUSE = 500;
const LONGEST_PAUSE = 30_000;
/** The node comments every fifteen seconds. */
const SILENCE = 40_000;
const UNSEEN = 60_000;

export class Live extends EventTarget {
  /** off, connecting, live, resting or away. */
  state = "off";
  /** When the next try is made, if it is away. */
  retryAt = 0;
  /** Why it is away. */
  problem = null;
  /** When something was heard last. */
  heard = null;

  #lastId = "";
  #pause = FIRST_PAUSE;
  #stop = null;
  #timer = 0;
  #wanted = false;
  #unseen = 0;
  #listening = null;

  start() {
    if (this.#wanted) {
      return;
    }
    this.#wanted = true;
    this.#listening = new AbortController();
    const { signal } = this.#listening;
    window.addEventListener("online", () => this.now(), { signal });
    window.addEventListener("pagehide", () => this.#rest(), { signal });
    window.addEventListener("pageshow", () => this.#wake(), { signal });
    document.addEventListener(
      "visibilitychange",
      () => {
        clearTimeout(this.#unseen);
        if (document.hidden) {
          this.#unseen = setTimeout(() => this.#rest(), UNSEEN);
        } else {
          this.#wake();
        }
      },
      { signal },
    );
    this.#open();
  }

  #rest() {
    clearTimeout(this.#timer);
    this.#become("resting");
    this.#stop?.abort();
  }

  #wake() {
    if (this.state === "resting") {
      this.#open();
    }
  }

  /** Tries at once, if it is away. */
  now() {
    if (this.#wanted && this.state === "away") {
      clearTimeout(this.#timer);
      this.#open();
    }
  }

  stop() {
    this.#wanted = false;
    this.#listening?.abort();
    clearTimeout(this.#timer);
    clearTimeout(this.#unseen);
    this.#stop?.abort();
    this.#become("off");
  }

  #become(state) {
    this.state = state;
    this.dispatchEvent(new CustomEvent("state"));
  }

  #tell(name, data) {
    this.dispatchEvent(new CustomEvent(name, { detail: data }));
  }

  async #open() {
    this.#become("connecting");
    const stop = new AbortController();
    this.#stop = stop;
    let problem;
    try {
      await this.#read(stop);
      problem = new Problem(0, { title: "The connection is lost", detail: "The node has closed it." });
    } catch (error) {
      problem =
        error instanceof Problem
          ? error
          : new Problem(0, { title: "The connection is lost", detail: "The node does not answer." });
    }
    // Meanwhile it may have been ended, or put to rest and even woken again.
    if (!this.#wanted || this.state === "resting" || this.#stop !== stop) {
      return;
    }
    this.problem = problem;
    if (this.problem.kind === "unauthorized") {
      this.stop();
      document.dispatchEvent(new CustomEvent("ingestd:unauthorized"));
      return;
    }
    // Not all at once, when a node comes back and many were waiting for it.
    const asked = (this.problem.retryAfter ?? 0) * 1000;
    const pause = Math.max(asked, this.#pause * (0.5 + Math.random() / 2));
    this.#pause = Math.min(this.#pause * 2, LONGEST_PAUSE);
    this.retryAt = Date.now() + pause;
    this.#timer = setTimeout(() => this.#open(), pause);
    this.#become("away");
  }

  async #read(stop) {
    const known = this.#lastId ? { "Last-Event-ID": this.#lastId } : {};
    const response = await fetch("/api/v1/events", {
      headers: headers({ Accept: "text/event-stream", ...known }),
      cache: "no-store",
      credentials: "omit",
      signal: stop.signal,
    });
    if (!response.ok) {
      throw await problemOf(response);
    }
    const reader = response.body.pipeThrough(new TextDecoderStream()).getReader();
    let watch = 0;
    const parser = new Parser();
    this.problem = null;
    this.#become("live");
    try {
      for (;;) {
        clearTimeout(watch);
        watch = setTimeout(() => stop.abort(), SILENCE);
        const { value, done } = await reader.read();
        if (done) {
          return;
        }
        this.#pause = FIRST_PAUSE;
        this.heard = new Date();
        for (const event of parser.push(value)) {
          this.#lastId = event.id || this.#lastId;
          this.#tell(event.name, event.data);
        }
      }
    } finally {
      clearTimeout(watch);
      reader.cancel().catch(() => {});
    }
  }
}

/** Server-sent events out of pieces of text. A comment is the event `beat`. */
export class Parser {
  #rest = "";
  #event = { name: "message", id: "", data: [] };

  push(piece) {
    const events = [];
    const lines = (this.#rest + piece).split(/\r\n|\n|\r(?!$)/);
    this.#rest = lines.pop();
    for (const line of lines) {
      if (line === "") {
        this.#end(events);
      } else if (line.startsWith(":")) {
        events.push({ name: "beat", id: "", data: {} });
      } else {
        const at = line.indexOf(":");
        const field = at < 0 ? line : line.slice(0, at);
        const value = at < 0 ? "" : line.slice(at + 1).replace(/^ /, "");
        this.#field(field, value);
      }
    }
    return events;
  }

  #field(field, value) {
    if (field === "event") {
      this.#event.name = value;
    } else if (field === "id") {
      this.#event.id = value;
    } else if (field === "data") {
      this.#event.data.push(value);
    }
  }

  #end(events) {
    const { name, id, data } = this.#event;
    this.#event = { name: "message", id: "", data: [] };
    if (data.length === 0) {
      return;
    }
    try {
      events.push({ name, id, data: JSON.parse(data.join("\n")) });
    } catch {
      // An event that cannot be read may have been about anything.
      events.push({ name: "reset", id, data: { why: "an event could not be read" } });
    }
  }
}
