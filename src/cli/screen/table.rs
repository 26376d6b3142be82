//! Tables that fit.
//!
//! Columns of text give way first, down to a least width, and what is cut off is marked; ids and numbers are always
//! whole. A column that is empty in all rows is left out. Columns that matter least are left out, too, before what matters
//! is cut so short that nobody can read it; and at last each row becomes a record: a line for each of its cells, with
//! nothing left out.

use super::letters::{cut, escaped, width, wrapped};
use super::paint::Paint;
use super::records::Records;

/// Between two columns.
const GAP: usize = 2;
/// A column of text that is narrower says nothing.
const LEAST: usize = 8;
/// A text that matters is cut below this only if nothing is left that matters less.
const READABLE: usize = 32;

#[derive(Debug, Clone)]
pub(crate) struct Table {
    columns: Vec<Column>,
    rows: Vec<Vec<Cell>>,
}

#[derive(Debug, Clone, Copy)]
pub(crate) struct Column {
    title: &'static str,
    kind: Kind,
    /// The first to be left out.
    minor: bool,
}

#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Kind {
    /// Always whole.
    Word,
    /// Always whole, and at the right.
    Number,
    /// May be cut.
    Text,
    /// Goes on below where it is too long.
    Prose,
}

impl Column {
    pub(crate) const fn word(title: &'static str) -> Self {
        Self { title, kind: Kind::Word, minor: false }
    }

    pub(crate) const fn number(title: &'static str) -> Self {
        Self { title, kind: Kind::Number, minor: false }
    }

    pub(crate) const fn text(title: &'static str) -> Self {
        Self { title, kind: Kind::Text, minor: false }
    }

    pub(crate) const fn prose(title: &'static str) -> Self {
        Self { title, kind: Kind::Prose, minor: false }
    }

    /// It is left out where there is no room.
    pub(crate) const fn minor(self) -> Self {
        Self { minor: true, ..self }
    }

    /// How narrow it may become, beside columns that matter less or without them.
    fn least(&self, natural: usize, beside_minor: bool) -> usize {
        if matches!(self.kind, Kind::Text | Kind::Prose) {
            let least = if beside_minor && !self.minor { READABLE } else { LEAST };
            natural.min(least.max(width(self.title)))
        } else {
            natural
        }
    }
}

/// One value; what a stranger has written is safe in it.
#[derive(Debug, Clone, Default)]
pub(crate) struct Cell {
    text: String,
    paint: Paint,
}

impl Cell {
    pub(crate) fn new(text: impl AsRef<str>) -> Self {
        Self { text: escaped(text.as_ref()), paint: Paint::None }
    }

    /// The name of a state, in its colour.
    pub(crate) fn state(name: &str) -> Self {
        Self::new(name).painted(Paint::of_state(name))
    }

    pub(crate) fn painted(self, paint: Paint) -> Self {
        Self { paint, ..self }
    }

    /// Zeros are not worth a colour.
    pub(crate) fn count(count: usize, paint: Paint) -> Self {
        Self::new(count.to_string()).painted(if count == 0 { Paint::Dim } else { paint })
    }
}

impl Table {
    pub(crate) fn new(columns: impl IntoIterator<Item = Column>) -> Self {
        Self { columns: columns.into_iter().collect(), rows: Vec::new() }
    }

    pub(crate) fn row(&mut self, cells: impl IntoIterator<Item = Cell>) {
        let mut cells: Vec<_> = cells.into_iter().collect();
        cells.resize_with(self.columns.len(), Cell::default);
        self.rows.push(cells);
    }

    pub(crate) fn is_empty(&self) -> bool {
        self.rows.is_empty()
    }

    pub(crate) fn text(&self, columns: Option<usize>, colour: bool) -> String {
        let shown: Vec<usize> = (0..self.columns.len())
            .filter(|at| self.rows.iter().any(|row| !row[*at].text.is_empty()))
            .collect();
        let Some((shown, widths)) = self.fitting(&shown, columns) else {
            return self.records(&shown, columns, colour);
        };
        let mut text = String::new();
        let titles =
            shown.iter().map(|at| Cell { text: self.columns[*at].title.to_owned(), paint: Paint::Title });
        self.line(&mut text, &shown, &widths, &titles.collect::<Vec<_>>(), colour);
        for row in &self.rows {
            let cells: Vec<_> = shown.iter().map(|at| row[*at].clone()).collect();
            self.line(&mut text, &shown, &widths, &cells, colour);
        }
        text
    }

    /// A row: one line, or as many as its longest prose needs.
    fn line(&self, text: &mut String, shown: &[usize], widths: &[usize], cells: &[Cell], colour: bool) {
        let parts: Vec<Vec<String>> = shown
            .iter()
            .zip(widths)
            .zip(cells)
            .map(|((at, wide), cell)| match self.columns[*at].kind {
                Kind::Prose => wrapped(&cell.text, Some(*wide), ""),
                _ => vec![cut(&cell.text, *wide)],
            })
            .collect();
        for number in 0..parts.iter().map(Vec::len).max().unwrap_or(0) {
            let mut spaces = 0;
            for (column, cell) in cells.iter().enumerate() {
                let part = parts[column].get(number).map(String::as_str).unwrap_or_default();
                let free = widths[column] - width(part);
                let right = self.columns[shown[column]].kind == Kind::Number;
                spaces += if right { free } else { 0 };
                if !part.is_empty() {
                    text.extend(std::iter::repeat_n(' ', std::mem::take(&mut spaces)));
                    text.push_str(&cell.paint.on(part, colour));
                }
                spaces += if right { GAP } else { free + GAP };
            }
            text.push('\n');
        }
    }

    /// The columns that fit side by side, and how wide each is.
    fn fitting(&self, shown: &[usize], columns: Option<usize>) -> Option<(Vec<usize>, Vec<usize>)> {
        let mut shown = shown.to_vec();
        loop {
            if let Some(widths) = self.widths(&shown, columns) {
                return Some((shown, widths));
            }
            let last = shown.iter().rposition(|at| self.columns[*at].minor)?;
            shown.remove(last);
        }
    }

    /// How wide each column is; nothing if they do not fit side by side.
    fn widths(&self, shown: &[usize], columns: Option<usize>) -> Option<Vec<usize>> {
        let natural = |at: &usize| {
            let cells = self.rows.iter().map(|row| width(&row[*at].text)).max().unwrap_or(0);
            cells.max(width(self.columns[*at].title))
        };
        let mut widths: Vec<usize> = shown.iter().map(natural).collect();
        let minor = shown.iter().any(|at| self.columns[*at].minor);
        let least: Vec<usize> =
            shown.iter().zip(&widths).map(|(at, natural)| self.columns[*at].least(*natural, minor)).collect();
        let gaps = GAP * shown.len().saturating_sub(1);
        let Some(columns) = columns else { return Some(widths) };
        let room = columns.checked_sub(gaps)?;
        if least.iter().sum::<usize>() > room {
            return None;
        }
        // The widest gives way first, a column at a time: tables are small.
        while widths.iter().sum::<usize>() > room {
            let candidates = (0..widths.len()).filter(|at| widths[*at] > least[*at]);
            let widest = candidates.max_by_key(|at| widths[*at])?;
            widths[widest] -= 1;
        }
        Some(widths)
    }

    fn records(&self, shown: &[usize], columns: Option<usize>, colour: bool) -> String {
        let mut text = String::new();
        for row in &self.rows {
            let mut record = Records::default();
            for at in shown.iter().filter(|at| !row[**at].text.is_empty()) {
                record.painted(self.columns[*at].title, &row[*at].text, row[*at].paint);
            }
            if !text.is_empty() {
                text.push('\n');
            }
            text.push_str(&record.text(columns, colour));
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn table() -> Table {
        let mut table = Table::new([
            Column::word("ID"),
            Column::number("JOBS"),
            Column::word("NONE"),
            Column::text("MESSAGE"),
        ]);
        let message = "404 Not Found: https://example.org/a/very/long/path 漢字漢字漢字\u{1b}[31m";
        table.row([Cell::new("bid0000000001"), Cell::new("7"), Cell::new(""), Cell::new(message)]);
        table.row([Cell::new("bid0000000002"), Cell::new("12000"), Cell::new(""), Cell::new("")]);
        table
    }

    #[test]
    fn it_fits_every_width_and_ids_stay_whole() {
        for columns in 20..200 {
            let text = table().text(Some(columns), false);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}:\n{text}");
            assert!(text.contains("bid0000000001") && text.contains("12000"), "{text}");
            assert!(!text.contains('\u{1b}') && !text.contains("NONE"), "{text}");
        }
    }

    #[test]
    fn prose_goes_on_below() {
        let mut table = Table::new([Column::word("A"), Column::prose("WHY")]);
        table.row([Cell::new("one"), Cell::new("a sentence of some words")]);
        assert_eq!(table.text(Some(20), false), "A    WHY\none  a sentence of\n     some words\n");
    }

    #[test]
    fn columns_that_matter_least_go_first() {
        let mut table = Table::new([Column::word("ID"), Column::word("MINOR").minor(), Column::word("LAST")]);
        table.row([Cell::new("0123456789"), Cell::new("abcdefghij"), Cell::new("z")]);
        assert!(table.text(Some(40), false).contains("MINOR"));
        assert_eq!(table.text(Some(20), false), "ID          LAST\n0123456789  z\n");
    }

    #[test]
    fn columns_that_matter_least_go_before_a_message_cannot_be_read() {
        let message = "producer/n.txt: the server answers 404 Not Found";
        let mut table = Table::new([Column::word("ID"), Column::word("MINOR").minor(), Column::text("WHY")]);
        table.row([Cell::new("0123456789"), Cell::new("abcdefghij"), Cell::new(message)]);
        let text = table.text(Some(10 + 2 + 10 + 2 + 32), false);
        assert!(text.contains("abcdefghij  producer/n.txt: the server answ"), "{text}");
        let text = table.text(Some(10 + 2 + 10 + 2 + 31), false);
        assert!(!text.contains("MINOR") && text.contains("the server answers 404"), "{text}");
        // There is nothing else to be left out.
        assert!(table.text(Some(10 + 2 + 8), false).contains("0123456789  produce…"));
    }

    #[test]
    fn without_a_width_nothing_is_cut() {
        let text = table().text(None, false);
        assert!(text.contains("漢字漢字漢字\\u{1b}[31m\n"), "{text}");
        let lines: Vec<&str> = text.lines().collect();
        assert_eq!(lines[0], "ID              JOBS  MESSAGE");
        assert_eq!(lines[2], "bid0000000002  12000", "no spaces at the end");
    }

    #[test]
    fn colour_does_not_count() {
        let plain = table().text(Some(60), false);
        let coloured = table().text(Some(60), true);
        assert_eq!(coloured.replace("\u{1b}[1m", "").replace("\u{1b}[0m", ""), plain);
    }
}
