//! Mail: composed once, sent by SMTP or put into a directory.
//!
//! A message has an id that is known before it is sent and never changes: whoever sends it again after a
//! crash sends the same one, and a reader's mailbox shows it once. Its bytes depend on nothing but what it
//! says and its date.
//!
//! **When things break.** A mail server that is away or refuses for now is [`Failure::Later`]; one that
//! refuses for good is [`Failure::Fail`], with its answer. After a lost answer the message may have been sent;
//! it is sent again under the same id.

pub mod outbox;
pub mod smtp;

use std::time::SystemTime;

use futures::future::BoxFuture;
use lettre::message::header::{ContentType, HeaderName, HeaderValue};
use lettre::message::{Attachment, Mailbox, MultiPart, SinglePart};

use crate::outcome::{Failure, Result};

/// Where mail goes.
pub trait Mail: Send + Sync + std::fmt::Debug {
    /// Sends a message, or finds that it was sent.
    fn send<'a>(&'a self, message: &'a Message) -> BoxFuture<'a, Result<()>>;
}

/// What is sent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Message {
    /// Without the angle brackets: `bid0000000001-1@ingest.example.org`.
    pub id: String,
    pub from: String,
    pub to: Vec<String>,
    pub subject: String,
    pub date: SystemTime,
    pub text: String,
    pub html: String,
    pub attachments: Vec<Attached>,
}

/// A file that goes along.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Attached {
    pub name: String,
    pub mime: String,
    pub data: Vec<u8>,
}

impl Message {
    /// As it goes over the wire. The parts are separated by a text that depends on the message alone.
    fn compose(&self) -> Result<lettre::Message> {
        let wrong = |what: &str, error: &dyn std::fmt::Display| {
            Failure::fail(format!("mail {}: {what}: {error}", self.id))
        };
        let mailbox = |address: &String| {
            address
                .parse::<Mailbox>()
                .map_err(|error| wrong(&format!("`{address}` is not an address"), &error))
        };
        if self.to.is_empty() {
            return Err(wrong(
                "there is nobody to send it to",
                &"give an address in the profile or the submission",
            ));
        }
        let mut builder = lettre::Message::builder()
            .message_id(Some(format!("<{}>", self.id)))
            .date(self.date)
            .from(mailbox(&self.from)?)
            .subject(one_line(&self.subject));
        for address in &self.to {
            builder = builder.to(mailbox(address)?);
        }
        let content = MultiPart::alternative()
            .boundary(self.boundary("text"))
            .singlepart(SinglePart::plain(self.text.clone()))
            .singlepart(SinglePart::html(self.html.clone()));
        let mut whole = MultiPart::mixed().boundary(self.boundary("all")).multipart(content);
        for attached in &self.attachments {
            let kind = ContentType::parse(&attached.mime).map_err(|error| wrong(&attached.mime, &error))?;
            whole =
                whole.singlepart(Attachment::new(attached.name.clone()).body(attached.data.clone(), kind));
        }
        builder = builder.raw_header(HeaderValue::new(
            HeaderName::new_from_ascii_str("Auto-Submitted"),
            "auto-generated".into(),
        ));
        builder.multipart(whole).map_err(|error| wrong("it cannot be composed", &error))
    }

    fn boundary(&self, part: &str) -> String {
        use sha2::Digest as _;
        let digest = sha2::Sha256::digest(format!("{part} {}", self.id));
        crate::digest::hex(&digest[..16])
    }
}

/// A header must not hold another one.
fn one_line(text: &str) -> String {
    text.split(char::is_control).map(str::trim).filter(|part| !part.is_empty()).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
pub(crate) mod tests {
    use std::time::Duration;

    use super::*;

    pub(crate) fn message() -> Message {
        Message {
            id: "bid0000000001-1@ingest.example.org".into(),
            from: "Ingest <ingest@example.org>".into(),
            to: vec!["curators@example.org".into(), "Ada <ada@example.org>".into()],
            subject: "Ingest: OK -- Submission queued: bid0000000001".into(),
            date: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
            text: "Grüße\nzwei".into(),
            html: "<p>Grüße</p>".into(),
            attachments: vec![Attached {
                name: "report.csv".into(),
                mime: "text/csv; charset=utf-8".into(),
                data: b"a,b\r\n".to_vec(),
            }],
        }
    }

    #[test]
    fn a_message_is_the_same_bytes_each_time() {
        let first = message().compose().unwrap().formatted();
        assert_eq!(first, message().compose().unwrap().formatted());
        let text = String::from_utf8(first).unwrap();
        for expected in [
            "Message-ID: <bid0000000001-1@ingest.example.org>",
            "Auto-Submitted: auto-generated",
            "To: curators@example.org, Ada <ada@example.org>",
            "report.csv",
            "multipart/alternative",
        ] {
            assert!(text.contains(expected), "{expected} in {text}");
        }
    }

    #[test]
    fn a_subject_cannot_add_a_header() {
        let subject = "x\r\nBcc: everybody@example.org".into();
        let text =
            String::from_utf8(Message { subject, ..message() }.compose().unwrap().formatted()).unwrap();
        assert!(!text.contains("\nBcc:"), "{text}");
    }

    #[test]
    fn a_bad_address_is_named() {
        let why = Message { to: vec!["nobody".into()], ..message() }.compose().unwrap_err().to_string();
        assert!(
            why.starts_with("mail bid0000000001-1@ingest.example.org: `nobody` is not an address"),
            "{why}"
        );
        let why = Message { to: Vec::new(), ..message() }.compose().unwrap_err().to_string();
        assert!(why.contains("there is nobody to send it to"), "{why}");
    }
}
