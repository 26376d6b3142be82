//! What the server itself commits: transitions by the bare client, 64 in flight. The baseline of every
//! benchmark that commits transitions in another way.

use anyhow::Result;
use ingest_store::Session;

use crate::Context;
use crate::bare::Bare;
use crate::load::Span;
use crate::store::{self, Work, Workload};
use crate::trees::{Trees, ZOOKEEPER};

/// How many are at work at once.
pub(crate) const IN_FLIGHT: usize = 64;
const WORKLOAD: Workload = Workload { work: Work::Multi, tasks: IN_FLIGHT };

/// The bare client on a tree of its own, and a session that reads back what it did.
#[derive(Debug)]
pub(crate) struct Ceiling {
    pub(crate) bare: Bare,
    pub(crate) reader: Session,
}

impl Ceiling {
    /// Keeps the server busy until it has compiled itself; one part of the report.
    pub(crate) async fn warmed_up(trees: &Trees, context: &Context) -> Result<Self> {
        Ok(Self::measured(trees, context).await?.0)
    }

    /// The same, and how many transitions per second that were.
    pub(crate) async fn measured(trees: &Trees, context: &Context) -> Result<(Self, f64)> {
        let _part = context.report.part("warming up the server");
        let reader = trees.open(ZOOKEEPER, "ceiling").await?.session;
        store::make_parents(&reader).await?;
        let ceiling = Self { bare: trees.bare("ceiling").await?, reader };
        let per_s = ceiling.per_s(context.server_warm_up()).await?;
        Ok((ceiling, per_s))
    }

    /// What the baseline is called.
    pub(crate) fn name() -> String {
        WORKLOAD.baseline(ZOOKEEPER)
    }

    /// Makes the jobs of the baseline, to be worked on in slices.
    pub(crate) async fn begin(&self) -> Result<store::Running<Bare>> {
        store::Running::begin(&self.bare, &self.reader, &WORKLOAD).await
    }

    async fn per_s(&self, span: Span) -> Result<f64> {
        store::measure(&self.bare, &self.reader, &WORKLOAD, span).await
    }
}
