//! A submission, as JSON or as a form: judged without a crash; what has no problem can be written and read again.

use crate::api::judge_body;

/// What the body is, by its first byte; without one of these it is JSON.
const FORM: u8 = b'&';

pub(super) fn run(data: &[u8]) {
    let judged = match data.split_first() {
        Some((&FORM, body)) => judge_body(body, true),
        _ => judge_body(data, false),
    };
    let Some((submission, problems)) = judged else { return };
    assert!(problems.len() <= 101, "{} problems", problems.len());
    if problems.is_empty() {
        use ingest_queue::dialect::Dialect;
        use ingest_queue::nodes::{Node as _, Submission};
        let written = submission.write(Dialect::Design);
        let again = Submission::read(&written).expect("what was accepted can be read");
        assert_eq!(again.write(Dialect::Design), written);
        assert!(!submission.profile_name.is_empty() && !submission.submitter.is_empty());
    }
}
