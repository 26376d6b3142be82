//! Reads of several callers in one request.
//!
//! A server takes about as long for a request as for sixteen in one. So what is asked for at the same time is asked for
//! together, and nothing waits for more: while a few requests are under way, what comes gathers, and leaves when one of
//! them is answered.
//!
//! **When things break.** A lost answer is asked for again, as long as the session lives; what ends that is told to all.
//! An error that is about what one of them asked for is only that one's: each is asked for alone, then. While the session is
//! suspended nobody waits longer than one deadline, however many wait before him. If whoever sends dies, those whom he
//! sent for are told so, and another takes his place.

use std::collections::VecDeque;
use std::mem;
use std::sync::Arc;

use bytes::Bytes;
use ingest_store::error::Next;
use ingest_store::{Error, Kind, Result, Session, SessionState, Stat};
use parking_lot::Mutex;
use tokio::sync::oneshot;
use tokio::time::{Instant, sleep_until};

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
        let by = Instant::now() + self.session.limits().deadline;
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
            tokio::spawn(Sender { reads: self.clone(), is_done: false }.run());
        }
        let lost = || Error::new(Kind::ConnectionLoss, "nobody reads any more");
        tokio::select! {
            biased;
            found = answered => found.unwrap_or_else(|_| Err(lost())),
            () = self.suspended(by) => Err(self.not_connected()),
        }
    }

    /// Waits until it is so late, and the session is suspended. What ends the session is told with the answer.
    async fn suspended(&self, by: Instant) {
        sleep_until(by).await;
        let mut states = self.session.states();
        if states.wait_for(|now| now.state == SessionState::Suspended).await.is_err() {
            std::future::pending::<()>().await;
        }
    }

    fn not_connected(&self) -> Error {
        let waited = humantime::format_duration(self.session.limits().deadline);
        Error::new(Kind::Suspended, format!("waited {waited} for the connection"))
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

/// One of those who send, and its place among them.
#[derive(Debug)]
struct Sender {
    reads: Gathered,
    /// It has left its place already.
    is_done: bool,
}

impl Sender {
    /// Sends what waits, until nothing does.
    async fn run(mut self) {
        loop {
            for _ in 0..TURNS {
                tokio::task::yield_now().await;
            }
            let mut group: Vec<One> = {
                let asked = &mut *self.reads.asked.lock();
                let count = asked.waiting.len().min(TOGETHER);
                if count == 0 {
                    // Under the same lock: whoever asks next finds the place free.
                    asked.under_way -= 1;
                    self.is_done = true;
                    return;
                }
                asked.waiting.drain(..count).collect()
            };
            group.retain(|one| !one.answer.is_closed());
            self.reads.answer(group).await;
        }
    }
}

impl Drop for Sender {
    /// It has panicked, or its runtime ends: its place is free. If it was the last, those who wait are told, because
    /// nobody would come to them; it cannot call another, who might die of the same.
    fn drop(&mut self) {
        if self.is_done {
            return;
        }
        let left = {
            let asked = &mut *self.reads.asked.lock();
            asked.under_way -= 1;
            if asked.under_way == 0 { mem::take(&mut asked.waiting) } else { VecDeque::new() }
        };
        drop(left);
    }
}

/// Whether it is about what was asked for, and not about the session.
fn is_of_one(error: &Error) -> bool {
    matches!(error.next(), Next::GiveUp | Next::ReadAgain)
}

#[cfg(test)]
mod tests {
    use std::sync::atomic::{AtomicUsize, Ordering};
    use std::time::Duration;

    use futures::future::{BoxFuture, join_all};
    use ingest_store::engine::{Engine, EngineSession};
    use ingest_store::engines::embedded::{Embedded, EmbeddedConfig};
    use ingest_store::faults::{Fault, Faulty};
    use ingest_store::manner::Manner;
    use ingest_store::node::{Reply, Request};
    use ingest_store::{Limits, Mode, SessionStatus, Store};
    use tokio::sync::watch;

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
        fill(&session).await;
        Place { reads: Gathered::new(&session), calls, session, _dir: dir }
    }

    async fn fill(session: &Session) {
        for number in 0..100 {
            let path = path(number);
            session.create(&path, path.clone(), Mode::Persistent).await.unwrap();
        }
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

    /// An engine whose sessions are connected when a test says so, and that panics at so many calls.
    #[derive(Debug, Clone)]
    struct Trick {
        tree: Embedded,
        status: watch::Sender<SessionStatus>,
        panics: Arc<AtomicUsize>,
    }

    impl Trick {
        async fn place(limits: Limits) -> (Self, Gathered, tempfile::TempDir) {
            let dir = tempfile::tempdir().unwrap();
            let tree = Embedded::open(&EmbeddedConfig::new(dir.path())).unwrap();
            let status = watch::Sender::new(SessionStatus { state: SessionState::Connected, connections: 1 });
            let trick = Self { tree, status, panics: Arc::default() };
            let session = Store::new(Arc::new(trick.clone()), limits).session().await.unwrap();
            fill(&session).await;
            (trick, Gathered::new(&session), dir)
        }

        fn becomes(&self, state: SessionState) {
            self.status.send_modify(|status| status.state = state);
        }
    }

    impl Manner for Trick {
        fn below(&self) -> &dyn Engine {
            &self.tree
        }

        fn status(&self, _: &Arc<dyn EngineSession>) -> watch::Receiver<SessionStatus> {
            self.status.subscribe()
        }

        fn send(
            &self,
            below: &Arc<dyn EngineSession>,
            request: Request,
        ) -> BoxFuture<'static, Result<Reply>> {
            let left = |left: usize| left.checked_sub(1);
            let panics = self.panics.fetch_update(Ordering::SeqCst, Ordering::SeqCst, left);
            assert!(panics.is_err(), "a planned panic");
            below.send(request)
        }
    }

    async fn in_time<T>(asked: impl Future<Output = T>) -> T {
        tokio::time::timeout(Duration::from_secs(20), asked).await.expect("somebody waits for ever")
    }

    #[tokio::test]
    async fn whoever_sends_and_panics_keeps_nobody_waiting() {
        let (trick, reads, _dir) = Trick::place(Limits::default()).await;
        trick.panics.store(IN_FLIGHT, Ordering::SeqCst);
        // More than go with those who die.
        for found in in_time(ask(&reads, 0..(IN_FLIGHT + 1) * TOGETHER)).await {
            assert_eq!(found.unwrap_err().kind(), Kind::ConnectionLoss);
        }
        for (number, found) in in_time(ask(&reads, 0..100)).await.iter().enumerate() {
            is_own(number, found);
        }
    }

    #[tokio::test]
    async fn whoever_sends_and_is_dropped_keeps_nobody_waiting() {
        let (trick, reads, _dir) = Trick::place(Limits::default()).await;
        // Before it has begun, and while it waits for an answer.
        for polls in [0, TURNS + 1] {
            trick.becomes(SessionState::Suspended);
            reads.asked.lock().under_way = IN_FLIGHT;
            let mut asked = Box::pin(ask(&reads, 0..2 * TOGETHER));
            assert!(futures::poll!(&mut asked).is_pending());
            for _ in 0..IN_FLIGHT {
                let mut sender = Box::pin(Sender { reads: reads.clone(), is_done: false }.run());
                for _ in 0..polls {
                    assert!(futures::poll!(&mut sender).is_pending());
                }
            }
            for found in in_time(asked).await {
                assert_eq!(found.unwrap_err().kind(), Kind::ConnectionLoss);
            }
            trick.becomes(SessionState::Connected);
            is_own(7, &in_time(ask(&reads, 7..8)).await[0]);
        }
    }

    #[tokio::test]
    async fn nobody_waits_longer_than_one_deadline_for_a_connection() {
        let deadline = Duration::from_secs(30);
        let (trick, reads, _dir) = Trick::place(Limits { deadline, ..Limits::default() }).await;
        trick.becomes(SessionState::Suspended);
        tokio::time::pause();
        let waits = |number: usize| {
            let reads = reads.clone();
            async move {
                // One after the other, so that most ask while others wait already.
                tokio::time::sleep(Duration::from_millis(500) * u32::try_from(number).unwrap()).await;
                let began = Instant::now();
                let found = reads.get_many(vec![path(number)]).await;
                (found.unwrap_err().kind(), began.elapsed())
            }
        };
        for (kind, waited) in join_all((0..100).map(waits)).await {
            assert_eq!(kind, Kind::Suspended);
            assert!(waited <= deadline + Duration::from_millis(100), "{waited:?}");
        }
        tokio::time::resume();
        trick.becomes(SessionState::Connected);
        is_own(7, &ask(&reads, 7..8).await[0]);
    }
}
