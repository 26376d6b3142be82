//! Mail that is put into a directory as `.eml` files, one a message, named after its id.
//!
//! A message that is there already was sent: nothing is written again. A file has its name only when it is
//! whole and on disk.

use std::io::Write as _;
use std::path::{Path, PathBuf};

use futures::FutureExt;
use futures::future::BoxFuture;

use super::{Mail, Message};
use crate::outcome::{Failure, Result};

/// A directory that takes messages.
#[derive(Debug, Clone)]
pub struct Outbox {
    dir: PathBuf,
}

impl Outbox {
    pub fn new(dir: impl Into<PathBuf>) -> Self {
        Self { dir: dir.into() }
    }

    /// Where a message lies, or will.
    pub fn path(&self, id: &str) -> PathBuf {
        let fits = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '@' | '.');
        let name: String = id.chars().map(|c| if fits(c) { c } else { '_' }).collect();
        self.dir.join(format!("{}.eml", name.trim_start_matches('.')))
    }
}

impl Mail for Outbox {
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<()>> {
        async move {
            let data = message.compose()?.formatted();
            let path = self.path(&message.id);
            let written = {
                let path = path.clone();
                tokio::task::spawn_blocking(move || write(&path, &data)).await
            };
            let problem = |error: &dyn std::fmt::Display| {
                Failure::later(format!("the mail cannot be written to {}: {error}", path.display()))
            };
            written.map_err(|error| problem(&error))?.map_err(|error| problem(&error))
        }
        .boxed()
    }
}

fn write(path: &Path, data: &[u8]) -> std::io::Result<()> {
    if path.try_exists()? {
        return Ok(());
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(data)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        // Another has just sent the same one.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => {}
        Err(error) => return Err(error.error),
    }
    std::fs::File::open(dir)?.sync_all()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mail::tests::message;

    #[tokio::test]
    async fn a_message_is_put_there_once() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(dir.path().join("new/outbox"));
        outbox.send(&message()).await.unwrap();
        let path = outbox.path(&message().id);
        assert_eq!(std::fs::read(&path).unwrap(), message().compose().unwrap().formatted());
        let other = Message { text: "other".into(), ..message() };
        outbox.send(&other).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), message().compose().unwrap().formatted());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[test]
    fn an_id_cannot_lead_out_of_the_directory() {
        let outbox = Outbox::new("/outbox");
        assert_eq!(outbox.path("../../etc/passwd"), Path::new("/outbox/_.._etc_passwd.eml"));
    }

    #[tokio::test]
    async fn a_directory_that_cannot_be_written_is_for_later() {
        let dir = tempfile::tempdir().unwrap();
        std::fs::write(dir.path().join("file"), "").unwrap();
        let failure = Outbox::new(dir.path().join("file")).send(&message()).await.unwrap_err();
        assert!(
            matches!(&failure, Failure::Later(why) if why.contains("cannot be written to")),
            "{failure:?}"
        );
    }
}
