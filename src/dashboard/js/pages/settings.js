// What all nodes share by the tree: profiles and settings; and where this node has its own values from.

import { h, fill, icon } from "../dom.js";
import * as api from "../api.js";
import { ask, field, open } from "../dialogs.js";
import { failed, told } from "../notices.js";
import { facts, section, table, text, when } from "../table.js";

export function settings(view) {
  view.content.append(profiles(view), ...values(view));
}

function button(label, title, act, kind = "button") {
  return h(kind, { type: "button", "aria-label": title, onclick: act }, label);
}

function profiles(view) {
  const { app } = view;
  const list = table({
    caption: "Profiles",
    keyOf: ({ name }) => name,
    empty: "This node has no profiles.",
    columns: [
      { title: "Profile", cell: ({ name, title }) => [h("strong.text", name), title ? h("span.hint", title) : null] },
      { title: "Collection", cell: ({ collection }) => text(collection) },
      {
        title: "From",
        cell: ({ version }) =>
          version === undefined ? "a file of this node" : [h("span", "the tree"), h("span.tag", `version ${version}`)],
      },
      { title: "Priority", cell: ({ priority }) => priority, isNumber: true },
      {
        title: "New batches",
        cell: ({ hold }) =>
          hold
            ? h("span.state.is-held", icon("held"), "are held")
            : h("span.state.is-completed", icon("completed"), "go on"),
      },
      {
        title: "Actions",
        isBare: true,
        cell: ({ name, version }) =>
          version === undefined
            ? null
            : h(
                "div.actions",
                button("Show…", `Show ${name}`, () => show(name)),
                app.may("admin") ? button("Delete…", `Delete ${name}`, () => remove(name), "button.danger") : null,
              ),
      },
    ],
  });
  const show = async (name) => {
    try {
      shown(await api.get(`/profiles/${api.part(name)}`));
    } catch (error) {
      failed(error, `${name} cannot be shown.`);
    }
  };
  const remove = (name) =>
    ask({
      title: `Delete ${name}`,
      confirm: "Delete the profile",
      danger: true,
      text: [
        "It goes from the tree, for all nodes. Jobs that were made with it end with it.",
        "Nothing new is submitted for it, except on nodes that have a file of this name and use it.",
      ],
      act: async () => {
        await api.remove(`/profiles/${api.part(name)}`);
        told(`${name} was deleted from the tree.`);
        reader.now();
      },
    });
  const put = () =>
    ask({
      title: "Put a profile",
      confirm: "Put it",
      text: "It holds for all nodes that take profiles from the tree (profiles.source), in the place of the one of this name.",
      fields: [
        field("Name", h("input", { name: "name", required: true, autocomplete: "off", spellcheck: "false" })),
        field(
          "Text",
          h("textarea", { name: "text", required: true, rows: 10, spellcheck: "false", autocomplete: "off" }),
          "TOML, as in a file. Everything that is wrong is said before anything is changed.",
        ),
      ],
      act: async ({ name, text: written }) => {
        const { changed, version } = await api.put(`/profiles/${api.part(name.trim())}`, { text: written });
        told(changed ? `${name.trim()} was put, version ${version}.` : `${name.trim()} was so already.`);
        reader.now();
      },
    });
  const reader = view.reads(async (signal) => list.show((await api.get("/profiles", signal)).profiles), {
    // Whoever runs another profile says so in the register of the nodes.
    on: ["nodes", "beat"],
    pause: 1_000,
  });
  return section(
    "Profiles",
    list.element,
    app.may("admin") ? h("div.actions", h("button", { type: "button", onclick: put }, "Put a profile…")) : null,
  );
}

function shown({ name, version, digest, who, at, text: written }) {
  return open(
    `Profile ${name}`,
    () =>
      h(
        "div",
        facts([
          ["Version", version],
          ["Put by", text(who)],
          ["At", when(at)],
        ]),
        h("pre", written),
        h("p.hint", "Without passwords. SHA-256 ", h("code", digest)),
      ),
    { wide: true },
  );
}

/** A value as people type it: JSON, or else a text. */
function typed(value) {
  try {
    return JSON.parse(value);
  } catch {
    return value;
  }
}

function values(view) {
  const { app } = view;
  const about = h("div");
  const set = table({
    caption: "Settings of all nodes",
    keyOf: ({ key }) => key,
    empty: "Nothing is set for all nodes: each has its own configuration.",
    columns: [
      { title: "Key", cell: ({ key }) => h("code.text", key) },
      { title: "Value", cell: ({ value }) => h("code.text", JSON.stringify(value)), isWide: true },
      { title: "This node has it from", cell: ({ from }) => text(from) },
      {
        title: "Actions",
        isBare: true,
        cell: ({ key, value }) =>
          app.may("admin")
            ? h(
                "div.actions",
                button("Change…", `Change ${key}`, () => change(key, value)),
                button("Unset…", `Unset ${key}`, () => unset(key)),
              )
            : null,
      },
    ],
  });
  const own = table({
    caption: "Where this node has its values from",
    keyOf: ({ key }) => key,
    empty: "All its values are the defaults.",
    columns: [
      { title: "Key", cell: ({ key }) => h("code.text", key) },
      { title: "From", cell: ({ from }) => text(from), isWide: true },
    ],
  });
  const done = (key, { changed, version }, words) => {
    told(changed ? `${key} ${words}: version ${version} of the settings.` : `${key} was so already.`);
    reader.now();
  };
  const change = (key, value) =>
    ask({
      title: key ? `Change ${key}` : "Set a key",
      confirm: "Set",
      text: "It holds for all nodes, before what the configuration of each says, from the moment that each has read it.",
      fields: [
        key
          ? null
          : field(
              "Key",
              h("input", { name: "key", required: true, autocomplete: "off", spellcheck: "false" }),
              "As in the configuration: pools.downloading.size.",
            ),
        field(
          "Value",
          h("input", {
            name: "value",
            required: true,
            value: value === undefined ? "" : typeof value === "string" ? value : JSON.stringify(value),
            autocomplete: "off",
            spellcheck: "false",
          }),
          'As 4, true, 10m or ["a", "b"].',
        ),
      ],
      act: async (given) => {
        const name = key ?? given.key.trim();
        done(name, await api.patch("/settings", { set: { [name]: typed(given.value.trim()) } }), "is set");
      },
    });
  const unset = (key) =>
    ask({
      title: `Unset ${key}`,
      confirm: "Unset",
      text: "Each node has again what its own configuration says.",
      act: async () => done(key, await api.patch("/settings", { unset: [key] }), "is left to each node"),
    });
  const reader = view.reads(
    async (signal) => {
      const now = await api.get("/settings", signal);
      fill(
        about,
        now.mark === now.applied
          ? null
          : h("p.callout.is-held", icon("held"), "This node does not run them yet, or cannot: its log says why."),
        now.mark === "-"
          ? null
          : facts([
              ["Version", h("code.text", now.mark)],
              ["This node runs", now.applied === "-" ? "none" : h("code.text", now.applied)],
              ["Set by", text(now.who)],
              ["At", when(now.at)],
            ]),
      );
      const { sources } = now;
      // What is as the default is has no source.
      const unsaid = now.mark === now.applied ? "the default, which is the same" : undefined;
      set.show(Object.entries(now.settings).map(([key, value]) => ({ key, value, from: sources[key] ?? unsaid })));
      own.show(Object.entries(sources).map(([key, from]) => ({ key, from })));
    },
    { on: ["nodes", "beat"], pause: 1_000 },
  );
  return [
    section(
      "Settings of all nodes",
      about,
      set.element,
      app.may("admin")
        ? h("div.actions", h("button", { type: "button", onclick: () => change() }, "Set a key…"))
        : null,
    ),
    h("details.panel", h("summary", "Where this node has its values from"), own.element),
  ];
}
