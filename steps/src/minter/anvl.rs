//! ANVL, the lines of `name: value` that EZID speaks.
//!
//! `%`, CR and LF are percent-encoded everywhere, and `:` in names: so a value of many lines is one line, and
//! no value can add an element of its own.

use percent_encoding::{AsciiSet, percent_decode_str, utf8_percent_encode};

use crate::ark::Ark;

const IN_VALUES: &AsciiSet = &AsciiSet::EMPTY.add(b'%').add(b'\r').add(b'\n');
const IN_NAMES: &AsciiSet = &IN_VALUES.add(b':');

/// A body of these elements, in this order.
pub fn write<'a>(elements: impl IntoIterator<Item = (&'a str, &'a str)>) -> String {
    let line = |(name, value): (&str, &str)| format!("{}: {}\n", escaped(name, IN_NAMES), value_of(value));
    elements.into_iter().map(line).collect()
}

/// The element of this line; `None` if it has no colon or its escapes are no text.
pub fn read_line(line: &str) -> Option<(String, String)> {
    let (name, value) = line.split_once(':')?;
    let plain = |text: &str| percent_decode_str(text.trim()).decode_utf8().ok().map(String::from);
    Some((plain(name)?, plain(value)?))
}

/// The ARK of `success: ark:/13030/c7x`, or of `success: doi:10.5072/C7X | ark:/b5072/c7x`.
pub fn ark_in(said: &str) -> Option<Ark> {
    let (name, value) = read_line(said.lines().next()?)?;
    (name == "success").then(|| value.split('|').find_map(|part| part.trim().parse().ok()))?
}

fn value_of(value: &str) -> String {
    escaped(value, IN_VALUES)
}

/// Everything beyond ASCII stays as it is: the body is UTF-8.
fn escaped(text: &str, set: &'static AsciiSet) -> String {
    let mut written = String::with_capacity(text.len());
    for c in text.chars() {
        if c.is_ascii() {
            written.extend(utf8_percent_encode(c.encode_utf8(&mut [0; 4]), set));
        } else {
            written.push(c);
        }
    }
    written
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_would_break_a_line_is_escaped_and_nothing_else() {
        let body = write([("erc.what", "50% of\r\nlife: a Büchlein"), ("a:b%", "x")]);
        assert_eq!(body, "erc.what: 50%25 of%0D%0Alife: a Büchlein\na%3Ab%25: x\n");
    }

    #[test]
    fn a_value_cannot_add_an_element() {
        let body = write([("erc.who", "x\n_status: public")]);
        assert_eq!(body.lines().count(), 1);
        assert_eq!(read_line(&body), Some(("erc.who".into(), "x\n_status: public".into())));
    }

    #[test]
    fn what_is_no_element_is_none() {
        assert_eq!(read_line("success"), None);
        assert_eq!(read_line("a: %ff"), None);
        assert_eq!(read_line("success: ark:/13030/c7"), Some(("success".into(), "ark:/13030/c7".into())));
    }
}
