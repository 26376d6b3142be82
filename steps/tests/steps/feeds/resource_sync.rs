//! `ResourceSync` sources and sitemaps.

use ingest_steps::outcome::Cancel;

use super::{Consumed, Web, minute, pages, zips};
use crate::tree::Tree;

fn resource(number: usize, change: Option<&str>) -> String {
    let change = change.map(|change| format!(" change=\"{change}\"")).unwrap_or_default();
    format!(
        "<url><loc>/files/{number}.zip</loc><lastmod>{}</lastmod><rs:md{change} length=\"7\" \
         hash=\"md5:1584abdf8ebdc9802ac0c6a7402c03b6\"/></url>",
        minute(number)
    )
}

fn sitemap(root: &str, capability: &str, entries: &str) -> String {
    format!(
        "<{root} xmlns=\"http://www.sitemaps.org/schemas/sitemap/0.9\" xmlns:rs=\"http://www.openarchives.org/rs/terms/\">\
         <rs:md capability=\"{capability}\"/>{entries}</{root}>"
    )
}

fn leads(tag: &str, to: &[(&str, &str)]) -> String {
    let one = |(at, capability): &(&str, &str)| {
        format!("<{tag}><loc>{at}</loc><rs:md capability=\"{capability}\"/></{tag}>")
    };
    to.iter().map(one).collect::<Vec<_>>().concat()
}

#[tokio::test]
async fn resources_come_first_and_then_their_changes() {
    let tree = Tree::embedded();
    let both = leads("url", &[("/resources", "resourcelist"), ("/changes", "changelist")]);
    let site = move |resources: Vec<usize>, changes: Vec<(usize, &'static str)>| {
        let resources: String = resources.iter().map(|number| resource(*number, None)).collect();
        let changes: String =
            changes.iter().map(|(number, change)| resource(*number, Some(change))).collect();
        pages([
            (
                "/start",
                sitemap("urlset", "description", &leads("url", &[("/capabilities", "capabilitylist")])),
            ),
            ("/capabilities", sitemap("urlset", "capabilitylist", &both)),
            (
                "/resources",
                sitemap(
                    "sitemapindex",
                    "resourcelist",
                    &leads("sitemap", &[("/resources/1", "resourcelist")]),
                ),
            ),
            ("/resources/1", sitemap("urlset", "resourcelist", &resources)),
            ("/changes", sitemap("urlset", "changelist", &changes)),
        ])
    };
    // What was created is in both lists, and the same.
    let web = Web::start(site(vec![3, 1, 2], vec![(2, "created"), (3, "updated")])).await;
    let url = web.url("/start");
    let text = format!("kind = \"resource_sync\"\nurl = \"{url}\"\noverlap = \"1m\"");
    let mut consumed = Consumed::new(&tree, &text).await;
    assert_eq!(consumed.taken().await, 3);
    assert_eq!(consumed.payloads().await, zips([1, 2, 3]));
    let first = &consumed.batches().await[0];
    assert_eq!((first.other["size"].as_u64(), first.other["digest_type"].as_str()), (Some(7), Some("md5")));
    let before = web.count();
    web.answer(site(vec![], vec![(3, "updated"), (4, "created"), (5, "deleted")]));
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (1, 1));
    // The resources are not listed again.
    assert!(web.asked.lock()[before..].iter().all(|url| url.path() != "/resources"));
    consumed.end(tree).await;
}

#[tokio::test]
async fn resources_are_listed_until_the_last_of_them_was_consumed_once() {
    let tree = Tree::embedded();
    let lists = leads("url", &[("/resources", "resourcelist"), ("/changes", "changelist")]);
    let resources: String = [1, 2, 3].map(|number| resource(number, None)).concat();
    let web = Web::start(pages([
        ("/capabilities", sitemap("urlset", "capabilitylist", &lists)),
        ("/resources", sitemap("urlset", "resourcelist", &resources)),
        ("/changes", sitemap("urlset", "changelist", "")),
    ]))
    .await;
    let url = web.url("/capabilities");
    let text = format!("kind = \"resource_sync\"\nurl = \"{url}\"\noverlap = \"0s\"");
    let mut consumed = Consumed::new(&tree, &text).await;
    // Killed after the first one.
    let news = consumed.source.ask("", &Cancel::new()).await.unwrap();
    let (first, submission) = (&news.items[0], crate::expand::submission("http://127.0.0.1:9/files/1.zip"));
    let queue = consumed.stage.queue.clone();
    queue.take_item(&mut consumed.lease, &first.id, &first.last, &submission).await.unwrap();
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.known), (2, 1));
    assert_eq!(consumed.payloads().await, zips([1, 2, 3]));
    assert!(consumed.lease.last().starts_with("2026-01-01T00:03"), "{}", consumed.lease.last());
    // From then on the changes are enough.
    let before = web.count();
    assert_eq!(consumed.taken().await, 0);
    assert!(web.asked.lock()[before..].iter().all(|url| url.path() != "/resources"));
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_plain_sitemap_is_a_list_of_resources() {
    let tree = Tree::embedded();
    let text = "<urlset><url><loc>/files/1.zip</loc></url><url><loc>/files/2.zip</loc><lastmod>2026-01-01</lastmod></url></urlset>";
    let web = Web::start(pages([("/sitemap.xml", text.to_owned())])).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"", web.url("/sitemap.xml"));
    let mut consumed = Consumed::new(&tree, &text).await;
    assert_eq!(consumed.taken().await, 2);
    consumed.begin_anew().await;
    assert_eq!(consumed.round().await.unwrap().known, 2);
    web.answer(|_| (200, "<sitemapindex><sitemap><loc>/a</loc></sitemap></sitemapindex>".into()));
    consumed.fails("circle").await;
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_change_counts_from_when_it_happened_and_not_from_how_old_its_content_is() {
    let tree = Tree::embedded();
    let change = |number: usize, datetime: &str, lastmod: &str| {
        format!("<url><loc>/files/{number}.zip</loc>{lastmod}<rs:md change=\"updated\"{datetime}/></url>")
    };
    let at = |minute_of: usize| format!(" datetime=\"{}\"", minute(minute_of));
    let lastmod = |minute_of: usize| format!("<lastmod>{}</lastmod>", minute(minute_of));
    let list = |changes: &str| pages([("/changes", sitemap("urlset", "changelist", changes))]);
    let web = Web::start(list(&change(1, &at(30), ""))).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"\noverlap = \"1m\"", web.url("/changes"));
    let mut consumed = Consumed::new(&tree, &text).await;
    assert_eq!(consumed.taken().await, 1);
    // A file that was put there today and was last modified years ago; one that says no `datetime`; one whose
    // `datetime` is no date; one that changed before, whatever its content says.
    let changes = [
        change(2, &at(31), "<lastmod>2001-01-01</lastmod>"),
        change(3, "", &lastmod(32)),
        change(4, " datetime=\"soon\"", &lastmod(33)),
        change(5, &at(10), &lastmod(50)),
    ];
    web.answer(list(&changes.concat()));
    assert_eq!(consumed.taken().await, 3);
    assert_eq!(consumed.payloads().await, zips([1, 2, 3, 4]));
    // The same content changed again: that is another item.
    web.answer(list(&change(2, &at(40), "<lastmod>2001-01-01</lastmod>")));
    assert_eq!(consumed.taken().await, 1);
    assert!(consumed.lease.last().starts_with("2026-01-01T00:40"), "{}", consumed.lease.last());
    consumed.end(tree).await;
}

#[tokio::test]
async fn in_a_resource_list_the_date_is_that_of_the_content() {
    let tree = Tree::embedded();
    let entry = format!(
        "<url><loc>/files/1.zip</loc><lastmod>{}</lastmod><rs:md datetime=\"{}\"/></url>",
        minute(5),
        minute(50)
    );
    let web = Web::start(pages([("/resources", sitemap("urlset", "resourcelist", &entry))])).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"", web.url("/resources"));
    let mut consumed = Consumed::new(&tree, &text).await;
    assert_eq!(consumed.taken().await, 1);
    assert!(consumed.lease.last().starts_with("2026-01-01T00:05"), "{}", consumed.lease.last());
    consumed.end(tree).await;
}

#[tokio::test]
async fn one_bad_entry_is_counted_with_its_reason_and_stops_no_other() {
    let tree = Tree::embedded();
    let bad = "<url><loc>ftp://a.org/x</loc><lastmod>2026-01-01T00:02:00Z</lastmod></url>\
        <url><lastmod>2026-01-01T00:03:00Z</lastmod></url><url><loc>http://[</loc></url>";
    let entries =
        |numbers: &[usize]| numbers.iter().map(|number| resource(*number, None)).collect::<String>();
    let index = leads(
        "sitemap",
        &[("/1", "resourcelist"), ("ftp://a.org/2", "resourcelist"), ("/1", "resourcelist")],
    );
    let list = |text: String| {
        pages([
            ("/index", sitemap("sitemapindex", "resourcelist", &index)),
            ("/1", sitemap("urlset", "resourcelist", &text)),
        ])
    };
    let web = Web::start(list(format!("{bad}{}", entries(&[1, 4])))).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"\noverlap = \"5m\"", web.url("/index"));
    let mut consumed = Consumed::new(&tree, &text).await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.skipped), (2, 4));
    assert_eq!(consumed.payloads().await, zips([1, 4]));
    let skipped = consumed.skipped();
    for (item, why) in [
        ("ftp://a.org/x 2026-01-01T00:02", "leads out of the web"),
        ("entry ", "an entry has no `loc`"),
        ("http://[ ", "`http://[`"),
        ("ftp://a.org/2", "it leads to no list"),
    ] {
        let known = |(id, reason): &(String, String)| id.starts_with(item) && reason.contains(why);
        assert!(skipped.iter().any(known), "{item}: {skipped:?}");
    }
    // The checkpoint moved past them: nothing comes twice, here or with whoever goes on, and what is new comes.
    assert!(consumed.lease.last().starts_with("2026-01-01T00:04"), "{}", consumed.lease.last());
    web.answer(list(format!("{bad}{}", entries(&[1, 4, 5]))));
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.known, round.skipped), (1, 2, 0));
    assert_eq!(consumed.lease.feed().node.skipped, 4);
    // Set back by a person, they are passed over, and counted, anew.
    let qid = consumed.lease.qid();
    consumed.stage.queue.release_feed(&mut consumed.lease).await.unwrap();
    consumed.stage.queue.reset_feed(qid, "").await.unwrap();
    consumed.lease = consumed.stage.queue.acquire_feed(qid, "feed").await.unwrap();
    consumed.begin_anew().await;
    assert_eq!(consumed.skipped(), []);
    assert_eq!(consumed.round().await.unwrap().skipped, 4);
    consumed.end(tree).await;
}

#[tokio::test]
async fn capabilities_that_are_not_ingested_are_refused_by_name() {
    let tree = Tree::embedded();
    let entries = resource(1, None);
    let web = Web::start(|_| (404, String::new())).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"", web.url("/start"));
    let mut consumed = Consumed::new(&tree, &text).await;
    for capability in [
        "resourcedump",
        "resourcedump-manifest",
        "changedump",
        "changedump-manifest",
        "resourcelist-archive",
        "changelist-archive",
        "somethingnew",
    ] {
        for root in ["urlset", "sitemapindex"] {
            web.answer(pages([("/start", sitemap(root, capability, &entries))]));
            consumed.fails(&format!("it is a `{capability}`, which is not ingested")).await;
        }
    }
    // A capability list that offers nothing else is told, too; beside a list they are another way to the same.
    let dumps = [("/dump", "resourcedump"), ("/changedump", "changedump")];
    web.answer(pages([("/start", sitemap("urlset", "capabilitylist", &leads("url", &dumps)))]));
    consumed.fails("it offers resourcedump, changedump;").await;
    let both = leads("url", &[dumps.as_slice(), &[("/resources", "resourcelist")]].concat());
    web.answer(pages([
        ("/start", sitemap("urlset", "capabilitylist", &both)),
        ("/resources", sitemap("urlset", "resourcelist", &entries)),
    ]));
    assert_eq!(consumed.taken().await, 1);
    consumed.end(tree).await;
}
