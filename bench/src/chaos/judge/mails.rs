//! Every batch was reported: each report under one id, all of the batch in each, and the last one true. Whoever got one twice got the
//! same; no number was spent on one that says nothing new.
//!
//! Only what came out of the mail server counts, and the state of the jobs as the tree has it.

use std::collections::{BTreeMap, BTreeSet};

use ingest_queue::ids::{Bid, Jid};
use ingest_queue::states::JobState;

use super::super::settle::Reports;
use super::super::world::World;
use super::jobs::Job;

/// What the reports of a batch must come to.
#[derive(Debug, Clone, Default, PartialEq, Eq)]
struct Truth {
    /// How many reports there may be.
    most: u32,
    completed: usize,
    failed: Vec<Jid>,
}

/// A mail, as whoever got it reads it.
#[derive(Debug, Clone, PartialEq, Eq)]
struct Mail {
    id: String,
    /// How many jobs it calls completed, and failed.
    counts: Option<(usize, usize)>,
    text: String,
}

/// Answers how many mails there were.
pub(super) fn judge(world: &World, reports: &Reports, jobs: &[Job]) -> usize {
    let received = world.mail.received();
    let mails: Vec<Mail> = received.iter().map(|mail| read(mail)).collect();
    for wrong in wrongs(&mails, &truth(reports, jobs)) {
        world.book.breach(wrong);
    }
    received.len()
}

fn truth(reports: &Reports, jobs: &[Job]) -> BTreeMap<Bid, Truth> {
    let mut of: BTreeMap<Bid, Truth> =
        reports.iter().map(|(bid, most)| (*bid, Truth { most: *most, ..Truth::default() })).collect();
    for job in jobs {
        let Some(truth) = job.bid.and_then(|bid| of.get_mut(&bid)) else { continue };
        match job.state {
            Some(JobState::Completed) => truth.completed += 1,
            Some(JobState::Failed) => truth.failed.push(job.jid),
            _ => {}
        }
    }
    of
}

/// What is wrong with the mails.
fn wrongs(mails: &[Mail], truth: &BTreeMap<Bid, Truth>) -> Vec<String> {
    let mut wrongs = Vec::new();
    let mut by_id = BTreeMap::<&str, BTreeSet<&str>>::new();
    let mut by_batch = BTreeMap::<Bid, BTreeMap<u32, &Mail>>::new();
    for mail in mails {
        by_id.entry(&mail.id).or_default().insert(&mail.text);
        match of(&mail.id) {
            Some((bid, number)) => {
                by_batch.entry(bid).or_default().insert(number, mail);
            }
            None => wrongs.push(format!("a mail with the id {}", mail.id)),
        }
    }
    for (id, texts) in by_id.into_iter().filter(|(_, texts)| texts.len() > 1) {
        wrongs.push(format!("{id} was sent with {} contents:\n{texts:#?}", texts.len()));
    }
    for (bid, truth) in truth {
        let reports = by_batch.remove(bid).unwrap_or_default();
        wrongs.extend(
            of_batch(&reports, truth).into_iter().map(|wrong| format!("the reports of {bid}: {wrong}")),
        );
    }
    wrongs.extend(by_batch.keys().map(|bid| format!("a report of {bid}, which nobody has submitted")));
    wrongs
}

/// What is wrong with the reports of one batch.
fn of_batch(reports: &BTreeMap<u32, &Mail>, truth: &Truth) -> Vec<String> {
    let mut wrongs = Vec::new();
    let numbers: Vec<u32> = reports.keys().copied().collect();
    let count = u32::try_from(numbers.len()).unwrap_or(u32::MAX);
    if !numbers.iter().copied().eq(1..=count) || !(1..=truth.most).contains(&count) {
        wrongs.push(format!("they have the numbers {numbers:?}, of at most {}", truth.most));
    }
    let all = truth.completed + truth.failed.len();
    let counts: Vec<_> = reports.values().map(|mail| mail.counts).collect();
    // One that was sent before its jobs had ended would lack some of them.
    if counts.iter().any(|counts| counts.is_none_or(|(completed, failed)| completed + failed != all)) {
        wrongs.push(format!("they tell of {counts:?} jobs (completed, failed), of {all}"));
    }
    if counts.windows(2).any(|pair| pair[0] == pair[1]) {
        wrongs.push(format!("one says nothing new: {counts:?}"));
    }
    let Some(last) = reports.values().last() else { return wrongs };
    if last.counts != Some((truth.completed, truth.failed.len())) {
        let (completed, failed) = (truth.completed, truth.failed.len());
        wrongs.push(format!(
            "the last tells of {:?} jobs, and {completed} are completed, {failed} failed",
            last.counts
        ));
    }
    for jid in truth.failed.iter().filter(|jid| !last.text.contains(&jid.to_string())) {
        wrongs.push(format!("the last does not name {jid}, which has failed"));
    }
    wrongs
}

fn read(mail: &str) -> Mail {
    // Lines that belong together, in headers and in the text.
    let mail = mail.replace('\r', "").replace("=\n", "");
    let (head, _) = mail.split_once("\n\n").unwrap_or((&mail, ""));
    let head = head.replace("\n ", " ").replace("\n\t", " ");
    let header = |wanted: &str| {
        let named = |line: &str| {
            let (name, value) = line.split_once(':')?;
            name.eq_ignore_ascii_case(wanted).then(|| value.trim().to_owned())
        };
        head.lines().find_map(named).unwrap_or_default()
    };
    // The server's own lines differ from one delivery to the next.
    let text = mail.lines().filter(|line| !line.starts_with("X-")).collect::<Vec<_>>().join("\n");
    Mail { id: header("message-id"), counts: counted(&header("subject")), text }
}

/// `…: 3 completed, 1 failed`.
fn counted(subject: &str) -> Option<(usize, usize)> {
    let (completed, failed) = subject.rsplit_once(": ")?.1.split_once(", ")?;
    Some((completed.strip_suffix(" completed")?.parse().ok()?, failed.strip_suffix(" failed")?.parse().ok()?))
}

/// The batch and the number of a report.
fn of(id: &str) -> Option<(Bid, u32)> {
    let name = id.strip_prefix('<')?.split('@').next()?;
    let (bid, number) = name.split_once('-')?;
    Some((bid.parse().ok()?, number.parse().ok()?))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn bid() -> Bid {
        Bid::new(1)
    }

    fn mail(number: u32, completed: usize, failed: &[u32]) -> Mail {
        let names: Vec<String> = failed.iter().map(|number| Jid::new(*number).to_string()).collect();
        let names = names.join("\n");
        let bid = bid();
        let subject =
            format!("Ingest: OK --\r\n Batch {bid}: {completed} completed,\r\n {} failed", failed.len());
        read(&format!("Message-ID: <{bid}-{number}@host>\r\nSubject: {subject}\r\n\r\nFailed:\n{names}"))
    }

    fn found(mails: &[Mail], completed: usize, failed: &[u32]) -> String {
        let failed = failed.iter().copied().map(Jid::new).collect();
        wrongs(mails, &BTreeMap::from([(bid(), Truth { most: 2, completed, failed })])).join("; ")
    }

    #[test]
    fn true_reports_are_in_order_also_if_one_came_twice() {
        assert_eq!(found(&[mail(1, 3, &[]), mail(1, 3, &[])], 3, &[]), "");
        assert_eq!(found(&[mail(1, 1, &[4, 5]), mail(2, 2, &[5])], 2, &[5]), "");
    }

    #[test]
    fn no_report_too_many_and_a_gap_are_found() {
        assert!(found(&[], 3, &[]).contains("the numbers []"));
        assert!(found(&[mail(2, 3, &[])], 3, &[]).contains("the numbers [2]"));
        let three = [mail(1, 1, &[4, 5, 6]), mail(2, 2, &[5, 6]), mail(3, 3, &[6])];
        assert!(found(&three, 3, &[6]).contains("the numbers [1, 2, 3], of at most 2"));
    }

    #[test]
    fn one_report_under_two_ids_is_found() {
        assert!(found(&[mail(1, 2, &[5]), mail(2, 2, &[5])], 2, &[5]).contains("nothing new"));
    }

    #[test]
    fn one_id_with_two_contents_is_found() {
        assert!(found(&[mail(1, 2, &[5]), mail(1, 2, &[6])], 2, &[6]).contains("with 2 contents"));
    }

    #[test]
    fn a_report_before_all_jobs_had_ended_and_one_that_is_not_true_are_found() {
        assert!(found(&[mail(1, 2, &[])], 3, &[]).contains("of 3"));
        assert!(found(&[mail(1, 3, &[])], 2, &[5]).contains("2 are completed, 1 failed"));
        assert!(found(&[mail(1, 2, &[4])], 2, &[5]).contains("does not name jid0000000005"));
    }

    #[test]
    fn mails_of_nobody_are_found() {
        let stranger = Mail { id: "<hello@host>".into(), counts: None, text: String::new() };
        assert!(wrongs(&[stranger, mail(1, 1, &[])], &BTreeMap::new()).len() == 2);
    }
}
