//! The steps: what is done with a job in each state, with a batch, and with an access item.
//!
//! | of | step |
//! |---|---|
//! | a batch that is pending, or whose expansion has begun | [`expand`] |
//! | a job that is pending | [`check`] |
//! | estimating | [`estimate`] |
//! | provisioning: all that wait at once | [`admit`] |
//! | downloading | [`download`] |
//! | processing | [`process`] |
//! | recording | [`record`] |
//! | notify | [`callback`] |
//! | a batch that is reporting | [`tell`] |
//! | an access item | [`assemble`] |
//! | what is left on the disk | [`clean`] |
//! | the object that a job writes to: rights, and whose turn it is | [`object`] |
//!
//! A step gets a [`Task`] and the [`Services`], and answers with the [`Change`] that goes along with the job's
//! transition, or with a [`Failure`]. It commits no transition itself: [`conclude`] does.
//!
//! **When things break.** Every step can be stopped at any point and run again. Before each effect outside of
//! the tree it passes the gate ([`Task::gate`]): the lease is still good.

use std::sync::Arc;

use ingest_queue::jobs::Lease;
use ingest_queue::map::JobNode;
use ingest_queue::nodes::{Configuration, Identifiers, Metadata, Work};
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_queue::states::JobState;
use tokio::time::Instant;

use crate::outcome::{Cancel, Failure, Progress, Result};
use crate::profile::Profile;
use crate::services::Services;
use crate::upload_nodes;

pub mod admit;
pub mod assemble;
pub mod callback;
pub mod check;
pub mod clean;
pub mod download;
pub mod estimate;
pub mod expand;
pub mod object;
mod payload;
pub mod process;
pub mod record;
pub mod tell;

pub use payload::Payload;

/// A job that is worked on, with what its nodes say.
#[derive(Debug)]
pub struct Task<'a> {
    pub queue: &'a Queue,
    pub lease: &'a mut Lease,
    pub configuration: Configuration,
    pub identifiers: Identifiers,
    pub metadata: Metadata,
    pub work: Option<Work>,
    pub profile: Arc<Profile>,
    pub progress: Progress,
    pub cancel: Cancel,
}

impl<'a> Task<'a> {
    /// Reads the nodes of a job that was acquired.
    pub async fn open(
        queue: &'a Queue,
        lease: &'a mut Lease,
        services: &Services,
        progress: &Progress,
        cancel: &Cancel,
    ) -> Result<Self> {
        let jid = lease.jid();
        let (configuration, identifiers, metadata, work) = futures::try_join!(
            queue.configuration(jid),
            queue.node(jid, JobNode::Identifiers),
            queue.node(jid, JobNode::Metadata),
            queue.node(jid, JobNode::Work),
        )?;
        let profile = services.profile_of(queue, &configuration).await?;
        Ok(Self {
            queue,
            lease,
            configuration,
            identifiers: identifiers.unwrap_or_default(),
            metadata: metadata.unwrap_or_default(),
            work,
            profile,
            progress: progress.clone(),
            cancel: cancel.clone(),
        })
    }

    /// Who this job writes for.
    pub(crate) fn writer(&self) -> object::Writer<'_> {
        let submitter = self.configuration.submitter.as_str();
        object::Writer { profile: &self.profile, submitter, jid: Some(self.lease.jid()) }
    }

    /// Passed before an effect outside of the tree. An answer that takes too long counts as none.
    pub async fn gate(&self) -> Result<()> {
        if self.cancel.is_cancelled() {
            return Err(Failure::Cancelled);
        }
        let limit = self.queue.session().timeout() / 3;
        match tokio::time::timeout(limit, self.queue.gate(self.lease)).await {
            Ok(answer) => Ok(answer?),
            Err(_) => Err(Failure::Again(format!("the tree did not answer within {limit:?}"))),
        }
    }
}

/// The work of the state that the job is in. Room is decided for all that wait at once, by [`admit::cycle`].
pub async fn run(task: &mut Task<'_>, services: &Services) -> Result<Change> {
    match task.lease.job().state() {
        JobState::Pending => check::run(task, services).await,
        JobState::Estimating => estimate::run(task, services).await,
        JobState::Downloading => {
            let answer = download::run(task, services).await;
            waiting_for_upload(answer, &task.configuration, services)
        }
        JobState::Processing => process::run(task, services).await,
        JobState::Recording => record::run(task, services).await,
        JobState::Notify => callback::run(task, services).await,
        state => Err(Failure::fail(format!("there is no step for a job that is {state}"))),
    }
}

/// A job whose upload is on another node that does not answer is given back, until that has lasted for `work.node_grace`.
fn waiting_for_upload(
    answer: Result<Change>,
    configuration: &Configuration,
    services: &Services,
) -> Result<Change> {
    let Some(node) = upload_nodes::other_node(&configuration.other, services.work.node()) else {
        return answer;
    };
    match answer {
        Err(Failure::Later(why)) if is_about(&configuration.payload_url, &why) => {
            Err(not_answered(services, node, &why).unwrap_or_else(Failure::Fail))
        }
        answer => {
            if answer.is_ok() {
                services.upload_nodes.answered(node);
            }
            answer
        }
    }
}

/// Whether a failure is about what is fetched from there, and not about a disk of this node.
fn is_about(url: &str, why: &str) -> bool {
    url::Url::parse(url).is_ok_and(|url| why.contains(&crate::fetch::redacted(&url)))
}

/// After the node that has an upload did not answer: that it is waited for, or why it is not any more.
fn not_answered(services: &Services, node: &str, why: &str) -> Result<Failure, String> {
    let grace = services.settings.work.node_grace;
    if services.upload_nodes.failed(node, grace, Instant::now()) {
        return Ok(Failure::Again(upload_nodes::waiting_for(node)));
    }
    let grace = humantime_serde::re::humantime::format_duration(grace);
    Err(format!(
        "the node {node}, which has the upload, did not answer for {grace} (`work.node_grace`): {why}"
    ))
}

/// What became of a job after its step.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum Ending {
    /// It is in this state now.
    Moved(JobState),
    /// It waits in the same state, for this reason.
    GivenBack(String),
    /// It is another's, or gone.
    Lost(String),
}

/// Commits what a step answered: on to the next state, to failed, or given back.
pub async fn conclude(
    queue: &Queue,
    lease: &mut Lease,
    answer: Result<Change>,
) -> Result<Ending, ingest_queue::error::Error> {
    let failed = |why: String, hopeless| Change { hopeless, ..Change::message(why) };
    match answer {
        Ok(change) => Ok(Ending::Moved(queue.succeed(lease, &change).await?)),
        Err(Failure::Later(why) | Failure::Fail(why)) => {
            queue.fail(lease, &failed(why, false)).await?;
            Ok(Ending::Moved(JobState::Failed))
        }
        Err(Failure::Hopeless(why)) => {
            queue.fail(lease, &failed(why, true)).await?;
            Ok(Ending::Moved(JobState::Failed))
        }
        Err(Failure::Again(why) | Failure::Blocked { why, .. }) => {
            queue.give_back(lease, Some(&why)).await?;
            Ok(Ending::GivenBack(why))
        }
        Err(Failure::Cancelled) => {
            queue.give_back(lease, None).await?;
            Ok(Ending::GivenBack("stopped".into()))
        }
        // The lock table here has to forget it, too.
        Err(Failure::Lost(why)) => match queue.give_back(lease, None).await {
            Ok(()) => Ok(Ending::GivenBack(why)),
            Err(ingest_queue::error::Error::Lost { .. }) => Ok(Ending::Lost(why)),
            Err(error) => Err(error),
        },
    }
}
