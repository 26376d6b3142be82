// One thing done to many jobs: first what it would do, with the count, and only then the thing itself.

import { h, fill, icon } from "./dom.js";
import * as api from "./api.js";
import { open, choice, field, reasonField } from "./dialogs.js";
import { CLASSES, priority } from "./filters.js";
import { told, problem } from "./notices.js";
import { number, plural } from "./format.js";
import { badge, restarts } from "./states.js";
import { jobLink } from "./table.js";

const VERBS = {
  requeue: "Requeue",
  hold: "Hold",
  release: "Release",
  delete: "Delete",
  priority: "Change the priority of",
};

/** Asks which action, shows what it would do, does it. `expected` is how many jobs are thought to match. */
export function bulk(app, tables, { filter, action = "requeue", actions = [action], about, expected }, done) {
  return open(
    about,
    (close) => {
      const place = h("div");
      choose(place);
      return place;

      function choose() {
        const state = field(
          "Begin with",
          choice("state", [["", "the state after the last successful one"], ...restarts(tables.jobs)]),
        );
        const wanted = field(
          "Priority",
          h("input", { name: "priority", value: 50, autocomplete: "off" }),
          `0 is first, 99 is last. Or a class: ${CLASSES}.`,
        );
        const which = choice(
          "action",
          actions.map((name) => [name, `${VERBS[name]} them`]),
          action,
        );
        const wrong = h("div", { role: "alert" });
        const next = h("button.primary", { type: "submit" }, "Show what it would do");
        const draw = () => {
          state.hidden = which.value !== "requeue";
          wanted.hidden = which.value !== "priority";
        };
        which.addEventListener("change", draw);
        const form = h(
          "form",
          {
            onsubmit: async (event) => {
              event.preventDefault();
              const values = Object.fromEntries(new FormData(form));
              const asked = {
                action: which.value,
                filter,
                reason: values.reason || undefined,
                state: which.value === "requeue" && values.state ? values.state : undefined,
                priority: which.value === "priority" ? priority(values.priority) : undefined,
              };
              next.disabled = true;
              fill(wrong);
              try {
                confirm(
                  asked,
                  await api.post("/jobs/bulk", { ...asked, dry_run: true, confirm: asked.action === "delete" }),
                );
              } catch (error) {
                fill(wrong, h("div.callout.is-failed", icon("failed"), problem(error)));
                next.disabled = false;
              }
            },
          },
          actions.length > 1 ? field("What", which) : null,
          state,
          wanted,
          reasonField(),
          wrong,
          h("footer", h("button", { type: "button", onclick: () => close(null) }, "Cancel"), next),
        );
        draw();
        fill(place, form);
      }

      function confirm(asked, { what, total, states, examples = [], unreadable = 0 }) {
        const isDelete = asked.action === "delete";
        const wrong = h("div", { role: "alert" });
        const yes = h(
          isDelete ? "button.danger" : "button.primary",
          { type: "button", disabled: total === 0 },
          `${VERBS[asked.action]} ${plural(total, "job")}`,
        );
        yes.addEventListener("click", async () => {
          yes.disabled = true;
          fill(wrong, h("p", "Doing it…"));
          try {
            // To as many as are shown here, or to none.
            const body = { ...asked, dry_run: false, confirm: isDelete, expected: total };
            result(asked, await api.post("/jobs/bulk", body));
          } catch (error) {
            fill(wrong, h("div.callout.is-failed", icon("failed"), problem(error)));
            yes.disabled = false;
          }
        });
        const differs =
          expected !== undefined && expected !== total
            ? h(
                "p.callout.is-held",
                icon("held"),
                `The list showed ${plural(expected, "job")}; ${number(total)} match now.`,
              )
            : null;
        fill(
          place,
          h("p.big", total === 0 ? "No job matches." : [h("strong", plural(total, "job")), " would be changed."]),
          h("p.hint", what),
          differs,
          h(
            "ul.inline",
            Object.entries(states ?? {}).map(([state, count]) => h("li", badge(state), " ", number(count))),
          ),
          examples.length > 0
            ? h(
                "details",
                h("summary", "Examples"),
                h(
                  "ul",
                  examples.map((job) => h("li", jobLink(job.jid), " ", job.message)),
                ),
              )
            : null,
          unreadable > 0
            ? h("p.callout.is-held", `${plural(unreadable, "job")} cannot be read, and stay as they are: ingestd fsck.`)
            : null,
          isDelete
            ? h(
                "p.callout.is-failed",
                icon("failed"),
                "They are removed for good, and the depositors will not be told.",
              )
            : null,
          wrong,
          h("footer", h("button", { type: "button", onclick: choose }, "Back"), yes),
        );
        (total === 0 ? place.querySelector("footer button") : yes).focus();
      }

      function result(asked, { id, total, done: changed, skipped, gone, refused, unreadable, refusals = [], stopped }) {
        told(`${plural(changed, "job")} of ${number(total)} changed.`);
        done();
        const counts = [
          ["changed", changed],
          ["already so", skipped],
          ["gone meanwhile", gone],
          ["refused", refused],
          ["not readable", unreadable],
        ];
        const end = h("button.primary", { type: "button", onclick: () => close(true) }, "Close");
        const again = stopped
          ? h(
              "button.primary",
              {
                type: "button",
                onclick: async () => {
                  again.disabled = true;
                  try {
                    result(
                      asked,
                      await api.post("/jobs/bulk", {
                        ...asked,
                        dry_run: false,
                        confirm: asked.action === "delete",
                        id,
                      }),
                    );
                  } catch (error) {
                    fill(wrong, h("div.callout.is-failed", icon("failed"), problem(error)));
                    again.disabled = false;
                  }
                },
              },
              "Go on",
            )
          : null;
        const wrong = h(
          "div",
          { role: "alert" },
          stopped ? h("p.callout.is-failed", icon("failed"), `It was stopped: ${stopped}`) : null,
        );
        fill(
          place,
          h("p.big", h("strong", plural(changed, "job")), ` of ${number(total)} changed.`),
          h(
            "ul.inline",
            counts.filter(([, count]) => count > 0).map(([name, count]) => h("li", `${number(count)} ${name}`)),
          ),
          refusals.length > 0
            ? h(
                "details",
                { open: true },
                h("summary", "Refused"),
                h(
                  "ul",
                  refusals.map(({ jid, why }) => h("li", jobLink(jid), " ", why)),
                ),
              )
            : null,
          wrong,
          h("footer", again, end),
        );
        end.focus();
      }
    },
    { wide: true },
  );
}
