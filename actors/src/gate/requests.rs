//! Requests from the tree: watched, taken in their order, done and answered.
//!
//! One recursive watch tells of everything that happens to requests. Each look finds what this node may take
//! now: the first of those for anybody, and the first of those for this node. Those for anybody are left to nodes that
//! come before this one, for a moment each; those for this node wait behind nothing but each other.
//!
//! **When things break.** If this task dies with a request in its hands, the next one gives the lock back and takes the
//! request again. An action that ends because the tree is away is no answer: the request is given back, or its lock goes
//! with the session, and it is taken again.

use std::fmt;
use std::sync::{Arc, OnceLock};
use std::time::Duration;

use ingest_queue::error::{Error, Next};
use ingest_queue::index;
use ingest_queue::map;
use ingest_queue::nodes::Request;
use ingest_queue::requests::{Living, RequestLine, TakenRequest, next};
use ingest_store::{Event, TreeWatch};
use parking_lot::Mutex;
use tokio::sync::Notify;
use tokio::time::Instant;

use crate::actions::{Action, By, Kind, Order, Refused, perform};
use crate::house::{House, Life, Mode};

/// The holder of the locks on requests.
pub(super) const HOLDER: &str = "gate";
/// How often it is written how far a request is.
const OFTEN: Duration = Duration::from_secs(1);

/// What a request came to, for whoever writes it down.
#[derive(Debug, Clone)]
pub struct RequestDone {
    pub id: String,
    pub action: String,
    /// What was ordered, as far as it could be read: see [`Order::told`].
    pub details: String,
    pub who: String,
    /// How it came: `tree ann@host`.
    pub from: String,
    /// Of the problem, if it was refused.
    pub kind: Option<&'static str>,
}

type Write = dyn Fn(&RequestDone) + Send + Sync;

/// Whoever writes down what was done for requests: called for each, before anybody is told its result.
#[derive(Default)]
pub struct Auditor(OnceLock<Box<Write>>);

impl Auditor {
    /// The first one that is set stays.
    pub fn set(&self, write: impl Fn(&RequestDone) + Send + Sync + 'static) {
        let _ = self.0.set(Box::new(write));
    }

    fn write(&self, done: &RequestDone) {
        if let Some(write) = self.0.get() {
            write(done);
        }
    }
}

impl fmt::Debug for Auditor {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Auditor").field(&self.0.get().is_some()).finish()
    }
}

/// Serves requests until the session is over.
pub(super) async fn serve(house: Arc<House>, life: Arc<Life>) {
    let queue = &life.queue;
    // One before us may have died with some.
    if let Err(error) = queue.locks().release_all_of(HOLDER).await {
        tracing::debug!(%error, "locks on requests are released later");
    }
    let mut watch = match queue.session().watch_tree(map::REQUESTS).await {
        Ok(watch) => watch,
        Err(error) => {
            tracing::warn!(%error, "requests in the tree are not seen until the gate is started again");
            return;
        }
    };
    loop {
        // Others come first; whoever of them takes it is an event.
        let wait = look(&house, &life).await;
        let later = async {
            match wait {
                Some(wait) => tokio::time::sleep(wait).await,
                None => std::future::pending().await,
            }
        };
        tokio::select! {
            over = happened(&mut watch) => if over { return },
            () = life.living.notified() => {}
            () = later => {}
        }
    }
}

/// Waits until something has happened that may concern what can be taken; `true`: the session is over.
async fn happened(watch: &mut TreeWatch) -> bool {
    loop {
        let mut concerns = false;
        let mut event = Some(watch.next().await);
        while let Some(one) = event {
            concerns |= match &one {
                Event::Ended(_) => return true,
                Event::Relist(_) => true,
                Event::Created(path) => path.starts_with("/requests/requests/"),
                Event::Deleted(path) => {
                    path.starts_with("/requests/locks/") || path.starts_with("/requests/requests/")
                }
                Event::Changed(_) | Event::Children(_) => false,
            };
            event = watch.try_next();
        }
        if concerns {
            return false;
        }
    }
}

/// Takes and does all that can be taken now. Answers how long to leave the rest to others.
async fn look(house: &Arc<House>, life: &Arc<Life>) -> Option<Duration> {
    let began = Instant::now();
    loop {
        let lines = match life.queue.requests().await {
            Ok(lines) => lines,
            Err(error) => {
                tracing::debug!(%error, "requests are looked at again when something happens");
                return None;
            }
        };
        let all: Vec<String> = life.components.read().iter().map(|one| one.node.clone()).collect();
        let free = next(&lines, Living { own: &house.name, all: &all });
        let (mut rest, mut did) = (None, false);
        for line in free {
            if line.request.node.is_some() && all.is_empty() {
                // Who lives is not known yet.
                rest = Some(house.settings.load().queue.rank_delay.max(Duration::from_millis(50)));
                continue;
            }
            // A node that ends leaves what anybody can do to others.
            if line.request.node.is_none() && house.mode() == Mode::Draining {
                continue;
            }
            let delay = patience(house, life, line);
            if began.elapsed() < delay {
                rest = Some(delay.saturating_sub(began.elapsed()));
                continue;
            }
            match life.queue.take_request(line, HOLDER).await {
                Ok(taken) => {
                    serve_one(house, life, taken, &all).await;
                    did = true;
                }
                Err(error) => tracing::debug!(%error, id = line.id, "a request is another's"),
            }
        }
        if !did {
            return rest;
        }
    }
}

/// How long a request is left to nodes that come before this one.
fn patience(house: &House, life: &Life, line: &RequestLine) -> Duration {
    if line.request.node.as_deref() == Some(house.name.as_str()) {
        return Duration::ZERO;
    }
    house.settings.load().queue.rank_delay.saturating_mul(life.rank(number(&line.id)).min(100))
}

/// The number by which nodes rank themselves for a request: all of them have to find the same.
fn number(id: &str) -> u32 {
    u32::try_from(index::hash(id) & 0xffff_ffff).unwrap_or_default()
}

async fn serve_one(house: &Arc<House>, life: &Arc<Life>, taken: TakenRequest, living: &[String]) {
    let (id, request) = (taken.id.clone(), taken.request.clone());
    let taken = Arc::new(tokio::sync::Mutex::new(Some(taken)));
    let order = ordered(house, life, &taken, living).await;
    let details = order.as_ref().map(Order::told).unwrap_or_default();
    let answer = match order {
        Ok(order) => done(house, life, &taken, order).await,
        Err(refused) => Err(refused),
    };
    let Some(taken) = taken.lock().await.take() else { return };
    if let Err(refused) = &answer
        && refused.is_no_answer()
    {
        tracing::warn!(id, why = refused.detail(), "a request is given back: the tree is away");
        let _ = life.queue.release_request(&taken).await;
        return;
    }
    let kind = answer.as_ref().err().map(|refused| refused.kind.name());
    let problem = answer.as_ref().err().map(Refused::problem);
    let told = answer.as_ref().map_err(|_| problem.as_ref().unwrap_or(&serde_json::Value::Null));
    let (action, who, from) = (request.action, request.who, request.from);
    // It is done: whoever reads the result finds it written down. If the answer gets lost it is done, and written down, again.
    house.auditor().write(&RequestDone {
        id: id.clone(),
        action: action.clone(),
        details,
        who: who.clone(),
        from: from.clone(),
        kind,
    });
    match life.queue.answer_request(taken, told).await {
        Ok(_) => tracing::info!(id, action, who, from, problem = kind, "a request was answered"),
        Err(error) if matches!(error.next(), Next::LetGo | Next::Tell) => {
            tracing::warn!(id, %error, "a request was answered by another, or is gone");
        }
        Err(error) => tracing::warn!(id, %error, "a request could not be answered, and is taken again"),
    }
}

type Shared = Arc<tokio::sync::Mutex<Option<TakenRequest>>>;

async fn request_of(taken: &Shared) -> Result<(String, Request), Refused> {
    match &*taken.lock().await {
        Some(taken) => Ok((taken.id.clone(), taken.request.clone())),
        None => Err(Refused::new(Kind::Internal, "it was taken away")),
    }
}

/// What a request wants, if this node is the one to do it.
async fn ordered(
    house: &Arc<House>,
    life: &Arc<Life>,
    taken: &Shared,
    living: &[String],
) -> Result<Order, Refused> {
    let (id, request) = request_of(taken).await?;
    let action = Action::named(&request.action)?;
    if let Some(node) = request.node.as_deref().filter(|node| *node != house.name) {
        let meant = ingest_steps::profile::closest(node, living.iter().map(String::as_str));
        let hint = meant.map_or_else(
            || format!("; there are {}", living.join(", ")),
            |meant| format!("; did you mean `{meant}`?"),
        );
        let shown: String = node.chars().take(64).collect();
        let why = format!("no node `{}` lives{hint}", shown.escape_debug());
        return Err(Refused::field("node", why));
    }
    if action.of_node && request.node.is_none() {
        return Err(Refused::field("node", format!("{} is about one node: name it", action.name)));
    }
    let params = match life.queue.request_params(&id).await {
        Err(Error::Corrupt { why, .. }) => return Err(Refused::unprocessable("params", why)),
        params => params?,
    };
    Order::read(&request.action, params)
}

async fn done(
    house: &Arc<House>,
    life: &Arc<Life>,
    taken: &Shared,
    order: Order,
) -> Result<serde_json::Value, Refused> {
    let (id, request) = request_of(taken).await?;
    let by = By { who: request.who, request: Some(id), repeated: request.attempt > 1 };
    let (latest, news) = (Arc::new(Mutex::new(String::new())), Arc::new(Notify::new()));
    let tell = {
        let (latest, news) = (latest.clone(), news.clone());
        move |progress: String| {
            *latest.lock() = progress;
            news.notify_one();
        }
    };
    let telling = async {
        loop {
            tokio::time::sleep(OFTEN).await;
            news.notified().await;
            let text = latest.lock().clone();
            if let Some(taken) = &mut *taken.lock().await {
                // Whoever has lost it is told so by the answer.
                let _ = life.queue.request_progress(taken, &text).await;
            }
        }
    };
    tokio::select! {
        answer = perform(house, life, &order, &by, &tell) => answer,
        () = telling => Err(Refused::new(Kind::Internal, "nobody was left to tell")),
    }
}

#[cfg(test)]
mod tests {
    use super::number;

    #[test]
    fn all_machines_and_versions_find_the_same_number_for_a_request() {
        assert_eq!(number(""), 0x8422_2325);
        assert_eq!(number("11111111-2222-4333-8444-555555555555"), 0xcd43_8762);
        assert_ne!(
            number("11111111-2222-4333-8444-555555555555"),
            number("11111111-2222-4333-8444-555555555556")
        );
    }
}
