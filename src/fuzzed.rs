//! What anybody may send or leave behind, tried with anything at all.
//!
//! Each of [`TARGETS`] takes any bytes, and panics if a promise is broken: that nothing is a crash is the first of them.
//! The fuzzer calls them from the crate in `tests/fuzz`; what it has found worth keeping lies in `tests/fuzz/corpus`, a
//! directory for each, and is replayed here with every run of the tests, on any toolchain. `docs/fuzzing.md` says how to
//! look for more.

#![allow(
    clippy::expect_used,
    clippy::naive_bytecount,
    reason = "a broken promise is a panic, and speed is nobody's business"
)]

mod anvl;
mod archive_names;
mod config;
mod manifest;
mod submission;
mod znode;

/// Something that takes any bytes.
#[derive(Debug, Clone, Copy)]
pub struct Target {
    pub name: &'static str,
    /// Panics if a promise is broken.
    pub run: fn(&[u8]),
}

/// What the fuzzer tries.
pub const TARGETS: &[Target] = &[
    Target { name: "manifest", run: manifest::run },
    Target { name: "znode", run: znode::run },
    Target { name: "config", run: config::run },
    Target { name: "archive_names", run: archive_names::run },
    Target { name: "anvl", run: anvl::run },
    Target { name: "submission", run: submission::run },
];

/// Runs one of them.
///
/// # Panics
/// If a promise is broken, or there is no such target.
pub fn run(name: &str, data: &[u8]) {
    let found = TARGETS.iter().find(|target| target.name == name);
    let target = found.unwrap_or_else(|| panic!("there is no target {name}"));
    (target.run)(data);
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use rand::rngs::StdRng;
    use rand::{Rng as _, SeedableRng as _};

    use super::*;

    #[test]
    fn all_that_was_kept_passes() {
        for Target { name, run } in TARGETS {
            let corpus = corpus(name);
            assert!(corpus.len() >= 5, "{name} has {}", corpus.len());
            for data in corpus {
                eprintln!("{name}: {:?}", String::from_utf8_lossy(&data));
                run(&data);
                // Cut off anywhere, it is still only data.
                run(&data[..data.len() / 2]);
            }
        }
    }

    /// Inputs that are made of each corpus; `INGESTD_FUZZ_INPUTS` says how many.
    const INPUTS: usize = 300;
    /// What is found is found by those who look for it, and not by chance by somebody who has changed something else.
    const SEED: u64 = 7;
    /// The most bytes of one.
    const LONGEST: usize = 8_192;

    #[test]
    fn what_is_made_of_them_by_chance_passes() {
        let inputs = std::env::var("INGESTD_FUZZ_INPUTS").map_or(INPUTS, |text| text.parse().unwrap());
        let seed: u64 = std::env::var("INGESTD_SEED").map_or(SEED, |text| text.parse().unwrap());
        eprintln!("INGESTD_SEED={seed}");
        let mut dice = StdRng::seed_from_u64(seed);
        for Target { name, run } in TARGETS {
            let corpus = corpus(name);
            for _ in 0..inputs {
                let data = changed(&corpus, &mut dice);
                let input = data.clone();
                let ran = std::panic::catch_unwind(|| run(&input));
                assert!(ran.is_ok(), "{name}, INGESTD_SEED={seed}: {:?}", String::from_utf8_lossy(&data));
            }
        }
    }

    fn corpus(name: &str) -> Vec<Vec<u8>> {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz/corpus").join(name);
        let mut paths: Vec<_> = std::fs::read_dir(dir).unwrap().map(|file| file.unwrap().path()).collect();
        paths.sort();
        paths.iter().map(|path| std::fs::read(path).unwrap()).collect()
    }

    /// One of the corpus with some bytes changed, left out, repeated, or taken from another.
    fn changed(corpus: &[Vec<u8>], dice: &mut StdRng) -> Vec<u8> {
        let mut data = corpus[dice.random_range(0..corpus.len())].clone();
        for _ in 0..dice.random_range(1..8) {
            let at = dice.random_range(0..=data.len());
            let end = (at + dice.random_range(0..16)).min(data.len());
            match dice.random_range(0..5) {
                0 if at < data.len() => data[at] = dice.random(),
                1 => drop(data.drain(at..end)),
                2 => {
                    let again = data[at..end].to_vec();
                    data.splice(at..at, again);
                }
                3 => {
                    let other = &corpus[dice.random_range(0..corpus.len())];
                    let from = dice.random_range(0..=other.len());
                    let to = (from + dice.random_range(0..64)).min(other.len());
                    data.splice(at..end, other[from..to].iter().copied());
                }
                _ => {
                    // What means something somewhere.
                    const WORDS: [&str; 14] = [
                        "\n", "\r\n", "|", "%", "%0A", "\0", "..", "/", "{", "}", "\"", "null", "\u{301}",
                        "-1",
                    ];
                    data.splice(at..at, WORDS[dice.random_range(0..WORDS.len())].bytes());
                }
            }
        }
        data.truncate(LONGEST);
        data
    }

    #[test]
    fn each_has_a_target_of_the_fuzzer() {
        let root = Path::new(env!("CARGO_MANIFEST_DIR")).join("tests/fuzz");
        let manifest = std::fs::read_to_string(root.join("Cargo.toml")).unwrap();
        for Target { name, .. } in TARGETS {
            assert!(
                manifest.contains(&format!("name = \"{name}\"")),
                "{name} is not in tests/fuzz/Cargo.toml"
            );
            let text = std::fs::read_to_string(root.join(format!("targets/{name}.rs"))).unwrap();
            assert!(text.contains(&format!("run(\"{name}\"")), "{name}: {text}");
        }
    }
}
