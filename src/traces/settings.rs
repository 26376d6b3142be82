//! `[traces]`.

use serde::Deserialize;
use url::Url;

/// Where traces go, and how many.
#[derive(Debug, Clone, PartialEq, Deserialize)]
#[serde(deny_unknown_fields, default)]
pub(crate) struct TraceSettings {
    /// The collector, as OTLP over HTTP; absent: there are no traces.
    pub endpoint: Option<Url>,
    /// The share of jobs that are traced: the same ones on all nodes.
    pub sample: f64,
}

impl Default for TraceSettings {
    fn default() -> Self {
        Self { endpoint: None, sample: 1.0 }
    }
}

impl TraceSettings {
    /// What is wrong with it: the key, and why.
    pub(crate) fn problems(&self) -> Vec<(&'static str, String)> {
        let scheme = self.endpoint.as_ref().map(Url::scheme);
        match scheme {
            Some(scheme) if !matches!(scheme, "http" | "https") => {
                vec![("traces.endpoint", format!("`{scheme}` is not spoken; only http and https are"))]
            }
            _ => Vec::new(),
        }
    }
}
