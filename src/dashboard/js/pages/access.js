// Objects put together for people to fetch: asked for here, listed, tried again.

import { h, keyed } from "../dom.js";
import * as api from "../api.js";
import { bytes } from "../format.js";
import { ask, choice, field } from "../dialogs.js";
import { told, failed } from "../notices.js";
import { badge } from "../states.js";
import { asked, filters } from "../filters.js";
import { PAGE, pager, section, table, text, unreadable, when } from "../table.js";

/** What was asked for in this tab: whoever has the token may fetch it, so only the tab keeps it. */
const ASKED = "ingestd.access";

function remembered() {
  try {
    return JSON.parse(sessionStorage.getItem(ASKED) ?? "[]");
  } catch {
    return [];
  }
}

export function access(view) {
  const { app } = view;
  const mine = h("ul.rows");
  const own = section("Asked for in this tab", mine);
  const damaged = h("div");
  const list = table({
    caption: "Access items",
    keyOf: ({ size, aid }) => `${size} ${aid}`,
    empty: "Nothing is being put together.",
    columns: [
      { title: "Item", cell: ({ aid }) => h("span.id", aid) },
      { title: "State", cell: ({ state }) => badge(state) },
      {
        title: "Object",
        cell: ({ ark, version, message }) => [
          text(ark),
          version === undefined ? null : ` v${version}`,
          message ? h("span.hint", message) : null,
        ],
        isWide: true,
      },
      { title: "Queue", cell: ({ size }) => size },
      { title: "Form", cell: ({ form }) => text(form) },
      { title: "Size", cell: ({ bytes: size }) => (size === undefined ? "–" : bytes(size)), isNumber: true },
      { title: "Ready", cell: (item) => when(item["anticipated-availability-time"]) },
      {
        title: "Actions",
        isBare: true,
        cell: (item) =>
          item.state === "failed"
            ? h(
                "div.actions",
                h(
                  "button",
                  { type: "button", "aria-label": `Requeue ${item.aid}`, onclick: () => requeue(item) },
                  "Requeue",
                ),
                app.may("admin")
                  ? h(
                      "button.danger",
                      { type: "button", "aria-label": `Delete ${item.aid}`, onclick: () => remove(item) },
                      "Delete…",
                    )
                  : null,
              )
            : null,
      },
    ],
  });
  const pages = pager(view);
  const requeue = async ({ size, aid }) => {
    try {
      const { state } = await api.post(`/access/items/${api.part(size)}/${api.part(aid)}/requeue`);
      told(`${aid} is ${state} now.`);
      reader.now();
    } catch (error) {
      failed(error, `${aid} was not requeued.`);
    }
  };
  const remove = ({ size, aid }) =>
    ask({
      title: `Delete ${aid}`,
      confirm: "Delete",
      danger: true,
      text: "Whoever has asked for it will not get it.",
      act: async () => {
        await api.remove(`/access/items/${api.part(size)}/${api.part(aid)}?confirm=true`);
        told(`${aid} was deleted.`);
        reader.now();
      },
    });
  const request = () =>
    ask({
      title: "Ask for an object",
      confirm: "Ask for it",
      fields: [
        field(
          "ARK",
          h("input", { name: "ark", required: true, placeholder: "ark:/…", autocomplete: "off", spellcheck: "false" }),
        ),
        field("Version", h("input", { type: "number", name: "version", min: 1 }), "Empty: the newest."),
        field(
          "As",
          choice("form", [
            ["zip", "a zip file"],
            ["bag", "a bag, in a zip file"],
          ]),
        ),
      ],
      act: async ({ ark, version, form }) => {
        const answer = await api.post("/access", {
          ark: ark.trim(),
          version: version ? Number(version) : undefined,
          form,
        });
        sessionStorage.setItem(ASKED, JSON.stringify([answer, ...remembered()].slice(0, 20)));
        told(`It is being put together: ${bytes(answer.bytes)}.`);
        reader.now();
      },
    });
  // What this tab has asked for may be on any page.
  const itemOf = async ({ aid, size }, items, signal) =>
    items.find((item) => item.aid === aid && item.size === size) ??
    (await api.get(`/access${api.query({ aid, size, limit: 1 })}`, signal)).items[0];
  const draw = async (items, signal) => {
    const known = await Promise.all(
      remembered().map(async (one) => ({ ...one, item: await itemOf(one, items, signal) })),
    );
    own.hidden = known.length === 0;
    keyed(
      mine,
      known,
      ({ token }) => token,
      ({ ark, url, item, aid }) =>
        h(
          "li",
          h("span.lead.text", ark),
          item ? badge(item.state) : h("span.hint", aid),
          item?.state === "completed" && typeof url === "string" && url.startsWith("/api/v1/access/")
            ? h("a.button.primary", { href: url, download: true }, "Fetch it")
            : h("span.hint", "not there yet"),
        ),
    );
  };
  view.actions.append(h("button.primary", { type: "button", onclick: request }, "Ask for an object…"));
  view.content.append(
    own,
    filters(view, [
      { name: "size", label: "Queue", values: [["", "both"], "small", "large"] },
      { name: "state", label: "State", values: [["", "any"], "pending", "processing", "completed", "failed"] },
    ]),
    damaged,
    list.element,
    pages.element,
  );
  const reader = view.reads(
    async (signal) => {
      const wanted = { ...asked(view, ["size", "state", "after"]), limit: PAGE };
      const page = await api.get(`/access${api.query(wanted)}`, signal);
      list.show(page.items);
      pages.show({ ...page, shown: page.items.length });
      unreadable(damaged, page.unreadable);
      await draw(page.items, signal);
    },
    { on: "access", pause: 1_000 },
  );
}
