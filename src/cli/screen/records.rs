//! Records: a label and a value on each line, and what is long goes on below.

use super::letters::{escaped, width, wrapped};
use super::paint::Paint;

/// A value that has less room than this goes below its label.
const ROOM: usize = 16;

#[derive(Debug, Clone, Default)]
pub(crate) struct Records(Vec<(String, String, Paint)>);

impl Records {
    /// A line, unless there is nothing to tell.
    pub(crate) fn add(&mut self, label: &str, value: impl AsRef<str>) {
        self.painted(label, value.as_ref(), Paint::None);
    }

    pub(crate) fn state(&mut self, label: &str, state: &str) {
        self.painted(label, state, Paint::of_state(state));
    }

    pub(crate) fn painted(&mut self, label: &str, value: &str, paint: Paint) {
        if !value.is_empty() {
            self.0.push((escaped(label), escaped(value), paint));
        }
    }

    /// Everything in an object, with the names of the objects within before it.
    pub(crate) fn object(&mut self, label: &str, object: &serde_json::Map<String, serde_json::Value>) {
        for (name, value) in object {
            let label = if label.is_empty() { name.clone() } else { format!("{label}.{name}") };
            match value {
                serde_json::Value::Object(inner) => self.object(&label, inner),
                serde_json::Value::Null => {}
                serde_json::Value::String(text) => self.add(&label, text),
                serde_json::Value::Array(items) if items.iter().all(serde_json::Value::is_string) => {
                    let texts: Vec<_> = items.iter().filter_map(serde_json::Value::as_str).collect();
                    self.add(&label, texts.join("; "));
                }
                other => self.add(&label, other.to_string()),
            }
        }
    }

    pub(crate) fn text(&self, columns: Option<usize>, colour: bool) -> String {
        let labels = self.0.iter().map(|(label, ..)| width(label)).max().unwrap_or(0);
        let below = columns.is_some_and(|columns| columns < labels + 2 + ROOM);
        let mut text = String::new();
        for (label, value, paint) in &self.0 {
            if below {
                for line in wrapped(label, columns, "") {
                    text.push_str(&Paint::Title.on(&line, colour));
                    text.push('\n');
                }
            } else {
                text.push_str(&Paint::Title.on(label, colour));
                text.extend(std::iter::repeat_n(' ', labels + 2 - width(label)));
            }
            let indent = if below { 2 } else { labels + 2 };
            let room = columns.map(|columns| columns - indent);
            for (at, line) in wrapped(value, room, "").iter().enumerate() {
                if below || at > 0 {
                    text.extend(std::iter::repeat_n(' ', indent));
                }
                text.push_str(&paint.on(line, colour));
                text.push('\n');
            }
        }
        text
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_values_go_on_below_and_fit() {
        let mut records = Records::default();
        records.add("payload_url", "https://example.org/some/path/that/is/rather/long?and=more");
        records.add("nothing", "");
        let inner = serde_json::json!({"deep": {"er": 3}, "ids": ["a", "b"], "none": null});
        records.object("map", inner.as_object().unwrap());
        for columns in 20..90 {
            let text = records.text(Some(columns), false);
            assert!(text.lines().all(|line| width(line) <= columns), "{columns}:\n{text}");
        }
        let text = records.text(None, false);
        assert!(text.contains("map.deep.er  3\nmap.ids      a; b\n") && !text.contains("none"), "{text}");
    }
}
