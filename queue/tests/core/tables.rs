//! The state tables of the design, written down a second time, as plain text: what the code derives from its
//! own tables is compared with these.

use ingest_queue::dialect::Dialect;

/// A row: from each of these, by this one, to each of these.
#[derive(Debug, Clone, Copy)]
pub(crate) struct Row {
    pub(crate) from: &'static str,
    pub(crate) by: &'static str,
    pub(crate) to: &'static str,
    pub(crate) only: Option<Dialect>,
}

const fn row(from: &'static str, by: &'static str, to: &'static str) -> Row {
    Row { from, by, to, only: None }
}

const fn in_design(from: &'static str, by: &'static str, to: &'static str) -> Row {
    Row { from, by, to, only: Some(Dialect::Design) }
}

const fn in_mrt_zk(from: &'static str, by: &'static str, to: &'static str) -> Row {
    Row { from, by, to, only: Some(Dialect::MrtZk) }
}

pub(crate) const JOB_STATES: &str = "pending held estimating provisioning downloading processing storing \
     recording notify completed failed deleted";
pub(crate) const BATCH_STATES: &str =
    "pending held processing reporting completed failed update-reporting deleted";
pub(crate) const ACCESS_STATES: &str = "pending processing completed failed deleted";

pub(crate) const JOBS: &[Row] = &[
    row("pending", "queue", "held estimating failed"),
    row("pending estimating provisioning", "admin", "held"),
    row("held", "admin", "pending deleted"),
    row("estimating", "worker", "provisioning"),
    row("provisioning", "worker", "downloading failed"),
    row("downloading", "worker", "processing failed"),
    in_design("processing", "worker", "recording failed"),
    in_mrt_zk("processing", "worker", "storing failed"),
    in_mrt_zk("storing", "worker", "recording failed"),
    row("recording", "worker", "notify failed"),
    row("notify", "worker", "completed failed"),
    row("processing recording notify", "queue", "downloading"),
    row("estimating provisioning downloading processing recording notify", "timekeeper", "failed"),
    // Also in the other dialect: a job that was left there has a way out.
    row("storing", "queue", "downloading"),
    row("storing", "timekeeper", "failed"),
    row("pending held estimating provisioning", "timekeeper", "deleted"),
    row("failed", "admin", "estimating provisioning downloading processing recording notify deleted"),
    in_mrt_zk("failed", "admin", "storing"),
    row("completed", "janitor", "cleaned"),
];

pub(crate) const BATCHES: &[Row] = &[
    row("pending", "queue", "processing held failed"),
    row("pending", "admin", "held"),
    row("held", "admin", "pending deleted"),
    row("processing", "queue", "reporting"),
    row("reporting", "worker", "completed failed"),
    row("failed", "admin", "update-reporting deleted"),
    row("update-reporting", "worker", "completed failed"),
    row("completed", "janitor", "deleted"),
    row("pending held", "timekeeper", "failed"),
    // Only if nothing but time was wrong with it.
    row("failed", "janitor", "deleted"),
];

pub(crate) const ACCESS: &[Row] = &[
    row("pending", "queue", "processing"),
    row("processing", "worker", "completed failed"),
    row("failed", "admin", "processing deleted"),
    row("completed", "janitor", "deleted"),
];

/// What success and failure lead to, for whoever works on it.
pub(crate) const JOB_ENDS: &[(&str, Option<Dialect>, &str, &str)] = &[
    ("pending", None, "estimating", "failed"),
    ("estimating", None, "provisioning", "failed"),
    ("provisioning", None, "downloading", "failed"),
    ("downloading", None, "processing", "failed"),
    ("processing", Some(Dialect::Design), "recording", "failed"),
    ("processing", Some(Dialect::MrtZk), "storing", "failed"),
    ("storing", Some(Dialect::MrtZk), "recording", "failed"),
    ("recording", None, "notify", "failed"),
    ("notify", None, "completed", "failed"),
];

/// Where a failed job starts again, after the last state that it has finished.
pub(crate) const RESTARTS: &[(&str, Option<Dialect>, &str)] = &[
    ("", None, "estimating"),
    ("pending", None, "estimating"),
    ("held", None, "estimating"),
    ("estimating", None, "provisioning"),
    ("provisioning", None, "downloading"),
    ("downloading", None, "processing"),
    ("processing", Some(Dialect::Design), "recording"),
    ("processing", Some(Dialect::MrtZk), "storing"),
    ("storing", Some(Dialect::MrtZk), "recording"),
    ("recording", None, "notify"),
    ("completed", None, "estimating"),
    ("failed", None, "estimating"),
];

pub(crate) const DIALECTS: [Dialect; 2] = [Dialect::Design, Dialect::MrtZk];

/// Whether a table has this move.
pub(crate) fn allows(rows: &[Row], from: &str, by: &str, to: &str, dialect: Dialect) -> bool {
    rows.iter().any(|row| {
        row.by == by
            && row.only.is_none_or(|only| only == dialect)
            && row.from.split(' ').any(|one| one == from)
            && row.to.split(' ').any(|one| one == to)
    })
}

/// Who may make this move.
pub(crate) fn who(rows: &[Row], from: &str, to: &str, dialect: Dialect) -> Vec<&'static str> {
    let everybody = ["queue", "worker", "admin", "timekeeper", "janitor"];
    everybody.into_iter().filter(|by| allows(rows, from, by, to, dialect)).collect()
}
