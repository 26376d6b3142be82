//! Reads of several callers in one request.
//!
//! A server takes about as long for a request as for sixteen in one. So what is asked for at the same time is asked for
//! together, and nothing waits for more: while a few requests are under way, what comes gathers, and leaves when one of
//! them is answered.
//!
//! **When things break.** A lost answer is asked for again, as long as the session lives; what ends that is told to all.
//! An error that is about what one of them asked for is only that one's: each is asked for alone, then.

use std::collections::VecDeque;
use std::sync::Arc;

use bytes::Bytes;
use ingest_store::error::Next;
use ingest_store::{Error, Kind, Result, Session, Stat};
use parking_lot::Mutex;
use tokio::sync::oneshot;

use super::get_many;

/// Requests under way at once.
const IN_FLIGHT: usize = 2;
/// Callers whose reads go in one request.
const TOGETHER: usize = 16;
/// How often those who are ready get their turn before a request leaves. Nothing waits for a clock.
const TURNS: usize = 3;

type Found = Result<Vec<Option<(Bytes, Stat)>>>;

/// The way in. Clones lead to the same.
#[derive(Debug, Clone)]
pub(crate) struct Gathered {
    session: Session,
    asked: Arc<Mutex<Asked>>,
}

#[derive(Debug, Default)]
struct Asked {
    waiting: VecDeque<One>,
    under_way: usize,
}

#[derive(Debug)]
struct One {
    paths: Vec<String>,
    answer: oneshot::Sender<Found>,
}

impl Gathered {
    pub(crate) fn new(session: &Session) -> Self {
        Self { session: session.clone(), asked: Arc::default() }
    }

    /// Data and stat of several nodes, as they are at one moment that is not before this call.
    pub(crate) async fn get_many(&self, paths: Vec<String>) -> Found {
        let (answer, answered) = oneshot::channel();
        let sends = {
            let asked = &mut *self.asked.lock();
            asked.waiting.push_back(One { paths, answer });
            let sends = asked.under_way < IN_FLIGHT;
            asked.under_way += usize::from(sends);
            sends
        };
        if sends {
            // Whoever has asked first may go away; the others wait for their answers.
            tokio::spawn(self.clone().send());
        }
        let lost = || Error::new(Kind::ConnectionLoss, "nobody reads any more");
        answered.await.unwrap_or_else(|_| Err(lost()))
    }

    /// Sends what waits, until nothing does.
    async fn send(self) {
        loop {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let mut group: Vec<One> = {
                let asked = &mut *self.asked.lock();
                let count = asked.waiting.len().min(TOGETHER);
                if count == 0 {
                    asked.under_way -= 1;
                    return;
                }
                asked.waiting.drain(..count).collect()
            };
            group.retain(|one| !one.answer.is_closed());
            self.answer(group).await;
        }
    }

    async fn answer(&self, group: Vec<One>) {
        let paths = group.iter().flat_map(|one| one.paths.iter().cloned()).collect();
        match get_many(&self.session, paths).await {
            Ok(found) => {
                let mut found = found.into_iter();
                for One { paths, answer } in group {
                    let _ = answer.send(Ok(found.by_ref().take(paths.len()).collect()));
                }
            }
            Err(error) if group.len() > 1 && is_of_one(&error) => {
                for One { paths, answer } in group {
                    let _ = answer.send(get_many(&self.session, paths).await);
                }
            }
            Err(error) => {
                for One { answer, .. } in group {
                    let _ = answer.send(Err(error.clone()));
                }
            }
        }
    }
}

/// Whether it is about what was asked for, and not about the session.
fn is_of_one(error: &Error) -> bool {
    matches!(error.next(), Next::GiveUp | Next::ReadAgain)
}

#[cfg(test)]
mod tests {
    use futures::future::join_all;
    use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
    use ingest_store::faults::{Fault, Faulty};
    use ingest_store::{Limits, Mode, Store};

    use super::*;

    struct Place {
        calls: Faulty,
        session: Session,
        reads: Gathered,
        _dir: tempfile::TempDir,
    }

    /// A hundred nodes that hold their own names.
    async fn place() -> Place {
        let dir = tempfile::tempdir().unwrap();
        let calls = Faulty::new(Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap());
        let session = Store::new(Arc::new(calls.clone()), Limits::default()).session().await.unwrap();
        for number in 0..100 {
            let path = path(number);
            session.create(&path, path.clone(), Mode::Persistent).await.unwrap();
        }
        Place { reads: Gathered::new(&session), calls, session, _dir: dir }
    }

    fn path(number: usize) -> String {
        format!("/{number}")
    }

    /// Each asks for its own node and for one that is not there.
    async fn ask(reads: &Gathered, numbers: impl IntoIterator<Item = usize>) -> Vec<Found> {
        join_all(numbers.into_iter().map(|number| reads.get_many(vec![path(number), format!("/no{number}")])))
            .await
    }

    fn is_own(number: usize, found: &Found) {
        let [Some((data, _)), None] = found.as_ref().unwrap().as_slice() else { panic!("{found:?}") };
        assert_eq!(data, path(number).as_bytes());
    }

    #[tokio::test]
    async fn what_is_asked_for_at_the_same_time_goes_together_and_everybody_gets_his_own() {
        let Place { calls, reads, .. } = &place().await;
        let before = calls.calls();
        for (number, found) in ask(reads, 0..100).await.iter().enumerate() {
            is_own(number, found);
        }
        assert_eq!(calls.calls() - before, 100_usize.div_ceil(TOGETHER));
        // A request that is answered leaves its place to the next.
        for number in 0..2 * IN_FLIGHT {
            is_own(number, &ask(reads, number..=number).await[0]);
        }
    }

    #[tokio::test]
    async fn one_alone_is_asked_for_at_once_and_who_has_gone_keeps_nobody() {
        let Place { calls, reads, .. } = &place().await;
        let before = calls.calls();
        is_own(7, &ask(reads, 7..8).await[0]);
        assert_eq!(calls.calls() - before, 1);
        // They ask, and go away before anything is sent.
        let mut gone: Vec<_> = (0..20).map(|number| Box::pin(reads.get_many(vec![path(number)]))).collect();
        for one in &mut gone {
            assert!(futures::poll!(one).is_pending());
        }
        drop(gone);
        is_own(9, &ask(reads, 9..10).await[0]);
    }

    #[tokio::test]
    async fn a_lost_answer_is_asked_for_again_for_all() {
        let Place { calls, reads, .. } = &place().await;
        for fault in [Fault::LoseRequest, Fault::LoseAnswer] {
            calls.break_call(0, fault);
            for (number, found) in ask(reads, 0..10).await.iter().enumerate() {
                is_own(number, found);
            }
            assert!(calls.has_happened());
        }
    }

    #[tokio::test]
    async fn the_end_of_the_session_is_told_to_all() {
        let Place { calls, reads, session, .. } = &place().await;
        calls.break_call(0, Fault::ExpireBefore);
        for found in ask(reads, 0..10).await {
            assert_eq!(found.unwrap_err().next(), Next::Rebuild);
        }
        assert!(session.state().is_final());
    }

    #[tokio::test]
    async fn what_one_asks_wrongly_is_no_error_of_the_others() {
        let Place { reads, .. } = &place().await;
        let wrong = reads.get_many(vec!["no path".to_owned()]);
        let (wrong, others) = tokio::join!(wrong, ask(reads, 0..5));
        assert_eq!(wrong.unwrap_err().kind(), Kind::BadArguments);
        for (number, found) in others.iter().enumerate() {
            is_own(number, found);
        }
    }
}
