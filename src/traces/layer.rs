//! From spans of the program to spans of traces: those around a job's step, a batch and an access item. What is said
//! within them are their events, and a warning is why they did not go well.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};
use std::time::SystemTime;

use serde_json::Value;
use tokio::sync::mpsc;
use tracing::span::{Attributes, Id, Record};
use tracing::{Event, Level, Subscriber};
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

use super::span::{Happened, Span, is_sampled, trace_id};
use crate::logs::{Fields, text};

/// The spans that are traced, each with the field that names the thing.
const TRACED: [(&str, &str); 3] = [("job", "job"), ("batch", "batch"), ("access", "item")];

/// The field that a span of a trace is called by, where there is one.
const STATE: &str = "state";

/// Events of one span that are kept.
const MOST: usize = 32;

/// Gathers spans.
#[derive(Debug)]
pub(crate) struct TraceLayer {
    tree: String,
    share: f64,
    sender: mpsc::Sender<Span>,
    lost: Arc<AtomicU64>,
}

/// A span that has not ended.
struct Going {
    thing: &'static str,
    began: SystemTime,
    fields: Fields,
    events: Vec<Happened>,
    error: Option<String>,
}

impl TraceLayer {
    pub(super) fn new(tree: String, share: f64, sender: mpsc::Sender<Span>, lost: Arc<AtomicU64>) -> Self {
        Self { tree, share, sender, lost }
    }

    /// The span that has ended, if its trace is one of those that are kept.
    fn ended(&self, name: &str, going: Going) -> Option<Span> {
        let Going { thing, began, fields, events, error } = going;
        let find = |wanted: &str| {
            fields.named.iter().find(|(name, _)| *name == wanted).map(|(_, value)| text(value))
        };
        let trace = trace_id(&self.tree, &find(thing)?);
        if !is_sampled(trace, self.share) {
            return None;
        }
        let name = find(STATE).unwrap_or_else(|| name.to_owned());
        let (id, ended) = (rand::random(), SystemTime::now());
        Some(Span { trace, id, name, began, ended, attributes: ours(fields.named), events, error })
    }
}

fn ours(fields: Vec<(&'static str, Value)>) -> Vec<(String, Value)> {
    fields.into_iter().map(|(name, value)| (format!("ingest.{name}"), value)).collect()
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for TraceLayer {
    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        let metadata = attributes.metadata();
        let traced = TRACED.iter().find(|(name, _)| *name == metadata.name());
        let (Some((_, thing)), Some(span)) = (traced, context.span(id)) else { return };
        if !metadata.target().starts_with("ingest") {
            return;
        }
        let mut fields = Fields::default();
        attributes.record(&mut fields);
        let began = SystemTime::now();
        span.extensions_mut().insert(Going { thing, began, fields, events: Vec::new(), error: None });
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        let Some(span) = context.span(id) else { return };
        if let Some(going) = span.extensions_mut().get_mut::<Going>() {
            values.record(&mut going.fields);
        }
    }

    fn on_event(&self, event: &Event<'_>, context: Context<'_, S>) {
        let mut around = context.event_scope(event).into_iter().flatten();
        let Some(span) = around.find(|span| span.extensions().get::<Going>().is_some()) else { return };
        let mut fields = Fields::default();
        event.record(&mut fields);
        let mut extensions = span.extensions_mut();
        let Some(going) = extensions.get_mut::<Going>() else { return };
        let name = fields.message.take().unwrap_or_default();
        if *event.metadata().level() <= Level::WARN {
            let why = fields.named.iter().find(|(name, _)| matches!(*name, "why" | "error"));
            going.error = Some(why.map_or_else(|| name.clone(), |(_, why)| format!("{name}: {}", text(why))));
        }
        if going.events.len() < MOST {
            going.events.push(Happened { at: SystemTime::now(), name, attributes: ours(fields.named) });
        }
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        let Some(span) = context.span(&id) else { return };
        let Some(going) = span.extensions_mut().remove::<Going>() else { return };
        if let Some(ended) = self.ended(span.name(), going)
            && self.sender.try_send(ended).is_err()
        {
            self.lost.fetch_add(1, Ordering::Relaxed);
        }
    }
}
