// Keys. Single letters do nothing while something is typed, or a dialog is open, and can be switched off.

import { h } from "./dom.js";
import { open, tick } from "./dialogs.js";
import { pages } from "./pages.js";

const OFF = "ingestd.no-keys";

function isOff() {
  try {
    return localStorage.getItem(OFF) === "1";
  } catch {
    return false;
  }
}

function isTyping(target) {
  return target instanceof Element && target.closest("input, select, textarea, [contenteditable]") !== null;
}

let waiting = false;
let listening = null;

/** Listens to the keys of the whole page. */
export function shortcuts({ search, again }) {
  listening?.abort();
  listening = new AbortController();
  document.addEventListener(
    "keydown",
    (event) => {
      const busy =
        event.ctrlKey ||
        event.metaKey ||
        event.altKey ||
        isTyping(event.target) ||
        document.querySelector("dialog[open]");
      if (busy || (isOff() && event.key !== "?")) {
        return;
      }
      const page = waiting && pages.find((candidate) => candidate.key === event.key);
      waiting = false;
      if (page) {
        location.hash = `#/${page.name}`;
      } else if (event.key === "g") {
        waiting = true;
        return;
      } else if (event.key === "?") {
        showShortcuts();
      } else if (event.key === "/") {
        search();
      } else if (event.key === ".") {
        again();
      } else if (event.key === "c") {
        document.getElementById("theme")?.click();
      } else {
        return;
      }
      event.preventDefault();
    },
    { signal: listening.signal },
  );
}

export function showShortcuts() {
  const row = (keys, what) =>
    h(
      "tr",
      h(
        "td",
        keys.map((key) => h("kbd", key)),
      ),
      h("td", what),
    );
  return open("Keyboard shortcuts", (close) => {
    const box = tick("Shortcuts of single keys", {
      checked: !isOff(),
      onchange: (event) => {
        try {
          localStorage.setItem(OFF, event.target.checked ? "0" : "1");
        } catch {
          // Without storage they stay as they are.
        }
      },
    });
    return h(
      "div",
      h(
        "table.keys",
        h("caption.hidden", "Keys and what they do"),
        h("thead", h("tr", h("th", { scope: "col" }, "Keys"), h("th", { scope: "col" }, "What they do"))),
        h(
          "tbody",
          pages.filter((page) => page.key).map((page) => row(["g", page.key], page.title)),
          row(["/"], "Search in this list"),
          row(["."], "Read this page again"),
          row(["c"], "Change the colours"),
          row(["?"], "This list"),
          row(["Esc"], "Close a dialog"),
        ),
      ),
      box,
      h("footer", h("button.primary", { type: "button", onclick: () => close(null) }, "Close")),
    );
  });
}
