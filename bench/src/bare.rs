//! The baselines: the same work by the bare `zookeeper-client`, with nothing of ours in between.

use std::time::Duration;

use anyhow::{Context, Result, bail};
use ingest_store::{Mode, Op};
use zookeeper_client::{Acls, Client, CreateMode, CreateOptions};

use crate::job::{BATCH_STATUS, Job, Tree};

const SESSION_TIMEOUT: Duration = Duration::from_secs(10);

/// One session of the bare client; clones are the same session.
#[derive(Debug, Clone)]
pub(crate) struct Bare {
    client: Client,
}

impl Bare {
    pub(crate) async fn connect(cluster: &str) -> Result<Self> {
        let client = Client::connector()
            .with_session_timeout(SESSION_TIMEOUT)
            .connect(cluster)
            .await
            .with_context(|| format!("the bare client cannot reach {cluster}"))?;
        Ok(Self { client })
    }

    /// Sends creates of persistent nodes as one multi.
    pub(crate) async fn create_all(&self, creates: &[Op]) -> Result<()> {
        let mut multi = self.client.new_multi_writer();
        for op in creates {
            let Op::Create { path, data, mode: Mode::Persistent } = op else {
                bail!("{} is to be created, and not by {op:?}", op.path());
            };
            multi.add_create(path, data, &open(CreateMode::Persistent))?;
        }
        multi.commit().await?;
        Ok(())
    }
}

fn open(mode: CreateMode) -> CreateOptions<'static> {
    mode.with_acls(Acls::anyone_all())
}

impl Tree for Bare {
    async fn commit(&self, jobs: &[Job], locked: bool) -> Result<()> {
        let mut multi = self.client.new_multi_writer();
        for job in jobs {
            let (from, to) = (job.stage(), job.next_stage());
            multi.add_set_data(&job.status, &to.status, Some(job.version))?;
            multi.add_delete(&from.queue_ref, None)?;
            multi.add_create(&to.queue_ref, &[], &open(CreateMode::Persistent))?;
            multi.add_set_data(&job.history, &to.history, None)?;
            multi.add_check_version(BATCH_STATUS, 0)?;
            if locked {
                multi.add_delete(&job.lock, None)?;
            }
        }
        multi.commit().await?;
        Ok(())
    }

    async fn lock(&self, job: &Job) -> Result<()> {
        self.client.create(&job.lock, &job.owner, &open(CreateMode::Ephemeral)).await?;
        Ok(())
    }

    async fn unlock(&self, job: &Job) -> Result<()> {
        self.client.delete(&job.lock, None).await?;
        Ok(())
    }
}
