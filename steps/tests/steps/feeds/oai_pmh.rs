//! OAI-PMH repositories.

use ingest_steps::feed::Round;
use url::Url;

use super::{Consumed, Web, minute, zips};
use crate::tree::Tree;

fn record(number: usize, deleted: bool) -> String {
    let status = if deleted { " status=\"deleted\"" } else { "" };
    let header = format!(
        "<header{status}><identifier>oai:a.org:{number}</identifier><datestamp>{}</datestamp></header>",
        minute(number)
    );
    let metadata = if deleted {
        String::new()
    } else {
        format!(
            "<metadata><oai_dc:dc xmlns:oai_dc=\"urn:x\" xmlns:dc=\"urn:y\"><dc:title>Sheet {number}</dc:title>\
             <dc:identifier>local {number}</dc:identifier>\
             <dc:identifier>http://127.0.0.1:9/files/{number}.zip</dc:identifier></oai_dc:dc></metadata>"
        )
    };
    format!("<record>{header}{metadata}</record>")
}

fn oai(body: &str) -> String {
    format!(
        "<OAI-PMH xmlns=\"http://www.openarchives.org/OAI/2.0/\"><responseDate>x</responseDate>{body}</OAI-PMH>"
    )
}

fn argument(url: &Url, name: &str) -> Option<String> {
    url.query_pairs().find(|(known, _)| known == name).map(|(_, value)| value.into_owned())
}

/// A repository of these records, two on a page. A record is named by its minute; the flag says that it is deleted.
fn repository(records: Vec<(usize, bool)>) -> impl FnMut(&Url) -> (u16, String) + Send {
    move |url| {
        let verb = argument(url, "verb").unwrap();
        if verb == "Identify" {
            return (200, oai("<Identify><granularity>YYYY-MM-DDThh:mm:ssZ</granularity></Identify>"));
        }
        let token = argument(url, "resumptionToken");
        let (from, at) = match &token {
            Some(token) => {
                token.split_once('|').map(|(from, at)| (from.to_owned(), at.parse().unwrap())).unwrap()
            }
            None => (argument(url, "from").unwrap_or_default(), 0_usize),
        };
        let wanted: Vec<_> = records.iter().filter(|(number, _)| minute(*number) >= from).collect();
        if wanted.is_empty() {
            return (200, oai("<error code=\"noRecordsMatch\">none</error>"));
        }
        let list: String =
            wanted.iter().skip(at).take(2).map(|(number, gone)| record(*number, *gone)).collect();
        let list = if verb == "ListIdentifiers" {
            list.replace("<record>", "").replace("</record>", "")
        } else {
            list
        };
        let more = wanted.len() > at + 2;
        let token = if more {
            format!("<resumptionToken>{from}|{}</resumptionToken>", at + 2)
        } else {
            String::new()
        };
        (200, oai(&format!("<{verb}>{list}{token}</{verb}>")))
    }
}

fn at_oai(web: &Web, more: &str) -> String {
    let url = web.url("/oai");
    format!("kind = \"oai_pmh\"\nurl = \"{url}\"\nmax_pages = 20\noverlap = \"2m\"\n{more}")
}

#[tokio::test]
async fn an_oai_repository_is_harvested_to_the_last_token_and_then_from_the_checkpoint() {
    let tree = Tree::embedded();
    // In no order, as repositories list; one is deleted.
    let records = vec![(5, false), (1, false), (4, true), (2, false), (3, false)];
    let web = Web::start(repository(records.clone())).await;
    let mut consumed = Consumed::new(&tree, &at_oai(&web, "set = \"maps\"")).await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (4, 1));
    assert_eq!(consumed.payloads().await, zips([1, 2, 3, 5]));
    let first = web.asked.lock()[1].clone();
    assert_eq!(argument(&first, "set").as_deref(), Some("maps"));
    assert_eq!(
        (argument(&first, "metadataPrefix").as_deref(), argument(&first, "from")),
        (Some("oai_dc"), None)
    );
    let more = [records, vec![(7, false), (6, false)]].concat();
    web.answer(repository(more));
    let before = web.count();
    assert_eq!(consumed.taken().await, 2);
    let from = argument(&web.asked.lock()[before], "from");
    assert_eq!(from.as_deref(), Some("2026-01-01T00:03:00Z"));
    // Nothing matches: that is no error.
    web.answer(repository(Vec::new()));
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.end(tree).await;
}

#[tokio::test]
async fn the_record_itself_can_be_the_payload() {
    let tree = Tree::embedded();
    let web = Web::start(repository(vec![(1, false), (2, false), (3, true)])).await;
    let mut consumed = Consumed::new(&tree, &at_oai(&web, "payload = \"metadata\"")).await;
    assert_eq!(consumed.taken().await, 2);
    let submission = &consumed.batches().await[0];
    let url: Url = submission.payload_url.as_deref().unwrap().parse().unwrap();
    assert_eq!(argument(&url, "verb").as_deref(), Some("GetRecord"));
    assert_eq!(argument(&url, "identifier").as_deref(), Some("oai:a.org:1"));
    assert_eq!(submission.payload_filename.as_deref(), Some("oai_a.org_1.xml"));
    assert!(web.asked.lock().iter().all(|url| argument(url, "verb").as_deref() != Some("ListRecords")));
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_record_that_cannot_be_used_is_counted_once_with_its_reason_and_holds_up_nobody() {
    let tree = Tree::embedded();
    let odd = "<record><header><datestamp>2026-01-01</datestamp></header></record>\
        <record><header><identifier>oai:x</identifier><datestamp>soon</datestamp></header></record><record/>";
    let web = Web::start(move |url| {
        let (status, body) = repository(vec![(1, false), (2, false)])(url);
        (status, body.replace("</ListRecords>", &format!("{odd}</ListRecords>")))
    })
    .await;
    let mut consumed = Consumed::new(&tree, &at_oai(&web, "")).await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (2, 3));
    let reasons: Vec<String> = consumed.skipped().into_iter().map(|(_, why)| why).collect();
    for why in ["a record has no identifier", "its datestamp is `soon`", "a record has no header"] {
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{why}: {reasons:?}");
    }
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.begin_anew().await;
    assert_eq!(consumed.round().await.unwrap().skipped, 0);
    assert_eq!(consumed.lease.feed().node.skipped, 3);
    consumed.end(tree).await;
}

#[tokio::test]
async fn errors_of_the_protocol_fail_the_round_and_the_next_one_begins_it_anew() {
    let tree = Tree::embedded();
    let web = Web::start(repository(vec![(1, false), (2, false), (3, false)])).await;
    let mut consumed = Consumed::new(&tree, &at_oai(&web, "")).await;
    let mut good = repository(vec![(1, false), (2, false), (3, false)]);
    web.answer(move |url| match argument(url, "resumptionToken") {
        Some(_) => (200, oai("<error code=\"badResumptionToken\">it has expired</error>")),
        None => good(url),
    });
    consumed.fails("badResumptionToken: it has expired").await;
    // A token that leads to itself.
    web.answer(|_| {
        (
            200,
            oai(&format!(
                "<ListRecords>{}<resumptionToken>x</resumptionToken></ListRecords>",
                record(1, false)
            )),
        )
    });
    consumed.fails("circle").await;
    web.answer(repository(vec![(1, false), (2, false), (3, false)]));
    assert_eq!(consumed.taken().await, 3);
    consumed.end(tree).await;
}
