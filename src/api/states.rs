//! The state tables, and how many jobs are in each state.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::State;
use ingest_queue::dialect::Dialect;
use ingest_queue::list;
use ingest_queue::map::{self, AccessSize};
use ingest_queue::queue::Queue;
use ingest_queue::states::{self, AccessState, BatchState, JobState, To, Why};

use super::app::App;
use super::caller::{Depositor, Operator};
use super::problem::Answer;
use super::wire::{Counts, Move, Problem, StateTable, States};

#[utoipa::path(get, path = "/api/v1/states", tag = "states", security(("token" = ["depositor"])), responses(
    (status = 200, body = States),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows which states there are, and who moves what
pub(crate) async fn tables(State(app): State<App>, _: Depositor) -> Json<States> {
    let dialect = app.node.house().settings.load().queue.dialect;
    let name = match dialect {
        Dialect::Design => "design",
        Dialect::MrtZk => "mrt-zk",
    };
    Json(States {
        dialect: name.to_owned(),
        jobs: table::<JobState>(dialect, &JobState::queues(dialect).collect::<Vec<_>>()),
        batches: table::<BatchState>(dialect, BatchState::ALL),
        access: table::<AccessState>(dialect, AccessState::ALL),
    })
}

fn table<S: states::States>(dialect: Dialect, all: &[S]) -> StateTable {
    let names = |states: &[S]| states.iter().map(|state| state.name().to_owned()).collect::<Vec<_>>();
    let moves = states::rows::<S>(dialect).map(|row| {
        let (kind, to) = match row.to {
            To::State(state) => ("state", names(&[state])),
            To::Restart(states) => ("restart", names(states)),
            To::Deleted => ("deleted", Vec::new()),
            To::Cleaned => ("cleaned", Vec::new()),
        };
        Move {
            from: names(row.from),
            to,
            kind: kind.to_owned(),
            by: row.by.to_string(),
            why: why(row.why).to_owned(),
            effect: row.effect.to_owned(),
        }
    });
    StateTable { states: names(all), moves: moves.collect(), diagram: states::diagram::<S>(dialect) }
}

fn why(why: Why) -> &'static str {
    match why {
        Why::Success => "success",
        Why::Failure => "failure",
        Why::Hold => "hold",
        Why::Release => "release",
        Why::Requeue => "requeue",
        Why::StartOver => "start-over",
        Why::Delete => "delete",
        Why::Clean => "clean",
    }
}

#[utoipa::path(get, path = "/api/v1/states/counts", tag = "states", security(("token" = ["operator"])), responses(
    (status = 200, body = Counts),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Counts jobs by state
pub(crate) async fn counts(State(app): State<App>, _: Operator) -> Answer<Json<Counts>> {
    let queue = app.queue().await?;
    let mut access = BTreeMap::new();
    for size in AccessSize::ALL {
        access.insert(size.name().to_owned(), children(&queue, size.dir()).await?);
    }
    let jobs = list::counts(queue.session()).await?;
    let batches = children(&queue, map::BATCHES.to_owned()).await?;
    Ok(Json(Counts { at: queue.now(), jobs, access, batches }))
}

async fn children(queue: &Queue, path: String) -> Answer<usize> {
    let stat = queue.session().exists(path).await.map_err(ingest_queue::error::Error::from)?;
    Ok(stat.map_or(0, |stat| usize::try_from(stat.num_children).unwrap_or(0)))
}
