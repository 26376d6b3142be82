// Who looks: a token of this node, kept until the tab is closed.

import { h, icon } from "./dom.js";
import { keepToken } from "./api.js";
import { field } from "./dialogs.js";
import { problem } from "./notices.js";

export function loginForm(error, begin) {
  const token = h("input", {
    type: "password",
    name: "token",
    required: true,
    autocomplete: "off",
    spellcheck: "false",
  });
  const form = h(
    "form",
    {
      onsubmit: (event) => {
        event.preventDefault();
        keepToken(token.value.trim());
        begin();
      },
    },
    field("Token", token, "Forgotten when this tab is closed."),
    h("button.primary", { type: "submit" }, "Log in"),
  );
  const main = h(
    "main.alone",
    { id: "main", tabindex: "-1" },
    h("h1", "ingestd"),
    h("p", "This node asks who you are."),
    error ? h("div.callout.is-failed", { role: "alert" }, icon("failed"), problem(error)) : null,
    form,
  );
  queueMicrotask(() => token.focus());
  return main;
}
