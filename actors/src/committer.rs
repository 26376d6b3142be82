//! The committer as an actor: lets the queue's committer serve.
//!
//! **When things break.** Nothing is lost with it: what was sent is answered, what waits is sent by the next one.

use std::sync::Arc;

use ractor::{Actor, ActorProcessingErr, ActorRef};

use crate::crash::handled;
use crate::house::Life;

/// Serve.
#[derive(Debug)]
pub(crate) struct Serve;

/// The actor.
#[derive(Debug)]
pub(crate) struct Committer;

impl Actor for Committer {
    type Msg = Serve;
    type State = Arc<Life>;
    type Arguments = Arc<Life>;

    async fn pre_start(&self, _: ActorRef<Serve>, life: Arc<Life>) -> Result<Arc<Life>, ActorProcessingErr> {
        Ok(life)
    }

    async fn post_start(&self, myself: ActorRef<Serve>, _: &mut Arc<Life>) -> Result<(), ActorProcessingErr> {
        Ok(myself.cast(Serve)?)
    }

    async fn handle(
        &self,
        _: ActorRef<Serve>,
        _: Serve,
        life: &mut Arc<Life>,
    ) -> Result<(), ActorProcessingErr> {
        let serving = life.serving.clone();
        handled(async {
            serving.run().await;
            Ok(())
        })
        .await
    }
}
