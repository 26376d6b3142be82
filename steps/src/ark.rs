//! ARK identifiers, and the check character that tells a mistyped one.
//!
//! An [`Ark`] is kept in one form only, the canonical one: `ark:/NAAN/name` with the slash and without
//! hyphens. `ark:13030/m5-rn35-s8` and `ark:/13030/m5rn35s8` are the same identifier, so they compare,
//! sort, hash and print alike. The case of a name counts; the case of `ark:` and of the NAAN does not.
//!
//! **When things break.** Text that is no ARK is refused with the part that is wrong. A name without a
//! check character is still an ARK: many were minted without, so [`Ark::is_checked`] only tells.

use std::fmt;
use std::str::FromStr;

/// The extended digits of NOID: no vowels, so that no words come out, and no `l` that looks like 1.
pub const EXTENDED_DIGITS: &[u8; 29] = b"0123456789bcdfghjkmnpqrstvwxz";

/// The longest identifier that is accepted, as text. Those in use have fewer than 100 characters.
pub const MAX_LENGTH: usize = 255;

/// An identifier in its canonical form.
#[derive(Clone, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct Ark {
    naan: String,
    name: String,
}

/// Why something is no ARK.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
#[error("`{text}` is no ARK: {why}; write it as ark:/NAAN/name, for example ark:/13030/m5rn35s8")]
pub struct NotAnArk {
    text: String,
    why: String,
}

impl NotAnArk {
    fn new(text: &str, why: impl Into<String>) -> Self {
        // What is shown of hostile text has a bound.
        Self { text: text.chars().take(80).collect(), why: why.into() }
    }
}

impl Ark {
    /// From its parts, by the same rules as parsing.
    pub fn new(naan: &str, name: &str) -> Result<Self, NotAnArk> {
        format!("ark:/{naan}/{name}").parse()
    }

    /// Who may mint below it: the name assigning authority.
    pub fn naan(&self) -> &str {
        &self.naan
    }

    /// What follows the NAAN, qualifiers included.
    pub fn name(&self) -> &str {
        &self.name
    }

    /// `NAAN/name`: what check characters are computed over.
    pub fn path(&self) -> String {
        format!("{}/{}", self.naan, self.name)
    }

    /// Whether the last character is the check character of the rest.
    pub fn is_checked(&self) -> bool {
        is_checked(&self.path())
    }

    /// Whether it was minted on this shoulder, given as `ark:/13030/c7` or `ark:/13030`.
    pub fn is_on(&self, shoulder: &str) -> bool {
        let Some(rest) = without_scheme(shoulder) else { return false };
        let (naan, prefix) = rest.split_once('/').unwrap_or((rest, ""));
        self.naan.eq_ignore_ascii_case(naan) && self.name.starts_with(&without_hyphens(prefix))
    }
}

impl fmt::Display for Ark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        write!(f, "ark:/{}/{}", self.naan, self.name)
    }
}

impl fmt::Debug for Ark {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

impl FromStr for Ark {
    type Err = NotAnArk;

    fn from_str(text: &str) -> Result<Self, NotAnArk> {
        let refuse = |why: &str| Err(NotAnArk::new(text, why));
        let too_long = format!("it has more than {MAX_LENGTH} bytes");
        if text.len() > MAX_LENGTH {
            return refuse(&too_long);
        }
        let Some(rest) = without_scheme(text) else {
            return refuse("it does not begin with `ark:`");
        };
        let Some((naan, name)) = rest.split_once('/') else {
            return refuse("there is no name after the NAAN");
        };
        let (naan, name) = (without_hyphens(naan).to_ascii_lowercase(), without_hyphens(name));
        if !(5..=16).contains(&naan.len()) || !naan.bytes().all(|byte| EXTENDED_DIGITS.contains(&byte)) {
            return refuse(&format!("the NAAN `{naan}` is not five or more digits"));
        }
        if let Some(why) = check_name(&name) {
            return refuse(&why);
        }
        // The canonical form has a slash that the text may lack.
        let ark = Self { naan, name };
        if ark.to_string().len() > MAX_LENGTH {
            return refuse(&too_long);
        }
        Ok(ark)
    }
}

impl serde::Serialize for Ark {
    fn serialize<S: serde::Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.collect_str(self)
    }
}

impl<'de> serde::Deserialize<'de> for Ark {
    fn deserialize<D: serde::Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        let text = String::deserialize(deserializer)?;
        text.parse().map_err(serde::de::Error::custom)
    }
}

/// What comes after `ark:` and its optional slash.
fn without_scheme(text: &str) -> Option<&str> {
    let scheme = text.get(..4)?;
    if !scheme.eq_ignore_ascii_case("ark:") {
        return None;
    }
    let rest = &text[4..];
    Some(rest.strip_prefix('/').unwrap_or(rest))
}

/// Hyphens carry no meaning in an ARK: they come and go where lines are broken. So do the dashes that word
/// processors put in their place.
fn without_hyphens(text: &str) -> String {
    text.chars().filter(|c| !matches!(c, '-' | '\u{2010}'..='\u{2015}')).collect()
}

/// What is wrong with a name that has no hyphens.
fn check_name(name: &str) -> Option<String> {
    if name.is_empty() {
        return Some("there is no name after the NAAN".into());
    }
    let known = |c: char| c.is_ascii_alphanumeric() || "=~*+@_$%./".contains(c);
    if let Some(bad) = name.chars().find(|c| !known(*c)) {
        return Some(format!("the character {bad:?} has no place in a name"));
    }
    // Names become paths and URLs elsewhere: `..` must not lead out of them.
    if name.split('/').any(|part| matches!(part, "" | "." | "..")) {
        return Some("a part between slashes is empty or made of dots".into());
    }
    if name.ends_with('.') {
        return Some("it ends with a dot".into());
    }
    let escaped = |rest: &str| rest.len() >= 2 && rest.bytes().take(2).all(|byte| byte.is_ascii_hexdigit());
    if name.split('%').skip(1).any(|rest| !escaped(rest)) {
        return Some("a `%` is not followed by two hex digits".into());
    }
    None
}

/// The NOID check character of `NAAN/name`, where the name has none yet.
pub fn check_character(path: &str) -> char {
    let modulus = EXTENDED_DIGITS.len();
    let sum = path.bytes().zip(1_usize..).fold(0, |sum, (byte, position)| {
        let value = EXTENDED_DIGITS.iter().position(|digit| *digit == byte).unwrap_or(0);
        (sum + position % modulus * value) % modulus
    });
    char::from(EXTENDED_DIGITS[sum])
}

/// Whether the last character of `NAAN/name` is the check character of what is before it.
pub fn is_checked(path: &str) -> bool {
    let mut rest = path.chars();
    rest.next_back().is_some_and(|last| !rest.as_str().is_empty() && check_character(rest.as_str()) == last)
}

#[cfg(test)]
mod tests {
    use std::collections::{BTreeSet, HashSet};

    use proptest::prelude::*;

    use super::*;

    fn ark(text: &str) -> Ark {
        text.parse().unwrap()
    }

    #[test]
    fn the_slash_and_hyphens_make_no_difference() {
        let spellings = [
            "ark:/13030/m5rn35s8",
            "ark:13030/m5rn35s8",
            "ARK:/13030/m5-rn35-s8",
            "ark:1-3030/m5rn\u{2010}35s8",
            "ark:/13030/m5rn35s8-",
        ];
        let hashed: HashSet<_> = spellings.map(ark).into_iter().collect();
        let sorted: BTreeSet<_> = spellings.map(ark).into_iter().collect();
        assert_eq!((hashed.len(), sorted.len()), (1, 1));
        for spelling in spellings {
            assert_eq!(ark(spelling).to_string(), "ark:/13030/m5rn35s8");
        }
    }

    #[test]
    fn the_case_of_a_name_counts_and_that_of_a_naan_does_not() {
        assert_ne!(ark("ark:/13030/m5A"), ark("ark:/13030/m5a"));
        assert_eq!(ark("ark:/B5060/x"), ark("ark:/b5060/x"));
    }

    #[test]
    fn parts_and_qualifiers_are_kept() {
        let ark = ark("ark:/13030/m5rn35s8/chapter.2/page=3%20a");
        assert_eq!((ark.naan(), ark.name()), ("13030", "m5rn35s8/chapter.2/page=3%20a"));
    }

    #[test]
    fn what_is_no_ark_is_refused_with_the_reason() {
        for (text, why) in [
            ("", "does not begin with `ark:`"),
            ("ark", "does not begin with `ark:`"),
            ("doi:10.5072/FK2", "does not begin with `ark:`"),
            ("https://n2t.net/ark:/13030/m5", "does not begin with `ark:`"),
            ("ärk:/13030/m5", "does not begin with `ark:`"),
            ("ark:/13030", "no name"),
            ("ark:/13030/", "no name"),
            ("ark:/13030/---", "no name"),
            ("ark://13030/m5", "the NAAN `` is not"),
            ("ark:/130/m5", "the NAAN `130` is not"),
            ("ark:/13o30/m5", "the NAAN `13o30` is not"),
            ("ark:/13030/m5 x", "' '"),
            ("ark:/13030/m5\n", "'\\n'"),
            ("ark:/13030/mé", "'é'"),
            ("ark:/13030/m5/../../x", "made of dots"),
            ("ark:/13030/m5//x", "is empty"),
            ("ark:/13030/m5/", "is empty"),
            ("ark:/13030/m5.", "ends with a dot"),
            ("ark:/13030/m5%2", "two hex digits"),
            ("ark:/13030/m5%zz", "two hex digits"),
        ] {
            let error = text.parse::<Ark>().expect_err(text).to_string();
            assert!(error.contains(why), "{text:?}: {error}");
            assert!(error.contains("write it as ark:/NAAN/name"), "{error}");
        }
    }

    #[test]
    fn an_endless_identifier_is_refused_and_not_repeated_whole() {
        let text = format!("ark:/13030/{}", "x".repeat(1_000_000));
        let error = text.parse::<Ark>().unwrap_err().to_string();
        assert!(error.contains("more than 255 bytes") && error.len() < 300, "{error}");
    }

    #[test]
    fn the_longest_identifier_can_be_read_again_as_it_is_written() {
        let name = "x".repeat(MAX_LENGTH - "ark:/13030/".len());
        let longest = ark(&format!("ark:13030/{name}"));
        assert_eq!(longest.to_string().len(), MAX_LENGTH);
        assert_eq!(ark(&longest.to_string()), longest);
        // As text it is short enough, and as it would be written it is not.
        let error = format!("ark:13030/{name}x").parse::<Ark>().unwrap_err().to_string();
        assert!(error.contains("more than 255 bytes"), "{error}");
    }

    #[test]
    fn published_identifiers_have_their_check_characters() {
        for path in ["13030/m5rn35s8", "13030/j2rn30xp", "90135/q1w9573b"] {
            let (rest, check) = path.split_at(path.len() - 1);
            assert_eq!(check_character(rest).to_string(), check, "{path}");
            assert!(is_checked(path) && ark(&format!("ark:{path}")).is_checked(), "{path}");
        }
        assert!(!is_checked("") && !is_checked("0"));
    }

    #[test]
    fn any_one_wrong_digit_and_any_two_exchanged_are_seen() {
        let good = "13030/m5rn35s8";
        let digits = || (0..good.len()).filter(|at| *at != 5);
        for at in digits() {
            for digit in EXTENDED_DIGITS {
                let mut bytes = good.as_bytes().to_vec();
                bytes[at] = *digit;
                let text = String::from_utf8(bytes).unwrap();
                assert_eq!(is_checked(&text), text == good, "{text}");
            }
        }
        for at in digits().filter(|at| *at != 4 && at + 2 < good.len()) {
            let mut bytes = good.as_bytes().to_vec();
            bytes.swap(at, at + 1);
            let text = String::from_utf8(bytes).unwrap();
            assert_eq!(is_checked(&text), text == good, "{text}");
        }
    }

    #[test]
    fn a_shoulder_is_the_beginning_of_a_name_in_any_spelling() {
        let ark = ark("ark:/13030/c7abc");
        for shoulder in ["ark:/13030/c7", "ark:13030/c-7", "ark:/13030", "ark:/13030/"] {
            assert!(ark.is_on(shoulder), "{shoulder}");
        }
        for other in ["ark:/13030/c8", "ark:/13031/c7", "13030/c7", "ark:/1303"] {
            assert!(!ark.is_on(other), "{other}");
        }
    }

    proptest! {
        #[test]
        fn no_text_makes_it_panic_and_what_is_printed_is_read_again(text in "(ark:/?[0-9]{5}/)?\\PC{0,40}") {
            if let Ok(ark) = text.parse::<Ark>() {
                prop_assert_eq!(ark.to_string().parse::<Ark>(), Ok(ark));
            }
        }
    }
}
