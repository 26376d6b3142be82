//! Row after row of a manifest.

use std::io::BufRead;

use super::columns::Kind;
use super::header::{Header, LAST, Purpose, purpose, unreadable};
use super::lines::{Line, Lines};
use super::names::Names;
use super::problems::{Problem, Problems};
use super::row::{self, Layout};
use super::{Error, Limits, NotKept, Row};

/// Reads a manifest in one pass. As an iterator it gives an item for each row: the row, or all that is wrong
/// with it; and, at the end, what is wrong with the end. After [`Error::Corrupt`] it goes on with the next
/// row; after [`Error::Unreadable`] it ends.
#[derive(Debug)]
pub struct Reader<R> {
    lines: Lines<R>,
    limits: Limits,
    kind: Kind,
    layout: Layout,
    /// Only in an object manifest, where a name must not come twice.
    names: Option<Names>,
    rows: u64,
    /// The line of the last item.
    line: u64,
    ended: bool,
}

impl<R: BufRead> Reader<R> {
    /// Reads the header. Blocks on `input`, as the rows do.
    pub fn open(input: R, limits: Limits) -> Result<Self, Error> {
        let (reader, problems) = Self::start(input, limits)?;
        problems.into_result()?;
        Ok(reader)
    }

    /// The same, with the faults of a header after which rows can still be read.
    pub(super) fn start(input: R, limits: Limits) -> Result<(Self, Problems), Error> {
        let mut lines = Lines::new(input, limits.line);
        let mut header = Header::read(&mut lines, limits)?;
        let Some((kind, layout)) = header.known() else {
            if header.at_end {
                header.problems.push(cut_off(&lines));
            }
            return Err(header.problems.into());
        };
        let names = (kind == Kind::Object).then(Names::default);
        let reader = Self { lines, limits, kind, layout, names, rows: 0, line: 0, ended: false };
        Ok((reader, header.problems))
    }

    pub fn kind(&self) -> Kind {
        self.kind
    }

    /// The line of the item that was given last, from 1.
    pub fn line(&self) -> u64 {
        self.line
    }

    /// What the rows that were read so far had in columns that are not kept.
    pub fn not_kept(&self) -> Vec<NotKept> {
        self.layout.not_kept().cloned().collect()
    }

    /// The last item.
    fn end(&mut self, problem: Problem) -> Error {
        self.ended = true;
        self.line = problem.line;
        Error::Corrupt(problem.into())
    }

    /// After `#%eof`: nothing may follow that somebody meant to be taken.
    fn after_eof(&mut self, eof: u64) -> Option<Result<Row, Error>> {
        self.ended = true;
        if self.rows == 0 {
            let why = "the manifest has no rows: there is nothing to take in";
            return Some(Err(self.end(Problem::new(eof, 1, why))));
        }
        loop {
            match self.lines.next() {
                Ok(None) => return None,
                Ok(Some((_, Line::Text(text)))) if purpose(text) != Purpose::Row => {}
                Ok(Some((number, _))) => {
                    let why = format!(
                        "there is more after `{LAST}`, which would be lost; one file is one manifest"
                    );
                    return Some(Err(self.end(Problem::new(number, 1, why))));
                }
                Err(error) => return Some(Err(self.failed(error))),
            }
        }
    }

    fn failed(&mut self, error: std::io::Error) -> Error {
        self.ended = true;
        Error::Unreadable { line: self.lines.number(), error }
    }
}

/// The end of the input where more was to come.
fn cut_off<R: BufRead>(lines: &Lines<R>) -> Problem {
    let why = format!("the manifest ends without `{LAST}`: it was cut off; send the whole of it");
    Problem::new(lines.number() + 1, 1, why)
}

impl<R: BufRead> Iterator for Reader<R> {
    type Item = Result<Row, Error>;

    fn next(&mut self) -> Option<Self::Item> {
        while !self.ended {
            let (number, line) = match self.lines.next() {
                Ok(Some(next)) => next,
                Ok(None) => {
                    let problem = cut_off(&self.lines);
                    return Some(Err(self.end(problem)));
                }
                Err(error) => return Some(Err(self.failed(error))),
            };
            let item = match line {
                Line::Text(text) => match purpose(text) {
                    Purpose::Blank | Purpose::Remark => continue,
                    Purpose::Eof => return self.after_eof(number),
                    Purpose::Profile | Purpose::Fields => {
                        Err(vec![Problem::new(number, 1, "this stands before the first row or not at all")])
                    }
                    Purpose::Row => {
                        self.rows += 1;
                        row::parse(text, number, &mut self.layout, self.names.as_mut())
                    }
                },
                Line::TooLong | Line::NotText(_) => {
                    self.rows += 1;
                    Err(unreadable(number, &line, self.limits).into_iter().collect())
                }
            };
            if self.rows > self.limits.rows {
                let why = format!("more than {} rows; split the manifest", self.limits.rows);
                return Some(Err(self.end(Problem::new(number, 1, why))));
            }
            self.line = number;
            return Some(item.map_err(|problems| Error::Corrupt(problems.into())));
        }
        None
    }
}
