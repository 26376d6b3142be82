//! A manifest inside a submission: a JSON list with an entry for each object.
//!
//! An entry is `{"url": …, "local_id": […], "primary_id": …, "key": …}` or the text `URL LOCALID ARK`, of which the last
//! two may be missing; a local identifier in it holds several as in a manifest (`a;b`, `%sc` for a `;`). In an
//! object `local_id` may also be one text, which is taken as it stands. The row's name is the last part of
//! the URL's path, decoded, or `payload`. A `key` is the depositor's own name of the entry, which its job keeps: two
//! entries with the same one are a mistake, and neither is taken.
//!
//! **When things break.** Every entry that is wrong is named by its index, from 0, with what to write instead;
//! no row is given unless all are right.

use std::collections::HashMap;
use std::fmt;

use ingest_queue::journal::LONGEST_KEY;
use percent_encoding::percent_decode_str;
use serde::Serialize;
use serde_json::Value;
use url::Url;

use super::encoding::{decode_local_ids, each_once, is_space};
use super::problems::shown;
use super::{Limits, Row, names};

/// What is wrong with an entry, or, without an index, with the whole list.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct Problem {
    #[serde(skip_serializing_if = "Option::is_none")]
    pub index: Option<usize>,
    pub problem: String,
}

impl fmt::Display for Problem {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self.index {
            Some(index) => write!(f, "manifest[{index}]: {}", self.problem),
            None => write!(f, "manifest: {}", self.problem),
        }
    }
}

/// All that is wrong; after a hundred the others are counted in a last entry.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, thiserror::Error)]
#[error("{}", .0.iter().map(Problem::to_string).collect::<Vec<_>>().join("\n"))]
#[serde(transparent)]
pub struct Problems(pub Vec<Problem>);

/// The rows of an inline manifest.
pub fn rows(manifest: &Value) -> Result<Vec<Row>, Problems> {
    let whole = |problem: &str| Problems(vec![Problem { index: None, problem: problem.to_owned() }]);
    let Value::Array(entries) = manifest else {
        return Err(whole(
            "it is a list of objects {url, local_id, primary_id, key} or of texts `URL LOCALID ARK`",
        ));
    };
    if entries.is_empty() {
        return Err(whole("it has no entries: there is nothing to take in"));
    }
    let (mut rows, mut problems, mut more) = (Vec::new(), Vec::new(), 0_u64);
    let mut keys = HashMap::new();
    for (index, entry) in entries.iter().enumerate() {
        match row(entry).and_then(|row| has_its_own_key(row, index, &mut keys)) {
            Ok(row) => rows.push(row),
            Err(problem) if problems.len() < Limits::default().problems => {
                problems.push(Problem { index: Some(index), problem });
            }
            Err(_) => more += 1,
        }
    }
    if problems.is_empty() {
        return Ok(rows);
    }
    if more > 0 {
        problems.push(Problem { index: None, problem: format!("and {more} more") });
    }
    Err(Problems(problems))
}

fn has_its_own_key(row: Row, index: usize, keys: &mut HashMap<String, usize>) -> Result<Row, String> {
    let Some(key) = &row.key else { return Ok(row) };
    match keys.insert(key.clone(), index) {
        None => Ok(row),
        Some(first) => {
            keys.insert(key.clone(), first);
            Err(format!(
                "its key `{}` is that of manifest[{first}]; give each entry a key of its own",
                shown(key)
            ))
        }
    }
}

fn row(entry: &Value) -> Result<Row, String> {
    match entry {
        Value::String(text) => row_of_text(text),
        Value::Object(fields) => row_of_object(fields),
        _ => {
            Err("an entry is an object {url, local_id, primary_id, key} or a text `URL LOCALID ARK`"
                .to_owned())
        }
    }
}

fn row_of_text(text: &str) -> Result<Row, String> {
    let parts: Vec<_> = text.split_whitespace().collect();
    let (url, local_id, ark) = match parts[..] {
        [url] => (url, None, None),
        // Taken for a local identifier it would become a new object instead of a new version.
        [_, second] if is_ark(second) => {
            return Err(format!(
                "`{}` is the second of two parts, where a local identifier stands; use an object with primary_id",
                shown(second)
            ));
        }
        [url, local_id] => (url, Some(local_id), None),
        [url, local_id, ark] => (url, Some(local_id), Some(ark)),
        [] => return Err("the text is empty; write `URL LOCALID ARK`".to_owned()),
        _ => return Err(format!("`{}` has {} parts; write `URL LOCALID ARK`", shown(text), parts.len())),
    };
    if let Some(ark) = ark.filter(|ark| !is_ark(ark)) {
        return Err(format!("the third part, `{}`, is no ARK; write `ark:/NAAN/NAME`", shown(ark)));
    }
    let local_ids = local_id.map(decode_local_ids).unwrap_or_default();
    Ok(Row { local_ids, primary_id: ark.map(str::to_owned), ..row_of_url(url)? })
}

fn row_of_object(fields: &serde_json::Map<String, Value>) -> Result<Row, String> {
    let (mut url, mut primary_id, mut key, mut local_ids) = (None, None, None, Vec::new());
    for (name, value) in fields {
        match (name.as_str(), value) {
            ("url", Value::String(text)) => url = Some(text.trim_matches(is_space)),
            ("primary_id" | "local_id" | "key", Value::Null) => {}
            ("key", Value::String(text)) if text.is_empty() || text.len() > LONGEST_KEY => {
                return Err(format!("a key has 1 to {LONGEST_KEY} bytes, and this has {}", text.len()));
            }
            ("key", Value::String(text)) => key = Some(text.clone()),
            ("primary_id", Value::String(text)) => {
                primary_id = Some(text.trim_matches(is_space).to_owned()).filter(|id| !id.is_empty());
            }
            ("local_id", Value::String(text)) => local_ids = vec![text.as_str()],
            ("local_id", Value::Array(list)) => {
                if let Some(other) = list.iter().find(|id| !id.is_string()) {
                    let other = shown(&other.to_string());
                    return Err(format!("local_id is a list of texts, and `{other}` is none"));
                }
                local_ids = list.iter().filter_map(Value::as_str).collect();
            }
            ("url" | "primary_id" | "key", _) => return Err(format!("{name} is a text")),
            ("local_id", _) => return Err("local_id is a list of texts".to_owned()),
            _ => {
                return Err(format!(
                    "`{}` is not known; known are url, local_id, primary_id, key",
                    shown(name)
                ));
            }
        }
    }
    let url = url.ok_or("there is no url")?;
    let local_ids = each_once(local_ids.into_iter().map(|id| id.trim_matches(is_space).to_owned()));
    Ok(Row { primary_id, key, local_ids, ..row_of_url(url)? })
}

fn is_ark(text: &str) -> bool {
    text.get(..4).is_some_and(|start| start.eq_ignore_ascii_case("ark:"))
}

fn row_of_url(url: &str) -> Result<Row, String> {
    let url = url.strip_prefix('@').unwrap_or(url);
    let parsed = Url::parse(url).map_err(|error| format!("`{}` is no URL: {error}", shown(url)))?;
    let last = parsed.path_segments().and_then(|mut parts| parts.next_back()).unwrap_or_default();
    let name = percent_decode_str(last).decode_utf8().unwrap_or_default().into_owned();
    // A decoded name can hold anything; where it is no plain name, nothing is lost by another.
    let plain = !name.contains('/') && names::fault(&name).is_none();
    let name = if plain { name } else { "payload".to_owned() };
    Ok(Row { url: url.to_owned(), name, ..Row::default() })
}
