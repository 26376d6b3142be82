//! What a worker does with a job that it has: the step of the job's state.
//!
//! [`Steps`] is the real thing. [`Nothing`] lets jobs walk through their states without any work, to measure what
//! the node itself costs.

use std::fmt::Debug;

use futures::future::BoxFuture;
use ingest_queue::jobs::Lease;
use ingest_queue::plan::job::Change;
use ingest_queue::queue::Queue;
use ingest_steps::outcome::{Cancel, Progress, Result};
use ingest_steps::services::Services;
use ingest_steps::step::{self, Task};

/// The step of a state.
pub trait Work: Debug + Send + Sync {
    /// Does the work of the state that the job is in, and commits no transition.
    fn run<'a>(
        &'a self,
        queue: &'a Queue,
        lease: &'a mut Lease,
        services: &'a Services,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Change>>;

    /// Whether there is work in the states at all. Without it nobody waits for room, and no file is made.
    fn is_real(&self) -> bool {
        true
    }
}

/// The steps themselves.
#[derive(Debug, Clone, Copy, Default)]
pub struct Steps;

impl Work for Steps {
    fn run<'a>(
        &'a self,
        queue: &'a Queue,
        lease: &'a mut Lease,
        services: &'a Services,
        progress: &'a Progress,
        cancel: &'a Cancel,
    ) -> BoxFuture<'a, Result<Change>> {
        Box::pin(async move {
            let mut task = Task::open(queue, lease, services, progress, cancel).await?;
            step::run(&mut task, services).await
        })
    }
}

/// No work at all.
#[derive(Debug, Clone, Copy, Default)]
pub struct Nothing;

impl Work for Nothing {
    fn run<'a>(
        &'a self,
        _: &'a Queue,
        _: &'a mut Lease,
        _: &'a Services,
        _: &'a Progress,
        _: &'a Cancel,
    ) -> BoxFuture<'a, Result<Change>> {
        Box::pin(async { Ok(Change::default()) })
    }

    fn is_real(&self) -> bool {
        false
    }
}
