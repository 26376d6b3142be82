//! What was unreadable is kept where a person finds it: where it was, why, and its data, cut if it is
//! long.

use std::fmt::Write;

use bytes::Bytes;
use ingest_store::Op;

use super::Context;
use super::finding::Kept;
use crate::map;
use crate::nodes::{Node, Quarantined};

/// How much of one node is kept.
const KEPT: usize = 64 << 10;
/// How many nodes of that size fit into one multi with everything else of a repair.
const WHOLE: usize = 3;

/// The node of the quarantine for what lay at a path.
pub(super) fn place(path: &str, context: &Context) -> String {
    let commit: String = context.commit.chars().take(8).collect();
    format!("{}/{}-{commit}", map::QUARANTINE, map::escape(path.trim_start_matches('/')))
}

/// Records what lay at a path; `of` are recorded in the same multi.
pub(super) fn op(path: &str, kept: &Kept, of: usize, context: &Context) -> Op {
    let bound = if of > WHOLE { KEPT * WHOLE / of } else { KEPT };
    Op::create(place(path, context), record(path, kept, bound, context))
}

fn record(path: &str, kept: &Kept, bound: usize, context: &Context) -> Bytes {
    let data = &kept.data[..kept.data.len().min(bound)];
    let text = text(data, data.len() < kept.data.len());
    let hex = text.is_none().then(|| hex(data));
    let bytes = (data.len() < kept.data.len()).then_some(kept.data.len() as u64);
    let (path, why, when) = (path.to_owned(), kept.why.clone(), Some(context.now));
    let record = Quarantined { path, why, when, text, hex, bytes, ..Quarantined::default() };
    record.write(context.dialect)
}

fn hex(data: &[u8]) -> String {
    let mut hex = String::with_capacity(2 * data.len());
    for byte in data {
        // Writing to a String cannot fail.
        let _ = write!(hex, "{byte:02x}");
    }
    hex
}

/// As text, if it is one that json does not make several times as long.
fn text(data: &[u8], cut: bool) -> Option<String> {
    let text = match std::str::from_utf8(data) {
        Ok(text) => text,
        // The cut may have gone through a character.
        Err(error) if cut && error.error_len().is_none() => {
            std::str::from_utf8(&data[..error.valid_up_to()]).ok()?
        }
        Err(_) => return None,
    };
    let plain = |c: char| !c.is_control() || matches!(c, '\n' | '\r' | '\t');
    text.chars().all(plain).then(|| text.to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn recorded(data: Vec<u8>) -> Quarantined {
        let kept = Kept { why: "why".into(), data: data.into() };
        let Op::Create { path, data, .. } = op("/jobs/jid0000000001/work", &kept, 1, &Context::for_tests())
        else {
            panic!("not a create");
        };
        assert!(path.starts_with("/quarantine/jobs_jid0000000001_work-"), "{path}");
        assert!(data.len() < 200 << 10, "{} bytes", data.len());
        Quarantined::read(&data).unwrap()
    }

    #[test]
    fn text_is_kept_as_text_and_other_data_in_hex() {
        assert_eq!(recorded(b"{\"half\": ".to_vec()).text.as_deref(), Some("{\"half\": "));
        assert_eq!(recorded(vec![0, 255]).hex.as_deref(), Some("00ff"));
        assert_eq!(recorded(vec![0; 3]).hex.as_deref(), Some("000000"));
    }

    #[test]
    fn what_is_long_is_cut_and_its_size_is_named() {
        let long = recorded("ä".repeat(KEPT).into_bytes());
        assert_eq!((long.bytes, long.text.unwrap().len()), (Some(2 * KEPT as u64), KEPT));
        let odd = recorded(format!("x{}", "ä".repeat(KEPT)).into_bytes());
        assert_eq!(odd.text.unwrap().len(), KEPT - 1);
        assert_eq!(recorded(vec![7; 1 << 20]).hex.unwrap().len(), 2 * KEPT);
    }
}
