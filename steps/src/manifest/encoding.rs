//! How texts stand in fields that a `|`, a line end or a `;` would break.
//!
//! | in | read | written |
//! |---|---|---|
//! | a URL | as it stands | as it stands; what would break the row is refused |
//! | a file name | `%20` `%09` `%7c` `%0a` `%0d` are decoded | `\|`, line ends, and space at either end |
//! | local identifiers | `;` parts them, `%sc` is a `;`; and as any text | `;`, `\|`, line ends |
//! | any other text | `%7c` `%0a` `%0d` are decoded | `\|` and line ends |
//!
//! Every other `%` stands for itself, as depositors expect. Only where a text holds by itself what would be
//! decoded is a `25` put behind its `%`: the name `a%20b` is written `a%2520b`, and `%2520` is read as `%20`.
//! So everything can be written and is read back, and `100%25` stays `100%25`.

use std::collections::HashSet;

/// What stands behind a `%`, and what it stands for.
type Codes = [(&'static str, char)];

const NAME: &Codes = &[("20", ' '), ("09", '\t'), ("7c", '|'), ("0a", '\n'), ("0d", '\r')];
const TEXT: &Codes = &[("7c", '|'), ("0a", '\n'), ("0d", '\r')];
const LOCAL_ID: &Codes = &[("sc", ';'), ("7c", '|'), ("0a", '\n'), ("0d", '\r')];

/// What is around a field and is no part of it.
pub(super) fn is_space(c: char) -> bool {
    c == ' ' || c == '\t'
}

pub(super) fn decode_name(field: &str) -> String {
    decode(field, NAME)
}

pub(super) fn decode_text(field: &str) -> String {
    decode(field, TEXT)
}

/// Each once, in order, none empty.
pub(super) fn decode_local_ids(field: &str) -> Vec<String> {
    each_once(field.split(';').map(|part| decode(part.trim_matches(is_space), LOCAL_ID)))
}

/// What is not empty, at the place where it came first.
pub(super) fn each_once(ids: impl Iterator<Item = String>) -> Vec<String> {
    let mut seen = HashSet::new();
    ids.filter(|id| !id.is_empty() && seen.insert(id.clone())).collect()
}

pub(super) fn encode_name(name: &str) -> String {
    let start = name.len() - name.trim_start_matches(is_space).len();
    let end = name.trim_end_matches(is_space).len();
    encode(name, NAME, |at, c| !is_space(c) || at < start || at >= end)
}

pub(super) fn encode_text(text: &str) -> String {
    encode(text.trim_matches(is_space), TEXT, |_, _| true)
}

pub(super) fn encode_local_ids(ids: &[String]) -> String {
    let encoded: Vec<_> =
        ids.iter().map(|id| encode(id.trim_matches(is_space), LOCAL_ID, |_, _| true)).collect();
    encoded.join(";")
}

/// The code that begins `text`, after any number of `25`: how many of these, and the code's length and
/// character.
fn code_at(text: &str, codes: &Codes) -> Option<(usize, usize, char)> {
    let rest = text.trim_start_matches("25");
    let starts = |code: &str| rest.get(..code.len()).is_some_and(|start| start.eq_ignore_ascii_case(code));
    let (code, c) = codes.iter().find(|(code, _)| starts(code))?;
    Some(((text.len() - rest.len()) / 2, code.len(), *c))
}

fn decode(field: &str, codes: &Codes) -> String {
    let mut text = String::with_capacity(field.len());
    let mut rest = field;
    while let Some((before, after)) = rest.split_once('%') {
        text.push_str(before);
        rest = after;
        match code_at(after, codes) {
            Some((0, length, c)) => {
                text.push(c);
                rest = &after[length..];
            }
            // One `25` goes; what follows it stands for itself.
            Some((escapes, length, _)) => {
                let end = escapes * 2 + length;
                text.push('%');
                text.push_str(&after[2..end]);
                rest = &after[end..];
            }
            None => text.push('%'),
        }
    }
    text.push_str(rest);
    text
}

/// `must` says whether a character that has a code has to be encoded at this place.
fn encode(text: &str, codes: &Codes, must: impl Fn(usize, char) -> bool) -> String {
    let mut field = String::with_capacity(text.len());
    for (at, c) in text.char_indices() {
        if c == '%' && code_at(&text[at + 1..], codes).is_some() {
            field.push_str("%25");
            continue;
        }
        match codes.iter().find(|(_, coded)| *coded == c) {
            Some((code, _)) if must(at, c) => {
                field.push('%');
                field.push_str(code);
            }
            _ => field.push(c),
        }
    }
    field
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_are_decoded_where_practice_decodes_them() {
        for (field, name) in [
            ("a%20b%7cc%7Cd", "a b|c|d"),
            ("100%25", "100%25"),
            ("%41%2F%sc", "%41%2F%sc"),
            ("%", "%"),
            ("%2", "%2"),
            ("%2520", "%20"),
            ("%252520", "%2520"),
            ("%é%20", "%é "),
        ] {
            assert_eq!(decode_name(field), name, "{field}");
        }
    }

    #[test]
    fn names_are_written_as_plainly_as_they_can_be() {
        for (name, field) in [
            ("a b", "a b"),
            (" a b\t", "%20a b%09"),
            ("a|b\nc", "a%7cb%0ac"),
            ("a%20b", "a%2520b"),
            ("50% off", "50% off"),
            ("  ", "%20%20"),
        ] {
            assert_eq!(encode_name(name), field, "{name}");
            assert_eq!(decode_name(field), name, "{field}");
        }
    }

    #[test]
    fn a_space_in_a_text_is_no_matter_of_encoding() {
        assert_eq!(decode_text("http://a/b%20c"), "http://a/b%20c");
        assert_eq!(decode_text(&encode_text("a|b%7cc")), "a|b%7cc");
    }

    #[test]
    fn local_identifiers_are_parted_by_semicolons_and_count_once() {
        assert_eq!(decode_local_ids("a; b ;a;;c%scd"), ["a", "b", "c;d"]);
        assert!(decode_local_ids(" ; ").is_empty());
        let ids = ["a;b".to_owned(), "%sc".to_owned(), "c|d".to_owned()];
        assert_eq!(encode_local_ids(&ids), "a%scb;%25sc;c%7cd");
        assert_eq!(decode_local_ids(&encode_local_ids(&ids)), ids);
    }
}
