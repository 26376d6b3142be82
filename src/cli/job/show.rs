//! `ingestd job show`.

use anyhow::Result;
use ingest_queue::ids::Jid;
use ingest_queue::states::States;

use crate::api::wire::Job;
use crate::cli::client::Server;
use crate::cli::screen::{Records, Screen};
use crate::cli::words;

#[derive(Debug, clap::Args)]
pub(crate) struct Show {
    /// The job
    job: Jid,

    #[command(flatten)]
    server: Server,
}

impl Show {
    pub(super) async fn run(self) -> Result<()> {
        let client = self.server.client()?;
        let job: Job = client.send(client.get(&["jobs", &self.job.to_string()])).await?;
        if self.server.json() {
            return self.server.output().print(&job);
        }
        Screen::stdout().records(&records(&job))
    }
}

fn records(job: &Job) -> Records {
    let status = &job.status;
    let mut records = Records::default();
    records.add("job", job.jid.to_string());
    records.add("batch", job.bid.to_string());
    records.state("state", job.state.name());
    records.add("message", &status.message);
    if !status.recoverable {
        records.add("recoverable", "no: it has to be submitted again");
    }
    records.add("changed", words::date(status.last_modification_date));
    records.add("last successful", status.last_successful_status.map(States::name).unwrap_or_default());
    records.add("priority", job.priority.to_string());
    records.add("space needed", words::bytes(u64::try_from(job.space_needed).unwrap_or(0)));
    records.add("retries", status.retry_count.to_string());
    records.add("attempt", status.attempt.to_string());
    records.add("started", words::date(status.start_processing_date));
    records.add("not before", words::date(status.process_date));
    records.add("expires", words::date(status.expiration_date));
    if let Some(lock) = &job.lock {
        records.add(
            "worked on",
            format!("by {} since {}, attempt {}", lock.node, words::date(lock.since), lock.attempt),
        );
    }
    records.object("identifiers", &job.identifiers);
    records.object("metadata", &job.metadata);
    records.object("configuration", &job.configuration);
    let parts = [("schedule", &job.schedule), ("work", &job.work), ("inventory", &job.inventory)];
    for (name, part) in parts {
        if let Some(part) = part {
            records.object(name, part);
        }
    }
    records.add("may be", if job.may.is_empty() { "nothing now".to_owned() } else { job.may.join(", ") });
    records
}
