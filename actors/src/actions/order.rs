//! Orders: an action with its parameters, as they stand in a request.

use ingest_queue::date::Date;
use ingest_queue::ids::{Aid, Bid, Jid};
use ingest_queue::map::AccessSize;
use ingest_queue::reasons::GroupKey;
use ingest_queue::states::JobState;
use serde::{Deserialize, Serialize};
use serde_json::{Map, Value, json};

use super::refused::Refused;
use super::{ACTIONS, Action};

/// What is to be done.
#[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
#[serde(tag = "action", content = "params")]
pub enum Order {
    #[serde(rename = "job.requeue")]
    RequeueJob(RequeueJob),
    #[serde(rename = "job.hold")]
    HoldJob(OnJob),
    #[serde(rename = "job.release")]
    ReleaseJob(OnJob),
    #[serde(rename = "job.priority")]
    JobPriority(JobPriority),
    #[serde(rename = "job.delete")]
    DeleteJob(DeleteJob),
    #[serde(rename = "jobs.bulk")]
    Bulk(Box<BulkJobs>),
    #[serde(rename = "batch.hold")]
    HoldBatch(OnBatch),
    #[serde(rename = "batch.release")]
    ReleaseBatch(OnBatch),
    #[serde(rename = "batch.update-report")]
    UpdateReport(OnBatch),
    #[serde(rename = "batch.delete")]
    DeleteBatch(DeleteBatch),
    #[serde(rename = "queue.hold")]
    HoldQueue(HoldQueue),
    #[serde(rename = "queue.release")]
    ReleaseQueue(ReleaseQueue),
    #[serde(rename = "collection.hold")]
    HoldCollection(HoldCollection),
    #[serde(rename = "collection.release")]
    ReleaseCollection(ReleaseCollection),
    #[serde(rename = "access.requeue")]
    RequeueAccess(RequeueAccess),
    #[serde(rename = "access.delete")]
    DeleteAccess(DeleteAccess),
    #[serde(rename = "fsck")]
    Fsck(Nothing),
    #[serde(rename = "fsck.repair")]
    Repair(Nothing),
    #[serde(rename = "node.pause")]
    Pause(Reason),
    #[serde(rename = "node.resume")]
    Resume(Reason),
    #[serde(rename = "node.drain")]
    Drain(Reason),
    #[serde(rename = "pool.set")]
    SetPool(SetPool),
    #[serde(rename = "profile.put")]
    PutProfile(PutProfile),
    #[serde(rename = "profile.delete")]
    DeleteProfile(DeleteProfile),
    #[serde(rename = "settings.set")]
    SetSettings(SetSettings),
    #[serde(rename = "settings.unset")]
    UnsetSettings(UnsetSettings),
    #[serde(rename = "limit.set")]
    SetLimit(SetLimit),
    #[serde(rename = "limit.clear")]
    ClearLimit(ClearLimit),
    #[serde(rename = "feed.pause")]
    PauseFeed(PauseFeed),
    #[serde(rename = "feed.resume")]
    ResumeFeed(OnFeed),
    #[serde(rename = "feed.ask")]
    AskFeed(OnFeed),
    #[serde(rename = "feed.reset")]
    ResetFeed(ResetFeed),
    #[serde(rename = "feed.forget")]
    ForgetFeed(OnFeed),
    #[serde(rename = "upkeep.run")]
    RunUpkeep(RunUpkeep),
}

macro_rules! params {
    ($($(#[$doc:meta])* $name:ident { $($(#[$field_doc:meta])* $field:ident: $type:ty,)* })+) => {
        $(
            $(#[$doc])*
            #[derive(Debug, Clone, PartialEq, Serialize, Deserialize)]
            #[serde(deny_unknown_fields)]
            pub struct $name { $($(#[$field_doc])* pub $field: $type,)* }
        )+
    };
}

params! {
    Nothing {}
    Reason { #[serde(default)] reason: String, }
    OnJob { jid: Jid, #[serde(default)] reason: String, #[serde(default)] force: bool, }
    RequeueJob {
        jid: Jid,
        /// Where it starts; absent: behind what it has done.
        #[serde(default)] state: Option<JobState>,
        #[serde(default)] reason: String,
        #[serde(default)] force: bool,
    }
    JobPriority {
        jid: Jid,
        /// 0 to 99, or the name of a class.
        #[serde(deserialize_with = "given")] priority: Value,
        #[serde(default)] reason: String,
        #[serde(default)] force: bool,
    }
    DeleteJob {
        jid: Jid,
        #[serde(default)] confirm: bool,
        #[serde(default)] reason: String,
        #[serde(default)] force: bool,
    }
    OnBatch {
        /// Its id, or the uuid that the depositor was given.
        batch: String,
        #[serde(default)] reason: String,
        #[serde(default)] force: bool,
    }
    DeleteBatch {
        batch: String,
        #[serde(default)] confirm: bool,
        #[serde(default)] reason: String,
        #[serde(default)] force: bool,
    }
    HoldQueue { queue: String, #[serde(default)] reason: String, }
    ReleaseQueue { queue: String, }
    HoldCollection { collection: String, #[serde(default)] reason: String, }
    ReleaseCollection {
        collection: String,
        /// Also the jobs and batches that it has stopped.
        #[serde(default)] all: bool,
    }
    RequeueAccess { size: AccessSize, aid: Aid, #[serde(default)] reason: String, }
    DeleteAccess {
        size: AccessSize,
        aid: Aid,
        #[serde(default)] confirm: bool,
        #[serde(default)] reason: String,
    }
    SetPool { pool: String, #[serde(default)] size: Option<usize>, #[serde(default)] stall: Option<String>, }
    PutProfile { name: String, text: String, }
    DeleteProfile { name: String, }
    SetSettings {
        /// `{"pools.downloading.size": 4}`.
        settings: Map<String, Value>,
    }
    UnsetSettings { keys: Vec<String>, }
    SetLimit {
        /// `collection`, `host`, `profile` or `name`.
        kind: String,
        name: String,
        /// Absent: no limit, whatever the files say.
        #[serde(default)] limit: Option<u32>,
    }
    ClearLimit { kind: String, name: String, }
    PauseFeed { feed: String, #[serde(default)] reason: String, }
    OnFeed { feed: String, }
    ResetFeed {
        feed: String,
        /// Empty: from the beginning.
        last: String,
        /// The feed's name again.
        #[serde(default)] confirm: String,
    }
    RunUpkeep { routine: String, }
    BulkJobs {
        action: BulkAction,
        #[serde(default)] state: Option<JobState>,
        #[serde(default)] priority: Option<Value>,
        #[serde(default)] filter: JobFilter,
        #[serde(default)] dry_run: bool,
        #[serde(default)] all: bool,
        /// Only if so many jobs match.
        #[serde(default)] expected: Option<usize>,
        #[serde(default)] confirm: bool,
        #[serde(default)] id: Option<String>,
        #[serde(default)] reason: String,
    }
}

/// What a bulk run does.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(rename_all = "kebab-case")]
pub enum BulkAction {
    Requeue,
    Hold,
    Release,
    Delete,
    Priority,
}

/// A choice of jobs: all that is said must hold.
#[derive(Debug, Clone, PartialEq, Eq, Default, Serialize, Deserialize)]
#[serde(default, deny_unknown_fields)]
pub struct JobFilter {
    pub states: Vec<JobState>,
    pub batch: Option<Bid>,
    pub collection: Option<String>,
    pub submitter: Option<String>,
    pub older_than: Option<Date>,
    pub newer_than: Option<Date>,
    pub text: Option<String>,
    /// Numbers, or names of classes.
    pub min_priority: Option<Value>,
    pub max_priority: Option<Value>,
    /// Whether they wait for their process date.
    pub scheduled: Option<bool>,
    /// The group of the reason that their status gives.
    pub group: Option<GroupKey>,
}

/// A value that has to be there, whatever it is.
fn given<'de, D: serde::Deserializer<'de>>(from: D) -> Result<Value, D::Error> {
    Value::deserialize(from)
}

impl Order {
    /// Reads what stands in a request; null is no parameters.
    pub fn read(action: &str, params: Value) -> Result<Self, Refused> {
        let known = Action::named(action)?;
        let params = if params.is_null() { json!({}) } else { params };
        if let Value::Object(given) = &params {
            let unknown =
                given.keys().find(|name| known.parameters().all(|(param, _)| param != name.as_str()));
            if let Some(unknown) = unknown {
                return Err(unknown_parameter(known, unknown));
            }
        }
        serde_json::from_value(json!({ "action": known.name, "params": params })).map_err(|error| {
            let message = error.to_string();
            let field =
                message.split('`').nth(1).filter(|_| message.contains(" field `")).unwrap_or_default();
            Refused::unprocessable(field, message.clone())
        })
    }

    /// Its line of the table.
    pub fn action(&self) -> &'static Action {
        let name = match self {
            Order::RequeueJob(_) => "job.requeue",
            Order::HoldJob(_) => "job.hold",
            Order::ReleaseJob(_) => "job.release",
            Order::JobPriority(_) => "job.priority",
            Order::DeleteJob(_) => "job.delete",
            Order::Bulk(_) => "jobs.bulk",
            Order::HoldBatch(_) => "batch.hold",
            Order::ReleaseBatch(_) => "batch.release",
            Order::UpdateReport(_) => "batch.update-report",
            Order::DeleteBatch(_) => "batch.delete",
            Order::HoldQueue(_) => "queue.hold",
            Order::ReleaseQueue(_) => "queue.release",
            Order::HoldCollection(_) => "collection.hold",
            Order::ReleaseCollection(_) => "collection.release",
            Order::RequeueAccess(_) => "access.requeue",
            Order::DeleteAccess(_) => "access.delete",
            Order::Fsck(_) => "fsck",
            Order::Repair(_) => "fsck.repair",
            Order::Pause(_) => "node.pause",
            Order::Resume(_) => "node.resume",
            Order::Drain(_) => "node.drain",
            Order::SetPool(_) => "pool.set",
            Order::PutProfile(_) => "profile.put",
            Order::DeleteProfile(_) => "profile.delete",
            Order::SetSettings(_) => "settings.set",
            Order::UnsetSettings(_) => "settings.unset",
            Order::SetLimit(_) => "limit.set",
            Order::ClearLimit(_) => "limit.clear",
            Order::PauseFeed(_) => "feed.pause",
            Order::ResumeFeed(_) => "feed.resume",
            Order::AskFeed(_) => "feed.ask",
            Order::ResetFeed(_) => "feed.reset",
            Order::ForgetFeed(_) => "feed.forget",
            Order::RunUpkeep(_) => "upkeep.run",
        };
        // A test holds that each is there.
        ACTIONS.iter().find(|action| action.name == name).unwrap_or(&ACTIONS[0])
    }

    /// Only an admin may order it.
    pub fn is_for_admins(&self) -> bool {
        let deletes = matches!(self, Order::Bulk(order) if order.action == BulkAction::Delete);
        self.action().admin || self.forces() || deletes
    }

    /// Somebody's lock would be taken away.
    pub fn forces(&self) -> bool {
        match self {
            Order::RequeueJob(order) => order.force,
            Order::HoldJob(order) | Order::ReleaseJob(order) => order.force,
            Order::JobPriority(order) => order.force,
            Order::DeleteJob(order) => order.force,
            Order::HoldBatch(order) | Order::ReleaseBatch(order) | Order::UpdateReport(order) => order.force,
            Order::DeleteBatch(order) => order.force,
            _ => false,
        }
    }
}

fn unknown_parameter(action: &Action, unknown: &str) -> Refused {
    let names: Vec<&str> = action.parameters().map(|(name, _)| name).collect();
    let hint = match ingest_steps::profile::closest(unknown, names.iter().copied()) {
        Some(meant) => format!("; did you mean `{meant}`?"),
        None if names.is_empty() => "; it has none".to_owned(),
        None => format!("; it has {}", names.join(", ")),
    };
    let shown: String = unknown.chars().take(64).collect();
    let why = format!("{} has no parameter `{}`{hint}", action.name, shown.escape_debug());
    Refused::unprocessable(&shown, why)
}
