// The form to submit: a file from here, or the address of one.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { field } from "../dialogs.js";
import { problem, told } from "../notices.js";
import { choice } from "../dialogs.js";

const TYPES = [
  ["", "guess it"],
  ["file", "a single file"],
  ["container", "a container (zip, tar)"],
  ["object-manifest", "an object manifest"],
  ["batch-manifest", "a batch manifest"],
  ["container-batch-manifest", "a manifest of containers"],
  ["single-file-batch-manifest", "a manifest of single files"],
];
const DIGESTS = [["", "none"], "sha-256", "sha-512", "sha-1", "md5", "crc32"];

/** The form's names, where they differ from those that a problem speaks of. */
const SAME = {
  payload_url: "url",
  primary_id: "primaryIdentifier",
  local_id: "localIdentifier",
  digest_type: "digestType",
  digest_value: "digestValue",
};

/** What became of a submission: the same as the command line says. */
function became({ known, merged, stale }) {
  if (known) {
    return "was submitted before";
  }
  if (merged) {
    return "waited under the same key, and is submitted anew";
  }
  return stale ? "waits under the same key, and is newer: nothing was changed" : "was submitted";
}

export function submit(view) {
  const { app } = view;
  const input = (name, attributes = {}) =>
    h("input", { name, autocomplete: "off", spellcheck: "false", ...attributes });
  const profile = h("select", { name: "profile", required: true });
  const file = h("input", { type: "file", name: "file" });
  const url = input("url", { type: "url", placeholder: "https://…" });
  const submitter = input("submitter", {
    required: app.may("operator"),
    value: app.may("operator") ? "" : app.me.name,
  });
  const fromFile = field("File", file);
  const fromUrl = field("URL", url, "http, https or file, as the configuration allows.");
  const source = (value, text, isChosen) =>
    h(
      "label.tick",
      h("input", { type: "radio", name: "source", value, checked: isChosen, onchange: choose }),
      h("span", text),
    );
  const wrong = h("div", { role: "alert" });
  const progress = h("progress", { max: 1, value: 0, hidden: true, "aria-label": "Sent so far" });
  const send = h("button.primary", { type: "submit" }, "Submit");

  const form = h(
    "form.panel.submit",
    { novalidate: true, onsubmit: deposit },
    h(
      "fieldset",
      h("legend", "What"),
      h("div.ticks", source("file", "A file from here", true), source("url", "An address", false)),
      fromFile,
      fromUrl,
      field("It is", choice("type", TYPES)),
    ),
    h(
      "fieldset",
      h("legend", "For whom"),
      field("Profile", profile),
      field("Submitter", submitter),
      field("Notify", input("notification"), "Mail addresses, apart by commas."),
    ),
    h(
      "details",
      h("summary", "Describe it"),
      h(
        "div.grid",
        field("Title", input("title")),
        field("Creator", input("creator")),
        field("Date", input("date")),
        field("Primary identifier", input("primaryIdentifier", { placeholder: "ark:/…" })),
        field("Local identifiers", input("localIdentifier"), "Apart by semicolons."),
        field("Digest", choice("digestType", DIGESTS)),
        field("Its value", input("digestValue")),
        field("Note", input("note")),
        field("Not before", input("process_date"), "A date: 2026-11-17T04:00:00Z."),
        field("Not after", input("expiration_date"), "If it is not begun by then, it is not begun at all."),
        field("Key", input("key"), "Of submissions with one key, one waits: this becomes part of it."),
        app.may("operator") ? field("Priority", input("priority"), "0 to 99, or the name of a class.") : null,
      ),
    ),
    wrong,
    h("footer.actions", progress, send),
  );
  view.content.append(form);
  choose();

  view.reads(async (signal) => {
    const { profiles } = await api.get("/profiles", signal);
    const chosen = profile.value;
    fill(
      profile,
      profiles.map(({ name, title, hold }) =>
        h(
          "option",
          { value: name, selected: name === chosen },
          `${title ? `${title} (${name})` : name}${hold ? ", held" : ""}`,
        ),
      ),
    );
  });

  function choose() {
    const isFile = form?.elements.source?.value !== "url";
    fromFile.hidden = !isFile;
    fromUrl.hidden = isFile;
  }

  async function deposit(event) {
    event.preventDefault();
    fill(wrong);
    for (const control of form.querySelectorAll("[aria-invalid]")) {
      control.removeAttribute("aria-invalid");
    }
    const isFile = form.elements.source.value === "file";
    if (!form.checkValidity() || (isFile && file.files.length === 0) || (!isFile && !url.value.trim())) {
      const missing =
        isFile && file.files.length === 0
          ? file
          : !isFile && !url.value.trim()
            ? url
            : form.querySelector(":invalid:not(fieldset)");
      missing.setAttribute("aria-invalid", "true");
      fill(
        wrong,
        h(
          "div.callout.is-failed",
          icon("failed"),
          h(
            "p",
            `Something is missing: ${form.querySelector(`label[for="${missing.id}"]`)?.textContent ?? missing.name}.`,
          ),
        ),
      );
      missing.focus();
      return;
    }
    const body = new FormData();
    // The file goes last: everything that is wrong can be told before it is sent.
    for (const [name, value] of new FormData(form)) {
      if (typeof value === "string" && value.trim() && name !== "source" && !(isFile && name === "url")) {
        body.append(name, value.trim());
      }
    }
    if (isFile) {
      body.append("file", file.files[0]);
    }
    send.disabled = true;
    progress.hidden = !isFile;
    try {
      const answer = await api.upload("/batches", body, (share) => {
        progress.value = share;
      });
      told(`${answer.bid} ${became(answer)}.`);
      location.hash = `#/batch/${encodeURIComponent(answer.bid)}`;
    } catch (error) {
      fill(wrong, h("div.callout.is-failed", icon("failed"), problem(error)));
      for (const { field: name } of error.problems ?? []) {
        const control = form.elements[SAME[name] ?? name];
        control?.setAttribute?.("aria-invalid", "true");
        const folded = control?.closest?.("details");
        if (folded) {
          folded.open = true;
        }
      }
      form.querySelector("[aria-invalid]")?.focus();
    }
    send.disabled = false;
    progress.hidden = true;
  }
}
