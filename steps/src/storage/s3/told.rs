//! What an error of the bucket means for a job, and what is told of it.

use object_store::Error;
use object_store::path::Path;

use crate::outcome::Failure;

/// As much of an error that is not understood is told.
const LONGEST: usize = 500;

/// Sorts an error by what to do next, in the server's own words where it has any.
pub(super) fn told(path: &Path, error: &Error) -> Failure {
    let text = error.to_string();
    let what = match (element(&text, "Code"), element(&text, "Message")) {
        (Some(code), message) => format!("{code}: {}{}", message.unwrap_or_default(), advice(code)),
        (None, _) => text.chars().take(LONGEST).collect(),
    };
    let text = format!("{path} in the bucket: {what}");
    match error {
        Error::NotFound { .. }
        | Error::InvalidPath { .. }
        | Error::NotSupported { .. }
        | Error::NotImplemented { .. }
        | Error::PermissionDenied { .. }
        | Error::Unauthenticated { .. }
        | Error::UnknownConfigurationKey { .. } => Failure::Fail(text),
        _ => Failure::Later(text),
    }
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

fn advice(code: &str) -> &'static str {
    match code {
        "NoSuchBucket" => "; make the bucket, or correct `bucket`",
        "InvalidAccessKeyId" | "SignatureDoesNotMatch" | "NotSignedUp" => {
            "; correct `access_key` and `secret_key`"
        }
        "AccessDenied" => "; let this access key read, write, list and delete in the bucket",
        _ => "",
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
            "a/b in the bucket: SignatureDoesNotMatch: They differ.; correct `access_key` and `secret_key`";
        assert_eq!(text, expected);
    }

    #[test]
    fn what_is_not_understood_is_told_in_bounds() {
        let Failure::Fail(text) = told(&Path::from("a"), &error(&"x".repeat(9_999))) else { panic!() };
        assert!(text.starts_with("a in the bucket: ") && text.len() < 600, "{text}");
        assert!(!no_bucket(&error("<Code>AccessDenied</Code>")));
        assert!(no_bucket(&error("<Code>NoSuchBucket</Code>")));
    }
}
