//! Which files a version has: those of the payload, and those of the newest version that are carried forward.
//!
//! | mode | the object is not there | the object is there |
//! |---|---|---|
//! | `add` | a new object | merged: files of the payload replace those of the same name, the others are carried forward |
//! | `update` | the job fails | merged, in the same way |
//! | `replace` | the job fails | the files of the payload and no others |
//!
//! Files of the depositor are carried forward, system files are made anew. `mrt-delete.txt` removes files in a merge; a
//! file that it names and the payload brings is replaced. Nothing else removes a file.
//!
//! A job that was requeued after it had stored a version composes against the version before that one: its own is what
//! it does again.
//!
//! **When things break.** Nothing is stored, and the job fails: for a name in `mrt-delete.txt` that the newest version
//! does not have, for a name that would be a file and a directory, and for a version without a file of the depositor.

use std::collections::{BTreeMap, BTreeSet};
use std::fmt;

use super::{PRODUCER, delete};
use crate::outcome::{Failure, Result};
use crate::storage::{Carried, Kept, Mode, StoreFile, StoredManifest};

/// As many names are told; the rest is counted.
const MAX_NAMES_SHOWN: usize = 20;

/// What a version does to the depositor's files of the one before.
#[derive(Debug, Clone, Copy, Default, PartialEq, Eq)]
pub(super) struct Changes {
    pub(super) added: usize,
    pub(super) replaced: usize,
    pub(super) removed: usize,
    pub(super) unchanged: usize,
}

impl fmt::Display for Changes {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        if self.added + self.replaced + self.removed == 0 {
            return write!(f, "no file changed of {}", self.unchanged);
        }
        let Changes { added, replaced, removed, unchanged } = self;
        write!(f, "{added} added, {replaced} replaced, {removed} removed, {unchanged} unchanged")
    }
}

/// What is carried forward, and what becomes of the files of the version before, if there is one.
#[derive(Debug, Default, PartialEq, Eq)]
pub(super) struct Composition {
    pub(super) carried: Carried,
    pub(super) changes: Option<Changes>,
}

/// Composes the next version after `before`.
pub(super) fn compose(
    mode: Mode,
    files: &[StoreFile],
    delete: &BTreeSet<String>,
    before: Option<&StoredManifest>,
) -> Result<Composition> {
    let sent: BTreeMap<&str, &StoreFile> = producer(files.iter().map(|file| (file.path.as_str(), file)));
    let Some(before) = before else {
        refuse_to_delete(
            delete,
            "there is no version to remove files from; submit it without mrt-delete.txt",
        )?;
        return not_empty(sent.is_empty(), Composition::default());
    };
    let there: BTreeMap<&str, &Kept> =
        producer(before.files.iter().map(|(path, kept)| (path.as_str(), kept)));
    let mut carried = BTreeMap::new();
    if mode == Mode::Replace {
        refuse_to_delete(
            delete,
            "in the mode replace every file that is not in the payload is removed; submit it without \
             mrt-delete.txt, or in the mode update",
        )?;
    } else {
        let deleted = deleted(delete, &there, before)?;
        let kept = there.iter().filter(|(path, _)| !sent.contains_key(*path) && !deleted.contains(**path));
        carried = kept.map(|(path, kept)| ((*path).to_owned(), (*kept).clone())).collect();
    }
    clash(&sent.keys().copied().collect(), &carried.keys().map(String::as_str).collect())?;
    let same = |path: &&&str| {
        let (file, kept) = (sent.get(*path), there.get(*path));
        file.zip(kept).is_some_and(|(file, kept)| file.digests.contains(&kept.digest))
    };
    let known = sent.keys().filter(|path| there.contains_key(*path)).count();
    let identical = sent.keys().filter(same).count();
    let changes = Changes {
        added: sent.len() - known,
        replaced: known - identical,
        removed: there.len() - known - carried.len(),
        unchanged: identical + carried.len(),
    };
    let empty = sent.is_empty() && carried.is_empty();
    let carried = Carried { version: before.version, files: carried };
    not_empty(empty, Composition { carried, changes: Some(changes) })
}

fn producer<'a, T>(files: impl Iterator<Item = (&'a str, T)>) -> BTreeMap<&'a str, T> {
    files.filter(|(path, _)| path.starts_with(PRODUCER)).collect()
}

/// Refuses a file of the payload where a file that is carried forward needs a directory, or the other way round.
fn clash(sent: &BTreeSet<&str>, carried: &BTreeSet<&str>) -> Result<()> {
    // A file, and a path below it.
    let find = |files: &BTreeSet<&str>, paths: &BTreeSet<&str>| {
        paths.iter().find_map(|path| {
            let mut above = path.match_indices('/').map(|(end, _)| &path[..end]);
            Some((above.find(|directory| files.contains(directory))?.to_owned(), (*path).to_owned()))
        })
    };
    let found = find(carried, sent).or_else(|| find(sent, carried).map(|(new, old)| (old, new)));
    let Some((old, new)) = found else { return Ok(()) };
    Err(Failure::hopeless(format!(
        "`{}` of the payload cannot stand beside `{}` of the newest version: one name would be a file and a \
         directory; name the old file in mrt-delete.txt, or give the new one another name",
        new.escape_debug(),
        old.escape_debug()
    )))
}

fn refuse_to_delete(delete: &BTreeSet<String>, why: &str) -> Result<()> {
    match delete.first() {
        None => Ok(()),
        Some(first) => {
            Err(Failure::hopeless(format!("mrt-delete.txt names `{}`, and {why}", first.escape_debug())))
        }
    }
}

fn not_empty(empty: bool, composition: Composition) -> Result<Composition> {
    if empty {
        return Err(Failure::fail(
            "the version would have no file of the depositor; an object keeps at least one",
        ));
    }
    Ok(composition)
}

/// The paths that are removed; all names that are not there are told together.
fn deleted(
    delete: &BTreeSet<String>,
    there: &BTreeMap<&str, &Kept>,
    before: &StoredManifest,
) -> Result<BTreeSet<String>> {
    let mut unknown = Vec::new();
    let mut paths = BTreeSet::new();
    for line in delete {
        match delete::path_of(line, |path| there.contains_key(path)) {
            Some(path) => drop(paths.insert(path)),
            None => unknown.push(format!("`{}`", line.escape_debug())),
        }
    }
    if unknown.is_empty() {
        return Ok(paths);
    }
    let more = unknown.len().saturating_sub(MAX_NAMES_SHOWN);
    unknown.truncate(MAX_NAMES_SHOWN);
    let more = if more > 0 { format!(" and {more} more") } else { String::new() };
    Err(Failure::fail(format!(
        "mrt-delete.txt names files that {} version {} does not have: {}{more}; correct the names and submit it again",
        before.ark,
        before.version,
        unknown.join(", ")
    )))
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::{Algorithm, Digests};

    fn digest(content: &str) -> crate::digest::Digest {
        let mut digests = Digests::of([Algorithm::Sha512]);
        digests.update(content.as_bytes());
        digests.finish().remove(0)
    }

    fn sent(files: &[(&str, &str)]) -> Vec<StoreFile> {
        let file = |(path, content): &(&str, &str)| StoreFile {
            path: (*path).to_owned(),
            source: "x".into(),
            size: content.len() as u64,
            digests: vec![digest(content)],
        };
        files.iter().map(file).collect()
    }

    fn version(files: &[(&str, &str)]) -> StoredManifest {
        let kept = |content: &str| Kept {
            size: content.len() as u64,
            digest: digest(content),
            location: String::new(),
        };
        StoredManifest {
            ark: "ark:/99999/fk4".into(),
            version: 3,
            head: 3,
            created: String::new(),
            message: String::new(),
            key: None,
            files: files.iter().map(|(path, content)| ((*path).to_owned(), kept(content))).collect(),
        }
    }

    fn names(names: &[&str]) -> BTreeSet<String> {
        names.iter().map(|name| (*name).to_owned()).collect()
    }

    const HEAD: [(&str, &str); 4] =
        [("producer/a", "1"), ("producer/b", "2"), ("producer/d/c", "3"), ("system/mrt-erc.txt", "4")];
    const PAYLOAD: [(&str, &str); 4] =
        [("producer/a", "new"), ("producer/b", "2"), ("producer/n", "5"), ("system/mrt-erc.txt", "6")];

    #[test]
    fn a_merge_keeps_what_is_neither_sent_nor_removed() {
        for mode in [Mode::Add, Mode::Update] {
            let merged = compose(mode, &sent(&PAYLOAD), &names(&[]), Some(&version(&HEAD))).unwrap();
            assert_eq!(merged.carried.version, 3);
            assert_eq!(merged.carried.files.keys().collect::<Vec<_>>(), ["producer/d/c"]);
            let text = "1 added, 1 replaced, 0 removed, 2 unchanged";
            assert_eq!(merged.changes.unwrap().to_string(), text);
        }
        let same = compose(Mode::Update, &sent(&HEAD[..1]), &names(&[]), Some(&version(&HEAD))).unwrap();
        assert_eq!(same.changes.unwrap().to_string(), "no file changed of 3");
    }

    #[test]
    fn what_is_named_is_removed_unless_the_payload_brings_it() {
        let delete = names(&["d/c", "producer/a"]);
        let merged = compose(Mode::Update, &sent(&PAYLOAD), &delete, Some(&version(&HEAD))).unwrap();
        assert!(merged.carried.files.is_empty());
        let expected = Changes { added: 1, replaced: 1, removed: 1, unchanged: 1 };
        assert_eq!(merged.changes, Some(expected));
    }

    #[test]
    fn a_replacement_is_the_payload_and_nothing_else() {
        let replaced = compose(Mode::Replace, &sent(&PAYLOAD), &names(&[]), Some(&version(&HEAD))).unwrap();
        assert!(replaced.carried.files.is_empty());
        let expected = Changes { added: 1, replaced: 1, removed: 1, unchanged: 1 };
        assert_eq!(replaced.changes, Some(expected));
        let refused =
            compose(Mode::Replace, &sent(&PAYLOAD), &names(&["d/c"]), Some(&version(&HEAD))).unwrap_err();
        assert!(refused.to_string().contains("names `d/c`, and in the mode replace"), "{refused}");
    }

    #[test]
    fn all_unknown_names_are_told_at_once_and_in_bounds() {
        let delete = names(&["b", "nobody", "system/mrt-erc.txt"]);
        let refused = compose(Mode::Update, &sent(&PAYLOAD), &delete, Some(&version(&HEAD))).unwrap_err();
        let text = refused.to_string();
        assert!(
            text.contains("ark:/99999/fk4 version 3 does not have: `nobody`, `system/mrt-erc.txt`;"),
            "{text}"
        );
        let many: BTreeSet<_> = (0..1_000).map(|number| format!("x{number}")).collect();
        let text =
            compose(Mode::Update, &sent(&PAYLOAD), &many, Some(&version(&HEAD))).unwrap_err().to_string();
        assert!(text.contains(" and 980 more") && text.len() < 600, "{text}");
    }

    #[test]
    fn a_file_and_a_directory_of_one_name_are_told_with_what_to_do() {
        for (new, old) in [("producer/a/x", "producer/a"), ("producer/d", "producer/d/c")] {
            let files = sent(&[(new, "n")]);
            let merge = |delete: &[&str], mode| compose(mode, &files, &names(delete), Some(&version(&HEAD)));
            let refused = merge(&[], Mode::Update).unwrap_err().to_string();
            assert!(
                refused.starts_with(&format!("`{new}` of the payload cannot stand beside `{old}`")),
                "{refused}"
            );
            merge(&[old], Mode::Update).unwrap();
            merge(&[], Mode::Replace).unwrap();
        }
    }

    #[test]
    fn a_new_object_has_nothing_to_remove() {
        let added = compose(Mode::Add, &sent(&PAYLOAD), &names(&[]), None).unwrap();
        assert_eq!(added, Composition::default());
        let refused = compose(Mode::Add, &sent(&PAYLOAD), &names(&["a"]), None).unwrap_err();
        assert!(refused.to_string().contains("there is no version to remove files from"), "{refused}");
    }

    #[test]
    fn no_version_is_without_a_file_of_the_depositor() {
        let only_system = sent(&PAYLOAD[3..]);
        for (delete, before) in [(names(&["a", "b", "d/c"]), Some(version(&HEAD))), (names(&[]), None)] {
            let refused = compose(Mode::Add, &only_system, &delete, before.as_ref()).unwrap_err();
            assert!(refused.to_string().contains("no file of the depositor"), "{refused}");
        }
        let left = compose(Mode::Update, &only_system, &names(&["a"]), Some(&version(&HEAD))).unwrap();
        assert_eq!(left.carried.files.len(), 2);
    }
}
