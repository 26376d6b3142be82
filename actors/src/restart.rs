//! When a child that died is started again: at once, then after a growing pause, and not for ever.
//!
//! Pure: whoever uses it says what time it is and rolls the dice. A child that has lived longer than `within`
//! begins anew; one that dies more than `max_restarts` times in `within` is given up, and its parent decides.

use std::collections::VecDeque;
use std::time::Duration;

use serde::{Deserialize, Serialize};
use tokio::time::Instant;

/// How patient a supervisor is with a child.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Serialize)]
#[serde(deny_unknown_fields, default)]
pub struct Policy {
    /// More deaths than this in `within` are too many.
    pub max_restarts: u32,
    #[serde(with = "humantime_serde")]
    pub within: Duration,
    /// The first restart is made at once. This is the pause before the second; it doubles with each.
    #[serde(with = "humantime_serde")]
    pub backoff: Duration,
    #[serde(with = "humantime_serde")]
    pub max_backoff: Duration,
}

impl Default for Policy {
    fn default() -> Self {
        Self {
            max_restarts: 20,
            within: Duration::from_mins(5),
            backoff: Duration::from_millis(100),
            max_backoff: Duration::from_secs(30),
        }
    }
}

/// What becomes of a child that died.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Verdict {
    /// It is started again after this pause; the how-manieth restart in the window this is.
    Again { count: u32, after: Duration },
    /// It died too often.
    GiveUp { count: u32 },
}

/// The deaths of one child, as far as they still count.
#[derive(Debug, Clone)]
pub struct Restarts {
    policy: Policy,
    deaths: VecDeque<Instant>,
}

impl Restarts {
    pub fn new(policy: Policy) -> Self {
        Self { policy, deaths: VecDeque::new() }
    }

    /// From now on judged otherwise; what has happened still counts.
    pub fn set_policy(&mut self, policy: Policy) {
        self.policy = policy;
    }

    /// The child has died. `chance` is between 0 and 1: the pause is shortened by up to a half, so that not all
    /// children come back at once.
    pub fn died(&mut self, now: Instant, chance: f64) -> Verdict {
        while self.deaths.front().is_some_and(|at| now.duration_since(*at) >= self.policy.within) {
            self.deaths.pop_front();
        }
        self.deaths.push_back(now);
        let count = u32::try_from(self.deaths.len()).unwrap_or(u32::MAX);
        if count > self.policy.max_restarts {
            return Verdict::GiveUp { count };
        }
        if count == 1 {
            return Verdict::Again { count, after: Duration::ZERO };
        }
        let doubled = self.policy.backoff.saturating_mul(1 << (count - 2).min(20));
        let whole = doubled.min(self.policy.max_backoff);
        Verdict::Again { count, after: whole.mul_f64(1.0 - chance.clamp(0.0, 1.0) / 2.0) }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    const POLICY: Policy = Policy {
        max_restarts: 4,
        within: Duration::from_mins(1),
        backoff: Duration::from_secs(1),
        max_backoff: Duration::from_secs(3),
    };

    fn again(count: u32, seconds: u64) -> Verdict {
        Verdict::Again { count, after: Duration::from_secs(seconds) }
    }

    #[test]
    fn the_pause_doubles_up_to_its_bound_and_then_it_is_given_up() {
        let mut restarts = Restarts::new(POLICY);
        let now = Instant::now();
        assert_eq!(restarts.died(now, 0.0), again(1, 0));
        assert_eq!(restarts.died(now, 0.0), again(2, 1));
        assert_eq!(restarts.died(now, 0.0), again(3, 2));
        assert_eq!(restarts.died(now, 0.0), again(4, 3));
        assert_eq!(restarts.died(now, 0.0), Verdict::GiveUp { count: 5 });
    }

    #[test]
    fn what_is_long_ago_does_not_count() {
        let mut restarts = Restarts::new(POLICY);
        let start = Instant::now();
        for minute in 0..10 {
            let now = start + Duration::from_mins(minute);
            assert_eq!(restarts.died(now, 0.0), again(1, 0), "minute {minute}");
        }
        let just_before = start + Duration::from_mins(10) - Duration::from_millis(1);
        assert_eq!(restarts.died(just_before, 0.0), again(2, 1));
    }

    #[test]
    fn chance_shortens_by_a_half_at_most() {
        let after = |chance| {
            let mut restarts = Restarts::new(POLICY);
            restarts.died(Instant::now(), chance);
            match restarts.died(Instant::now(), chance) {
                Verdict::Again { after, .. } => after,
                Verdict::GiveUp { .. } => unreachable!("it died twice"),
            }
        };
        assert_eq!(after(1.0), Duration::from_millis(500));
        assert_eq!(after(7.0), Duration::from_millis(500));
        assert!(after(0.3) < after(0.2));
    }

    #[test]
    fn nothing_is_restarted_where_the_policy_has_none() {
        let mut restarts = Restarts::new(Policy { max_restarts: 0, ..POLICY });
        assert_eq!(restarts.died(Instant::now(), 0.5), Verdict::GiveUp { count: 1 });
    }
}
