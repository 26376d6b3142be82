//! `file:` URLs: files of this machine, below the configured roots and nowhere else.
//!
//! **When things break.** A path that leaves its root, by `..` or by a link, is refused before a byte is
//! read; so is what is no regular file. Everything here blocks: call it off the runtime.

use std::fs::{File, OpenOptions};
use std::os::fd::AsRawFd as _;
use std::os::unix::fs::OpenOptionsExt as _;
use std::path::PathBuf;

use rustix::fs::OFlags;
use url::Url;

use super::part::disk;
use super::redact::redacted;
use crate::outcome::Failure;

/// Opens the file of a `file:` URL, and says its size.
pub(super) fn open(url: &Url, roots: &[PathBuf]) -> Result<(File, u64), Failure> {
    let shown = redacted(url);
    let path = url
        .to_file_path()
        .map_err(|()| Failure::hopeless(format!("{shown}: names no file of this machine")))?;
    let outside = || Failure::fail(format!("{shown}: is not below a directory of `fetch.file_roots`"));
    let roots: Vec<PathBuf> = roots.iter().filter_map(|root| root.canonicalize().ok()).collect();
    // What is outside is refused alike whether it is there or not.
    let real = match path.canonicalize() {
        Ok(real) => real,
        Err(error) if roots.iter().any(|root| path.starts_with(root)) => {
            return Err(disk("read", &path, &error));
        }
        Err(_) => return Err(outside()),
    };
    if !roots.iter().any(|root| real.starts_with(root)) {
        return Err(outside());
    }
    // Not blocking: opening a pipe would wait for its writer.
    let flags = OFlags::NOFOLLOW | OFlags::NONBLOCK | OFlags::NOCTTY;
    let file = OpenOptions::new()
        .read(true)
        .custom_flags(flags.bits().cast_signed())
        .open(&real)
        .map_err(|error| disk("read", &real, &error))?;
    // A directory on the way may have become a link meanwhile: ask what was really opened.
    let opened = std::fs::read_link(format!("/proc/self/fd/{}", file.as_raw_fd()))
        .map_err(|error| disk("read", &real, &error))?;
    if !roots.iter().any(|root| opened.starts_with(root)) {
        return Err(outside());
    }
    let metadata = file.metadata().map_err(|error| disk("read", &real, &error))?;
    if !metadata.is_file() {
        return Err(Failure::fail(format!("{shown}: is no regular file")));
    }
    Ok((file, metadata.len()))
}

#[cfg(test)]
mod tests {
    use super::*;
    use std::io::Read as _;
    use std::os::unix::fs::symlink;

    struct Place {
        dir: tempfile::TempDir,
    }

    impl Place {
        fn new() -> Self {
            let dir = tempfile::tempdir().unwrap();
            std::fs::create_dir_all(dir.path().join("root/sub")).unwrap();
            std::fs::write(dir.path().join("root/sub/a b.txt"), "abc").unwrap();
            std::fs::write(dir.path().join("secret"), "secret").unwrap();
            Self { dir }
        }

        fn open(&self, path: &str) -> Result<(File, u64), Failure> {
            let url = Url::parse(&format!("file://{}/{path}", self.dir.path().display())).unwrap();
            open(&url, &[self.dir.path().join("root"), "/no/such/root".into()])
        }
    }

    #[test]
    fn a_file_below_a_root_is_read() {
        let (mut file, size) = Place::new().open("root/sub/a%20b.txt").unwrap();
        let mut text = String::new();
        file.read_to_string(&mut text).unwrap();
        assert_eq!((text.as_str(), size), ("abc", 3));
    }

    #[test]
    fn what_leaves_the_root_is_refused() {
        let place = Place::new();
        let path = place.dir.path();
        symlink(path.join("secret"), path.join("root/link")).unwrap();
        symlink("..", path.join("root/up")).unwrap();
        std::fs::create_dir(path.join("root-2")).unwrap();
        std::fs::write(path.join("root-2/x"), "x").unwrap();
        for name in [
            "secret",
            "root/../secret",
            "root/%2e%2e/secret",
            "root/..%2fsecret",
            "root/link",
            "root/up/secret",
            "root-2/x",
            "none",
        ] {
            let failure = place.open(name).unwrap_err();
            assert!(failure.to_string().contains("is not below"), "{name}: {failure}");
        }
    }

    #[test]
    fn a_link_that_stays_inside_is_followed() {
        let place = Place::new();
        symlink("sub/a b.txt", place.dir.path().join("root/link")).unwrap();
        assert_eq!(place.open("root/link").unwrap().1, 3);
    }

    #[test]
    fn a_missing_file_and_what_is_no_file_are_named() {
        let place = Place::new();
        assert!(place.open("root/none").unwrap_err().to_string().contains("root/none"));
        assert!(place.open("root/sub").unwrap_err().to_string().contains("no regular file"));
        let remote = Url::parse("file://elsewhere.org/a").unwrap();
        assert!(matches!(open(&remote, &[]), Err(Failure::Hopeless(_))));
    }
}
