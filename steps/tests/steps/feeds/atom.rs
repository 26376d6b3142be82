//! Atom feeds.

use ingest_steps::feed::Round;

use super::{Consumed, Web, minute, pages, zips};
use crate::tree::Tree;

fn entry(number: usize) -> String {
    let updated = minute(number);
    format!(
        "<entry><id>urn:{number}</id><updated>{updated}</updated><title>Sheet {number}</title>\
         <link rel=\"enclosure\" href=\"/files/{number}.zip\" length=\"7\"/></entry>"
    )
}

fn atom(entries: &[usize], next: Option<&str>) -> String {
    let entries: String = entries.iter().map(|number| entry(*number)).collect();
    let next = next.map(|next| format!("<link rel=\"next\" href=\"{next}\"/>")).unwrap_or_default();
    format!("<?xml version=\"1.0\"?><feed xmlns=\"http://www.w3.org/2005/Atom\">{next}{entries}</feed>")
}

fn at_atom(web: &Web) -> String {
    format!("kind = \"atom\"\nurl = \"{}\"\nmax_pages = 20\noverlap = \"10m\"", web.url("/feed"))
}

#[tokio::test]
async fn an_atom_feed_is_consumed_from_its_oldest_entry_on() {
    let tree = Tree::embedded();
    let web = Web::start(pages([("/feed", atom(&[4, 3], Some("2"))), ("/2", atom(&[2, 1], None))])).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    assert_eq!(consumed.taken().await, 4);
    assert_eq!(consumed.payloads().await, zips(1..5));
    let first = &consumed.batches().await[0];
    assert_eq!((first.erc_what.as_deref(), first.submitter.as_str()), (Some("Sheet 1"), "ann"));
    assert_eq!((first.other["size"].as_u64(), &first.other["local_id"][0]), (Some(7), &"urn:1".into()));
    assert_eq!(consumed.lease.last(), "2026-01-01T00:04:00.000Z urn:4 2026-01-01T00:04:00.000Z");
    // Asked again, nothing is new, and nothing is asked of the tree; later there is something.
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    web.answer(pages([("/feed", atom(&[6, 5, 4], Some("2"))), ("/2", atom(&[3, 2], None))]));
    assert_eq!(consumed.taken().await, 2);
    assert_eq!(consumed.payloads().await, zips(1..7));
    consumed.end(tree).await;
}

#[tokio::test]
async fn pages_behind_the_checkpoint_are_not_read() {
    let tree = Tree::embedded();
    let web = Web::start(pages([("/feed", atom(&[40, 30], Some("2"))), ("/2", atom(&[20, 10], None))])).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    assert_eq!(consumed.taken().await, 4);
    let before = web.count();
    // 30 is ten minutes before 40: what follows 29 is too old.
    web.answer(pages([("/feed", atom(&[41, 40, 29], Some("never"))), ("/never", String::new())]));
    assert_eq!(consumed.taken().await, 1);
    assert_eq!(web.count(), before + 1);
    consumed.end(tree).await;
}

#[tokio::test]
async fn wrong_order_repeated_ids_and_late_entries_lose_and_double_nothing() {
    let tree = Tree::embedded();
    let mixed = [("/feed", atom(&[2, 9, 2, 5], Some("2"))), ("/2", atom(&[5, 1, 9], None))];
    let web = Web::start(pages(mixed)).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    assert_eq!(consumed.taken().await, 4);
    assert_eq!(consumed.payloads().await, zips([1, 2, 5, 9]));
    // One that was published late, beside those that are known, after a crash as well.
    web.answer(pages([("/feed", atom(&[9, 7, 5, 2], None))]));
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.known), (1, 3));
    assert_eq!(consumed.payloads().await, zips([1, 2, 5, 9, 7]));
    assert!(consumed.lease.last().contains("urn:9"), "{}", consumed.lease.last());
    consumed.end(tree).await;
}

#[tokio::test]
async fn an_entry_that_is_updated_is_submitted_again() {
    let tree = Tree::embedded();
    let web = Web::start(pages([("/feed", atom(&[1], None))])).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    assert_eq!(consumed.taken().await, 1);
    let updated = atom(&[1], None).replace("T00:01", "T00:05");
    web.answer(pages([("/feed", updated)]));
    assert_eq!(consumed.taken().await, 1);
    assert_eq!(consumed.payloads().await, zips([1, 1]));
    consumed.end(tree).await;
}

#[tokio::test]
async fn what_makes_no_sense_gives_nothing_and_loses_nothing() {
    let tree = Tree::embedded();
    let whole = atom(&[2, 1], None);
    let web = Web::start(|_| (500, String::new())).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    consumed.fails("500").await;
    // Cut off, between two elements and in the middle of one.
    for (bytes, why) in [(7, "cut off"), (60, "end of input")] {
        let half = whole[..whole.len() - bytes].to_owned();
        web.answer(move |_| (200, half.clone()));
        consumed.fails(why).await;
    }
    web.answer(|_| (200, "<!DOCTYPE x [<!ENTITY a \"aaaa\">]><feed>&a;</feed>".into()));
    consumed.fails("document type").await;
    web.answer(|_| (200, "<html><body>Sorry</body></html>".into()));
    consumed.fails("no Atom feed").await;
    // Pages without end, each with a new address.
    let mut page = 0;
    web.answer(move |_| {
        page += 1;
        (200, atom(&[page % 50], Some(&format!("/page/{page}"))))
    });
    consumed.fails("more than 20 pages").await;
    // Pages in a circle.
    web.answer(|_| (200, atom(&[1], Some("/feed"))));
    consumed.fails("circle").await;
    // The second page is broken: what the first says is not consumed out of order.
    let first = atom(&[9, 8], Some("2"));
    web.answer(move |url| if url.path() == "/feed" { (200, first.clone()) } else { (503, String::new()) });
    consumed.fails("503").await;
    // Out of the web.
    web.answer(|_| (200, atom(&[1], Some("file:///etc/passwd"))));
    consumed.fails("out of the web").await;
    web.answer(move |_| (200, whole.clone()));
    assert_eq!(consumed.taken().await, 2);
    consumed.end(tree).await;
}

#[tokio::test]
async fn an_entry_that_cannot_become_a_batch_holds_up_nobody() {
    let tree = Tree::embedded();
    let web = Web::start(pages([("/feed", atom(&[3, 2, 1], None))])).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    consumed.stage.profile(|text| format!("allowed_hosts = [\"example.org\"]\n{text}"));
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (0, 3));
    assert_eq!(consumed.lease.feed().node.skipped, 3);
    // Their reasons are kept, with the ids.
    let skipped = consumed.skipped();
    assert_eq!(skipped.len(), 3);
    assert!(
        skipped[0].0.starts_with("urn:1") && skipped[0].1.contains("allows no payloads from"),
        "{skipped:?}"
    );
    consumed.end(tree).await;
}

#[tokio::test]
async fn an_entry_without_id_or_date_is_counted_once_with_its_reason_and_holds_up_nobody() {
    let tree = Tree::embedded();
    let odd = "<entry><id>urn:x</id><title>No date</title></entry><entry><id>urn:y</id><updated>soon</updated></entry>\
        <entry><updated>2026-01-01T00:09:00Z</updated><title>No id</title></entry>";
    let page =
        move |entries: &[usize]| atom(entries, Some("/2")).replace("</feed>", &format!("{odd}</feed>"));
    let second = [("/feed", page(&[4, 3])), ("/2", atom(&[2, 1], None))];
    let web = Web::start(pages(second)).await;
    let mut consumed = Consumed::new(&tree, &at_atom(&web)).await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (4, 3));
    assert_eq!(consumed.payloads().await, zips(1..5));
    let reasons: Vec<String> = consumed.skipped().into_iter().map(|(_, why)| why).collect();
    for why in
        ["it has no `updated`", "its `updated` is `soon`", "an entry has no `id` (its title is `No id`)"]
    {
        assert!(reasons.iter().any(|reason| reason.contains(why)), "{why}: {reasons:?}");
    }
    // The one with a date moved the checkpoint past itself; those without move it nowhere.
    assert!(
        consumed.lease.last().starts_with("2026-01-01T00:09:00.000Z entry "),
        "{}",
        consumed.lease.last()
    );
    // They come again: they are neither counted again, nor do they make anybody read pages that are too old.
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.begin_anew().await;
    let before = web.count();
    web.answer(pages([("/feed", page(&[20, 15, 0])), ("/2", atom(&[], None))]));
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (2 + 1, 0));
    assert_eq!(consumed.lease.feed().node.skipped, 3);
    assert_eq!(web.count(), before + 2);
    consumed.end(tree).await;
}
