//! What an object is called and described by, and whom to tell.

use ingest_steps::ark::Ark;
use serde_json::Value;

use super::fields::{Fields, check};
use super::{Judged, put};

/// Dublin Core.
const TERMS: [&str; 16] = [
    "contributor",
    "coverage",
    "creator",
    "date",
    "description",
    "format",
    "identifier",
    "language",
    "publisher",
    "relation",
    "rights",
    "source",
    "subject",
    "title",
    "type",
    "resourceType",
];

/// What the object is called, and whom to tell.
pub(super) fn described(fields: &mut Fields, judged: &mut Judged) {
    let ark: Option<Ark> = fields.parsed("primary_id", judged);
    let local_ids = fields.texts("local_id", judged);
    let (who, what, when) =
        (fields.text("creator", judged), fields.text("title", judged), fields.text("date", judged));
    let submission = &mut judged.submission;
    (submission.erc_who, submission.erc_what, submission.erc_when) = (who, what, when);
    put(&mut submission.other, "primary_id", ark.map(|ark| ark.to_string().into()));
    put(&mut submission.other, "local_id", (!local_ids.is_empty()).then(|| local_ids.into()));
    match fields.take("dc") {
        None => {}
        Some(Value::Object(terms)) => {
            for (term, value) in terms {
                let term: String = term.chars().take(100).collect();
                dublin_core(&format!("dc.{term}"), &term, &value, judged);
            }
        }
        Some(_) => judged.wrong("dc", "it should be an object"),
    }
    let note = fields.text("note", judged);
    put(&mut judged.submission.other, "note", note.map(Value::from));
    if let Some(addresses) = fields.text("notification", judged) {
        let all = addresses.split([',', ';']).map(str::trim).filter(|address| !address.is_empty());
        for address in all {
            if address.parse::<lettre::Address>().is_err() {
                judged.wrong("notification", format!("`{address}` is not a mail address"));
            }
        }
        judged.submission.other.insert("notification".into(), addresses.into());
    }
}

/// A term of Dublin Core.
pub(super) fn dublin_core(field: &str, term: &str, value: &Value, judged: &mut Judged) {
    let Some(known) = TERMS.iter().find(|known| known.eq_ignore_ascii_case(term)) else {
        judged.wrong(field, format!("it is no term of Dublin Core; known are {}", TERMS.join(", ")));
        return;
    };
    match value {
        Value::String(text) => {
            if let Some(text) = check(field, text.trim(), judged) {
                judged.submission.other.insert(format!("dc_{known}"), text.into());
            }
        }
        _ => judged.wrong(field, "it should be a text"),
    }
}
