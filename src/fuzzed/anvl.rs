//! Answers of a service that speaks ANVL: whatever they are, an element that was read can be written on one line and means the
//! same, and an identifier that was found is one.

use ingest_steps::minter::anvl::{ark_in, read_line, write};

pub(super) fn run(data: &[u8]) {
    let text = String::from_utf8_lossy(data);
    if let Some(ark) = ark_in(&text) {
        let again = ark.to_string().parse();
        assert_eq!(again.ok(), Some(ark));
    }
    for line in text.lines() {
        let Some((name, value)) = read_line(line) else { continue };
        let written = write([(name.as_str(), value.as_str())]);
        assert_eq!(written.matches(['\n', '\r']).count(), 1, "{written:?} is more than a line");
        let again =
            read_line(&written).map(|(name, value)| (name.trim().to_owned(), value.trim().to_owned()));
        // Space around them is not kept.
        assert_eq!(again, Some((name.trim().to_owned(), value.trim().to_owned())), "{written:?}");
    }
}
