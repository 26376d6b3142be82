//! What the nodes tell of getting into each other's way: commits that were refused, because another was faster, and moves
//! for which nobody had to take a lock. A look at a job that another has locked already is counted nowhere.

use anyhow::{Context as _, Result};

use crate::node::daemon::Daemon;

const REFUSED: &str = "ingestd_commits_refused_total";
const HANDED_OVER: &str = "ingestd_handed_over_total";

/// Of all nodes together.
#[derive(Debug, Clone, Copy, Default)]
pub(super) struct Fights {
    pub(super) refused: f64,
    pub(super) handed_over: f64,
}

impl Fights {
    pub(super) async fn of(daemons: &[Daemon]) -> Result<Self> {
        let client = reqwest::Client::builder().no_proxy().build()?;
        let mut fights = Self::default();
        for daemon in daemons {
            let answer = client.get(format!("{}/metrics", daemon.address()?)).send().await?;
            let text = answer.error_for_status()?.text().await?;
            fights.refused += value(&text, REFUSED)?;
            fights.handed_over += value(&text, HANDED_OVER)?;
        }
        Ok(fights)
    }
}

/// A counter without labels, in the text format of Prometheus.
fn value(text: &str, name: &str) -> Result<f64> {
    let found = text.lines().find_map(|line| line.strip_prefix(name)?.strip_prefix(' '));
    let number = found.with_context(|| format!("the node does not tell of {name}"))?;
    number.trim().parse().with_context(|| format!("{name} is {number:?}"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_counter_is_found_by_its_whole_name_and_missed_if_it_is_not_there() {
        let text = "# HELP ingestd_handed_over Jobs.\n# TYPE ingestd_handed_over counter\n\
                    ingestd_handed_over_totals 7\ningestd_handed_over_total 12\n# EOF\n";
        assert!((value(text, HANDED_OVER).unwrap() - 12.0).abs() < 1e-9);
        assert!(value(text, REFUSED).unwrap_err().to_string().contains(REFUSED));
    }
}
