//! URLs as they may be shown: without what opens doors.

use std::error::Error;

use url::Url;

/// Parts of parameter names whose values are secrets: signed URLs of object stores, tokens, keys.
const SECRET: [&str; 9] = ["sig", "token", "key", "secret", "passw", "pwd", "credential", "auth", "session"];

/// A URL for messages and logs: no user, no password, no secret parameter, no fragment.
pub fn redacted(url: &Url) -> String {
    let mut shown = url.clone();
    shown.set_fragment(None);
    if !url.username().is_empty() || url.password().is_some() {
        // Both fail only for URLs that can have no user, and those have none.
        let _ = shown.set_username("***");
        let _ = shown.set_password(None);
    }
    let Some(query) = url.query() else { return shown.to_string() };
    let hidden: Vec<String> = query.split('&').map(hide).collect();
    shown.set_query(Some(&hidden.join("&")));
    shown.to_string()
}

fn hide(pair: &str) -> String {
    // A query without a name may be anything, a token too.
    let Some((name, _)) = pair.split_once('=') else { return "***".into() };
    let decoded = percent_encoding::percent_decode_str(name).decode_utf8_lossy();
    if is_secret(&decoded) { format!("{name}=***") } else { pair.to_owned() }
}

/// Whether what has this name is not for everybody.
pub fn is_secret(name: &str) -> bool {
    let name = name.to_ascii_lowercase();
    SECRET.iter().any(|secret| name.contains(secret))
}

/// A text of somebody's, whose URLs lose their secrets wherever they stand in it.
pub fn redacted_text(text: &str) -> String {
    if !text.contains("://") {
        return text.to_owned();
    }
    text.split_inclusive(is_apart).map(redacted_word).collect()
}

/// What no URL has within it.
fn is_apart(letter: char) -> bool {
    letter.is_whitespace() || matches!(letter, '"' | '|' | '<' | '>')
}

fn redacted_word(word: &str) -> String {
    let (body, end) = word.split_at(word.trim_end_matches(is_apart).len());
    let Some(at) = body.find("://") else { return word.to_owned() };
    let of_scheme = |letter: char| letter.is_ascii_alphanumeric() || matches!(letter, '+' | '-' | '.');
    let start = body[..at].trim_end_matches(of_scheme).len();
    // What looks like a URL and is none may have a password all the same.
    let shown = Url::parse(&body[start..]).map_or_else(|_| "***".to_owned(), |url| redacted(&url));
    format!("{}{shown}{end}", &body[..start])
}

/// What the client says and why, without the URL.
pub(super) fn chain(error: reqwest::Error) -> String {
    let error = error.without_url();
    let mut text = error.to_string();
    let mut source = error.source();
    while let Some(inner) = source {
        let more = inner.to_string();
        // Wrappers often repeat what they wrap.
        if !text.ends_with(&more) {
            text = format!("{text}: {more}");
        }
        source = inner.source();
    }
    text
}

#[cfg(test)]
mod tests {
    use super::*;

    fn shown(text: &str) -> String {
        redacted(&Url::parse(text).unwrap())
    }

    #[test]
    fn users_passwords_and_fragments_are_not_shown() {
        assert_eq!(shown("https://anna:pw1@h.org/a?x=1#f"), "https://***@h.org/a?x=1");
        assert_eq!(shown("https://:pw1@h.org/"), "https://***@h.org/");
        assert_eq!(shown("https://anna@h.org/"), "https://***@h.org/");
    }

    #[test]
    fn secret_parameters_are_not_shown_and_others_are() {
        assert_eq!(
            shown("https://h.org/a?id=7&X-Amz-Signature=abc&access%5Ftoken=t&sv=1"),
            "https://h.org/a?id=7&X-Amz-Signature=***&access%5Ftoken=***&sv=1"
        );
        assert_eq!(shown("https://h.org/a?s3cr3t"), "https://h.org/a?***");
    }

    #[test]
    fn urls_within_a_text_lose_their_secrets_and_the_rest_stays() {
        for (text, shown) in [
            ("nothing to hide: a/b", "nothing to hide: a/b"),
            ("see https://u:pw1@h.org/a  twice", "see https://***@h.org/a  twice"),
            ("(https://h.org/?token=pw1&x=1) it is", "(https://h.org/?token=***&x=1) it is"),
            ("a=\"ftp://u:pw1@h.org/\" b", "a=\"ftp://***@h.org/\" b"),
            ("http://u:pw1@ and", "*** and"),
        ] {
            assert_eq!(redacted_text(text), shown);
        }
    }
}
