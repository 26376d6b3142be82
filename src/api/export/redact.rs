//! A manifest without what opens doors: its URLs lose their passwords and signatures, whatever its form.

use std::io::{BufRead, Result, Write};

use crate::api::shown;

/// A longer word is no URL that anybody could have fetched.
const LONGEST: usize = 64 << 10;

/// Copies a text word by word, and cleans those that are URLs. Blocks.
pub(super) fn copy(mut from: impl BufRead, mut to: impl Write) -> Result<()> {
    let mut word = Vec::new();
    loop {
        let piece = from.fill_buf()?;
        if piece.is_empty() {
            write(&word, &mut to)?;
            return to.flush();
        }
        let end = piece.iter().position(|byte| is_apart(*byte));
        word.extend_from_slice(&piece[..end.unwrap_or(piece.len())]);
        let apart = end.map(|end| piece[end]);
        let used = end.map_or(piece.len(), |end| end + 1);
        from.consume(used);
        if apart.is_some() || word.len() > LONGEST {
            write(&word, &mut to)?;
            word.clear();
        }
        if let Some(apart) = apart {
            to.write_all(&[apart])?;
        }
    }
}

/// What no URL has within it.
fn is_apart(byte: u8) -> bool {
    byte.is_ascii_whitespace() || matches!(byte, b'"' | b'|' | b'<' | b'>')
}

fn write(word: &[u8], to: &mut impl Write) -> Result<()> {
    match std::str::from_utf8(word) {
        Ok(text) if text.contains("://") => to.write_all(shown::url(text).as_bytes()),
        _ => to.write_all(word),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn urls_lose_their_secrets_in_every_form_of_manifest() {
        let json = r#"{"rows":[{"url":"http://u:hunter2@x/a?signature=hunter2&b=1","name":"a"}]}"#;
        let checkm = "#%checkm_0.7\nhttps://u:hunter2@x/y | sha256 | abc | 1\nplain row\n";
        for (text, kept) in
            [(json, "b=1\",\"name\":\"a\"}]}"), (checkm, "@x/y | sha256 | abc | 1\nplain row\n")]
        {
            // However the pieces fall.
            for size in [1, 7, 4096] {
                let mut clean = Vec::new();
                copy(std::io::BufReader::with_capacity(size, text.as_bytes()), &mut clean).unwrap();
                let clean = String::from_utf8(clean).unwrap();
                assert!(!clean.contains("hunter2") && clean.ends_with(kept), "{clean}");
            }
        }
    }
}
