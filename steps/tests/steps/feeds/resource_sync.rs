//! `ResourceSync` sources and sitemaps.

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
async fn a_plain_sitemap_is_a_list_of_resources() {
    let tree = Tree::embedded();
    let text = "<urlset><url><loc>/files/1.zip</loc></url><url><loc>/files/2.zip</loc><lastmod>2026-01-01</lastmod></url></urlset>";
    let web = Web::start(pages([("/sitemap.xml", text.to_owned())])).await;
    let text = format!("kind = \"resource_sync\"\nurl = \"{}\"", web.url("/sitemap.xml"));
    let mut consumed = Consumed::new(&tree, &text).await;
    assert_eq!(consumed.taken().await, 2);
    consumed.begin_anew().await;
    assert_eq!(consumed.round().await.unwrap().known, 2);
    web.answer(|_| (200, "<urlset><url><lastmod>2026-01-01</lastmod></url></urlset>".into()));
    consumed.fails("no `loc`").await;
    web.answer(|_| (200, "<sitemapindex><sitemap><loc>/a</loc></sitemap></sitemapindex>".into()));
    consumed.fails("circle").await;
    consumed.end(tree).await;
}
