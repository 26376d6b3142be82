//! What a job's configuration says of its payload.

use ingest_queue::nodes::Configuration;
use serde_json::Value;
use url::Url;

use crate::digest::Digest;
use crate::fetch::redacted;
use crate::manifest::Row;
use crate::outcome::{Failure, Result};
use crate::payload::PayloadKind;

const NAME: &str = "payload_filename";
const SIZE: &str = "payload_size";
const ALGORITHM: &str = "digest_type";
const DIGEST: &str = "digest_value";
const MIME: &str = "payload_mime";

/// What is to be fetched for a job, and what the depositor said of it.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Payload {
    pub kind: PayloadKind,
    pub url: Url,
    /// A path that stays below its directory.
    pub name: String,
    pub size: Option<u64>,
    pub digest: Option<Digest>,
    pub mime: Option<String>,
}

impl Payload {
    /// From a row of a manifest. A URL that is none has to be submitted again.
    pub fn of_row(row: &Row, kind: PayloadKind) -> Result<Self> {
        Ok(Self {
            kind,
            url: url(&row.url)?,
            name: row.name.clone(),
            size: row.size,
            digest: row.digest.clone(),
            mime: row.mime_type.clone(),
        })
    }

    /// From the configuration of a job, which other programs may have written.
    pub fn of(configuration: &Configuration) -> Result<Self> {
        let text = |key: &str| configuration.other.get(key).and_then(Value::as_str).filter(|t| !t.is_empty());
        let kind = configuration.payload_type.parse().map_err(|e| Failure::hopeless(format!("{e}")))?;
        let url = url(&configuration.payload_url)?;
        let digest = match (text(ALGORITHM), text(DIGEST)) {
            (None, None) => None,
            (Some(algorithm), Some(value)) => {
                let wrong = |error: &dyn std::fmt::Display| Failure::hopeless(format!("its digest: {error}"));
                let algorithm = algorithm.parse().map_err(|error| wrong(&error))?;
                Some(Digest::new(algorithm, value).map_err(|error| wrong(&error))?)
            }
            _ => return Err(Failure::hopeless("a digest without its algorithm, or the other way round")),
        };
        let name = text(NAME).map_or_else(|| last_part(&url), str::to_owned);
        if let Some(why) = crate::manifest::fault_of_name(&name) {
            return Err(Failure::hopeless(format!("the file name `{}` {why}", name.escape_debug())));
        }
        let size = configuration.other.get(SIZE).and_then(Value::as_u64);
        Ok(Self { kind, url, name, size, digest, mime: text(MIME).map(str::to_owned) })
    }

    /// Writes it into the configuration of a new job.
    pub fn write(&self, configuration: &mut Configuration) {
        configuration.payload_url = self.url.to_string();
        self.kind.name().clone_into(&mut configuration.payload_type);
        let mut put = |key: &str, value: Option<Value>| {
            if let Some(value) = value {
                configuration.other.insert(key.to_owned(), value);
            }
        };
        put(NAME, Some(self.name.clone().into()));
        put(SIZE, self.size.map(Value::from));
        put(ALGORITHM, self.digest.as_ref().map(|digest| digest.algorithm().name().into()));
        put(DIGEST, self.digest.as_ref().map(|digest| digest.hex().into()));
        put(MIME, self.mime.clone().map(Value::from));
    }
}

fn url(text: &str) -> Result<Url> {
    Url::parse(text)
        .map_err(|error| Failure::hopeless(format!("`{}` is no URL: {error}", text.escape_debug())))
}

/// The last part of the URL's path, decoded, if it can be a name.
pub(crate) fn last_part(url: &Url) -> String {
    let last = url.path_segments().and_then(|mut parts| parts.rfind(|part| !part.is_empty()));
    let name = last.map(|part| percent_encoding::percent_decode_str(part).decode_utf8_lossy().into_owned());
    let fits = |name: &String| crate::manifest::fault_of_name(name).is_none();
    name.filter(fits).unwrap_or_else(|| "payload".to_owned())
}

impl std::fmt::Display for Payload {
    fn fmt(&self, f: &mut std::fmt::Formatter<'_>) -> std::fmt::Result {
        write!(f, "{} ({})", redacted(&self.url), self.kind)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::digest::Algorithm;

    #[test]
    fn a_payload_is_read_back_from_the_configuration() {
        let payload = Payload {
            kind: PayloadKind::Container,
            url: Url::parse("https://files.example.org/a%20b.zip").unwrap(),
            name: "a b.zip".into(),
            size: Some(12),
            digest: Some(Digest::new(Algorithm::Crc32, "00c0ffee").unwrap()),
            mime: None,
        };
        let mut configuration = Configuration::default();
        payload.write(&mut configuration);
        assert_eq!(Payload::of(&configuration), Ok(payload));
    }

    #[test]
    fn what_another_program_wrote_is_read_as_far_as_it_goes() {
        let mut configuration = Configuration {
            payload_type: "object-manifest".into(),
            payload_url: "https://u:p@files.example.org/x/a%20b.checkm?y".into(),
            ..Configuration::default()
        };
        let payload = Payload::of(&configuration).unwrap();
        assert_eq!((payload.kind, payload.name.as_str()), (PayloadKind::ObjectManifest, "a b.checkm"));
        assert!(!payload.to_string().contains("u:p"), "{payload}");
        configuration.other.insert(NAME.into(), "../x".into());
        assert!(matches!(Payload::of(&configuration), Err(Failure::Hopeless(_))));
        configuration.other.insert(NAME.into(), "x".into());
        configuration.other.insert(DIGEST.into(), "00".into());
        assert!(matches!(Payload::of(&configuration), Err(Failure::Hopeless(_))));
    }
}
