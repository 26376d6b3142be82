// What can be done to jobs and batches, each with what is asked before.

import { h } from "./dom.js";
import * as api from "./api.js";
import { ask, choice, field, reasonField, tick } from "./dialogs.js";
import { CLASSES, priority } from "./filters.js";
import { plural } from "./format.js";
import { told } from "./notices.js";
import { restarts } from "./states.js";

function force(app, isLocked) {
  return app.may("admin") && isLocked
    ? tick("Take it away from the worker that has it (force)", { name: "force", value: "true" })
    : null;
}

const body = ({ reason, force: isForced }) => ({ reason: reason || undefined, force: isForced === "true" });

function button(text, act, kind = "button") {
  return h(kind, { type: "button", onclick: act }, text);
}

/** The buttons for what a job's state allows (`may`) and the role of whoever looks. */
export function jobActions(app, job, tables, done) {
  const { jid, may = [] } = job;
  const path = `/jobs/${api.part(jid)}`;
  const isLocked = Boolean(job.lock ?? job.locked_by);
  const simple = (name, title, confirm, text) => () =>
    ask({
      title,
      text,
      confirm,
      fields: [reasonField(), force(app, isLocked)],
      act: async (values) => {
        const { state } = await api.post(`${path}/${name}`, body(values));
        told(`${jid} is ${state} now.`);
        done();
      },
    });
  const requeue = () =>
    ask({
      title: `Requeue ${jid}`,
      confirm: "Requeue",
      text: "It is tried again, and its retry count goes up.",
      fields: [
        field(
          "Begin with",
          choice("state", [["", "the state after the last successful one"], ...restarts(tables.jobs)]),
        ),
        reasonField(),
        force(app, isLocked),
      ],
      act: async (values) => {
        const { state } = await api.post(`${path}/requeue`, { ...body(values), state: values.state || undefined });
        told(`${jid} is ${state} now.`);
        done();
      },
    });
  const prioritise = () =>
    ask({
      title: `Priority of ${jid}`,
      confirm: "Set the priority",
      fields: [
        field(
          "Priority",
          h("input", { name: "priority", required: true, value: job.priority ?? 50, autocomplete: "off" }),
          `0 is first, 99 is last. Or a class: ${CLASSES}.`,
        ),
      ],
      act: async (values) => {
        const now = await api.put(`${path}/priority`, { priority: priority(values.priority) });
        told(`${jid} has priority ${now.priority} now.`);
        done();
      },
    });
  const remove = () =>
    ask({
      title: `Delete ${jid}`,
      confirm: "Delete the job",
      danger: true,
      text: "The job is removed from its queue for good. The depositor will not be told about it.",
      fields: [reasonField(), force(app, isLocked)],
      act: async (values) => {
        await api.remove(`${path}${api.query({ confirm: "true", reason: values.reason, force: values.force })}`);
        told(`${jid} was deleted.`);
        done();
      },
    });
  const allowed = (name, role) => may.includes(name) && app.may(role);
  return [
    allowed("requeue", "operator") && button("Requeue…", requeue, "button.primary"),
    allowed("release", "operator") &&
      button(
        "Release…",
        simple("release", `Release ${jid}`, "Release", "It goes on waiting where it was."),
        "button.primary",
      ),
    allowed("hold", "operator") &&
      button(
        "Hold…",
        simple("hold", `Hold ${jid}`, "Hold", "Nobody works on it until it is released. Its batch waits for it."),
      ),
    allowed("priority", "operator") && button("Priority…", prioritise),
    allowed("delete", "admin") && button("Delete…", remove, "button.danger"),
  ].filter(Boolean);
}

/** The same for a batch; which of them its state allows is in the tables. */
export function batchActions(app, batch, tables, done) {
  const { bid, state } = batch;
  const path = `/batches/${api.part(bid)}`;
  const can = (why) =>
    tables.batches.moves.some((move) => move.why === why && move.by === "admin" && move.from.includes(state));
  const simple = (name, title, confirm, text) => () =>
    ask({
      title,
      text,
      confirm,
      fields: [reasonField(), force(app, Boolean(batch.locked_by))],
      act: async (values) => {
        const answer = await api.post(`${path}/${name}`, body(values));
        told(`${bid} is ${answer.state} now.`);
        done();
      },
    });
  const remove = () =>
    ask({
      title: `Delete ${bid}`,
      confirm: "Delete the batch",
      danger: true,
      text: "The batch and all its jobs are removed for good. The depositor will not be told about them.",
      fields: [reasonField(), force(app, Boolean(batch.locked_by))],
      act: async (values) => {
        const answer = await api.remove(
          `${path}${api.query({ confirm: "true", reason: values.reason, force: values.force })}`,
        );
        told(`${bid} was deleted, with ${plural(answer.deleted_jobs, "job")}.`);
        done();
      },
    });
  const operator = app.may("operator");
  return [
    operator &&
      can("release") &&
      button(
        "Release…",
        simple("release", `Release ${bid}`, "Release", "It waits to be expanded again."),
        "button.primary",
      ),
    operator &&
      can("requeue") &&
      button(
        "Update report…",
        simple(
          "update-report",
          `Send ${bid} an update report`,
          "Send the report",
          "The depositor is told how the batch stands now. It is refused while jobs are under way.",
        ),
        "button.primary",
      ),
    operator &&
      can("hold") &&
      button("Hold…", simple("hold", `Hold ${bid}`, "Hold", "No jobs are made of it until it is released.")),
    app.may("admin") && can("delete") && button("Delete…", remove, "button.danger"),
  ].filter(Boolean);
}
