// Dialogs: what is asked before something is done. They are the browser's own, so that the focus stays inside, Escape
// closes them, and the focus goes back to where it was.

import { h, icon, fill } from "./dom.js";
import { problem } from "./notices.js";

let count = 0;

/** Opens a dialog; `build` is given a function that closes it with a value. Answers that value, or `null`. */
export function open(title, build, { wide = false } = {}) {
  count += 1;
  const id = `dialog-${count}`;
  const from = document.activeElement;
  return new Promise((resolve) => {
    let answer = null;
    const close = (value) => {
      answer = value ?? null;
      dialog.close();
    };
    const dialog = h(
      wide ? "dialog.wide" : "dialog",
      { "aria-labelledby": id },
      h(
        "header",
        h("h2", { id }, title),
        h("button.plain", { type: "button", "aria-label": "Close", onclick: () => close(null) }, icon("close")),
      ),
    );
    dialog.append(build(close));
    dialog.addEventListener("close", () => {
      dialog.remove();
      if (from?.isConnected) {
        from.focus();
      } else {
        document.getElementById("main")?.focus();
      }
      resolve(answer);
    });
    document.body.append(dialog);
    dialog.showModal();
    // To the first thing to fill in; where nothing is asked, not to what cannot be undone.
    dialog.querySelector("input:not([type=checkbox]), select, textarea, footer button")?.focus();
  });
}

/**
 * Asks, and does it: `act` is given the values of the fields. The dialog stays, with the problem in it, if that fails;
 * what was typed is not lost. Answers what `act` answered, or `null` if it was not done.
 */
export function ask({ title, text, fields = [], confirm, danger = false, act }) {
  return open(title, (close) => {
    const wrong = h("div", { role: "alert" });
    const yes = h(danger ? "button.danger" : "button.primary", { type: "submit" }, confirm);
    const no = h("button", { type: "button", onclick: () => close(null) }, "Cancel");
    const form = h(
      "form",
      {
        method: "dialog",
        onsubmit: async (event) => {
          event.preventDefault();
          yes.disabled = true;
          fill(wrong);
          try {
            close((await act(Object.fromEntries(new FormData(form)))) ?? true);
          } catch (error) {
            fill(wrong, h("div.callout.is-failed", icon("failed"), problem(error)));
            yes.disabled = false;
            yes.focus();
          }
        },
      },
      text ? [text].flat().map((paragraph) => (paragraph instanceof Node ? paragraph : h("p", paragraph))) : null,
      fields,
      wrong,
      h("footer", no, yes),
    );
    return form;
  });
}

let fieldCount = 0;

/** A control with its label, and a hint below it. */
export function field(label, control, hint) {
  fieldCount += 1;
  control.id ||= `field-${fieldCount}`;
  const about = hint ? h("p.hint", { id: `${control.id}-hint` }, hint) : null;
  if (about) {
    control.setAttribute("aria-describedby", about.id);
  }
  return h("div.field", h("label", { for: control.id }, label), control, about);
}

/** A box to tick, with its label beside it. */
export function tick(label, attributes) {
  return h("label.tick", h("input", { type: "checkbox", ...attributes }), h("span", label));
}

/** The field for why something is done; it stands in the histories. */
export function reasonField() {
  return field(
    "Reason",
    h("input", { name: "reason", maxlength: 500, autocomplete: "off" }),
    "It is kept with what you do.",
  );
}

/** A list to choose from: values, or pairs of value and text. */
export function choice(name, values, selected = "") {
  return h(
    "select",
    { name },
    values.map((value) => {
      const [key, text] = Array.isArray(value) ? value : [value, value];
      return h("option", { value: key, selected: key === selected }, text);
    }),
  );
}
