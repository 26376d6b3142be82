//! `[log]`.

use std::fmt;
use std::time::Duration;

use serde::Deserialize;
use tracing_subscriber::EnvFilter;

const LEVELS: [&str; 6] = ["off", "error", "warn", "info", "debug", "trace"];

/// Those that write more than warnings.
const MORE: [&str; 3] = ["info", "debug", "trace"];
/// Parts that only warn, unless they are named: the runtime of the actors has a span around each, and the client tells
/// of its sessions what the node says itself.
const QUIET: [&str; 2] = ["ractor", "zookeeper_client"];

/// What is logged, and how.
#[derive(Debug, Clone, PartialEq, Eq, Deserialize, Default)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct LogSettings {
    pub format: Format,
    pub filter: Filter,
    pub colour: Colour,
    pub throttle: Throttle,
}

/// For whom.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Format {
    /// Text.
    #[default]
    Auto,
    /// For people.
    Text,
    /// For machines: an object a line.
    Json,
}

/// Whether text has colours.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize, Default)]
#[serde(rename_all = "lowercase")]
pub(crate) enum Colour {
    /// On a terminal, unless `NO_COLOR` is set.
    #[default]
    Auto,
    Always,
    Never,
}

/// How often the same message is written.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct Throttle {
    /// So many times in the window; 0: always.
    pub times: u32,
    /// How long the window is.
    #[serde(with = "humantime_serde")]
    pub within: Duration,
}

impl Default for Throttle {
    fn default() -> Self {
        Self { times: 10, within: Duration::from_mins(1) }
    }
}

/// Which events are written. It can be read, or there would be none.
#[derive(Clone, PartialEq, Eq, Deserialize)]
#[serde(try_from = "String")]
pub(crate) struct Filter(String);

impl Filter {
    pub(crate) fn get(&self) -> EnvFilter {
        let mut text = self.0.clone();
        let level = self.0.split(',').map(str::trim).rfind(|word| !word.contains('='));
        if level.is_some_and(|level| MORE.iter().any(|more| more.eq_ignore_ascii_case(level))) {
            for part in QUIET.iter().filter(|part| !self.0.contains(**part)) {
                text = format!("{text},{part}=warn");
            }
        }
        // It was read before; if it could not be read now, it would be the default.
        EnvFilter::try_new(text).unwrap_or_else(|_| EnvFilter::new("info"))
    }
}

impl Default for Filter {
    fn default() -> Self {
        Self("info".to_owned())
    }
}

impl fmt::Debug for Filter {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "{:?}", self.0)
    }
}

impl TryFrom<String> for Filter {
    type Error = String;

    fn try_from(text: String) -> Result<Self, String> {
        let wrong = |why: &str| format!("`{text}` is no filter: {why}");
        EnvFilter::try_new(&text).map_err(|error| wrong(&error.to_string()))?;
        // A word that stands alone is taken for a target, of which everything is then written, and of the rest nothing.
        let words = text.split(',').map(str::trim);
        let near = |word: &str| LEVELS.iter().any(|level| strsim::damerau_levenshtein(level, word) <= 1);
        let known = |word: &str| LEVELS.iter().any(|level| level.eq_ignore_ascii_case(word));
        let misspelt = words.filter(|word| !known(word)).find(|word| near(&word.to_ascii_lowercase()));
        match misspelt {
            Some(word) => Err(wrong(&format!("there is no level `{word}`"))),
            None => Ok(Self(text)),
        }
    }
}
