//! The filter, which is about events alone.
//!
//! Spans of this program are always there, whatever the filter is: a warning says which job it is about also if
//! nothing but warnings is written.

use tracing::level_filters::LevelFilter;
use tracing::span::{Attributes, Id, Record};
use tracing::subscriber::Interest;
use tracing::{Level, Metadata, Subscriber};
use tracing_subscriber::EnvFilter;
use tracing_subscriber::layer::{Context, Layer};
use tracing_subscriber::registry::LookupSpan;

/// Spans up to this level are those that say what an event is about.
const SPANS: LevelFilter = LevelFilter::INFO;

#[derive(Debug)]
pub(super) struct Gate(pub EnvFilter);

fn is_about(metadata: &Metadata<'_>) -> bool {
    metadata.is_span() && *metadata.level() <= Level::INFO && metadata.target().starts_with("ingest")
}

impl<S: Subscriber + for<'a> LookupSpan<'a>> Layer<S> for Gate {
    fn register_callsite(&self, metadata: &'static Metadata<'static>) -> Interest {
        // Always asked, so that a filter that looks into spans learns of them.
        let interest = Layer::<S>::register_callsite(&self.0, metadata);
        if is_about(metadata) { Interest::always() } else { interest }
    }

    fn enabled(&self, metadata: &Metadata<'_>, context: Context<'_, S>) -> bool {
        is_about(metadata) || Layer::<S>::enabled(&self.0, metadata, context)
    }

    fn max_level_hint(&self) -> Option<LevelFilter> {
        Layer::<S>::max_level_hint(&self.0).map(|hint| hint.max(SPANS))
    }

    fn on_new_span(&self, attributes: &Attributes<'_>, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_new_span(&self.0, attributes, id, context);
    }

    fn on_record(&self, id: &Id, values: &Record<'_>, context: Context<'_, S>) {
        Layer::<S>::on_record(&self.0, id, values, context);
    }

    fn on_enter(&self, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_enter(&self.0, id, context);
    }

    fn on_exit(&self, id: &Id, context: Context<'_, S>) {
        Layer::<S>::on_exit(&self.0, id, context);
    }

    fn on_close(&self, id: Id, context: Context<'_, S>) {
        Layer::<S>::on_close(&self.0, id, context);
    }
}
