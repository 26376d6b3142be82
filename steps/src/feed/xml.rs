//! XML of strangers, read within bounds.
//!
//! A document is read once, from its beginning to its end; only the elements that are wanted are kept, each as a small
//! tree. Names are compared without their prefixes: feeds choose those as they like.
//!
//! **When things break.** A document type is refused, and with it every entity but the five that XML has: nothing can be
//! made to grow. So is what is nested too deeply, and what ends before its root does: a part of a document is none.

use quick_xml::Reader;
use quick_xml::escape::resolve_predefined_entity;
use quick_xml::events::{BytesRef, BytesStart, Event};

/// Deeper nesting makes no sense.
const DEEPEST: usize = 64;

/// An element, with what is in it.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub struct Element {
    /// Without its prefix.
    pub name: String,
    /// Without their prefixes; those that declare prefixes are left out.
    pub attributes: Vec<(String, String)>,
    /// Its own text, without that of the elements in it.
    pub text: String,
    pub children: Vec<Element>,
}

impl Element {
    pub fn attribute(&self, name: &str) -> Option<&str> {
        self.attributes.iter().find(|(known, _)| known == name).map(|(_, value)| value.as_str())
    }

    pub fn child(&self, name: &str) -> Option<&Element> {
        self.children.iter().find(|child| child.name == name)
    }

    pub fn all<'a>(&'a self, name: &'a str) -> impl Iterator<Item = &'a Element> {
        self.children.iter().filter(move |child| child.name == name)
    }

    /// The text of a child, without space around it; what is empty is not there.
    pub fn text_of(&self, name: &str) -> Option<&str> {
        self.child(name).map(|child| child.text.trim()).filter(|text| !text.is_empty())
    }

    /// Tells it from every other by what is in it, for one that has no id of its own.
    pub fn digest(&self) -> String {
        ingest_queue::map::hash(&[&format!("{self:?}")])
    }

    /// The first element of this name, however deep.
    pub fn find(&self, name: &str) -> Option<&Element> {
        self.children.iter().find_map(|child| if child.name == name { Some(child) } else { child.find(name) })
    }
}

/// Reads a document. `each` is told the root (without its children), and then every wanted element that is not within
/// another wanted one, in order.
pub fn read(
    document: &[u8],
    wanted: &[&str],
    mut each: impl FnMut(Element) -> Result<(), String>,
) -> Result<(), String> {
    let document = document.strip_prefix(b"\xef\xbb\xbf").unwrap_or(document);
    let text = std::str::from_utf8(document).map_err(|error| {
        format!("it is not UTF-8 (byte {}): other encodings are not read", error.valid_up_to())
    })?;
    let mut reader = Reader::from_str(text);
    let mut walk = Walk { wanted, open: Vec::new(), depth: 0, rooted: false };
    loop {
        let at = reader.buffer_position();
        let wrong = |why: &dyn std::fmt::Display| format!("byte {at}: {why}");
        match reader.read_event().map_err(|error| wrong(&error))? {
            Event::Start(start) => walk.start(&start, &mut each).map_err(|why| wrong(&why))?,
            Event::Empty(start) => {
                walk.start(&start, &mut each).map_err(|why| wrong(&why))?;
                walk.end(&mut each)?;
            }
            Event::End(_) => walk.end(&mut each)?,
            Event::Text(part) => walk.text(&part.xml10_content()),
            Event::CData(part) => walk.text(&part.xml10_content()),
            Event::GeneralRef(name) => walk.text(&entity(&name).map_err(|why| wrong(&why))?),
            Event::DocType(_) => return Err(wrong(&"a document type is not read")),
            Event::Eof => break,
            Event::Decl(_) | Event::PI(_) | Event::Comment(_) => {}
        }
    }
    if !walk.rooted {
        return Err("it is no XML: there is no element in it".into());
    }
    if walk.depth > 0 {
        return Err("it ends in the middle of an element: it was cut off".into());
    }
    Ok(())
}

fn entity(name: &BytesRef<'_>) -> Result<String, String> {
    if let Some(letter) = name.resolve_char_ref().map_err(|error| error.to_string())? {
        return Ok(letter.to_string());
    }
    let known = resolve_predefined_entity(name);
    known.map(str::to_owned).ok_or_else(|| format!("the entity `&{};` is not known", &**name))
}

struct Walk<'w> {
    wanted: &'w [&'w str],
    /// Wanted elements that are not at their end.
    open: Vec<Element>,
    depth: usize,
    rooted: bool,
}

impl Walk<'_> {
    fn start(
        &mut self,
        start: &BytesStart<'_>,
        each: &mut impl FnMut(Element) -> Result<(), String>,
    ) -> Result<(), String> {
        self.depth += 1;
        if self.depth > DEEPEST {
            return Err(format!("elements are nested more than {DEEPEST} deep"));
        }
        if self.depth == 1 && std::mem::replace(&mut self.rooted, true) {
            return Err("there are two roots".into());
        }
        let is_root = self.depth == 1;
        let name = plain(start.name().as_ref());
        if !is_root && self.open.is_empty() && !self.wanted.contains(&name.as_str()) {
            return Ok(());
        }
        let mut element = Element { name, ..Element::default() };
        for attribute in start.attributes() {
            let attribute = attribute.map_err(|error| error.to_string())?;
            let whole: &str = attribute.key.as_ref();
            if whole == "xmlns" || whole.starts_with("xmlns:") {
                continue;
            }
            let value = quick_xml::escape::unescape(&attribute.value).map_err(|error| error.to_string())?;
            element.attributes.push((plain(whole), value.into_owned()));
        }
        if is_root {
            return each(element);
        }
        self.open.push(element);
        Ok(())
    }

    fn text(&mut self, part: &str) {
        if let Some(element) = self.open.last_mut() {
            element.text.push_str(part);
        }
    }

    fn end(&mut self, each: &mut impl FnMut(Element) -> Result<(), String>) -> Result<(), String> {
        self.depth = self.depth.saturating_sub(1);
        let Some(element) = self.open.pop() else { return Ok(()) };
        match self.open.last_mut() {
            Some(parent) => parent.children.push(element),
            None => return each(element),
        }
        Ok(())
    }
}

fn plain(name: &str) -> String {
    name.rsplit_once(':').map_or(name, |(_, local)| local).to_owned()
}

#[cfg(test)]
mod tests {
    use super::*;

    fn all(text: &str, wanted: &[&str]) -> Result<Vec<Element>, String> {
        let mut found = Vec::new();
        read(text.as_bytes(), wanted, |element| {
            found.push(element);
            Ok(())
        })?;
        Ok(found)
    }

    #[test]
    fn only_what_is_wanted_is_kept_and_prefixes_do_not_matter() {
        let text = r#"<?xml version="1.0"?><a:feed xmlns:a="urn:a" a:kind="x">
            <noise><entry>inner</entry></noise>
            <a:entry n="1 &amp; 2">A<b>x</b> &lt;B&#x41;<![CDATA[<&>]]></a:entry><link rel="next"/></a:feed>"#;
        let found = all(text, &["entry", "link"]).unwrap();
        assert_eq!((found[0].name.as_str(), found[0].attribute("kind")), ("feed", Some("x")));
        assert_eq!(found[1].text, "inner");
        assert_eq!((found[2].text.as_str(), found[2].attribute("n")), ("A <BA<&>", Some("1 & 2")));
        assert_eq!(found[2].text_of("b"), Some("x"));
        assert_eq!(found[3].attribute("rel"), Some("next"));
        assert_eq!(found.len(), 4);
    }

    #[test]
    fn bombs_and_halves_are_refused() {
        let deep = format!("{}{}", "<a>".repeat(70), "</a>".repeat(70));
        for (text, why) in [
            ("<!DOCTYPE a [<!ENTITY x \"y\">]><a>&x;</a>", "document type"),
            ("<a>&unknown;</a>", "unknown"),
            ("<a><b></b>", "cut off"),
            ("<a><b></a>", "byte"),
            ("<a b=1></a>", "byte"),
            ("", "no XML"),
            ("not xml at all", "no XML"),
            ("<a/><b/>", "two roots"),
            (deep.as_str(), "nested"),
        ] {
            let told = all(text, &["a", "b"]).unwrap_err();
            assert!(told.contains(why), "{text:.40}: {told}");
        }
        assert!(read(b"<a>\xff</a>", &[], |_| Ok(())).unwrap_err().contains("UTF-8"));
    }
}
