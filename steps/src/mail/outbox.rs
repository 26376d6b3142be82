//! Mail that is put into a directory as `.eml` files, one a message, named after its id.
//!
//! A message whose bytes are there already was sent: nothing is written again. A different message with the same id is
//! written beside the first, under a name that ends with a digest of its content: after a tree was restored from a
//! backup, the same id can announce something new. A file has its name only when it is whole and on disk.

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

/// Writes the message unless a file with exactly this content is there.
fn write(path: &Path, data: &[u8]) -> std::io::Result<()> {
    for path in [path.to_owned(), sibling(path, data)] {
        if write_new(&path, data)? || holds(&path, data)? {
            return Ok(());
        }
    }
    Err(std::io::Error::other("another message has its name, and its second name too"))
}

/// `NAME.DIGEST.eml`: the name of a message whose own name another message has.
fn sibling(path: &Path, data: &[u8]) -> PathBuf {
    use sha2::Digest as _;
    let digest = sha2::Sha256::digest(data);
    path.with_extension(format!("{}.eml", crate::digest::hex(&digest[..8])))
}

fn holds(path: &Path, data: &[u8]) -> std::io::Result<bool> {
    match std::fs::read(path) {
        Ok(found) => Ok(found == data),
        // Collected by whoever delivers the mail.
        Err(error) if error.kind() == std::io::ErrorKind::NotFound => Ok(false),
        Err(error) => Err(error),
    }
}

/// Whether the file was written; `false` if there is one of this name.
fn write_new(path: &Path, data: &[u8]) -> std::io::Result<bool> {
    if path.try_exists()? {
        return Ok(false);
    }
    let dir = path.parent().unwrap_or(Path::new("."));
    std::fs::create_dir_all(dir)?;
    let mut file = tempfile::NamedTempFile::new_in(dir)?;
    file.write_all(data)?;
    file.as_file().sync_all()?;
    match file.persist_noclobber(path) {
        Ok(_) => {}
        // Another has just written it.
        Err(error) if error.error.kind() == std::io::ErrorKind::AlreadyExists => return Ok(false),
        Err(error) => return Err(error.error),
    }
    std::fs::File::open(dir)?.sync_all()?;
    Ok(true)
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
        outbox.send(&message()).await.unwrap();
        assert_eq!(std::fs::read(&path).unwrap(), message().compose().unwrap().formatted());
        assert_eq!(std::fs::read_dir(path.parent().unwrap()).unwrap().count(), 1);
    }

    #[tokio::test]
    async fn a_different_message_with_a_used_id_is_written_beside_the_first_and_once() {
        let dir = tempfile::tempdir().unwrap();
        let outbox = Outbox::new(dir.path());
        let other = Message { text: "other".into(), ..message() };
        for sent in [&message(), &other, &other, &message()] {
            outbox.send(sent).await.unwrap();
        }
        let read = |entry: std::io::Result<std::fs::DirEntry>| std::fs::read(entry.unwrap().path()).unwrap();
        let mut found: Vec<_> = std::fs::read_dir(dir.path()).unwrap().map(read).collect();
        let mut expected = [&message(), &other].map(|sent| sent.compose().unwrap().formatted());
        found.sort();
        expected.sort();
        assert_eq!(found, expected);
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
