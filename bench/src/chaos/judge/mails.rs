//! Every batch was reported, each report under one id; whoever got one twice got the same.

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::ids::Bid;

use super::super::settle::Reports;
use super::super::world::World;

/// Answers how many mails there were.
pub(super) fn judge(world: &World, reports: &Reports) -> usize {
    let received = world.mail.received();
    let mut texts = BTreeMap::<String, BTreeSet<String>>::new();
    for mail in &received {
        let (id, text) = parts(mail);
        texts.entry(id).or_default().insert(text);
    }
    let mut numbers = BTreeMap::<Bid, Vec<u32>>::new();
    for (id, texts) in &texts {
        if texts.len() > 1 {
            world.book.breach(format!("{id} was sent with {} contents:\n{texts:#?}", texts.len()));
        }
        match of(id) {
            Some((bid, number)) => numbers.entry(bid).or_default().push(number),
            None => world.book.breach(format!("a mail with the id {id}")),
        }
    }
    for (bid, most) in reports {
        let mut got = numbers.remove(bid).unwrap_or_default();
        got.sort_unstable();
        let is_row = got.iter().copied().eq(1..=u32::try_from(got.len()).unwrap_or(0));
        if got.is_empty() || !is_row || got.len() > usize::try_from(*most).unwrap_or(0) {
            world.book.breach(format!("the reports of {bid} have the numbers {got:?}, of at most {most}"));
        }
    }
    for bid in numbers.keys() {
        world.book.breach(format!("a report of {bid}, which nobody has submitted"));
    }
    received.len()
}

/// The Message-ID, and everything that whoever reads it sees.
fn parts(mail: &str) -> (String, String) {
    let id = mail.lines().find_map(|line| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case("message-id").then(|| value.trim().to_owned())
    });
    let seen = mail.lines().filter(|line| !line.starts_with("X-"));
    (id.unwrap_or_default(), seen.collect::<Vec<_>>().join("\n"))
}

/// The batch and the number of a report.
fn of(id: &str) -> Option<(Bid, u32)> {
    let name = id.strip_prefix('<')?.split('@').next()?;
    let (bid, number) = name.split_once('-')?;
    Some((bid.parse().ok()?, number.parse().ok()?))
}
