//! What is judged of each mark, without a tree.

use super::*;
use crate::date::Date;

fn view(mark: Mark, path: &str, data: &str, leads_to: LeadsTo) -> MarkView {
    let node = Seen::value(bytes::Bytes::from(data.to_owned()));
    MarkView { mark, path: path.into(), node, ephemeral: false, children: 0, leads_to }
}

fn code_in(view: &MarkView, dialect: Dialect) -> Option<&'static str> {
    judge(view, &Context { dialect, ..Context::for_tests() }).map(|found| found.code.text())
}

fn code(view: &MarkView) -> Option<&'static str> {
    code_in(view, Dialect::Design)
}

fn to_batch(state: Option<BatchState>) -> LeadsTo {
    LeadsTo::Batch(Bid::new(1), state.map(Seen::value))
}

fn to_job(state: Option<JobState>) -> LeadsTo {
    LeadsTo::Job(Jid::new(1), state.map(Seen::value))
}

#[test]
fn what_leads_to_a_batch_leads_to_one_that_fits() {
    let bid = "bid0000000001";
    let lost = |mark, state| code(&view(mark, "/x", bid, to_batch(state)));
    assert_eq!(lost(Mark::Uuid, Some(BatchState::Completed)), None);
    assert_eq!(lost(Mark::Uuid, None), Some("U01"));
}

fn key_view(keys: &Keys, states: &[(u32, Option<BatchState>)]) -> MarkView {
    let data = String::from_utf8(keys.write(Dialect::Design).to_vec()).unwrap();
    let found = states.iter().map(|(bid, state)| (Bid::new(*bid), state.map(Seen::value))).collect();
    view(Mark::Key, &map::journal_key("k"), &data, LeadsTo::Keyed(found))
}

#[test]
fn a_key_leads_to_one_that_waits_and_one_that_is_processed() {
    use BatchState::{Held, Pending, Processing, Reporting};
    let waits = Keys::default().waits("k", Bid::new(1));
    let lost = |state| code(&key_view(&waits, &[(1, state)]));
    assert_eq!((lost(Some(Pending)), lost(Some(Held))), (None, None));
    assert_eq!((lost(Some(Processing)), lost(None)), (Some("K01"), Some("K01")));
    let both = waits.begins("k", Bid::new(1)).waits("k", Bid::new(2));
    assert_eq!(code(&key_view(&both, &[(1, Some(Processing)), (2, Some(Pending))])), None);
    // The one that has ended goes, the one that waits stays.
    let ended = key_view(&both, &[(1, Some(Reporting)), (2, Some(Pending))]);
    let found = judge(&ended, &Context::for_tests()).unwrap();
    assert_eq!(found.code, Code::LostKey);
    let Fix::Write { data, .. } = found.fix else { panic!("{:?}", found.fix) };
    assert_eq!(Keys::read(&data).unwrap(), Keys::default().waits("k", Bid::new(2)));
    let another = Keys::default().waits("another", Bid::new(1));
    assert_eq!(code(&key_view(&another, &[(1, Some(Pending))])), Some("K01"), "it lies under another hash");
    assert_eq!(code(&view(Mark::Key, "/x", "garbage", LeadsTo::Nothing)), Some("K01"));
}

#[test]
fn a_date_is_kept_as_long_as_its_job_waits_for_it_and_no_longer() {
    let (date, jid) = (Date::from_millis(7), Jid::new(1));
    let of = |status: Option<JobStatus>| LeadsTo::Dated(jid, status.map(Seen::value));
    let waiting = |process_date, expiration_date| JobStatus {
        process_date,
        expiration_date,
        ..JobStatus::new(JobState::Pending, date)
    };
    let (due, late) = (map::journal_date(7, jid), map::journal_expiration(7, jid));
    for (at, status) in [(&due, waiting(Some(date), None)), (&late, waiting(None, Some(date)))] {
        let there = view(Mark::Date, at, "", of(Some(status.clone())));
        assert_eq!(code(&there), None, "{at}");
        assert_eq!(code(&MarkView { node: Seen::Missing, ..there }), Some("K03"), "{at}");
        for other in [None, Some(waiting(None, None))] {
            let lost = view(Mark::Date, at, "", of(other));
            assert_eq!(code(&lost), Some("K02"), "{at}");
            assert_eq!(code(&MarkView { node: Seen::Missing, ..lost }), None, "{at}");
        }
    }
    // One that is kept twice is kept once too often.
    assert_eq!(
        code(&view(Mark::Date, &map::journal_date(8, jid), "", of(Some(waiting(Some(date), None))))),
        Some("K02")
    );
}

#[test]
fn a_local_id_is_reserved_for_a_job_that_has_not_ended() {
    let reserved = r#"{"owner":"o","local_id":"l","primary_id":"ark:/1/2","jid":"jid0000000001"}"#;
    let path = map::local_id("o", "l");
    let lost = |path: &str, state| code(&view(Mark::Reservation, path, reserved, to_job(state)));
    assert_eq!(lost(&path, Some(JobState::Failed)), None);
    assert_eq!(lost(&path, Some(JobState::Completed)), Some("L02"));
    assert_eq!(lost(&path, None), Some("L02"));
    assert_eq!(lost(&map::local_id("o", "other"), Some(JobState::Failed)), Some("L02"));
    let foreign = view(Mark::Reservation, "/locks/localid/o_l", "", LeadsTo::Nothing);
    assert_eq!((code(&foreign), code_in(&foreign, Dialect::MrtZk)), (Some("L02"), None));
}

#[test]
fn locks_and_slots_end_with_a_session() {
    for (mark, text) in [(Mark::Lock, "L01"), (Mark::Slot, "S01")] {
        let mut lock = view(mark, "/x", "", LeadsTo::Nothing);
        assert_eq!(code(&lock), Some(text));
        lock.ephemeral = true;
        assert_eq!(code(&lock), None);
    }
}

#[test]
fn a_slot_is_held_for_a_job_that_somebody_works_on() {
    let held =
        |leads_to| code(&MarkView { ephemeral: true, ..view(Mark::Slot, "/x/0000/holder", "", leads_to) });
    assert_eq!(held(LeadsTo::Slot(Some(Jid::new(1)), true, 4)), None);
    assert_eq!(held(LeadsTo::Slot(Some(Jid::new(1)), false, 4)), Some("S02"));
    assert_eq!(held(LeadsTo::Slot(None, false, 4)), Some("S02"));
}

#[test]
fn limits_and_semaphores_can_be_read() {
    let of = |mark, path, data| code(&view(mark, path, data, LeadsTo::Nothing));
    assert_eq!(of(Mark::Limits, "/semaphores", ""), None);
    assert_eq!(of(Mark::Limits, "/semaphores", r#"{"set":{"hosts":{"h":1}}}"#), None);
    assert_eq!(of(Mark::Limits, "/semaphores", "?"), Some("S03"));
    assert_eq!(of(Mark::Semaphore, "/semaphores/host-h", r#"{"kind":"host","name":"h"}"#), None);
    assert_eq!(of(Mark::Semaphore, "/semaphores/host-h", "?"), Some("S03"));
}

#[test]
fn a_feed_can_be_read_and_has_its_own_name() {
    let qid = Qid::of("herbarium");
    let feed = |data: &str| view(Mark::Feed, &map::feed(qid), data, LeadsTo::Nothing);
    assert_eq!(code(&feed(r#"{"last":""}"#)), None);
    assert_eq!(code(&feed(r#"{"last":"2026","name":"herbarium"}"#)), None);
    assert_eq!(code(&feed(r#"{"last":"","name":"another"}"#)), Some("F02"));
    let found = judge(&feed("garbage"), &Context::for_tests()).unwrap();
    assert_eq!(found.code.text(), "F01");
    let Fix::Write { data, .. } = &found.fix else { panic!("{found:?}") };
    assert!(FeedNode::read(data).unwrap().paused.is_some() && found.keep.is_some());
}

#[test]
fn a_worker_goes_with_its_session_and_what_is_assigned_can_be_read() {
    let mut worker = view(Mark::Worker, "/workers/worker-0000000001", "{}", LeadsTo::Nothing);
    assert_eq!(code(&worker), Some("F03"));
    worker.ephemeral = true;
    assert_eq!(code(&worker), None);
    let assigned = |data: &str| code(&view(Mark::Assignment, map::WORKERS, data, LeadsTo::Nothing));
    assert_eq!((assigned(""), assigned(r#"{"assigned":{}}"#)), (None, None));
    assert_eq!(assigned("[1]"), Some("F04"));
    let mut feeds = view(Mark::Feeds, map::QUEUES, "", LeadsTo::Nothing);
    feeds.children = 10_000;
    assert_eq!(code(&feeds), None);
    feeds.children += 1;
    assert_eq!(code(&feeds), Some("F05"));
}

#[test]
fn an_unreadable_hold_stays_a_hold() {
    let hold = |data| view(Mark::Hold, "/locks/collections/x", data, LeadsTo::Nothing);
    assert_eq!((code(&hold("")), code(&hold("{}"))), (None, None));
    let found = judge(&hold("garbage"), &Context::for_tests()).unwrap();
    assert!(matches!(found.fix, Fix::Write { version: Some(0), .. }) && found.keep.is_some());
}

#[test]
fn a_stray_is_removed_only_if_it_is_an_empty_leaf() {
    let mut stray = view(Mark::Stray, "/jobs/states/held/what", "", LeadsTo::Nothing);
    assert!(!judge(&stray, &Context::for_tests()).unwrap().is_by_hand());
    stray.children = 1;
    assert!(judge(&stray, &Context::for_tests()).unwrap().is_by_hand());
    let full = view(Mark::Stray, "/jobs/states/held/what", "x", LeadsTo::Nothing);
    assert!(judge(&full, &Context::for_tests()).unwrap().is_by_hand());
}

#[test]
fn an_access_item_has_a_status_and_a_token() {
    let item = |mark, data: &str| view(mark, "/access/small/qid0000000001/x", data, LeadsTo::Item(true));
    let status = AccessStatus::new(AccessState::Pending, Date::from_millis(0)).write(Dialect::Design);
    let status = String::from_utf8(status.to_vec()).unwrap();
    assert_eq!(code(&item(Mark::AccessStatus, &status)), None);
    assert_eq!(code(&item(Mark::AccessStatus, "[1]")), Some("A01"));
    assert_eq!(code(&item(Mark::AccessToken, "{}")), None);
    assert_eq!(code(&item(Mark::AccessToken, "[1]")), Some("A02"));
    let gone = |leads_to| code(&MarkView { node: Seen::Missing, leads_to, ..item(Mark::AccessStatus, "") });
    assert_eq!((gone(LeadsTo::Item(true)), gone(LeadsTo::Item(false))), (Some("A01"), None));
}
