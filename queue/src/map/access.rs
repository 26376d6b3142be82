//! The two access queues, and the nodes of their items.

use super::{ACCESS, HeldQueue};
use crate::ids::Aid;

/// The two access queues.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash, PartialOrd, Ord, serde::Serialize, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum AccessSize {
    Small,
    Large,
}

impl AccessSize {
    pub const ALL: [AccessSize; 2] = [AccessSize::Small, AccessSize::Large];

    pub fn name(self) -> &'static str {
        match self {
            AccessSize::Small => "small",
            AccessSize::Large => "large",
        }
    }

    /// `/access/small`.
    pub fn dir(self) -> String {
        format!("{ACCESS}/{}", self.name())
    }

    pub fn item(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}", self.name())
    }

    pub fn token(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/token", self.name())
    }

    pub fn status(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/status", self.name())
    }

    pub fn lock(self, aid: Aid) -> String {
        format!("{ACCESS}/{}/{aid}/lock", self.name())
    }

    /// The hold that stops this queue.
    pub fn hold(self) -> HeldQueue {
        match self {
            AccessSize::Small => HeldQueue::AccessSmall,
            AccessSize::Large => HeldQueue::AccessLarge,
        }
    }
}
