//! Colours: what a state looks like.

/// How something is shown, where there is colour.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) enum Paint {
    #[default]
    None,
    Title,
    Good,
    Bad,
    Waits,
    Works,
    Dim,
}

impl Paint {
    /// By the name of a state of a job, a batch, an access item or a node.
    pub(crate) fn of_state(state: &str) -> Self {
        match state {
            "completed" | "running" | "connected" => Paint::Good,
            "failed" | "deleted" | "expired" => Paint::Bad,
            "held" | "paused" | "draining" | "suspended" => Paint::Waits,
            "pending" => Paint::None,
            _ => Paint::Works,
        }
    }

    fn code(self) -> Option<&'static str> {
        match self {
            Paint::None => None,
            Paint::Title => Some("1"),
            Paint::Good => Some("32"),
            Paint::Bad => Some("31"),
            Paint::Waits => Some("33"),
            Paint::Works => Some("36"),
            Paint::Dim => Some("2"),
        }
    }

    pub(crate) fn on(self, text: &str, colour: bool) -> String {
        match self.code().filter(|_| colour && !text.is_empty()) {
            Some(code) => format!("\x1b[{code}m{text}\x1b[0m"),
            None => text.to_owned(),
        }
    }
}
