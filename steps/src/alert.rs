//! What administrators are told at once.
//!
//! **When things break.** As with any mail: a server that is away is [`crate::outcome::Failure::Later`]. The id is the
//! job and the moment, so that a repeated one is the same message.

use std::time::{Duration, SystemTime};

use ingest_queue::journal::Alert;
use quick_xml::escape::escape;

use crate::mail::Message;
use crate::outcome::Result;
use crate::services::Services;

/// Tells the administrators of a job that nobody survives. `false`: there are none (`mail.admins`).
pub async fn poison(services: &Services, alert: &Alert) -> Result<bool> {
    let is_address = |text: &&String| text.parse::<lettre::message::Mailbox>().is_ok();
    let to: Vec<String> = services.settings.mail.admins.iter().filter(is_address).cloned().collect();
    if to.is_empty() {
        return Ok(false);
    }
    let Alert { jid, at, why } = alert;
    let millis = u64::try_from(at.millis()).unwrap_or_default();
    let advice = format!(
        "It is not tried again by itself. See `ingestd job show {jid}` and the restart log; when the cause is gone, \
         `ingestd job requeue {jid}`."
    );
    let message = Message {
        id: format!("alert-{jid}-{millis}@{}", services.sender.host),
        from: services.sender.from.clone(),
        to,
        subject: format!("Ingest: ALERT -- {jid} has failed as poison"),
        date: SystemTime::UNIX_EPOCH + Duration::from_millis(millis),
        text: format!("{jid}: {why}\n\n{advice}\n"),
        html: format!(
            "<!DOCTYPE html>\n<html><body>\n<p>{jid}: {}</p>\n<p>{}</p>\n</body></html>\n",
            escape(why),
            escape(&advice)
        ),
        attachments: Vec::new(),
    };
    services.mail.send(&message).await?;
    Ok(true)
}
