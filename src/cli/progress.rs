//! How far something long is: bars on a terminal, and nothing elsewhere.

use std::time::Duration;

use indicatif::{ProgressBar, ProgressStyle};

/// How often what moves by itself moves.
const TICK: Duration = Duration::from_millis(120);

/// So many bytes.
pub(super) fn bytes(total: Option<u64>, label: &str) -> ProgressBar {
    let (bar, style) = match total {
        Some(total) => (
            ProgressBar::new(total),
            style("{msg} {wide_bar} {binary_bytes}/{binary_total_bytes} {binary_bytes_per_sec} {eta}"),
        ),
        None => (ProgressBar::no_length(), style("{msg} {spinner} {binary_bytes} {binary_bytes_per_sec}")),
    };
    bar.with_style(style).with_message(label.to_owned())
}

/// Nobody knows how long.
pub(super) fn waiting(label: &str) -> ProgressBar {
    let bar = ProgressBar::new_spinner().with_style(style("{spinner} {wide_msg} {elapsed}"));
    bar.set_message(label.to_owned());
    bar.enable_steady_tick(TICK);
    bar
}

/// So many things. Nothing is drawn yet: what is to stand among others must not stand alone before.
pub(super) fn things(total: u64, label: &str) -> ProgressBar {
    let bar = if total == 0 { ProgressBar::no_length() } else { ProgressBar::new(total) };
    bar.with_style(style("{prefix} {msg:17} {wide_bar} {pos}/{len}")).with_prefix(label.to_owned())
}

/// Of none that are known nothing is done yet, and not everything.
pub(super) fn set_total(bar: &ProgressBar, total: u64) {
    if total == 0 {
        bar.unset_length();
    } else {
        bar.set_length(total);
    }
}

fn style(template: &str) -> ProgressStyle {
    // The templates are those above; a wrong one is a bar that looks otherwise.
    ProgressStyle::with_template(template).unwrap_or_else(|_| ProgressStyle::default_bar())
}
