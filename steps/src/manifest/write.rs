//! Writing manifests that [`Reader`](super::Reader) reads back as the same rows.
//!
//! **When things break.** A row that could not be read back is refused, and nothing of it is written: rows
//! before and after it are fine. A manifest that was not [finished](Writer::finish) has no `#%eof`, and every
//! reader takes it for cut off.

use std::io::{self, Write};

use super::columns::{Column, Kind};
use super::encoding::{encode_local_ids, encode_name, encode_text};
use super::header::{FIRST, LAST};
use super::names::{self, Clash, Names};
use super::problems::shown;
use super::row::url_fault;
use super::{Limits, Row};

const PREFIXES: [(&str, &str); 2] = [
    ("mrt:", "http://merritt.cdlib.org/terms#"),
    ("nfo:", "http://www.semanticdesktop.org/ontologies/2007/03/22/nfo#"),
];

/// Why a row was not written.
#[derive(Debug, thiserror::Error)]
pub enum NotWritten {
    #[error("row {row}, {column}: {why}")]
    Refused { row: u64, column: Column, why: String },
    #[error("the manifest could not be written: {0}")]
    Io(#[from] io::Error),
}

/// Writes one manifest. Space around texts is not kept, but around file names it is.
#[derive(Debug)]
pub struct Writer<W> {
    out: W,
    kind: Kind,
    columns: Vec<Column>,
    names: Names,
    rows: u64,
}

impl<W: Write> Writer<W> {
    /// Writes the header of a manifest with the columns of its kind.
    pub fn begin(out: W, kind: Kind) -> io::Result<Self> {
        Self::begin_with(out, kind, &[])
    }

    /// The same, with more columns behind those of the kind.
    pub fn begin_with(mut out: W, kind: Kind, more: &[Column]) -> io::Result<Self> {
        let mut columns = kind.columns().to_vec();
        for column in more {
            if !columns.contains(column) {
                columns.push(*column);
            }
        }
        writeln!(out, "{FIRST}")?;
        writeln!(out, "#%profile | {}", kind.profile())?;
        for (prefix, uri) in PREFIXES {
            writeln!(out, "#%prefix | {prefix} | {uri}")?;
        }
        let fields: Vec<_> = columns.iter().map(Column::to_string).collect();
        writeln!(out, "#%fields | {}", fields.join(" | "))?;
        Ok(Self { out, kind, columns, names: Names::default(), rows: 0 })
    }

    /// Writes a row, or nothing.
    pub fn row(&mut self, row: &Row) -> Result<(), NotWritten> {
        let number = self.rows + 1;
        let refused = |column, why: String| NotWritten::Refused { row: number, column, why };
        let mut cells = Vec::with_capacity(self.columns.len());
        for column in &self.columns {
            cells.push(cell(row, *column).map_err(|why| refused(*column, why))?);
        }
        // What has no column would be lost without a word.
        for column in Column::all().filter(|column| !self.columns.contains(column)) {
            if !cell(row, column).map_err(|why| refused(column, why))?.is_empty() {
                return Err(refused(column, format!("a {} written like this has no such column", self.kind)));
            }
        }
        let line = cells.join(" | ");
        let most = Limits::default().line;
        if line.len() > most {
            return Err(refused(Column::Url, format!("the row is longer than {most} bytes")));
        }
        if self.kind == Kind::Object
            && let Err(clash) = self.names.insert(&row.name, number)
        {
            let why = match clash {
                Clash::Twice(_) => "is there already",
                Clash::Directory(_) => "is a directory of another",
                Clash::BelowFile(_) => "lies below a file",
                Clash::TooManyDirectories => "makes too many directories",
            };
            return Err(refused(Column::Name, format!("`{}` {why}", shown(&row.name))));
        }
        self.out.write_all(line.trim_end_matches([' ', '|']).as_bytes())?;
        self.out.write_all(b"\n")?;
        self.rows = number;
        Ok(())
    }

    /// Writes the end, without which it is no manifest, and flushes.
    pub fn finish(mut self) -> io::Result<W> {
        writeln!(self.out, "{LAST}")?;
        self.out.flush()?;
        Ok(self.out)
    }
}

/// What stands in a column of a row.
fn cell(row: &Row, column: Column) -> Result<String, String> {
    let text = |text: &Option<String>| text.as_deref().map(encode_text).unwrap_or_default();
    let cell = match column {
        Column::Url => match url_fault(&row.url) {
            Some(why) => return Err(format!("`{}`: {why}", shown(&row.url))),
            None => row.url.clone(),
        },
        Column::Algorithm => {
            row.digest.as_ref().map(|digest| digest.algorithm().to_string()).unwrap_or_default()
        }
        Column::Digest => row.digest.as_ref().map(|digest| digest.hex().to_owned()).unwrap_or_default(),
        Column::Size => row.size.map(|size| size.to_string()).unwrap_or_default(),
        Column::Name => match names::fault(&row.name) {
            Some(why) => return Err(format!("`{}` {why}", shown(&row.name))),
            None => encode_name(&row.name),
        },
        Column::LocalId => encode_local_ids(&row.local_ids),
        Column::Modified => text(&row.modified),
        Column::MimeType => text(&row.mime_type),
        Column::PrimaryId => text(&row.primary_id),
        Column::Creator => text(&row.creator),
        Column::Title => text(&row.title),
        Column::Date => text(&row.date),
        Column::DublinCore(term) => {
            row.dublin_core.get(&term).map(|text| encode_text(text)).unwrap_or_default()
        }
    };
    if cell.contains('\0') {
        return Err("holds a NUL character".to_owned());
    }
    Ok(cell)
}
