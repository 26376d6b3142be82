//! What administrators are told at once, by mail.
//!
//! **When things break.** As with any mail: a server that is away is [`crate::outcome::Failure::Later`]. The id is the name of
//! the alert in the tree, so that a repeated one is the same message.

use std::time::{Duration, SystemTime};

use ingest_queue::alerts::AlertNode;
use quick_xml::escape::escape;

use crate::mail::Message;
use crate::outcome::Result;
use crate::services::Services;

/// Tells the administrators. `false`: there are none (`mail.admins`).
pub async fn tell(services: &Services, name: &str, alert: &AlertNode) -> Result<bool> {
    let is_address = |text: &&String| text.parse::<lettre::message::Mailbox>().is_ok();
    let to: Vec<String> = services.settings.mail.admins.iter().filter(is_address).cloned().collect();
    if to.is_empty() {
        return Ok(false);
    }
    let Words { subject, what, advice } = words(alert);
    let millis = u64::try_from(alert.at.millis()).unwrap_or_default();
    let message = Message {
        id: format!("alert-{name}@{}", services.sender.host),
        from: services.sender.from.clone(),
        to,
        subject: format!("Ingest: ALERT -- {subject}"),
        date: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
        text: format!("{what}\n\n{advice}\n"),
        html: format!(
            "<!DOCTYPE html>\n<html><body>\n<p>{}</p>\n<p>{}</p>\n</body></html>\n",
            escape(&what),
            escape(&advice)
        ),
        attachments: Vec::new(),
    };
    services.mail.send(&message).await?;
    Ok(true)
}

struct Words {
    subject: String,
    what: String,
    advice: String,
}

fn words(alert: &AlertNode) -> Words {
    let AlertNode { node, why, .. } = alert;
    match (alert.job, &alert.feed) {
        (Some(jid), _) => Words {
            subject: format!("{jid} has failed as poison"),
            what: format!("{jid}: {why}"),
            advice: format!(
                "It is not tried again by itself. See `ingestd job show {jid}` and the restart log; when the cause is \
                 gone, `ingestd job requeue {jid}`."
            ),
        },
        (None, Some(name)) => Words {
            subject: format!("the feed {name} fails"),
            what: format!("The feed {name} fails again and again on the node {node}. Most recently: {why}"),
            advice: format!(
                "It is tried again, after growing pauses. `ingestd feeds show {name}` tells how it fares. The next alert of \
                 this feed comes after it went well."
            ),
        },
        (None, None) => Words {
            subject: "look at the node".to_owned(),
            what: format!("On the node {node}: {why}"),
            advice: "See its log.".to_owned(),
        },
    }
}

#[cfg(test)]
mod tests {
    use ingest_queue::date::Date;
    use ingest_queue::ids::Jid;

    use super::*;

    #[test]
    fn an_alert_says_what_it_is_about_and_what_to_do() {
        let alert = AlertNode {
            at: Date::from_millis(0),
            node: "node-1".into(),
            why: "no route".into(),
            job: None,
            feed: Some("herbarium".into()),
            other: serde_json::Map::new(),
        };
        let of_feed = words(&alert);
        assert!(of_feed.subject.contains("herbarium") && of_feed.what.contains("no route"));
        assert!(of_feed.what.contains("node-1") && of_feed.advice.contains("ingestd feeds show herbarium"));
        let of_job = words(&AlertNode { job: Some(Jid::new(7)), feed: None, ..alert });
        assert!(of_job.subject.contains("jid0000000007"), "{}", of_job.subject);
        assert!(of_job.advice.contains("ingestd job requeue jid0000000007"), "{}", of_job.advice);
    }
}
