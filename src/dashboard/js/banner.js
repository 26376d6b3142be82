// The line above everything when what is shown may be old, or the node does not work.

import { h, icon, say } from "./dom.js";
import { moment } from "./format.js";
import * as api from "./api.js";
import { told, failed } from "./notices.js";

export class Banner {
  #app;
  #text = h("p");
  #wait = h("span.wait");
  #button = h("button", { type: "button" });
  #timer = 0;
  #act = null;

  constructor(app) {
    this.#app = app;
    this.#button.addEventListener("click", () => this.#act?.());
    // The text is read out when it changes; the seconds that pass are not.
    this.element = h(
      "div.banner",
      { hidden: true },
      icon("failed"),
      h("div", { role: "status" }, this.#text),
      this.#wait,
      this.#button,
    );
    app.live.addEventListener("state", () => this.#draw());
    app.addEventListener("node", () => this.#draw());
  }

  #draw() {
    clearInterval(this.#timer);
    const { live, node } = this.#app;
    say(this.#wait, "");
    if (live.state === "away" || (live.state === "connecting" && live.problem)) {
      const since = live.heard ? ` What you see is from ${moment(live.heard)}.` : "";
      this.#show("bad", `${live.problem.title}. ${live.problem.detail}${since}`, "Try now", () => live.now());
      this.#countDown();
      this.#timer = setInterval(() => this.#countDown(), 1_000);
    } else if (node && node.session !== "connected") {
      this.#show(
        "bad",
        `The tree is away (the session is ${node.session}): nothing is started and nothing committed until it is back. The node tries by itself.`,
      );
    } else if (node?.mode === "paused") {
      this.#show(
        "calm",
        "This node is paused: it takes no new work.",
        this.#app.may("operator") ? "Resume" : null,
        () => this.#resume(),
      );
    } else if (node?.mode === "draining") {
      this.#show("calm", "This node is draining: it ends when what runs is done.");
    } else {
      this.element.hidden = true;
    }
  }

  #show(manner, text, button, act) {
    this.element.hidden = false;
    this.element.className = `banner is-${manner}`;
    say(this.#text, text);
    this.#button.hidden = !button;
    say(this.#button, button ?? "");
    this.#act = act;
  }

  #countDown() {
    const left = Math.ceil((this.#app.live.retryAt - Date.now()) / 1000);
    say(this.#wait, this.#app.live.state === "away" && left > 0 ? `Next try in ${left} s` : "Trying…");
  }

  async #resume() {
    try {
      await api.post("/node/resume");
      told("The node takes work again.");
    } catch (error) {
      failed(error, "The node was not resumed.");
    }
  }
}
