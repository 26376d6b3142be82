// Pausing, resuming and draining this node.

import { h } from "./dom.js";
import * as api from "./api.js";
import { ask } from "./dialogs.js";
import { told, failed } from "./notices.js";

export function nodeActions(app, node, done) {
  const set = (name, text) => async () => {
    try {
      await api.post(`/node/${name}`);
      told(text);
      done();
    } catch (error) {
      failed(error, `The node could not be asked to ${name}.`);
    }
  };
  const drain = () =>
    ask({
      title: `Drain ${node.node}`,
      confirm: "Drain and end",
      danger: true,
      text: [
        "The node takes nothing new, finishes what runs, and then its process ends.",
        "Other nodes go on with the rest. It has to be started again from outside.",
      ],
      act: async () => {
        await api.post("/node/drain");
        told("The node is draining.");
        done();
      },
    });
  const isEnding = node.mode === "draining";
  return [
    app.may("operator") &&
      node.mode === "paused" &&
      h("button.primary", { type: "button", onclick: set("resume", "The node takes work again.") }, "Resume"),
    app.may("operator") &&
      node.mode !== "paused" &&
      !isEnding &&
      h(
        "button",
        { type: "button", onclick: set("pause", "The node is paused: what runs goes on, nothing new is taken.") },
        "Pause",
      ),
    app.may("admin") && !isEnding && h("button", { type: "button", onclick: drain }, "Drain…"),
  ].filter(Boolean);
}
