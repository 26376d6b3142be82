use std::path::Path;

use ingest_queue::nodes::{Other, StatusReport};

use super::*;

const PROFILE: &str = r#"
name = "herbarium_content"
collection = "herbarium"
title = "Herbarium sheets"
owner = "ark:/99999/fk4herb"
notify = { to = ["curators@example.org"] }
"#;

fn profile() -> Profile {
    Profile::parse(Path::new("herbarium_content.toml"), PROFILE).unwrap()
}

fn submission() -> Submission {
    let mut other = Other::new();
    other.insert("notification".into(), "Curators@example.org; ada@example.org".into());
    Submission {
        submitter: "herbarium/ada".into(),
        payload_url: Some("https://ada:secret@files.example.org/a/batch.checkm".into()),
        other,
        ..Submission::default()
    }
}

fn sender() -> Sender {
    Sender { from: "ingest@example.org".into(), host: "ingest.example.org".into() }
}

fn job(number: u32, message: &str) -> ReportedJob {
    ReportedJob {
        jid: Jid::new(number),
        primary_id: None,
        local_id: vec![format!("sheet:{number}")],
        payload_url: format!("https://files.example.org/a/{number}.zip?x=/y"),
        payload_type: "container".into(),
        erc_who: Some("Lindqvist, A.".into()),
        erc_what: Some("=1+1".into()),
        erc_when: None,
        message: message.into(),
        other: Other::new(),
    }
}

fn draft(successful: Vec<ReportedJob>, failed: Vec<ReportedJob>) -> ReportDraft {
    let report = StatusReport {
        number: 1,
        last_modified: Some(Date::from_millis(1_800_000_000_000)),
        failed_jobs: failed.into_iter().collect(),
        successful_jobs: successful.into_iter().collect(),
        ..StatusReport::default()
    };
    let bid = Bid::new(7);
    ReportDraft {
        bid,
        report,
        expired: 0,
        sent: None,
        is_update: false,
        newly_successful: Vec::new(),
        newly_deleted: Vec::new(),
    }
}

fn write(draft: &ReportDraft) -> Message {
    let (submission, profile) = (submission(), profile());
    let about = About { bid: draft.bid, submission: &submission, profile: &profile };
    report(&about, draft, &sender()).unwrap()
}

fn table_of(message: &Message) -> String {
    String::from_utf8(message.attachments[0].data.clone()).unwrap()
}

#[test]
fn a_queued_submission_is_told_with_the_subject_of_the_field() {
    let (submission, profile) = (submission(), profile());
    let about = About { bid: Bid::new(7), submission: &submission, profile: &profile };
    let message = queued(&about, &sender(), Date::from_millis(0));
    assert_eq!(message.subject, "Ingest: OK -- Submission queued: bid0000000007");
    assert_eq!(message.id, "bid0000000007-0@ingest.example.org");
    assert!(message.text.contains("Submitted by: herbarium/ada"), "{}", message.text);
}

#[test]
fn everybody_is_told_once() {
    assert_eq!(write(&draft(vec![job(1, "")], vec![])).to, ["curators@example.org", "ada@example.org"]);
}

#[test]
fn a_report_names_every_failed_job_with_its_reason() {
    let message = write(&draft(vec![job(1, "")], vec![job(2, "digest differs")]));
    assert_eq!(message.subject, "Ingest: PARTLY FAILED -- Batch bid0000000007: 1 completed, 1 failed");
    assert!(
        message.text.contains("Failed (1)\n- jid0000000002: sheet:2 - digest differs\n"),
        "{}",
        message.text
    );
    assert!(!message.text.contains("jid0000000001"), "{}", message.text);
}

#[test]
fn a_report_names_every_job_that_expired_before_it_was_begun() {
    let mut late = job(2, "");
    late.other.insert("expired".into(), "2026-11-17T00:00:00.000Z".into());
    let mut draft = draft(vec![job(1, "")], vec![]);
    (draft.report.deleted_jobs, draft.expired) = ([late, job(3, "")].into_iter().collect(), 1);
    let message = write(&draft);
    // One that somebody has deleted is told apart.
    for words in [
        "Objects: 1 completed, 0 failed, 1 expired, 1 deleted\n",
        "Expired before they were begun (1)\n- jid0000000002: sheet:2\n",
        "Deleted before they were done (1)\n- jid0000000003: sheet:3\n",
    ] {
        assert!(message.text.contains(words), "{words} in {}", message.text);
    }
    assert!(message.html.contains("<h3>Expired before they were begun (1)</h3>"), "{}", message.html);
    assert!(message.subject.starts_with("Ingest: PARTLY FAILED -- "), "{}", message.subject);
    let table = table_of(&message);
    let row = |jid: &str| table.lines().find(|line| line.contains(jid)).unwrap().to_owned();
    assert!(
        row("jid0000000002").contains(",expired,") && row("jid0000000003").contains(",deleted,"),
        "{table}"
    );
}

#[test]
fn a_report_has_the_same_id_and_the_same_words_each_time() {
    let draft = draft(vec![job(1, "")], vec![]);
    let message = write(&draft);
    assert_eq!(message.id, "bid0000000007-1@ingest.example.org");
    assert_eq!(message, write(&draft));
    assert!(message.subject.starts_with("Ingest: OK -- "));
}

#[test]
fn the_table_has_a_row_for_each_object_and_no_formula() {
    let table = table_of(&write(&draft(vec![job(1, "")], vec![job(2, "no, \"really\"")])));
    let rows: Vec<_> = table.lines().collect();
    assert_eq!(rows.len(), 3);
    assert_eq!(
        rows[2],
        "bid0000000007,jid0000000001,herbarium/ada,1.zip,container,herbarium_content,,sheet:1,\"Lindqvist, A.\",'=1+1,,completed,"
    );
    assert!(rows[1].ends_with(",failed,\"no, \"\"really\"\"\""), "{}", rows[1]);
}

#[test]
fn no_password_and_no_markup_of_a_depositor_gets_into_a_mail() {
    let message = write(&draft(vec![], vec![job(2, "<script>alert(1)</script>\r\nBcc: x")]));
    for part in [&message.text, &message.html, &table_of(&message)] {
        assert!(!part.contains("secret"), "{part}");
    }
    assert!(!message.html.contains("<script>"), "{}", message.html);
    assert!(message.text.lines().all(|line| !line.starts_with("Bcc")), "{}", message.text);
    assert_eq!(message.subject, "Ingest: FAILED -- Batch bid0000000007: 0 completed, 1 failed");
}

#[test]
fn an_update_tells_what_has_changed_and_what_is_not_resolved() {
    let mut draft = draft(vec![job(1, ""), job(2, "")], vec![job(3, "still away")]);
    (draft.is_update, draft.newly_successful, draft.report.number) = (true, vec![Jid::new(2)], 2);
    draft.report.deleted_jobs = [job(4, "")].into_iter().collect();
    draft.newly_deleted = vec![Jid::new(4)];
    let message = write(&draft);
    assert_eq!(message.id, "bid0000000007-2@ingest.example.org");
    for expected in [
        "Completed since the last report (1)\n- jid0000000002: sheet:2\n",
        "Deleted since the last report (1)\n- jid0000000004: sheet:4\n",
        "Still not resolved (1)\n- jid0000000003: sheet:3 - still away\n",
        "Objects: 2 completed, 1 failed, 1 deleted",
    ] {
        assert!(message.text.contains(expected), "{expected} in {}", message.text);
    }
}

#[test]
fn a_mail_names_some_of_very_many_and_the_table_all() {
    let failed = (0..1_000).map(|number| job(number, "away")).collect();
    let message = write(&draft(vec![], failed));
    assert!(message.text.contains("- and 800 more; the attachment goes on"), "{}", message.text);
    assert_eq!(table_of(&message).lines().count(), 1_001);
}

#[test]
fn an_attachment_that_no_server_would_take_is_cut_and_the_mail_says_where_the_rest_is() {
    let draft =
        draft((0..90_000).map(|n| job(n, "stored and recorded")).collect(), vec![job(95_000, "not there")]);
    let message = write(&draft);
    let data = &message.attachments[0].data;
    // And what its last piece had over it.
    assert!((LARGEST..LARGEST + (32 << 10)).contains(&data.len()), "{}", data.len());
    let text = String::from_utf8(data.clone()).unwrap();
    // What failed is never what is left out.
    assert!(text.lines().nth(1).unwrap().contains("jid0000095000"));
    let rows = text.lines().count() - 1;
    let told = format!(
        "Attached: the first {rows} of 90001 objects; `ingestd batch report bid0000000007 --format csv` has all of them"
    );
    assert!(message.text.contains(&told), "{}", message.text);
    assert!(message.text.contains("90000 completed, 1 failed"));
    let (submission, profile) = (submission(), profile());
    let about = About { bid: draft.bid, submission: &submission, profile: &profile };
    let (mut whole, mut table) = (Vec::new(), Table::new(&about, &draft.report));
    while let Some((piece, _)) = table.piece().unwrap() {
        whole.extend(piece);
    }
    assert!(whole.starts_with(data));
    assert_eq!(String::from_utf8(whole).unwrap().lines().count(), 90_002);
}

#[test]
fn an_attachment_of_long_messages_is_cut_as_well() {
    let long = "It is not there. ".repeat(1_000);
    let message = write(&draft(vec![], (0..1_000).map(|number| job(number, &long)).collect()));
    let length = message.attachments[0].data.len();
    assert!((LARGEST..LARGEST + (32 << 10) + long.len()).contains(&length), "{length}");
}
