//! Names of the members of an archive, one a line: whatever is taken stays below its directory, and no two of them are in
//! each other's way.

use std::collections::BTreeMap;

use ingest_steps::archive::Limits;
use ingest_steps::archive::names::{Register, read};
use unicode_normalization::UnicodeNormalization as _;

pub(super) fn run(data: &[u8]) {
    let limits = Limits::default();
    let (mut register, mut taken) = (Register::default(), BTreeMap::new());
    for raw in data.split(|byte| *byte == b'\n') {
        let Ok(Some(name)) = read(raw, &limits) else { continue };
        let path = &name.path;
        assert!(!path.is_empty() && path.len() <= limits.name, "{path:?}");
        assert!(!path.starts_with('/') && !path.contains('\\') && !path.contains('\0'), "{path:?}");
        for component in path.split('/') {
            assert!(!matches!(component, "" | "." | ".."), "{path:?}");
            assert!(component.len() <= 255, "{path:?}");
        }
        if register.add(path, name.directory, &limits).is_ok() {
            // As file systems that fold case, and compose letters, have it.
            let folded = path.nfc().collect::<String>().to_lowercase().nfc().collect::<String>();
            let before = taken.insert(folded, name.directory);
            // Only a directory may be named again.
            assert!(before.is_none_or(|directory| directory && name.directory), "{path:?} is there twice");
        }
    }
    let files: Vec<&String> =
        taken.iter().filter(|(_, directory)| !**directory).map(|(path, _)| path).collect();
    for file in files {
        let below = format!("{file}/");
        let inside = taken.range(below.clone()..).next().filter(|(path, _)| path.starts_with(&below));
        assert!(inside.is_none(), "{file:?} is a file, and {inside:?} lies in it");
    }
}
