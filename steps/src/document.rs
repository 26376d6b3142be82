//! The files that describe an object: ERC, Dublin Core, and the record of its ingest.
//!
//! They are made from the job alone, so a step that runs again writes the same bytes: no time of writing, no
//! order that changes.

use std::fmt::Write as _;

use quick_xml::escape::escape;

/// What an ERC says where nothing is known.
pub const UNASSIGNED: &str = "(:unas)";

/// What is known of an object.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Description {
    pub who: Option<String>,
    pub what: Option<String>,
    pub when: Option<String>,
    /// The identifiers of the object: the primary one first, then the local ones.
    pub identifiers: Vec<String>,
    /// Dublin Core elements that the depositor gave, by their name in lower case, in order.
    pub dublin_core: Vec<(String, String)>,
}

/// The fifteen elements, and the one that the field adds.
pub const ELEMENTS: [&str; 16] = [
    "title",
    "creator",
    "subject",
    "description",
    "publisher",
    "contributor",
    "date",
    "type",
    "format",
    "identifier",
    "source",
    "language",
    "relation",
    "coverage",
    "rights",
    "resourcetype",
];

/// `mrt-erc.txt`: who, what, when, where.
pub fn erc(about: &Description) -> String {
    let value = |value: &Option<String>| {
        let text = value.as_deref().map(one_line).unwrap_or_default();
        if text.is_empty() { UNASSIGNED.to_owned() } else { text }
    };
    let mut text = String::from("erc:\n");
    for (name, value) in
        [("who", value(&about.who)), ("what", value(&about.what)), ("when", value(&about.when))]
    {
        line(&mut text, name, &value);
    }
    let mut places = about.identifiers.iter().map(|id| one_line(id)).filter(|id| !id.is_empty()).peekable();
    if places.peek().is_none() {
        line(&mut text, "where", UNASSIGNED);
    }
    for place in places {
        line(&mut text, "where", &place);
    }
    text
}

/// `mrt-dc.xml`: simple Dublin Core. What the ERC knows stands in for what the depositor did not give.
pub fn dublin_core(about: &Description) -> String {
    let mut elements: Vec<(&str, &str)> = Vec::new();
    let given = |name: &str| about.dublin_core.iter().any(|(given, _)| given == name);
    for (name, value) in [("title", &about.what), ("creator", &about.who), ("date", &about.when)] {
        if let Some(value) = value.as_deref().filter(|_| !given(name)) {
            elements.push((name, value));
        }
    }
    elements.extend(about.identifiers.iter().map(|id| ("identifier", id.as_str())));
    elements.extend(about.dublin_core.iter().map(|(name, value)| (name.as_str(), value.as_str())));
    // The order of the elements is that of the standard; those of one name stay as they were given.
    let place = |name: &str| ELEMENTS.iter().position(|known| *known == name);
    elements.retain(|(name, value)| place(name).is_some() && !value.trim().is_empty());
    elements.sort_by_key(|(name, _)| place(name));
    let mut text = String::from(concat!(
        "<?xml version=\"1.0\" encoding=\"UTF-8\"?>\n",
        "<DublinCore xmlns:dc=\"http://purl.org/dc/elements/1.1/\" ",
        "xmlns:dcterms=\"http://purl.org/dc/terms/\">\n",
    ));
    for (name, value) in elements {
        // It is a kind of type, and the fifteen elements have no name for it.
        let name = if name == "resourcetype" { "type" } else { name };
        // Writing to a string does not fail.
        let _ = writeln!(text, "  <dc:{name}>{}</dc:{name}>", escape(allowed_in_xml(value).trim()));
    }
    text.push_str("</DublinCore>\n");
    text
}

/// `mrt-ingest.txt`: where the object came from, a name and a value a line.
pub fn ingest_record(entries: &[(&str, &str)]) -> String {
    let mut text = String::new();
    for (name, value) in entries {
        line(&mut text, name, &one_line(value));
    }
    text
}

fn line(text: &mut String, name: &str, value: &str) {
    let _ = writeln!(text, "{name}: {value}");
}

/// A value must not look like another line.
fn one_line(text: &str) -> String {
    let breaks = |c: char| c.is_control() || matches!(c, '\u{2028}' | '\u{2029}');
    text.split(breaks).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

/// XML 1.0 has no way to write most control characters, not even escaped.
fn allowed_in_xml(text: &str) -> String {
    let fits = |c: &char| {
        !c.is_control() && !matches!(c, '\u{fffe}' | '\u{ffff}') || matches!(c, '\t' | '\n' | '\r')
    };
    text.chars().filter(fits).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn about() -> Description {
        Description {
            who: Some("Lindqvist, A.".into()),
            what: Some("Sheet <12> & label".into()),
            when: None,
            identifiers: vec!["ark:/99999/fk4x".into(), "sheet:12".into()],
            dublin_core: vec![
                ("subject".into(), "Campanula".into()),
                ("title".into(), "Sheet 12".into()),
                ("subject".into(), "Alps".into()),
                ("resourcetype".into(), "image".into()),
            ],
        }
    }

    #[test]
    fn an_erc_says_what_is_not_known() {
        let expected = "erc:\nwho: Lindqvist, A.\nwhat: Sheet <12> & label\nwhen: (:unas)\nwhere: ark:/99999/fk4x\nwhere: sheet:12\n";
        assert_eq!(erc(&about()), expected);
        assert_eq!(
            erc(&Description::default()),
            "erc:\nwho: (:unas)\nwhat: (:unas)\nwhen: (:unas)\nwhere: (:unas)\n"
        );
    }

    #[test]
    fn a_value_cannot_pretend_to_be_a_line() {
        let who = Some("a\r\nwhere: ark:/1/evil\u{2028}b".into());
        let text = erc(&Description { who, ..Description::default() });
        assert_eq!(text.lines().nth(1), Some("who: a where: ark:/1/evil b"));
        assert_eq!(text.lines().count(), 5);
        assert_eq!(ingest_record(&[("batch", "bid1\njob: x")]), "batch: bid1 job: x\n");
    }

    #[test]
    fn what_the_depositor_gave_comes_before_what_the_erc_knows() {
        let text = dublin_core(&about());
        let inner: Vec<_> = text.lines().skip(2).collect();
        assert_eq!(
            inner,
            [
                "  <dc:title>Sheet 12</dc:title>",
                "  <dc:creator>Lindqvist, A.</dc:creator>",
                "  <dc:subject>Campanula</dc:subject>",
                "  <dc:subject>Alps</dc:subject>",
                "  <dc:identifier>ark:/99999/fk4x</dc:identifier>",
                "  <dc:identifier>sheet:12</dc:identifier>",
                "  <dc:type>image</dc:type>",
                "</DublinCore>",
            ]
        );
    }

    #[test]
    fn any_text_becomes_xml_that_can_be_read() {
        let what = Some("a<b>&\"'\u{0}\u{1b}\u{ffff}]]> ü 漢".to_owned());
        let text = dublin_core(&Description { what, ..Description::default() });
        let mut reader = quick_xml::Reader::from_str(&text);
        let mut found = String::new();
        loop {
            match reader.read_event().unwrap() {
                quick_xml::events::Event::Text(part) => found.push_str(&part.xml10_content()),
                quick_xml::events::Event::GeneralRef(name) => {
                    let name = name.into_inner();
                    found.push_str(quick_xml::escape::resolve_predefined_entity(&name).unwrap());
                }
                quick_xml::events::Event::Eof => break,
                _ => {}
            }
        }
        assert_eq!(found.trim(), "a<b>&\"']]> ü 漢");
    }

    #[test]
    fn an_element_that_nobody_knows_is_left_out() {
        let dublin_core = vec![("titel".into(), "x".into()), ("rights".into(), " ".into())];
        let text = super::dublin_core(&Description { dublin_core, ..Description::default() });
        assert_eq!(text.lines().count(), 3);
    }
}
