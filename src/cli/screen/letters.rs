//! Letters: how wide they are, and which of them are not printed as they are.

use unicode_width::UnicodeWidthChar;

/// Stands for what was cut off.
const MORE: char = '…';

/// A text in which nothing moves the cursor, changes the colour, breaks the line or turns the direction.
pub(crate) fn escaped(text: &str) -> String {
    if !text.chars().any(is_hostile) {
        return text.to_owned();
    }
    let mut safe = String::with_capacity(text.len() + 8);
    for c in text.chars() {
        match c {
            '\n' => safe.push_str("\\n"),
            '\r' => safe.push_str("\\r"),
            '\t' => safe.push_str("\\t"),
            c if is_hostile(c) => safe.extend(c.escape_unicode()),
            c => safe.push(c),
        }
    }
    safe
}

/// Control characters, and those that turn the direction of what follows or cannot be seen.
fn is_hostile(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200b}'..='\u{200f}' | '\u{2028}'..='\u{202e}' | '\u{2060}'..='\u{206f}' | '\u{feff}' | '\u{fff9}'..='\u{fffb}')
        || ('\u{e0000}'..='\u{e0fff}').contains(&c)
}

/// Columns on the terminal. What joins with its neighbours is counted as if it did not: never too few.
pub(crate) fn width(text: &str) -> usize {
    text.chars().map(width_of).sum()
}

fn width_of(c: char) -> usize {
    c.width().unwrap_or(0)
}

/// As much of it as fits, with a mark if something is missing.
pub(crate) fn cut(text: &str, columns: usize) -> String {
    if width(text) <= columns {
        return text.to_owned();
    }
    let mut short = String::new();
    let mut used = 0;
    for c in text.chars() {
        used += width_of(c);
        if used > columns.saturating_sub(1) {
            break;
        }
        short.push(c);
    }
    if columns > 0 {
        short.push(MORE);
    }
    short
}

/// A line as several, none longer than that; those after the first begin with the indent. Words that are longer than a
/// line are broken.
pub(crate) fn wrapped(text: &str, columns: Option<usize>, indent: &str) -> Vec<String> {
    let Some(columns) = columns.filter(|columns| width(text) > *columns) else {
        return vec![text.to_owned()];
    };
    let indent = if width(indent) * 2 < columns { indent } else { "" };
    let leading = &text[..text.len() - text.trim_start_matches(' ').len()];
    let leading = if width(leading) * 2 < columns { leading } else { "" };
    let mut lines = Vec::new();
    let (mut line, mut used, mut words) = (leading.to_owned(), width(leading), 0);
    for word in text.split(' ').filter(|word| !word.is_empty()) {
        let wide = width(word);
        if words > 0 && used + 1 + wide > columns {
            lines.push(std::mem::replace(&mut line, format!("{leading}{indent}")));
            (used, words) = (width(&line), 0);
        }
        if words > 0 {
            line.push(' ');
            used += 1;
        }
        for c in word.chars() {
            let wide = width_of(c);
            if used + wide > columns {
                lines.push(std::mem::replace(&mut line, format!("{leading}{indent}")));
                used = width(&line);
            }
            line.push(c);
            used += wide;
        }
        words += 1;
    }
    lines.push(line);
    lines
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn nothing_that_moves_the_cursor_gets_through() {
        let hostile = "a\u{1b}[2Jb\nc\u{202e}d\u{9b}e\u{7f}f\u{200b}g";
        assert_eq!(escaped(hostile), "a\\u{1b}[2Jb\\nc\\u{202e}d\\u{9b}e\\u{7f}f\\u{200b}g");
        assert_eq!(escaped("größe 漢字"), "größe 漢字");
    }

    #[test]
    fn wide_letters_count_twice() {
        assert_eq!((width("漢字"), width("e\u{301}")), (4, 1));
        assert_eq!(cut("漢字漢字", 5), "漢字…");
        assert_eq!(cut("漢字漢字", 4), "漢…");
        assert_eq!(cut("abcd", 4), "abcd");
    }

    #[test]
    fn no_line_is_too_long_and_no_letter_is_lost() {
        let text =
            "one two https://example.org/a-word-that-is-longer-than-a-line 漢字漢字漢字漢字漢字漢字漢字 end";
        for columns in 5..90 {
            let lines = wrapped(text, Some(columns), "  ");
            assert!(lines.iter().all(|line| width(line) <= columns), "{columns}: {lines:?}");
            let letters = |text: &str| text.replace(' ', "");
            assert_eq!(letters(&lines.concat()), letters(text), "{columns}");
        }
        assert_eq!(wrapped(text, None, "  "), [text]);
        assert_eq!(wrapped("  aa bb", Some(6), ""), ["  aa", "  bb"]);
    }
}
