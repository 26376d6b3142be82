//! Nodes that have uploads, and whether they can be asked for them now.
//!
//! An upload stays on the disk of the node that has received it, and others fetch it from there. The submission and the job
//! that it becomes name that node ([`UPLOAD_NODE`]).
//!
//! **When things break.** A node that is away, or that is there and does not answer, is waited for until `work.node_grace` has
//! passed since that was seen first. Meanwhile one that is there is asked by one job at a time, with growing pauses. Only then the
//! job fails. What is known here is lost with the process, and the time begins anew.

use std::collections::{BTreeMap, BTreeSet};
use std::time::Duration;

use ingest_queue::nodes::Other;
use parking_lot::Mutex;
use tokio::time::Instant;

/// In a submission and in the configuration of a job: the name of the node that has the payload.
pub const UPLOAD_NODE: &str = "upload_node";

/// The pause before a node that is there and did not answer is asked again: the first, and the longest.
const PAUSE: Duration = Duration::from_secs(1);
const LONGEST_PAUSE: Duration = Duration::from_secs(30);

/// The node that has the payload, if it is another one than this.
pub fn other_node<'a>(other: &'a Other, own: &str) -> Option<&'a str> {
    other.get(UPLOAD_NODE)?.as_str().filter(|node| !node.is_empty() && *node != own)
}

/// What a job or a batch says while it waits.
pub fn waiting_for(node: &str) -> String {
    format!("waiting for the node {node}, which has the upload")
}

/// Whether a node can be asked for an upload.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Reach {
    Now,
    /// Not before then, or before it comes back.
    After(Instant),
    /// It has been away for `work.node_grace`: asking is all that is left.
    GraceOver,
}

/// What is known of all nodes. One for a process.
#[derive(Debug, Default)]
pub struct UploadNodes(Mutex<Known>);

#[derive(Debug, Default)]
struct Known {
    /// The components of each node that is there.
    present: BTreeMap<String, BTreeSet<String>>,
    away: BTreeMap<String, Away>,
    /// Nodes that have answered again since somebody asked.
    recovered: Vec<String>,
}

#[derive(Debug, Clone, Copy)]
struct Away {
    since: Instant,
    /// The tree says so: it is not asked before it comes back.
    left: bool,
    /// When it may be asked again.
    next: Instant,
    pause: Duration,
}

impl Away {
    fn since(now: Instant) -> Self {
        Self { since: now, left: false, next: now, pause: PAUSE }
    }

    fn is_over(&self, grace: Duration, now: Instant) -> bool {
        now.duration_since(self.since) >= grace
    }

    fn due(&self, grace: Duration) -> Instant {
        let over = self.since + grace;
        if self.left { over } else { self.next.min(over) }
    }

    fn ask_later(&mut self, now: Instant) {
        self.next = now + self.pause;
        self.pause = self.pause.saturating_mul(2).min(LONGEST_PAUSE);
    }
}

impl UploadNodes {
    /// Takes the components (node, component) that there are now. Answers the nodes that have come or gone: whoever waits for
    /// one of them looks again.
    pub fn seen(
        &self,
        components: impl IntoIterator<Item = (String, String)>,
        now: Instant,
    ) -> BTreeSet<String> {
        let mut present = BTreeMap::<String, BTreeSet<String>>::new();
        for (node, component) in components {
            present.entry(node).or_default().insert(component);
        }
        let mut known = self.0.lock();
        let before = std::mem::replace(&mut known.present, present.clone());
        let mut changed = BTreeSet::new();
        for node in before.keys().filter(|node| !present.contains_key(*node)) {
            known.away.entry(node.clone()).or_insert_with(|| Away::since(now)).left = true;
            changed.insert(node.clone());
        }
        for (node, components) in &present {
            // One that was started again has another component, perhaps before its last one is gone.
            let is_new = before.get(node).is_none_or(|before| !components.is_subset(before));
            if is_new && known.away.remove(node).is_some() {
                changed.insert(node.clone());
            }
        }
        changed
    }

    /// Whether any node is away, as far as is known.
    pub fn is_any_away(&self) -> bool {
        !self.0.lock().away.is_empty()
    }

    /// Whether a node can be asked. Of those that wait for one that did not answer, the first to ask when its pause is over
    /// tries for all.
    pub fn reach(&self, node: &str, grace: Duration, now: Instant) -> Reach {
        let mut known = self.0.lock();
        let Some(away) = known.away.get_mut(node) else { return Reach::Now };
        if away.is_over(grace, now) {
            Reach::GraceOver
        } else if away.left || away.next > now {
            Reach::After(away.due(grace))
        } else {
            away.ask_later(now);
            Reach::Now
        }
    }

    /// When whoever waits for the node has to look again; `None` if it need not be waited for (any more).
    pub fn due(&self, node: &str, grace: Duration, now: Instant) -> Option<Instant> {
        let known = self.0.lock();
        known.away.get(node).filter(|away| !away.is_over(grace, now)).map(|away| away.due(grace))
    }

    /// The node did not answer. `false`: that has lasted for the grace.
    pub fn failed(&self, node: &str, grace: Duration, now: Instant) -> bool {
        let mut known = self.0.lock();
        let away = known.away.entry(node.to_owned()).or_insert_with(|| Away::since(now));
        if away.next <= now {
            away.ask_later(now);
        }
        !away.is_over(grace, now)
    }

    /// The node has answered.
    pub fn answered(&self, node: &str) {
        let mut known = self.0.lock();
        if known.away.remove(node).is_some() {
            known.recovered.push(node.to_owned());
        }
    }

    /// Those that have answered again since the last call.
    pub fn recovered(&self) -> Vec<String> {
        std::mem::take(&mut self.0.lock().recovered)
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const GRACE: Duration = Duration::from_mins(10);

    fn there(names: &[(&str, &str)]) -> Vec<(String, String)> {
        names.iter().map(|(node, component)| ((*node).to_owned(), (*component).to_owned())).collect()
    }

    #[tokio::test]
    async fn a_node_that_is_away_is_waited_for_until_the_grace_is_over() {
        let (nodes, now) = (UploadNodes::default(), Instant::now());
        assert_eq!(nodes.reach("a", GRACE, now), Reach::Now, "nobody knows who is there");
        assert!(nodes.seen(there(&[("a", "a-1")]), now).is_empty());
        assert_eq!(nodes.reach("a", GRACE, now), Reach::Now);
        assert_eq!(nodes.seen(Vec::new(), now), BTreeSet::from(["a".to_owned()]));
        let later = now + GRACE / 2;
        assert_eq!(nodes.reach("a", GRACE, later), Reach::After(now + GRACE));
        assert_eq!(nodes.due("a", GRACE, later), Some(now + GRACE));
        assert!(nodes.failed("a", GRACE, later));
        assert_eq!(nodes.reach("a", GRACE, now + GRACE), Reach::GraceOver);
        assert!(!nodes.failed("a", GRACE, now + GRACE));
        assert_eq!(nodes.due("a", GRACE, now + GRACE), None);
        assert_eq!(nodes.seen(there(&[("a", "a-2")]), now + GRACE), BTreeSet::from(["a".to_owned()]));
        assert_eq!(nodes.reach("a", GRACE, now + GRACE), Reach::Now);
    }

    #[tokio::test]
    async fn a_node_that_was_never_seen_is_asked_and_has_its_grace_from_then_on() {
        let (nodes, now) = (UploadNodes::default(), Instant::now());
        nodes.seen(there(&[("b", "b-1")]), now);
        let asked = now + GRACE;
        assert!(!nodes.is_any_away());
        assert_eq!(nodes.reach("a", GRACE, asked), Reach::Now);
        assert!(nodes.failed("a", GRACE, asked) && nodes.is_any_away());
        assert_eq!(nodes.reach("a", GRACE, asked + GRACE), Reach::GraceOver);
    }

    #[tokio::test]
    async fn a_node_that_is_there_and_does_not_answer_is_asked_by_one_at_a_time() {
        let (nodes, now) = (UploadNodes::default(), Instant::now());
        nodes.seen(there(&[("a", "a-1")]), now);
        assert!(nodes.failed("a", GRACE, now));
        let next = now + PAUSE;
        assert_eq!(nodes.reach("a", GRACE, now), Reach::After(next));
        assert_eq!(nodes.reach("a", GRACE, next), Reach::Now);
        assert_eq!(nodes.reach("a", GRACE, next), Reach::After(next + PAUSE * 2), "one asks for all");
        assert!(nodes.failed("a", GRACE, next));
        assert_eq!(nodes.due("a", GRACE, next), Some(next + PAUSE * 2));
        nodes.answered("a");
        assert_eq!((nodes.reach("a", GRACE, next), nodes.recovered()), (Reach::Now, vec!["a".to_owned()]));
        assert!(nodes.recovered().is_empty());
    }

    #[tokio::test]
    async fn a_node_that_was_started_again_before_its_old_session_is_over_is_asked_at_once() {
        let (nodes, now) = (UploadNodes::default(), Instant::now());
        nodes.seen(there(&[("a", "a-1")]), now);
        nodes.failed("a", GRACE, now);
        assert!(!nodes.seen(there(&[("a", "a-1"), ("a", "a-2")]), now).is_empty());
        assert_eq!(nodes.reach("a", GRACE, now), Reach::Now);
        assert!(nodes.seen(there(&[("a", "a-2")]), now).is_empty(), "only its old component is gone");
    }

    #[test]
    fn only_another_node_is_waited_for() {
        let of = |name: &str| Other::from_iter([(UPLOAD_NODE.to_owned(), name.into())]);
        assert_eq!(other_node(&of("a"), "b"), Some("a"));
        assert_eq!(other_node(&of("a"), "a"), None);
        assert_eq!(other_node(&of(""), "a"), None);
        assert_eq!(other_node(&Other::new(), "a"), None);
    }
}
