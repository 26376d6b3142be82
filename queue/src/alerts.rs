//! What the administrators are to be told at once: `/alerts/NAME`, until they were.
//!
//! An alert is created in the very multi that makes it true: the one that fails a job which nobody survives, or the one
//! that marks a feed which fails again and again. So none is forgotten by a node that dies, and none is made twice.
//! Whoever is elected for it sends them, and removes each when it was sent.
//!
//! **When things break.** The name is made of the thing and the version of its fence: it is the id of the mail, whoever
//! sends it, however often. One that was sent by a node which died before it could remove it is sent again by the next,
//! under the same id. One that cannot be read is left for `fsck`.

use ingest_store::recipes::settle;
use ingest_store::{Kind, Op, path};
use serde::{Deserialize, Serialize};

use crate::date::Date;
use crate::error::{Error, Result};
use crate::feeds::Feed;
use crate::ids::Jid;
use crate::map;
use crate::nodes::{Json, Node as _, Other};
use crate::plan::Scene;
use crate::plan::job::Job;
use crate::queue::Queue;

/// `/alerts/NAME`: of a job or of a feed.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct AlertNode {
    pub at: Date,
    /// The node that has seen it.
    #[serde(default)]
    pub node: String,
    pub why: String,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub job: Option<Jid>,
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub feed: Option<String>,
    #[serde(flatten)]
    pub other: Other,
}

impl Json for AlertNode {}

/// An alert that was not told yet.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Owed {
    pub name: String,
    pub alert: AlertNode,
    version: i32,
}

impl Queue {
    fn alert_node(&self, why: &str, scene: &Scene) -> AlertNode {
        let (node, why) = (self.settings.node.clone(), why.to_owned());
        AlertNode { at: scene.now, node, why, job: None, feed: None, other: Other::new() }
    }

    /// The operation that keeps an alert of a job, for the multi that makes it true.
    pub(crate) fn alert_of_job(&self, job: &Job, why: &str, scene: &Scene) -> Op {
        let alert = AlertNode { job: Some(job.jid), ..self.alert_node(why, scene) };
        Op::create(map::alert(&format!("{}-{}", job.jid, job.version)), alert.write(scene.dialect))
    }

    /// The same of a feed.
    pub(crate) fn alert_of_feed(&self, feed: &Feed, why: &str, scene: &Scene) -> Op {
        let alert = AlertNode { feed: Some(feed.name()), ..self.alert_node(why, scene) };
        Op::create(map::alert(&format!("feed-{}-{}", feed.qid, feed.version)), alert.write(scene.dialect))
    }

    /// Everything that was not told yet, the oldest first.
    pub async fn owed_alerts(&self) -> Result<Vec<Owed>> {
        let names = match self.children(map::ALERTS).await {
            Ok(names) => names,
            Err(error) if error.kind() == Kind::NoNode => return Ok(Vec::new()),
            Err(error) => return Err(error.into()),
        };
        let mut owed = Vec::new();
        for name in names {
            match self.find::<AlertNode>(map::alert(&name)).await {
                Ok(Some((alert, stat))) => owed.push(Owed { name, alert, version: stat.version }),
                Ok(None) => {}
                Err(Error::Corrupt { .. }) => {
                    tracing::warn!(name, "an alert cannot be read; see `ingestd fsck`");
                }
                Err(error) => return Err(error),
            }
        }
        owed.sort_by(|one, other| (one.alert.at, &one.name).cmp(&(other.alert.at, &other.name)));
        Ok(owed)
    }

    /// It was told: it goes, if `fence` holds.
    pub async fn alert_told(&self, owed: &Owed, fence: Op) -> Result<()> {
        let ops = vec![fence, Op::delete(map::alert(&owed.name), owed.version)];
        let settled = settle(&self.session, || self.session.multi(ops.clone())).await;
        match settled.answer {
            Ok(_) => Ok(()),
            // By the try before this one, or by `fsck`.
            Err(error) if error.kind() == Kind::NoNode && error.failed_op() == Some(1) => Ok(()),
            Err(error) => Err(error.into()),
        }
    }

    /// The alert that an event below `/alerts` tells of, for whoever passes it on. One that was told and removed meanwhile is
    /// what its job or its feed says.
    pub async fn alert_at(&self, at: &str) -> Result<Option<AlertNode>> {
        if let Some((alert, _)) = self.find::<AlertNode>(at.to_owned()).await? {
            return Ok(Some(alert));
        }
        let thing = path::name(at).rsplit_once('-').map_or("", |(thing, _)| thing);
        let found = if let Ok(jid) = thing.parse::<Jid>() {
            let status = self.job_status(jid).await.map(|(status, _)| status);
            status.map(|status| (status.last_modification_date, status.message, Some(jid), None))
        } else if let Some(Ok(qid)) = thing.strip_prefix("feed-").map(str::parse) {
            let feed = self.feed(qid).await;
            feed.map(|feed| (feed.node.alerted, "it fails again and again".into(), None, Some(feed.name())))
        } else {
            return Ok(None);
        };
        match found {
            Ok((at, why, job, feed)) => {
                let at = at.unwrap_or_else(|| self.now());
                Ok(Some(AlertNode { at, node: String::new(), why, job, feed, other: Other::new() }))
            }
            // That is gone, too.
            Err(Error::NotFound(_)) => Ok(None),
            Err(error) => Err(error),
        }
    }

    /// Whether an event below `/alerts` tells of a new one.
    pub fn is_alert(at: &str) -> bool {
        path::parent(at) == map::ALERTS
    }
}
