//! What can be done to a cluster: one table of actions, from which everything else is derived.
//!
//! The API's routes, the requests in the tree and the pages about them all lead here: whoever asks makes an [`Order`],
//! and [`perform`] does it on this node. What comes back is the same document everywhere.
//!
//! | to find | look in |
//! |---|---|
//! | the names, what they need, how often they are done | [`ACTIONS`] |
//! | their parameters | [`order`] |
//! | doing them | [`perform`] |
//! | why one is not done | `refused` |
//! | how one stands in a log | `told` |
//!
//! **When things break.** An action is done or refused; what it did stays done if whoever asked has gone. One that is done
//! on behalf of a request carries the request's id, and is done once where [`Once::Exactly`] says so.

mod bulk;
mod feed;
mod limit;
pub mod order;
mod perform;
mod pool;
mod refused;
mod told;

pub use order::Order;
pub use perform::{By, perform, shell_word};
pub use pool::pool_of;
pub use refused::{FieldProblem, Kind, Refused};

/// How often an action is done if its request is taken twice.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Once {
    /// The request's id is in what it commits.
    Exactly,
    /// A second time changes nothing more: what it wants is so already.
    Harmless,
    /// A second time is refused, or does again what was done.
    Perhaps,
}

impl Once {
    pub fn words(self) -> &'static str {
        match self {
            Once::Exactly => "exactly once",
            Once::Harmless => "at least once; again changes nothing",
            Once::Perhaps => "at least once; again may be refused",
        }
    }
}

/// An action.
#[derive(Debug, Clone, Copy)]
pub struct Action {
    pub name: &'static str,
    /// In words.
    pub what: &'static str,
    /// Its parameters; those that it cannot do without come first, and end with `!`.
    pub params: &'static [&'static str],
    /// Only an admin may, also through the API.
    pub admin: bool,
    /// It is about one node, which the request names.
    pub of_node: bool,
    pub once: Once,
}

macro_rules! actions {
    ($($name:literal $who:ident $where:ident $once:ident [$($param:literal)*] $what:literal;)+) => {
        /// All of them.
        pub const ACTIONS: &[Action] = &[$(Action {
            name: $name,
            what: $what,
            params: &[$($param),*],
            admin: stringify!($who).len() == "admin".len(),
            of_node: stringify!($where).len() == "node".len(),
            once: Once::$once,
        }),+];
    };
}

actions! {
    "job.requeue" operator any Exactly ["jid!" "state" "reason" "force"] "try a failed job again";
    "job.hold" operator any Exactly ["jid!" "reason" "force"] "hold a job that waits";
    "job.release" operator any Exactly ["jid!" "reason" "force"] "release a held job";
    "job.priority" operator any Exactly ["jid!" "priority!" "reason" "force"] "give a job another priority";
    "job.delete" admin any Perhaps ["jid!" "confirm!" "reason" "force"] "delete a failed or held job";
    "jobs.bulk" operator any Exactly
        ["action!" "filter" "state" "priority" "dry_run" "all" "expected" "confirm" "id" "reason"]
        "do something to all jobs that a filter selects";
    "batch.hold" operator any Perhaps ["batch!" "reason" "force"] "hold a pending batch";
    "batch.release" operator any Perhaps ["batch!" "reason" "force"] "release a held batch";
    "batch.update-report" operator any Perhaps ["batch!" "reason" "force"] "tell the depositor what came of a failed batch since";
    "batch.delete" admin any Perhaps ["batch!" "confirm!" "reason" "force"] "delete a failed or held batch with all its jobs";
    "queue.hold" operator any Harmless ["queue!" "reason"] "hold a queue: nothing new is taken from it";
    "queue.release" operator any Harmless ["queue!"] "lift the hold on a queue";
    "collection.hold" operator any Harmless ["collection!" "reason"] "hold a collection: what is pending of it goes to held";
    "collection.release" operator any Harmless ["collection!" "all"] "lift the hold on a collection";
    "access.requeue" operator any Perhaps ["size!" "aid!" "reason"] "try a failed access item again";
    "access.delete" admin any Perhaps ["size!" "aid!" "confirm!" "reason"] "delete a failed access item";
    "fsck" operator any Harmless [] "check every invariant of the tree";
    "fsck.repair" admin any Harmless [] "check the tree, and repair it";
    "node.pause" operator node Harmless ["reason"] "let a node take nothing new";
    "node.resume" operator node Harmless ["reason"] "let a paused node take work again";
    "node.drain" admin node Harmless ["reason"] "let a node end when what runs there is done";
    "pool.set" admin node Harmless ["pool!" "size" "stall"] "change a pool of a node, until its settings are read again";
    "profile.put" admin any Harmless ["name!" "text!"] "put a profile into the tree, for all nodes";
    "profile.delete" admin any Perhaps ["name!"] "remove a profile from the tree";
    "settings.set" admin any Harmless ["settings!"] "set keys for the whole cluster";
    "settings.unset" admin any Harmless ["keys!"] "leave keys to each node's own configuration again";
    "limit.set" operator any Harmless ["kind!" "name!" "limit"] "set a limit for all nodes; without a number there is none";
    "limit.clear" operator any Harmless ["kind!" "name!"] "clear what was set: what the files say holds again";
    "feed.pause" operator any Harmless ["feed!" "reason"] "pause a feed: nothing of it becomes a batch";
    "feed.resume" operator any Harmless ["feed!"] "let a feed go on where it stopped";
    "feed.ask" operator any Harmless ["feed!"] "ask a feed now, on whatever node consumes it";
    "feed.reset" admin any Harmless ["feed!" "last!" "confirm!"] "set the checkpoint of a feed; confirm is its name";
    "feed.forget" admin any Perhaps ["feed!"] "forget a feed that nobody consumes, with its checkpoint";
    "upkeep.run" admin any Harmless ["routine!"] "run a cleanup routine now";
}

impl Action {
    /// One of them, or which was perhaps meant.
    pub fn named(name: &str) -> Result<&'static Action, Refused> {
        if let Some(action) = ACTIONS.iter().find(|action| action.name == name) {
            return Ok(action);
        }
        let meant = ingest_steps::profile::closest(name, ACTIONS.iter().map(|action| action.name));
        let hint = meant.map_or_else(
            || {
                format!(
                    "; there are {}",
                    ACTIONS.iter().map(|action| action.name).collect::<Vec<_>>().join(", ")
                )
            },
            |meant| format!("; did you mean `{meant}`?"),
        );
        let shown: String = name.chars().take(64).collect();
        Err(Refused::field("action", format!("there is no action `{}`{hint}", shown.escape_debug())))
    }

    /// Whether it cannot do without this parameter.
    fn needs(&self, param: &str) -> bool {
        self.parameters().any(|(name, needed)| needed && name == param)
    }

    /// Its parameters, and whether it cannot do without.
    pub fn parameters(&self) -> impl Iterator<Item = (&'static str, bool)> {
        self.params.iter().map(|name| name.strip_suffix('!').map_or((*name, false), |name| (name, true)))
    }
}

#[cfg(test)]
mod tests {
    use serde_json::{Value, json};

    use super::*;

    /// What is right for each parameter.
    fn sample(name: &str) -> Value {
        match name {
            "jid" => json!("jid0000000001"),
            "aid" => json!("qid0000000001"),
            "size" => json!("small"),
            "state" => Value::Null,
            "action" => json!("hold"),
            "filter" | "settings" => json!({}),
            "keys" => json!([]),
            "force" | "confirm" | "all" | "dry_run" => json!(true),
            _ => json!("1"),
        }
    }

    #[test]
    fn every_action_of_the_table_can_be_ordered_with_the_parameters_it_names() {
        for action in ACTIONS {
            let all: serde_json::Map<_, _> = action
                .parameters()
                .map(|(name, _)| match (action.name, name) {
                    ("pool.set", "size") | ("limit.set", "limit") | (_, "expected") => {
                        (name.to_owned(), json!(1))
                    }
                    ("feed.reset", "confirm") => (name.to_owned(), json!("1")),
                    _ => (name.to_owned(), sample(name)),
                })
                .collect();
            let order = Order::read(action.name, Value::Object(all.clone()));
            assert!(order.is_ok(), "{}: {order:?}", action.name);
            assert_eq!(order.unwrap().action().name, action.name);
            for (name, needed) in action.parameters() {
                let mut less = all.clone();
                less.remove(name);
                let refused = Order::read(action.name, Value::Object(less)).err();
                // Whether something is confirmed is asked when it is known what would go.
                let needed = needed && name != "confirm";
                assert_eq!(refused.is_some(), needed, "{} without {name}: {refused:?}", action.name);
            }
            let mut more = all;
            more.insert("what_is_this".into(), json!(1));
            let refused = Order::read(action.name, Value::Object(more)).unwrap_err();
            assert!(refused.detail().contains("what_is_this"), "{refused:?}");
        }
    }

    #[test]
    fn what_is_no_action_says_what_was_perhaps_meant() {
        let refused = Order::read("job.hodl", json!({})).unwrap_err();
        assert!(refused.detail().contains("did you mean `job.hold`?"), "{refused:?}");
        let refused = Order::read("make coffee", json!({})).unwrap_err();
        assert!(refused.detail().contains("there are job.requeue, "), "{refused:?}");
    }
}
