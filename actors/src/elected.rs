//! One node of all acts: the elected one.
//!
//! `stand` stands for election below `/elections/NAME` as long as its task lives, and lets something run while this
//! node leads. What that commits carries `Post::fence`: of two nodes that both believe to lead only one can
//! commit. Which elections a node leads stands in its component.
//!
//! ```ignore
//! state.elected = Some(elected::stand(&house, &life, elected::TIMER, move |post| {
//!     let life = life.clone();
//!     async move {
//!         // Everything that one does for all: read, decide, and commit with `post.fence()` in the multi.
//!     }
//! }));
//! ```
//!
//! **When things break.** A lost connection ends what runs, wherever it is, so it must be something that can be given
//! up anywhere; then this node stands again, at the same place. With the session the task ends. A node that drains
//! stands down, and the next one leads at once.

use std::sync::Arc;
use std::time::Duration;

use ingest_queue::map;
use ingest_store::recipes::election::{Candidate, Leader};
use ingest_store::{Op, Session, path};

use crate::house::{House, Life, Mode, Task, tell};
use crate::registrar;

/// Whoever does what is due once for all nodes.
pub const TIMER: &str = "timer";
/// Whoever writes down how much is done.
pub const STATS: &str = "stats";

/// All of them.
pub const ELECTIONS: [&str; 2] = [TIMER, STATS];

/// The pause before this node stands again after a try that failed.
const PAUSE: Duration = Duration::from_secs(1);

/// The right of the elected one to commit.
#[derive(Debug, Clone)]
pub(crate) struct Post {
    fence: Op,
}

impl Post {
    /// Goes into every multi: refused once this node leads no more.
    pub(crate) fn fence(&self) -> Op {
        self.fence.clone()
    }
}

/// Stands for election until the task is dropped, and lets `act` run whenever this node leads. When it ends by itself,
/// nothing more is done until another reign begins.
pub(crate) fn stand<F>(
    house: &Arc<House>,
    life: &Arc<Life>,
    name: &'static str,
    act: impl Fn(Post) -> F + Send + Sync + 'static,
) -> Task
where
    F: Future<Output = ()> + Send,
{
    let (house, session) = (house.clone(), life.queue.session().clone());
    Task::spawn(async move {
        let mut modes = house.modes();
        let run = async {
            while !session.state().is_final() {
                if let Err(error) = reign(&house, &session, name, &act).await
                    && !session.state().is_final()
                {
                    tracing::debug!(name, %error, "it stands for election again");
                    tokio::time::sleep(PAUSE).await;
                }
            }
        };
        let drains = async {
            let _ = modes.wait_for(|mode| *mode == Mode::Draining).await;
        };
        // Its candidate goes with what is dropped here.
        tokio::select! {
            () = run => {}
            () = drains => {}
        }
    })
}

/// From joining until the place in the queue is lost.
async fn reign<F>(
    house: &Arc<House>,
    session: &Session,
    name: &'static str,
    act: &(impl Fn(Post) -> F + Send + Sync),
) -> ingest_store::Result<()>
where
    F: Future<Output = ()> + Send,
{
    let who = serde_json::json!({ "node": house.name, "incarnation": house.incarnation }).to_string();
    let mut candidate = Candidate::join(session, &path::join(map::ELECTIONS, name), who).await?;
    loop {
        let leader: Leader = candidate.lead().await?;
        tracing::info!(name, "this node is the elected one");
        let leading = Leading::new(house, name);
        let acting = async {
            act(Post { fence: leader.fence() }).await;
            std::future::pending::<()>().await;
        };
        tokio::select! {
            () = leader.deposed() => {}
            () = acting => {}
        }
        drop(leading);
        candidate = leader.doubt();
    }
}

/// That this node leads, until it is dropped.
struct Leading {
    house: Arc<House>,
    name: &'static str,
}

impl Leading {
    fn new(house: &Arc<House>, name: &'static str) -> Self {
        house.leads.write().insert(name);
        tell(&house.directory.registrar, registrar::Message::Refresh);
        Self { house: house.clone(), name }
    }
}

impl Drop for Leading {
    fn drop(&mut self) {
        self.house.leads.write().remove(self.name);
        tell(&self.house.directory.registrar, registrar::Message::Refresh);
    }
}
