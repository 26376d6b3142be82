//! What is deposited: the number of a deposit and the seed say everything about it.
//!
//! Some files are served badly at first, a few are missing until somebody repairs their source, and a few are other
//! than their manifest says, for ever. Now and then a local id comes again: then its object gets another version.

use ingest_steps::digest::hex;
use rand::rngs::StdRng;
use rand::{Rng as _, RngCore as _, SeedableRng as _};
use sha2::{Digest as _, Sha256};

/// The collections: a hold on one leaves the others alone.
pub(crate) const COLLECTIONS: [&str; 2] = ["alpha", "beta"];

/// How a server misbehaves when it is asked for a file.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Misdeed {
    /// 503.
    Unavailable,
    /// The answer ends in its middle.
    Cut,
    /// The connection is reset in the middle of the answer.
    Reset,
    /// Half of it comes, and then nothing more.
    Silent,
}

const MISDEEDS: [Misdeed; 4] = [Misdeed::Unavailable, Misdeed::Cut, Misdeed::Reset, Misdeed::Silent];

/// What becomes of a file in the end.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Fate {
    Good,
    /// Not there until its source is repaired.
    Missing,
    /// Other than its manifest says.
    Wrong,
}

/// One object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Row {
    pub(crate) local_id: String,
    pub(crate) path: String,
    pub(crate) size: usize,
    pub(crate) fate: Fate,
    pub(crate) misdeeds: Vec<Misdeed>,
    content: u64,
}

/// One submission.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct Deposit {
    pub(crate) uuid: String,
    pub(crate) name: String,
    pub(crate) collection: &'static str,
    /// A single row is deposited as a file; more have a manifest.
    pub(crate) rows: Vec<Row>,
}

/// A deposit, by its number.
pub(crate) fn deposit(seed: u64, number: u64) -> Deposit {
    let mut chance = StdRng::seed_from_u64(seed.rotate_left(17) ^ number.wrapping_mul(0x9e37_79b9_7f4a_7c15));
    let collection = COLLECTIONS[chance.random_range(0..COLLECTIONS.len())];
    let count = if chance.random_ratio(1, 5) { 1 } else { chance.random_range(3..14) };
    let name = format!("d{number}");
    let rows = (0..count).map(|at| row(&mut chance, number, at, collection)).collect();
    Deposit { uuid: format!("chaos-{seed}-{number}"), name, collection, rows }
}

fn row(chance: &mut StdRng, number: u64, at: u64, collection: &str) -> Row {
    // Now and then one of the deposit before, or of this one.
    let again = chance.random_ratio(1, 12) && number > 0 && at > 0;
    let of = if again { number - chance.random_range(0..2) } else { number };
    let nth = if again { 0 } else { at };
    let size = if chance.random_ratio(1, 25) {
        chance.random_range(1_200_000..2_500_000)
    } else {
        chance.random_range(100..20_000)
    };
    let fate = match chance.random_range(0..60) {
        0 | 1 => Fate::Missing,
        2 => Fate::Wrong,
        _ => Fate::Good,
    };
    let misdeeds = if chance.random_ratio(1, 5) { chance.random_range(1..3) } else { 0 };
    let misdeeds = (0..misdeeds).map(|_| MISDEEDS[chance.random_range(0..MISDEEDS.len())]).collect();
    Row {
        local_id: format!("{collection}-{of}-{nth}"),
        path: format!("/d{number}/{at}.bin"),
        size,
        fate,
        misdeeds,
        content: chance.next_u64(),
    }
}

impl Row {
    /// The bytes of the file.
    pub(crate) fn content(&self) -> Vec<u8> {
        let mut content = vec![0; self.size];
        StdRng::seed_from_u64(self.content).fill_bytes(&mut content);
        content
    }

    /// The SHA-256 digest that the depositor says it has.
    pub(crate) fn announced(&self) -> String {
        match self.fate {
            Fate::Wrong => hex(&Sha256::digest(b"something else")),
            Fate::Good | Fate::Missing => hex(&Sha256::digest(self.content())),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_deposit_is_its_number_and_the_seed() {
        assert_eq!(deposit(1, 7), deposit(1, 7));
        assert_ne!(deposit(1, 7), deposit(2, 7));
        assert_eq!(deposit(1, 7).rows[0].content(), deposit(1, 7).rows[0].content());
    }

    #[test]
    fn there_is_something_of_everything_and_most_of_it_is_good() {
        let rows: Vec<Row> = (0..200).flat_map(|number| deposit(9, number).rows).collect();
        let of = |fate| rows.iter().filter(|row| row.fate == fate).count();
        assert!(of(Fate::Missing) > 0 && of(Fate::Wrong) > 0 && of(Fate::Good) > 8 * (rows.len() / 10));
        for misdeed in MISDEEDS {
            assert!(rows.iter().any(|row| row.misdeeds.contains(&misdeed)), "{misdeed:?}");
        }
        let ids: std::collections::BTreeSet<_> = rows.iter().map(|row| &row.local_id).collect();
        assert!(ids.len() < rows.len(), "some local ids come again");
        assert!(rows.iter().all(|row| row.misdeeds.len() < 3), "nobody needs more retries than there are");
    }
}
