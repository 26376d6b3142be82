//! The invariants of the tree: checked and repaired while the node works.
//!
//! **When things break.** A check that nobody reads any more ends; a repair goes on to its end. If the store fails, the
//! last line is a problem.

use std::sync::Arc;

use axum::body::Bytes;
use axum::extract::State;
use axum::response::Response;
use ingest_actors::actions::{Order, order};
use ingest_actors::house::Life;
use ingest_queue::fsck::{Options, Progress};
use ingest_steps::ledger::{self, Checked, Places};

use super::app::App;
use super::caller::{Admin, Operator};
use super::lines::{self, Teller, line, problem};
use super::problem::{Answer, Refusal};
use super::wire::{Fsck, FsckLine, FsckProgress, Problem};

#[utoipa::path(get, path = "/api/v1/fsck", tag = "fsck", security(("token" = ["operator"])), responses(
    (status = 200, description = "lines; the last is `done` or `problem`", body = FsckLine, content_type = "application/x-ndjson"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Checks every invariant of the tree, and changes nothing
pub(crate) async fn check(State(app): State<App>, Operator(caller): Operator) -> Answer<Response> {
    let life = app.life().await?;
    lines::answer(&app, false, |teller| run(life, caller.name, false, teller))
}

#[utoipa::path(post, path = "/api/v1/fsck", tag = "fsck", security(("token" = ["admin"])), responses(
    (status = 200, description = "lines; the last is `done` or `problem`", body = FsckLine, content_type = "application/x-ndjson"),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Checks the tree, and puts right what is safe to put right
pub(crate) async fn repair(State(app): State<App>, Admin(caller): Admin) -> Answer<Response> {
    caller.ordered.add(&Order::Repair(order::Nothing {}));
    let life = app.life().await?;
    lines::answer(&app, true, |teller| run(life, caller.name, true, teller))
}

async fn run(life: Arc<Life>, who: String, repair: bool, mut teller: Teller) {
    let last = match checked(&life, who, repair, &mut teller).await {
        Ok(found) => FsckLine::Done(found),
        Err(refusal) => FsckLine::Problem(problem(refusal)),
    };
    teller.tell(line(&last)).await;
}

async fn checked(life: &Life, who: String, repair: bool, teller: &mut Teller) -> Answer<Fsck> {
    let options = Options { who, ..Options::new(life.queue.dialect()) };
    let mut progress = |now: Progress| teller.progress(|| told(now));
    let places = Places::of(&life.services()).map_err(Refusal::from)?;
    let checked = ledger::fsck(&life.queue, &options, Some(&places), repair, &mut progress).await;
    let Checked { repaired, report } = checked.map_err(Refusal::from)?;
    Ok(Fsck::new(&repaired, &report))
}

fn told(now: Progress) -> Bytes {
    line(&FsckLine::Progress(FsckProgress { stage: now.stage.to_owned(), done: now.done, total: now.total }))
}
