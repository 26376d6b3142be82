//! The logs of the daemon: one line an event, on stderr.
//!
//! Text is for people: time, level, message, then the fields of the event and of the spans around it. JSON is for
//! machines: the same, an object a line. What the same callsite says again and again is counted instead ([`throttle`]).
//! The filter is asked first, so an event of a level that is off costs a look at a flag.
//!
//! **When things break.** A line that cannot be written is lost, and nobody is stopped by it. Control characters are
//! escaped, so that what strangers send can neither begin a line of its own nor speak to a terminal.

mod fields;
mod gate;
mod lines;
mod settings;
#[cfg(test)]
mod tests;
mod throttle;

use std::io::{IsTerminal as _, Write};
use std::sync::Arc;

use tracing_subscriber::layer::SubscriberExt as _;
use tracing_subscriber::registry::LookupSpan;
use tracing_subscriber::{Registry, reload};

pub(crate) use self::fields::{Fields, text};
pub(crate) use self::settings::LogSettings;

use self::gate::Gate;
use self::lines::{Lines, Look};
use self::settings::{Colour, Format};
use crate::traces::TraceLayer;

/// Changes the logs while they are written. When it is dropped, what was counted and not yet told is told.
#[derive(Debug)]
pub(crate) struct LogHandle {
    filter: reload::Handle<Gate, Registry>,
    lines: Arc<Lines>,
}

impl LogHandle {
    /// Takes over the filter and the throttle. The format stays as it was.
    pub(crate) fn reload(&self, settings: &LogSettings) {
        // It fails only if the logs are gone, and then there is nothing to change.
        let _ = self.filter.reload(Gate(settings.filter.get()));
        self.lines.throttle.set(settings.throttle);
    }
}

impl Drop for LogHandle {
    fn drop(&mut self) {
        self.lines.tell_all();
    }
}

/// Begins to log, for the whole process, and to trace if there is a layer for that. If something else logs already, that
/// goes on and this does nothing.
pub(crate) fn init(settings: &LogSettings, traces: Option<TraceLayer>) -> LogHandle {
    let look = look(settings);
    let (subscriber, handle) = build(
        settings,
        look,
        Arc::new(|line| {
            let _ = std::io::stderr().lock().write_all(line);
        }),
    );
    let _ = tracing::subscriber::set_global_default(subscriber.with(traces));
    handle
}

/// Takes a whole line, with its end.
type Out = Arc<dyn Fn(&[u8]) + Send + Sync>;

fn build(
    settings: &LogSettings,
    look: Look,
    out: Out,
) -> (impl tracing::Subscriber + for<'a> LookupSpan<'a> + Send + Sync, LogHandle) {
    let lines = Arc::new(Lines::new(look, settings.throttle, out));
    let (filter, handle) = reload::Layer::new(Gate(settings.filter.get()));
    let subscriber = Registry::default().with(filter).with(lines::Layer(lines.clone()));
    (subscriber, LogHandle { filter: handle, lines })
}

fn look(settings: &LogSettings) -> Look {
    if settings.format == Format::Json {
        return Look::Json;
    }
    let wanted = std::env::var_os("NO_COLOR").is_none_or(|value| value.is_empty());
    let colour = match settings.colour {
        Colour::Always => true,
        Colour::Never => false,
        Colour::Auto => wanted && std::io::stderr().is_terminal(),
    };
    let journal = is_journal(std::env::var("JOURNAL_STREAM").ok().as_deref(), stderr_file());
    Look::Text { colour, journal }
}

/// systemd says which file is the journal; a process whose stderr was sent elsewhere inherits that, too.
fn is_journal(stream: Option<&str>, stderr: Option<(u64, u64)>) -> bool {
    let numbers = stream.and_then(|stream| stream.split_once(':'));
    let said = numbers.and_then(|(device, inode)| Some((device.parse().ok()?, inode.parse().ok()?)));
    said.is_some() && said == stderr
}

fn stderr_file() -> Option<(u64, u64)> {
    use std::os::unix::fs::MetadataExt as _;
    let file = std::fs::metadata("/proc/self/fd/2").ok()?;
    Some((file.dev(), file.ino()))
}
