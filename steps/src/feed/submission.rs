//! What an item becomes: a submission, as if its feed's submitter had made it.

use ingest_queue::nodes::Submission;
use serde_json::{Value, json};

use super::{Feed, Item, Payload};
use crate::fetch::redacted;
use crate::profile::Profile;

/// Letters of a text: what is longer is cut, because nobody is there to be asked.
const LONGEST: usize = 4_000;

/// The submission of an item, or why there can be none.
pub fn of(
    name: &str,
    feed: &Feed,
    profile: &Profile,
    item: &Item,
    payloads: &[Payload],
) -> Result<Submission, String> {
    for payload in payloads.iter().filter(|payload| payload.url.scheme() != "file") {
        let host = payload.url.host_str().unwrap_or_default();
        let ours = payload.filename.is_some() && payload.digest.is_some();
        if !ours && !profile.allows_host(host) {
            let shown = redacted(&payload.url);
            return Err(format!("{shown}: the profile {} allows no payloads from {host}", profile.name));
        }
    }
    let text = |text: &Option<String>| text.as_deref().map(one_line).filter(|text| !text.is_empty());
    let mut submission = Submission {
        profile_name: profile.name.clone(),
        collection: Some(profile.collection.clone()),
        submitter: feed.submitter.clone(),
        payload_type: feed.payload_type.map(|kind| kind.name().to_owned()),
        erc_who: text(&item.creator),
        erc_what: text(&item.title),
        erc_when: text(&item.when),
        ..Submission::default()
    };
    let local_id = text(&item.local_id);
    match payloads {
        [] => return Err("it has no payload".into()),
        [payload] => {
            submission.payload_url = Some(payload.url.to_string());
            submission.payload_filename.clone_from(&payload.filename);
            let other = &mut submission.other;
            if let Some(size) = payload.size {
                other.insert("size".into(), size.into());
            }
            if let Some(digest) = &payload.digest {
                other.insert("digest_type".into(), digest.algorithm().name().into());
                other.insert("digest_value".into(), digest.hex().into());
            }
            if let Some(local_id) = &local_id {
                other.insert("local_id".into(), json!([local_id]));
            }
        }
        several => {
            // An object each, of one batch: their local ids are told apart by their place.
            let row = |(place, payload): (usize, &Payload)| {
                let local_id = local_id.iter().map(|id| format!("{id}#{}", place + 1)).collect::<Vec<_>>();
                json!({ "url": payload.url.to_string(), "local_id": local_id })
            };
            submission.manifest = Some(Value::Array(several.iter().enumerate().map(row).collect()));
        }
    }
    submission.other.insert("feed".into(), name.into());
    submission.other.insert("item".into(), one_line(&item.id).into());
    Ok(submission)
}

/// Without letters that no text has, and not too long.
fn one_line(text: &str) -> String {
    let plain = text.split_whitespace().collect::<Vec<_>>().join(" ");
    plain.chars().filter(|c| !c.is_control()).take(LONGEST).collect()
}

#[cfg(test)]
mod tests {
    use url::Url;

    use super::super::What;
    use super::*;

    fn feed() -> Feed {
        toml::from_str("kind = \"atom\"\nurl = \"http://a.org/\"\nprofile = \"p\"\nsubmitter = \"ann\"")
            .unwrap()
    }

    fn profile(hosts: &str) -> Profile {
        let text = format!(
            "name = \"p\"\ncollection = \"c\"\ntitle = \"t\"\nowner = \"o\"\nallowed_hosts = [{hosts}]"
        );
        toml::from_str(&text).unwrap()
    }

    fn item() -> Item {
        let local_id = Some("urn:1".to_owned());
        Item { local_id, title: Some(" A\n\u{7}B ".into()), ..Item::new("urn:1 x", What::File) }
    }

    fn at(url: &str) -> Payload {
        Payload::at(Url::parse(url).unwrap())
    }

    #[test]
    fn one_payload_is_a_url_and_several_are_a_manifest() {
        let profile = profile("");
        let one = of("f", &feed(), &profile, &item(), &[at("http://x.org/a")]).unwrap();
        assert_eq!(one.payload_url.as_deref(), Some("http://x.org/a"));
        assert_eq!((one.submitter.as_str(), one.collection()), ("ann", "c"));
        assert_eq!((one.erc_what.as_deref(), &one.other["local_id"]), (Some("A B"), &json!(["urn:1"])));
        let two = of("f", &feed(), &profile, &item(), &[at("http://x.org/a"), at("http://x.org/b")]).unwrap();
        let manifest = two.manifest.unwrap();
        assert_eq!(manifest[1], json!({ "url": "http://x.org/b", "local_id": ["urn:1#2"] }));
        assert!(crate::manifest::inline::rows(&manifest).is_ok());
        assert!(of("f", &feed(), &profile, &item(), &[]).is_err());
    }

    #[test]
    fn a_host_that_the_profile_forbids_is_named() {
        let why = of("f", &feed(), &profile("\"y.org\""), &item(), &[at("http://x.org/a")]).unwrap_err();
        assert!(why.contains("x.org"), "{why}");
    }
}
