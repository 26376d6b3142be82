// The frame around every page: the menu, who and where this is, the banner, the messages.

import { h, icon, say } from "./dom.js";
import { number } from "./format.js";
import { noticeRegion } from "./notices.js";
import { pages } from "./pages.js";
import { Banner } from "./banner.js";
import { shortcuts, showShortcuts } from "./shortcuts.js";
import { throttled } from "./refresh.js";

/** Beside this file, wherever that is served. */
const ICON = new URL("../icon.svg", import.meta.url).pathname;
const THEMES = ["auto", "light", "dark"];

export class Shell {
  #app;
  #links = new Map();
  #badges = new Map();
  #mode = h("span.chip");
  #view = null;

  constructor(app, { logOut }) {
    this.#app = app;
    this.main = h("main", { id: "main", tabindex: "-1" });
    const banner = new Banner(app);
    this.menu = this.#menu();
    const opener = h(
      "button.plain.menu-button",
      {
        type: "button",
        "aria-expanded": "false",
        "aria-controls": "menu",
        "aria-label": "Menu",
        onclick: () => this.#open(opener.getAttribute("aria-expanded") !== "true"),
      },
      icon("menu"),
    );
    this.opener = opener;
    this.element = h(
      "div.shell",
      h(
        "header.top",
        opener,
        h("a.brand", { href: "#/" }, h("img", { src: ICON, alt: "", width: 22, height: 22 }), "ingestd"),
        h("span.where", { title: `ingestd ${app.me.version ?? ""}` }, app.me.node ?? ""),
        this.#mode,
        h("span.gap"),
        h("span.who", app.me.name ?? "", h("span.role", app.me.role ?? "")),
        themeButton(),
        h(
          "button.plain",
          {
            type: "button",
            "aria-label": "Keyboard shortcuts",
            title: "Keyboard shortcuts (?)",
            onclick: showShortcuts,
          },
          icon("keys"),
        ),
        app.me.tokens ? h("button", { type: "button", onclick: logOut }, "Log out") : null,
      ),
      h("nav.menu", { id: "menu", "aria-label": "Pages" }, this.menu),
      h("div.body", banner.element, noticeRegion(), this.main),
    );
    const skip = document.querySelector(".skip");
    skip.onclick = (event) => {
      // The address names the page, so the link may not change it.
      event.preventDefault();
      this.main.focus();
    };
    const draw = throttled(() => this.#draw(), 500);
    for (const name of ["counts", "holds", "node"]) {
      app.addEventListener(name, draw);
    }
    shortcuts({ search: () => this.main.querySelector("[type=search]")?.focus(), again: () => this.#view?.again() });
    this.#draw();
  }

  #menu() {
    const items = pages
      .filter((page) => page.menu && (!page.role || this.#app.may(page.role)))
      .map((page) => {
        const badge = h("span.count");
        const link = h("a", { href: `#/${page.name}` }, icon(page.icon), h("span", page.menu), badge);
        this.#links.set(page.name, link);
        this.#badges.set(page.name, badge);
        return h("li", link);
      });
    return h("ul", items);
  }

  #open(open) {
    this.opener.setAttribute("aria-expanded", String(open));
    this.element.classList.toggle("menu-open", open);
  }

  #draw() {
    const { counts, holds, node } = this.#app;
    const held = holds ? holds.queues.length + holds.collections.length : 0;
    this.#badge("failed", counts?.failed ?? 0, "failed jobs");
    this.#badge("holds", held, "holds");
    this.#mode.hidden = !node;
    if (node) {
      say(this.#mode, node.mode);
      this.#mode.className = `chip mode-${node.mode === "running" && node.session === "connected" ? "well" : "not"}`;
    }
  }

  #badge(name, count, what) {
    const badge = this.#badges.get(name);
    if (badge) {
      badge.hidden = count === 0;
      say(badge, number(count));
      badge.title = `${number(count)} ${what}`;
    }
  }

  /** Shows a page. Whoever has followed a link is taken to its heading. */
  show(view, first) {
    this.#view = view;
    this.#open(false);
    const current = view.page.of ?? view.page.name;
    for (const [name, link] of this.#links) {
      if (name === current) {
        link.setAttribute("aria-current", "page");
      } else {
        link.removeAttribute("aria-current");
      }
    }
    this.main.replaceChildren(view.element);
    const named = view.id ? `${view.page.title} ${view.id}` : view.page.title;
    document.title = `${named} · ${this.#app.me.node ?? ""} · ingestd`;
    if (!first) {
      window.scrollTo(0, 0);
      view.title.focus({ preventScroll: true });
    }
  }
}

function themeButton() {
  const button = h("button.plain", { type: "button", id: "theme" });
  const now = () => document.documentElement.dataset.theme ?? "auto";
  const draw = () => {
    const next = THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length];
    button.replaceChildren(icon(now()));
    button.setAttribute("aria-label", `Colours: ${now()}. Change to ${next}`);
    button.title = `Colours: ${now()}`;
  };
  button.addEventListener("click", () => {
    const next = THEMES[(THEMES.indexOf(now()) + 1) % THEMES.length];
    if (next === "auto") {
      delete document.documentElement.dataset.theme;
    } else {
      document.documentElement.dataset.theme = next;
    }
    try {
      localStorage.setItem("ingestd.theme", next);
    } catch {
      // It holds until the page is loaded again.
    }
    draw();
  });
  draw();
  return button;
}
