//! What a benchmark says: rows of results on standard output, and its progress on standard error.

use std::io::{IsTerminal, Write};
use std::time::Duration;

use anyhow::{Result, ensure};
use indicatif::{ProgressBar, ProgressDrawTarget, ProgressStyle};
use serde::Serialize;

/// One result. A ratio above 1 is better than the baseline; without a baseline there is none.
#[derive(Debug, Clone, PartialEq, Serialize)]
pub(crate) struct Row {
    pub(crate) bench: &'static str,
    pub(crate) case: String,
    pub(crate) value: f64,
    pub(crate) unit: &'static str,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline: Option<String>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) baseline_value: Option<f64>,
    #[serde(skip_serializing_if = "Option::is_none")]
    pub(crate) ratio: Option<f64>,
}

impl Row {
    pub(crate) fn new(bench: &'static str, case: impl Into<String>, value: f64, unit: &'static str) -> Self {
        let value = rounded(value, 1);
        Self { bench, case: case.into(), value, unit, baseline: None, baseline_value: None, ratio: None }
    }

    /// The same with what it is compared with, for a unit of which more is better.
    pub(crate) fn against(mut self, baseline: impl Into<String>, value: f64) -> Self {
        self.baseline = Some(baseline.into());
        self.baseline_value = Some(rounded(value, 1));
        self.ratio = Some(rounded(self.value / value, 3));
        self
    }

    /// What is too little, if it is less than what is asked of it.
    pub(crate) fn falls_short(&self, least: f64) -> Option<String> {
        let ratio = self.ratio.filter(|ratio| *ratio < least)?;
        let baseline = self.baseline.as_deref().unwrap_or_default();
        Some(format!("{}: {ratio} of {baseline}, and at least {least} is asked for", self.case))
    }

    /// The row for people: the same columns in every row.
    fn aligned(&self) -> String {
        let unit = self.unit.replace("per_s", "/s");
        let line = format!("{:<10} {:<36} {:>10.1} {unit}", self.bench, self.case, self.value);
        match (&self.baseline, self.baseline_value, self.ratio) {
            (Some(name), Some(value), Some(ratio)) => {
                format!("{line}  = {ratio:>6.2} x {value:>10.1} {unit} ({name})")
            }
            _ => line,
        }
    }
}

/// Fails with all that was too little or too much, once every row has been printed.
pub(crate) fn judge(short: &[String]) -> Result<()> {
    ensure!(short.is_empty(), "{}", short.join("; "));
    Ok(())
}

fn rounded(value: f64, digits: i32) -> f64 {
    let scale = 10f64.powi(digits);
    (value * scale).round() / scale
}

/// Where a benchmark reports to.
#[derive(Debug)]
pub(crate) struct Report {
    bench: &'static str,
    json: bool,
    bar: ProgressBar,
    /// Whether there is no terminal to draw the bar on: then each part is a line.
    plain: bool,
}

impl Report {
    pub(crate) fn new(bench: &'static str, json: bool) -> Self {
        let plain = !std::io::stderr().is_terminal();
        let target = if plain { ProgressDrawTarget::hidden() } else { ProgressDrawTarget::stderr() };
        let bar = ProgressBar::with_draw_target(Some(0), target);
        if let Ok(style) = ProgressStyle::with_template("[{elapsed_precise}] {bar:30} {pos}/{len} {msg}") {
            bar.set_style(style);
        }
        Self { bench, json, bar, plain }
    }

    /// Says how many parts there will be.
    pub(crate) fn plan(&self, parts: usize) {
        self.bar.set_length(parts.try_into().unwrap_or(u64::MAX));
        self.bar.enable_steady_tick(Duration::from_millis(250));
    }

    /// Says what is being done; counts as a part from when it is done.
    pub(crate) fn part(&self, what: &str) -> Part<'_> {
        self.bar.set_message(what.to_owned());
        if self.plain {
            let (part, parts) = (self.bar.position() + 1, self.bar.length().unwrap_or(0));
            eprintln!("{}: part {part} of {parts}: {what}", self.bench);
        }
        Part(&self.bar)
    }

    /// A row of this benchmark, to be printed.
    pub(crate) fn row(&self, case: impl Into<String>, value: f64, unit: &'static str) -> Row {
        Row::new(self.bench, case, value, unit)
    }

    /// Prints a row.
    pub(crate) fn print(&self, row: &Row) -> Result<()> {
        let line = if self.json { serde_json::to_string(row)? } else { row.aligned() };
        self.bar.suspend(|| {
            let mut out = std::io::stdout().lock();
            writeln!(out, "{line}").and_then(|()| out.flush())
        })?;
        Ok(())
    }
}

impl Drop for Report {
    fn drop(&mut self) {
        self.bar.finish_and_clear();
    }
}

/// A part under way.
pub(crate) struct Part<'a>(&'a ProgressBar);

impl Drop for Part<'_> {
    fn drop(&mut self) {
        self.0.inc(1);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_row_with_a_baseline_is_the_documented_line() {
        let row =
            Row::new("store", "zookeeper c=64", 9100.04, "per_s").against("bare 5-op multi c=64", 10_900.0);
        assert_eq!(
            serde_json::to_string(&row).unwrap(),
            r#"{"bench":"store","case":"zookeeper c=64","value":9100.0,"unit":"per_s","baseline":"bare 5-op multi c=64","baseline_value":10900.0,"ratio":0.835}"#
        );
    }

    #[test]
    fn a_row_without_a_baseline_has_no_ratio() {
        let row = Row::new("store", "embedded memory", 12.0, "bytes");
        let line = serde_json::to_string(&row).unwrap();
        assert_eq!(line, r#"{"bench":"store","case":"embedded memory","value":12.0,"unit":"bytes"}"#);
        assert!(!row.aligned().contains('='), "{}", row.aligned());
    }

    #[test]
    fn a_ratio_below_what_is_asked_for_fails_with_the_case_and_both_numbers() {
        let row = Row::new("node", "zookeeper chain", 900.0, "per_s").against("bare", 1000.0);
        assert_eq!(row.falls_short(0.9), None);
        let short = row.falls_short(1.0).unwrap();
        assert_eq!(short, "zookeeper chain: 0.9 of bare, and at least 1 is asked for");
        assert_eq!(Row::new("node", "memory", 1.0, "mb").falls_short(1.0), None);
        assert!(judge(&[]).is_ok());
        let failed = judge(&[short, "that took 3 s".to_owned()]).unwrap_err().to_string();
        assert!(failed.starts_with("zookeeper chain: ") && failed.ends_with("; that took 3 s"), "{failed}");
    }

    #[test]
    fn the_columns_of_all_rows_are_aligned() {
        let short = Row::new("store", "embedded 1", 1.0, "per_s").against("a", 2.0).aligned();
        let long = Row::new("store", "embedded lock create/delete 64", 123_456.0, "per_s")
            .against("b", 99_999.9)
            .aligned();
        assert_eq!(short.find('='), long.find('='));
        assert_eq!(short.find("/s ("), long.find("/s ("));
    }
}
