// Which page the address names: `#/jobs?state=failed`. Every page can be bookmarked, and Back goes back.

import { h, icon } from "./dom.js";
import { query } from "./api.js";
import { problem } from "./notices.js";
import { Refresher } from "./refresh.js";
import { pages } from "./pages.js";

/** One page while it is shown. What it began ends with it. */
export class View {
  #ended = new AbortController();
  #trouble = h("div.trouble", { role: "alert" });
  #readers = [];
  /** Readers that have not read yet: the page is busy until the last of them has. */
  #unread = 0;

  constructor(app, page, id, params) {
    this.app = app;
    this.page = page;
    /** The last part of the path, of pages about one thing. */
    this.id = id;
    this.params = params;
    this.title = h("h1", { tabindex: "-1" }, page.title);
    this.actions = h("div.actions");
    this.content = h("div.content");
    this.element = h("div.page", h("header.page-head", this.title, this.actions), this.#trouble, this.content);
  }

  get signal() {
    return this.#ended.signal;
  }

  end() {
    this.#ended.abort();
  }

  /** Listens while the page is shown: to the stream, and to what the dashboard knows. */
  on(names, listener) {
    for (const name of [names].flat()) {
      this.app.live.addEventListener(name, listener, { signal: this.signal });
      this.app.addEventListener(name, listener, { signal: this.signal });
    }
  }

  /** Reads now, after `reset`, and when one of the events comes that `when` (if given) finds important. */
  reads(load, { on = [], when = () => true, pause = 1_000 } = {}) {
    let isNew = true;
    const settled = () => {
      this.#unread -= isNew ? 1 : 0;
      isNew = false;
      if (this.#unread === 0) {
        this.content.removeAttribute("aria-busy");
      }
    };
    const reader = new Refresher(
      async () => {
        try {
          await load(this.signal);
          settled();
          this.#trouble.replaceChildren();
        } catch (error) {
          if (error.name !== "AbortError" && !this.signal.aborted) {
            settled();
            this.#trouble.replaceChildren(h("div.callout.is-failed", icon("failed"), problem(error)));
          }
        }
      },
      { pause, signal: this.signal },
    );
    this.#readers.push(reader);
    this.#unread += 1;
    this.content.setAttribute("aria-busy", "true");
    this.on("reset", () => reader.poke());
    this.on(on, (event) => {
      if (when(event.detail)) {
        reader.poke();
      }
    });
    reader.now();
    return reader;
  }

  /** Reads everything again. */
  again() {
    this.#readers.forEach((reader) => reader.now());
  }

  /** The address of this page with other parameters. */
  address(params) {
    const path = location.hash.split("?")[0] || "#/";
    return path + query({ ...Object.fromEntries(this.params), ...params });
  }
}

export class Router {
  #app;
  #shell;
  #view = null;
  #first = true;
  #ended = new AbortController();

  constructor(app, shell) {
    this.#app = app;
    this.#shell = shell;
  }

  start() {
    window.addEventListener("hashchange", () => this.#follow(), { signal: this.#ended.signal });
    this.#follow();
  }

  stop() {
    this.#ended.abort();
    this.#view?.end();
  }

  #follow() {
    const hash = location.hash || "#/";
    if (!hash.startsWith("#/")) {
      return;
    }
    const [path, search] = hash.slice(2).split("?");
    const [name, ...rest] = path.split("/").map(decoded);
    const home = this.#app.may("operator") ? "" : "batches";
    const page = pages.find((candidate) => candidate.name === (name === "" ? home : name));
    this.#view?.end();
    const known = page && (!page.role || this.#app.may(page.role));
    const view = new View(this.#app, known ? page : NOWHERE, rest.join("/"), new URLSearchParams(search));
    this.#view = view;
    view.element.dataset.address = hash;
    view.page.show(view);
    this.#shell.show(view, this.#first);
    this.#first = false;
  }
}

function decoded(text) {
  try {
    return decodeURIComponent(text);
  } catch {
    return text;
  }
}

const NOWHERE = {
  name: "?",
  title: "There is no such page",
  show(view) {
    view.content.append(
      h("p", "Or it needs a role that you do not have. ", h("a", { href: "#/" }, "To the first page")),
    );
  },
};
