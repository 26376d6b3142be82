//! What an error of the bucket means for a job, and what is told of it.

use object_store::Error;
use object_store::path::Path;

use crate::outcome::Failure;

/// As much of an error that is not understood is told.
const LONGEST: usize = 500;

/// Sorts an error by what to do next, in the server's own words where it has any.
pub(super) fn told(path: &Path, error: &Error) -> Failure {
    let text = error.to_string();
    let code = element(&text, "Code");
    let advice = code.and_then(advice);
    let what: String = match code {
        None => text.chars().take(LONGEST).collect(),
        Some(code) => {
            let message = element(&text, "Message").filter(|message| !message.is_empty());
            let parts = [Some(code), message, advice];
            parts.into_iter().flatten().collect::<Vec<_>>().join("; ")
        }
    };
    let text = format!("{path} in the bucket: {what}");
    // Of a listing the library tells no kind of error, only the words.
    let for_good = advice.is_some()
        || matches!(
            error,
            Error::NotFound { .. }
                | Error::InvalidPath { .. }
                | Error::NotSupported { .. }
                | Error::NotImplemented { .. }
                | Error::PermissionDenied { .. }
                | Error::Unauthenticated { .. }
                | Error::UnknownConfigurationKey { .. }
        );
    if for_good { Failure::Fail(text) } else { Failure::Later(text) }
}

/// Whether it is not the key that is missing, but the whole bucket.
pub(super) fn no_bucket(error: &Error) -> bool {
    element(&error.to_string(), "Code") == Some("NoSuchBucket")
}

/// What stands in the first element of this name.
fn element<'a>(text: &'a str, name: &str) -> Option<&'a str> {
    let (_, rest) = text.split_once(&format!("<{name}>"))?;
    let (inside, _) = rest.split_once(&format!("</{name}>"))?;
    (inside.len() <= LONGEST).then_some(inside)
}

/// What a person has to do about it, where waiting does not help.
fn advice(code: &str) -> Option<&'static str> {
    match code {
        "NoSuchBucket" => Some("make the bucket, or correct `bucket`"),
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "NotSignedUp" => {
            Some("correct `access_key` and `secret_key`")
        }
        "AccessDenied" => Some("let this access key read, write, list and delete in the bucket"),
        _ => None,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn error(body: &str) -> Error {
        Error::PermissionDenied { path: "k".into(), source: format!("403 Forbidden: {body}").into() }
    }

    #[test]
    fn the_words_of_the_server_are_told_and_not_its_markup() {
        let body = "<?xml version=\"1.0\"?><Error><Code>SignatureDoesNotMatch</Code><Message>They differ.</Message>\
                    <StringToSign>AWS4 20200101</StringToSign></Error>";
        let Failure::Fail(text) = told(&Path::from("a/b"), &error(body)) else { panic!("it is for good") };
        let expected =
            "a/b in the bucket: SignatureDoesNotMatch; They differ.; correct `access_key` and `secret_key`";
        assert_eq!(text, expected);
    }

    #[test]
    fn a_listing_is_sorted_by_the_words_of_the_server() {
        let listed = |body: &str| Error::Generic { store: "S3", source: format!("400: {body}").into() };
        let sorted = |body: &str| told(&Path::from("a"), &listed(body));
        assert!(matches!(sorted("<Code>AccessDenied</Code><Message></Message>"), Failure::Fail(_)));
        assert_eq!(sorted("<Code>SlowDown</Code>"), Failure::Later("a in the bucket: SlowDown".into()));
    }

    #[test]
    fn what_is_not_understood_is_told_in_bounds() {
        let Failure::Fail(text) = told(&Path::from("a"), &error(&"x".repeat(9_999))) else { panic!() };
        assert!(text.starts_with("a in the bucket: ") && text.len() < 600, "{text}");
        assert!(!no_bucket(&error("<Code>AccessDenied</Code>")));
        assert!(no_bucket(&error("<Code>NoSuchBucket</Code>")));
    }
}
