// All pages: their place in the address, in the menu, and the role that they need.

import { pipeline } from "./pages/pipeline.js";
import { batches } from "./pages/batches.js";
import { batch } from "./pages/batch.js";
import { jobs } from "./pages/jobs.js";
import { job } from "./pages/job.js";
import { failed } from "./pages/failed.js";
import { feeds } from "./pages/feeds.js";
import { holds } from "./pages/holds.js";
import { nodes } from "./pages/nodes.js";
import { tree } from "./pages/tree.js";
import { restarts } from "./pages/restarts.js";
import { access } from "./pages/access.js";
import { audit } from "./pages/audit.js";
import { requests } from "./pages/requests.js";
import { settings } from "./pages/settings.js";
import { submit } from "./pages/submit.js";

export const pages = [
  { name: "", title: "Pipeline", menu: "Pipeline", icon: "pipeline", key: "p", role: "operator", show: pipeline },
  { name: "batches", title: "Batches", menu: "Batches", icon: "batches", key: "b", show: batches },
  { name: "jobs", title: "Jobs", menu: "Jobs", icon: "jobs", key: "j", show: jobs },
  { name: "failed", title: "Failed jobs", menu: "Failed", icon: "failed", key: "f", role: "operator", show: failed },
  { name: "holds", title: "Holds", menu: "Holds", icon: "hold", key: "h", role: "operator", show: holds },
  { name: "feeds", title: "Feeds", menu: "Feeds", icon: "feeds", key: "e", role: "operator", show: feeds },
  { name: "access", title: "Access", menu: "Access", icon: "access", key: "a", role: "operator", show: access },
  { name: "nodes", title: "Nodes and pools", menu: "Nodes", icon: "nodes", key: "n", role: "operator", show: nodes },
  {
    name: "settings",
    title: "Profiles and settings",
    menu: "Settings",
    icon: "settings",
    key: "c",
    role: "operator",
    show: settings,
  },
  { name: "tree", title: "Supervision", menu: "Supervision", icon: "tree", key: "t", role: "operator", show: tree },
  {
    name: "restarts",
    title: "Restarts",
    menu: "Restarts",
    icon: "restarts",
    key: "r",
    role: "operator",
    show: restarts,
  },
  {
    name: "requests",
    title: "Requests",
    menu: "Requests",
    icon: "requests",
    key: "q",
    role: "operator",
    show: requests,
  },
  { name: "audit", title: "Audit log", menu: "Audit log", icon: "audit", key: "l", role: "admin", show: audit },
  { name: "submit", title: "Submit", menu: "Submit", icon: "submit", key: "s", show: submit },
  { name: "batch", title: "Batch", of: "batches", show: batch },
  { name: "job", title: "Job", of: "jobs", show: job },
];
