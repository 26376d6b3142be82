//! What depositors are told, and that it is one message.

use std::path::PathBuf;
use std::time::Duration;

use ingest_harness::MailServer;
use ingest_queue::batches::{Ended, ReportDraft};
use ingest_queue::date::{Clock, Date};
use ingest_queue::ids::{Bid, Jid};
use ingest_queue::map;
use ingest_queue::nodes::Submission;
use ingest_queue::plan::batch::BatchAction;
use ingest_queue::plan::job::{Action, Change, NewJob};
use ingest_queue::queue::{Queue, Settings};
use ingest_queue::states::{BatchState, JobState};
use ingest_steps::mail::smtp::{Security, SmtpConfig};
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Failure, Progress, Result};
use ingest_steps::report::{About, report};
use ingest_steps::services::Services;
use ingest_steps::settings::MailBy;
use ingest_steps::step::expand::{self, Expansion};
use ingest_steps::step::tell::{self, Told};

use crate::expand::{jobs_of, manifest, pending, submission};
use crate::expand_faults::{Prepared, the_batch};
use crate::kit::{FileServer, Stage, WHO};
use crate::tree::Tree;

fn smtp(server: &MailServer) -> MailBy {
    MailBy::Smtp(SmtpConfig {
        host: "127.0.0.1".into(),
        port: Some(server.port()),
        security: Security::None,
        user: None,
        password: None,
        timeout: Duration::from_secs(30),
    })
}

/// The messages in the outbox directory, by name.
fn mails(stage: &Stage) -> Vec<(String, String)> {
    let Ok(entries) = std::fs::read_dir(stage.dir().join("outbox")) else { return Vec::new() };
    let mut found: Vec<_> = entries
        .map(|entry| entry.unwrap().path())
        .filter(|path: &PathBuf| path.extension().is_some_and(|end| end == "eml"))
        .map(|path| {
            let name = path.file_name().unwrap().to_str().unwrap().to_owned();
            (name, std::fs::read_to_string(path).unwrap())
        })
        .collect();
    found.sort();
    found
}

fn new_job(n: usize) -> NewJob {
    crate::kit::new_job(&ingest_steps::step::Payload {
        kind: ingest_steps::payload::PayloadKind::File,
        url: format!("https://example.org/{n}").parse().unwrap(),
        name: format!("n{n}"),
        size: None,
        digest: None,
        mime: None,
    })
}

async fn end(stage: &Stage, jid: Jid, to: JobState) {
    if to == JobState::Completed {
        return stage.bring(jid, to).await;
    }
    stage.bring(jid, JobState::Downloading).await;
    let mut lease = stage.take(jid).await;
    stage.queue.fail(&mut lease, &Change::message("no route to host")).await.unwrap();
}

/// A batch whose jobs have ended so.
async fn ended(stage: &Stage, jobs: &[JobState]) -> (Bid, Vec<Jid>) {
    let (bid, jids) = stage.batch(&(0..jobs.len()).map(new_job).collect::<Vec<_>>()).await;
    for (jid, to) in jids.iter().zip(jobs) {
        end(stage, *jid, *to).await;
    }
    (bid, jids)
}

async fn told(stage: &Stage, bid: Bid) -> Result<Told> {
    let mut lease = stage.queue.acquire_batch(bid, WHO).await?;
    if lease.batch().state() == BatchState::Processing {
        assert_eq!(stage.queue.end_batch(&mut lease).await?, Ended::Yes);
    }
    let told = tell::run(&stage.queue, &mut lease, &stage.services, &Progress::default()).await;
    if told.is_err() {
        stage.queue.release_batch(&mut lease).await.unwrap();
    }
    stage.fsck().await;
    told
}

#[tokio::test]
async fn a_report_is_sent_once_and_an_update_only_with_news() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let (bid, jids) = ended(&stage, &[JobState::Completed, JobState::Failed]).await;
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Failed)));
    let first = mails(&stage);
    assert_eq!(first.len(), 1);
    assert!(first[0].1.contains(&format!("Message-ID: <{bid}-1@localhost>")), "{}", first[0].1);
    assert!(first[0].1.contains("no route to host"), "{}", first[0].1);
    stage.queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    assert_eq!(told(&stage, bid).await, Ok(Told::NoNews(BatchState::Failed)));
    assert_eq!(mails(&stage), first, "nothing changed, nothing is sent");
    stage.queue.act(jids[1], &Action::Requeue(None), "", false).await.unwrap();
    end(&stage, jids[1], JobState::Completed).await;
    stage.queue.act_on_batch(bid, BatchAction::UpdateReport, "", false).await.unwrap();
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Completed)));
    let names: Vec<_> = mails(&stage).into_iter().map(|(name, _)| name).collect();
    assert_eq!(names, [format!("{bid}-1@localhost.eml"), format!("{bid}-2@localhost.eml")]);
    // What was sent last can be told again, word by word.
    let last = stage.queue.last_report(bid).await.unwrap().unwrap();
    let draft = ReportDraft::of_sent(bid, last).unwrap();
    assert_eq!((draft.is_update, &draft.newly_successful[..]), (true, &jids[1..]));
    let submission = stage.queue.submission(bid).await.unwrap();
    let profile = stage.services.profile(&submission.profile_name).unwrap();
    let about = About { bid, submission: &submission, profile: &profile };
    let text = report(&about, &draft, &stage.services.sender).unwrap().text;
    assert!(text.contains("Completed since the last report (1)"), "{text}");
    let sent = &mails(&stage)[1].1;
    for line in text.lines() {
        assert!(sent.contains(line), "`{line}` was not sent: {sent}");
    }
    let again = told(&stage, bid).await;
    assert!(matches!(&again, Err(Failure::Fail(why)) if why.contains("not reporting")), "{again:?}");
    tree.close().await;
}

#[tokio::test]
async fn what_is_not_kept_of_a_submission_is_told_in_its_report_and_in_the_batch() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let server = FileServer::start().await;
    let fields = "#%fields | nfo:fileUrl | nfo:fileName | mrt:unheard\n";
    let rows = ["https://example.org/a | a | x", "https://example.org/b | b | y"].map(str::to_owned);
    let text = manifest(Kind::SingleFileBatch, rows).replacen("https", &format!("{fields}https"), 1);
    let (bid, mut lease) = pending(&stage, &submission(server.put("/m", text).as_str())).await;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
    assert_eq!(answer, Expansion::Done { jobs: 2 });
    stage.queue.release_batch(&mut lease).await.unwrap();
    let jids = jobs_of(&stage, bid).await;
    stage.bring(jids[0], JobState::Completed).await;
    // And of one job, as downloading finds out.
    stage.bring(jids[1], JobState::Downloading).await;
    let mut lease = stage.take(jids[1]).await;
    let note = Some("column 8 is not kept".to_owned());
    stage.queue.succeed(&mut lease, &Change { note, ..Change::message("1 file") }).await.unwrap();
    stage.bring(jids[1], JobState::Completed).await;
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Completed)));
    let line = "column 3 of the manifest (`mrt:unheard`): 2 values are not kept: no such column is known";
    let mail = mails(&stage).remove(0).1.replace("=\r\n", "");
    assert!(mail.contains("Not kept") && mail.contains(line), "{mail}");
    let message = stage.queue.batch(bid).await.unwrap().status.message;
    assert_eq!(message, format!("2 completed, 0 failed; {line}"));
    let report = stage.queue.last_report(bid).await.unwrap().unwrap();
    let jobs: Vec<_> = report.successful_jobs.iter().map(|job| job.unwrap().message).collect();
    assert!(jobs.iter().any(|message| message.ends_with("column 8 is not kept")), "{jobs:?}");
    tree.close().await;
}

#[tokio::test]
async fn a_batch_that_failed_before_it_had_jobs_is_told_why() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let (bid, mut lease) = pending(&stage, &submission("gopher://example.org/m")).await;
    let (progress, cancel) = (Progress::default(), Cancel::new());
    let answer = expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await;
    assert!(matches!(answer, Ok(Expansion::Failed(_))), "{answer:?}");
    assert_eq!(stage.queue.with_report_in_outbox().await.unwrap(), [bid]);
    let before = stage.queue.batch(bid).await.unwrap().status.message;
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Failed)));
    let sent = mails(&stage);
    assert_eq!(sent.len(), 1);
    assert!(sent[0].1.contains("Subject: Ingest: FAILED"), "{}", sent[0].1);
    assert!(sent[0].1.contains("`gopher` is not fetched"), "{}", sent[0].1);
    let batch = stage.queue.batch(bid).await.unwrap();
    assert_eq!((batch.state(), batch.status.message), (BatchState::Failed, before));
    assert_eq!(stage.queue.with_report_in_outbox().await.unwrap(), []);
    assert_eq!(stage.queue.last_report(bid).await.unwrap().unwrap().number, 1);
    // Nothing is owed any more.
    assert!(matches!(told(&stage, bid).await, Err(Failure::Fail(_))));
    assert_eq!(mails(&stage), sent);
    tree.close().await;
}

#[tokio::test]
async fn without_a_recipient_the_administrators_are_told_or_the_batch_says_that_nobody_was() {
    let tree = Tree::embedded();
    for (admins, expected) in [(vec!["root@example.org".to_owned()], true), (Vec::new(), false)] {
        let stage = Stage::with(&tree.session().await, |settings| settings.mail.admins = admins).await;
        stage.profile(|text| text.replace("to = [\"curators@example.org\"]", ""));
        let (bid, _) = ended(&stage, &[JobState::Completed]).await;
        let answer = told(&stage, bid).await.unwrap();
        let message = stage.queue.batch(bid).await.unwrap().status.message;
        if expected {
            assert_eq!(
                (answer, message.as_str()),
                (Told::Sent(BatchState::Completed), "1 completed, 0 failed")
            );
            assert!(mails(&stage)[0].1.contains("To: root@example.org"));
        } else {
            assert_eq!((answer, mails(&stage)), (Told::Nobody(BatchState::Completed), vec![]));
            assert!(message.starts_with("1 completed, 0 failed; nobody was told"), "{message}");
        }
    }
    tree.close().await;
}

#[tokio::test]
async fn a_report_that_cannot_be_sent_keeps_the_batch_and_goes_out_later_under_its_id() {
    let tree = Tree::embedded();
    let server = MailServer::start().await;
    let by = smtp(&server);
    let stage = Stage::with(&tree.session().await, |settings| settings.mail.by = by).await;
    let (bid, _) = ended(&stage, &[JobState::Completed]).await;
    for address in ["busy@example.org", "refused@example.org"] {
        stage.profile(|text| text.replace("curators@example.org", address));
        let failure = told(&stage, bid).await.unwrap_err();
        assert!(
            matches!(&failure, Failure::Later(why) if why.contains("its report is not sent yet")),
            "{failure:?}"
        );
        let batch = stage.queue.batch(bid).await.unwrap();
        assert_eq!((batch.state(), batch.status.message), (BatchState::Reporting, failure.to_string()));
    }
    assert!(server.received().is_empty());
    stage.profile(str::to_owned);
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Completed)));
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].contains(&format!("Message-ID: <{bid}-1@localhost>")), "{}", received[0]);
    tree.close().await;
}

#[tokio::test]
async fn what_is_no_address_keeps_nobody_from_being_told() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let mut submission = submission("gopher://example.org/m");
    submission.other.insert("notification".into(), "ada@example.org, nobody".into());
    let (bid, mut lease) = pending(&stage, &submission).await;
    stage.queue.fail_batch(&mut lease, "no such payload").await.unwrap();
    assert_eq!(told(&stage, bid).await, Ok(Told::Sent(BatchState::Failed)));
    assert!(mails(&stage)[0].1.contains("To: curators@example.org, ada@example.org"));
    let message = stage.queue.batch(bid).await.unwrap().status.message;
    assert_eq!(message, "no such payload; no mail address: nobody");
    tree.close().await;
}

#[tokio::test]
async fn a_submission_is_told_to_be_queued_once_and_only_if_the_profile_asks() {
    let tree = Tree::embedded();
    let server = MailServer::start().await;
    let by = smtp(&server);
    let stage = Stage::with(&tree.session().await, |settings| settings.mail.by = by).await;
    let (bid, mut lease) = pending(&stage, &submission("https://example.org/a")).await;
    assert_eq!(tell::queued(&stage.queue, &mut lease, &stage.services).await, Ok(false));
    stage.profile(|text| text.replace("[notify]", "[notify]\nqueued = true"));
    for sent in [true, false, false] {
        assert_eq!(tell::queued(&stage.queue, &mut lease, &stage.services).await, Ok(sent));
    }
    // It is remembered by the batch, whatever becomes of it.
    stage.queue.fail_batch(&mut lease, "no such payload").await.unwrap();
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(tell::queued(&stage.queue, &mut lease, &stage.services).await, Ok(false));
    let received = server.received();
    assert_eq!(received.len(), 1);
    assert!(received[0].contains(&format!("Message-ID: <{bid}-0@localhost>")), "{}", received[0]);
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_report_has_the_date_at_which_it_was_noted() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let (bid, _) = ended(&stage, &[JobState::Completed]).await;
    let mut lease = stage.queue.acquire_batch(bid, WHO).await.unwrap();
    stage.queue.end_batch(&mut lease).await.unwrap();
    let first = stage.queue.draft_report(&mut lease).await.unwrap();
    stage.queue.release_batch(&mut lease).await.unwrap();
    let clock = Clock::fixed(Date::from_millis(1_863_257_425_000));
    let later = Queue::open(&tree.session().await, Settings::new("node-2"), clock).await.unwrap();
    let mut lease = later.acquire_batch(bid, WHO).await.unwrap();
    assert_eq!(later.draft_report(&mut lease).await.unwrap(), first);
    tree.close().await;
}

async fn story(queue: Queue, services: Services) -> Result<()> {
    let mut lease = queue.acquire_batch(the_batch(), WHO).await?;
    if lease.batch().state() == BatchState::Pending {
        tell::queued(&queue, &mut lease, &services).await?;
        queue.fail_batch(&mut lease, "no such payload").await?;
        lease = queue.acquire_batch(the_batch(), WHO).await?;
    }
    let owes = queue.with_report_in_outbox().await?.contains(&the_batch());
    if owes || lease.batch().state().is_reporting() {
        tell::run(&queue, &mut lease, &services, &Progress::default()).await?;
    } else {
        queue.release_batch(&mut lease).await?;
    }
    Ok(())
}

/// All that arrived since the last look: these ids, each always the same message.
fn arrived(server: &MailServer, seen: &parking_lot::Mutex<usize>, ids: &[&str]) {
    let received = server.received();
    let mut seen = seen.lock();
    let new = &received[*seen..];
    *seen = received.len();
    for id in ids {
        let line = format!("Message-ID: <{id}>");
        let same: Vec<_> = new.iter().filter(|mail| mail.contains(&line)).collect();
        assert!(!same.is_empty(), "{id} did not arrive");
        assert!(same.iter().all(|mail| *mail == same[0]), "{id} is two messages: {same:?}");
    }
    let others = new.iter().filter(|mail| !ids.iter().any(|id| mail.contains(&format!("<{id}>")))).count();
    assert_eq!(others, 0, "{new:?}");
}

async fn faulty(server: &MailServer, prepare: impl AsyncFnOnce(Queue)) -> Prepared {
    let tree = Tree::embedded();
    let by = smtp(server);
    let stage = Stage::with(&tree.session().await, |settings| settings.mail.by = by).await;
    stage.profile(|text| text.replace("[notify]", "[notify]\nqueued = true"));
    Prepared::new(stage, tree, prepare).await
}

async fn judged(queue: Queue, state: BatchState) {
    assert_eq!(queue.batch(the_batch()).await.unwrap().state(), state);
    assert!(queue.session().children(map::OUTBOX).await.unwrap().0.is_empty());
    assert_eq!(queue.last_report(the_batch()).await.unwrap().unwrap().number, 1);
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_report_has_one_id_whatever_breaks() {
    let server = MailServer::start().await;
    let prepared = faulty(&server, async |queue: Queue| {
        let mut lease = {
            let bid = queue.create_batch("uuid-1", &submission("https://example.org/m")).await.unwrap().bid;
            queue.acquire_batch(bid, WHO).await.unwrap()
        };
        queue.begin_expansion(&mut lease, b"#", 2).await.unwrap();
        queue.expand(&mut lease, 0, &[new_job(0), new_job(1)]).await.unwrap();
        let (names, _) = queue.session().children(map::JOBS).await.unwrap();
        let mut jids: Vec<Jid> = names.iter().filter_map(|name| name.parse().ok()).collect();
        jids.sort_unstable();
        for (n, jid) in jids.into_iter().enumerate() {
            loop {
                let job = queue.job(jid).await.unwrap();
                if job.state() == JobState::Completed || job.state() == JobState::Failed {
                    break;
                }
                let mut lease = queue.acquire(job.entry(), WHO).await.unwrap();
                if n == 1 && job.state() == JobState::Downloading {
                    queue.fail(&mut lease, &Change::message("no route")).await.unwrap();
                } else {
                    queue.succeed(&mut lease, &Change::default()).await.unwrap();
                }
            }
        }
        assert_eq!(queue.end_batch(&mut lease).await.unwrap(), Ended::Yes);
        queue.release_batch(&mut lease).await.unwrap();
    })
    .await;
    let seen = parking_lot::Mutex::new(0);
    let judge = async |queue: Queue| {
        judged(queue, BatchState::Failed).await;
        arrived(&server, &seen, &["bid0000000000-1@localhost"]);
    };
    prepared.through_every_fault(story, judge).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_batch_that_fails_is_told_under_one_id_whatever_breaks() {
    let server = MailServer::start().await;
    let prepared = faulty(&server, async |queue: Queue| {
        let submission = Submission { erc_who: Some("Ada".into()), ..submission("https://example.org/m") };
        queue.create_batch("uuid-1", &submission).await.unwrap();
    })
    .await;
    let seen = parking_lot::Mutex::new(0);
    let judge = async |queue: Queue| {
        judged(queue, BatchState::Failed).await;
        arrived(&server, &seen, &["bid0000000000-0@localhost", "bid0000000000-1@localhost"]);
    };
    prepared.through_every_fault(story, judge).await;
}
