//! Sources of feeds against real servers, good and bad, and a real directory.
//!
//! Invariants: what a source lists, in whatever order and however often, becomes exactly one batch for each version of each
//! item, the oldest first; a source that says what makes no sense gives nothing, and nothing is lost by it; a file that was
//! put into a drop box becomes one batch, whatever breaks in between.

use std::collections::BTreeMap;
use std::net::SocketAddr;
use std::sync::Arc;
use std::time::Duration;

use axum::http::{StatusCode, Uri};
use axum::response::IntoResponse as _;
use ingest_queue::feeds::FeedLease;
use ingest_queue::ids::Bid;
use ingest_queue::map;
use ingest_queue::nodes::Submission;
use ingest_steps::feed::{self, Broken, Feed, Round, Source};
use ingest_steps::outcome::Cancel;
use parking_lot::Mutex;
use url::Url;

use crate::kit::{PROFILE, Stage};
use crate::tree::Tree;

type Answers = Arc<Mutex<Box<dyn FnMut(&Url) -> (u16, String) + Send>>>;

/// A web server that answers as it is told.
struct Web {
    address: SocketAddr,
    answers: Answers,
    asked: Arc<Mutex<Vec<Url>>>,
    task: tokio::task::JoinHandle<()>,
}

impl Drop for Web {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl Web {
    async fn start(answer: impl FnMut(&Url) -> (u16, String) + Send + 'static) -> Self {
        let answers: Answers = Arc::new(Mutex::new(Box::new(answer)));
        let asked = Arc::<Mutex<Vec<Url>>>::default();
        let listener = tokio::net::TcpListener::bind("127.0.0.1:0").await.unwrap();
        let address = listener.local_addr().unwrap();
        let (own, seen) = (answers.clone(), asked.clone());
        let app = axum::Router::new().fallback(move |uri: Uri| {
            let url = Url::parse(&format!("http://{address}{uri}")).unwrap();
            seen.lock().push(url.clone());
            let (status, body) = (own.lock())(&url);
            async move { (StatusCode::from_u16(status).unwrap(), body).into_response() }
        });
        let task = tokio::spawn(async move { axum::serve(listener, app).await.unwrap() });
        Self { address, answers, asked, task }
    }

    fn answer(&self, answer: impl FnMut(&Url) -> (u16, String) + Send + 'static) {
        *self.answers.lock() = Box::new(answer);
    }

    fn url(&self, path: &str) -> String {
        format!("http://{}{path}", self.address)
    }

    fn count(&self) -> usize {
        self.asked.lock().len()
    }
}

/// A feed that is consumed in a test.
struct Consumed {
    stage: Stage,
    feed: Feed,
    lease: FeedLease,
    source: Box<dyn Source>,
}

impl Consumed {
    async fn new(tree: &Tree, text: &str) -> Self {
        let stage = Stage::with(&tree.session().await, |settings| {
            settings.fetch.retries = 0;
            settings.fetch.backoff = Duration::from_millis(1);
        })
        .await;
        let feed = read(text);
        let made = stage.queue.make_feed("herbarium", feed.kind.name()).await.unwrap();
        let lease = stage.queue.acquire_feed(made.qid, "feed").await.unwrap();
        let source = feed::open("herbarium", &feed, &stage.services).await.unwrap();
        Self { stage, feed, lease, source }
    }

    /// Whoever goes on after a crash knows what the tree knows, and nothing else.
    async fn begin_anew(&mut self) {
        self.source = feed::open("herbarium", &self.feed, &self.stage.services).await.unwrap();
    }

    async fn round(&mut self) -> Result<Round, Broken> {
        let (stage, source) = (&self.stage, self.source.as_mut());
        let cancel = Cancel::new();
        feed::round("herbarium", &self.feed, &stage.services, &stage.queue, &mut self.lease, source, &cancel)
            .await
    }

    async fn taken(&mut self) -> u64 {
        self.round().await.unwrap().taken
    }

    async fn fails(&mut self, why: &str) {
        let before = self.batches().await.len();
        let failure = self.round().await.unwrap_err().to_string();
        assert!(failure.contains(why), "{failure}");
        assert_eq!(self.batches().await.len(), before);
    }

    /// What was submitted, in order.
    async fn batches(&self) -> Vec<Submission> {
        let queue = &self.stage.queue;
        let (names, _) = queue.session().children(map::BATCHES).await.unwrap();
        let mut bids: Vec<Bid> = names.iter().map(|name| name.parse().unwrap()).collect();
        bids.sort_unstable();
        let mut found = Vec::new();
        for bid in bids {
            found.push(queue.submission(bid).await.unwrap());
        }
        found
    }

    /// The last parts of the payloads' URLs, in order.
    async fn payloads(&self) -> Vec<String> {
        let last = |submission: Submission| {
            let url = submission.payload_url.unwrap_or_default();
            url.split('?').next().unwrap().rsplit('/').next().unwrap().to_owned()
        };
        self.batches().await.into_iter().map(last).collect()
    }

    async fn end(self, tree: Tree) {
        self.stage.fsck().await;
        tree.close().await;
    }
}

fn read(text: &str) -> Feed {
    toml::from_str(&format!("profile = \"{PROFILE}\"\nsubmitter = \"ann\"\n{text}")).unwrap()
}

fn minute(minute: usize) -> String {
    format!("2026-01-01T00:{minute:02}:00Z")
}

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

/// Pages by their path; others are not there.
fn pages<const N: usize>(pages: [(&str, String); N]) -> impl FnMut(&Url) -> (u16, String) + Send + use<N> {
    let pages: BTreeMap<String, String> =
        pages.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
    move |url| pages.get(url.path()).map_or((404, String::new()), |text| (200, text.clone()))
}

fn zips(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{number}.zip")).collect()
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
    let odd =
        "<feed><entry><id>no date</id></entry><entry><updated>2026-01-01T00:09:00Z</updated></entry></feed>";
    web.answer(move |_| (200, odd.to_owned()));
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.end(tree).await;
}

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

fn at_box(dir: &std::path::Path, more: &str) -> String {
    format!("kind = \"drop_box\"\npath = \"{}\"\n{more}", dir.display())
}

#[tokio::test]
async fn a_file_in_a_drop_box_becomes_a_batch_once() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    let put = |name: &str, text: &str| std::fs::write(dir.path().join(name), text).unwrap();
    put("a b.zip", "abc");
    put(".hidden", "x");
    put("half.part", "x");
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"rename\"")).await;
    assert_eq!(consumed.taken().await, 1);
    let submission = consumed.batches().await.remove(0);
    assert_eq!(submission.payload_filename.as_deref(), Some("a b.zip"));
    assert_eq!(submission.other["size"].as_u64(), Some(3));
    assert!(submission.other["digest_value"].as_str().unwrap().starts_with("ba7816bf"));
    let file = Url::parse(submission.payload_url.as_deref().unwrap()).unwrap().to_file_path().unwrap();
    assert_eq!(std::fs::read(&file).unwrap(), b"abc");
    assert!(!dir.path().join("a b.zip").exists());
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    // What is put there, or renamed, is told of, without anybody looking.
    put("half.part", "xyz");
    std::fs::rename(dir.path().join("half.part"), dir.path().join("half.zip")).unwrap();
    tokio::time::timeout(Duration::from_secs(30), consumed.source.told()).await.unwrap();
    assert_eq!(consumed.taken().await, 1);
    // It is served as long as its batch is there.
    assert_eq!(consumed.source.tidy(&consumed.stage.queue).await.unwrap(), 0);
    let bid = Bid::new(0);
    // It cannot be expanded, and is not wanted.
    let mut lease = consumed.stage.queue.acquire_batch(bid, "worker").await.unwrap();
    consumed.stage.queue.fail_batch(&mut lease, "nothing to expand").await.unwrap();
    consumed.stage.queue.delete_batch(bid, "ann", "not wanted", true, |_| ()).await.unwrap();
    assert_eq!(consumed.source.tidy(&consumed.stage.queue).await.unwrap(), 1);
    assert!(!file.exists());
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_file_that_was_taken_and_not_submitted_is_submitted_first() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    std::fs::write(dir.path().join("a.zip"), "abc").unwrap();
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"rename\"")).await;
    // Killed between taking the file and making its batch.
    let cancel = Cancel::new();
    let news = consumed.source.ask("", &cancel).await.unwrap();
    consumed.source.prepare(&news.items[0], &cancel).await.unwrap().unwrap();
    assert!(!dir.path().join("a.zip").exists());
    consumed.begin_anew().await;
    assert_eq!(consumed.taken().await, 1);
    // Killed between making a batch and writing that down.
    let taken = dir.path().join(".taken");
    let of_file = std::fs::read_dir(&taken).unwrap().next().unwrap().unwrap().path();
    std::fs::remove_file(of_file.join("batch")).unwrap();
    consumed.begin_anew().await;
    let round = consumed.round().await.unwrap();
    assert_eq!((round.taken, round.known), (0, 1));
    assert_eq!(consumed.batches().await.len(), 1);
    consumed.begin_anew().await;
    assert_eq!(consumed.round().await.unwrap(), Round::default());
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_marker_says_which_file_is_ready_and_goes_with_it() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    for name in ["a.zip", "b.zip"] {
        std::fs::write(dir.path().join(name), name).unwrap();
    }
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "ready = \"marker\"")).await;
    assert_eq!(consumed.taken().await, 0);
    std::fs::write(dir.path().join("b.zip.ready"), "").unwrap();
    assert_eq!(consumed.taken().await, 1);
    let left: Vec<_> =
        std::fs::read_dir(dir.path()).unwrap().map(|entry| entry.unwrap().file_name()).collect();
    assert!(left.contains(&"a.zip".into()) && !left.contains(&"b.zip.ready".into()), "{left:?}");
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_file_that_grows_is_left_alone_until_it_has_been_quiet() {
    let tree = Tree::embedded();
    let dir = tempfile::tempdir().unwrap();
    let file = dir.path().join("a.zip");
    std::fs::write(&file, "abc").unwrap();
    let mut consumed = Consumed::new(&tree, &at_box(dir.path(), "stable = \"300ms\"")).await;
    assert_eq!(consumed.taken().await, 0);
    std::fs::write(&file, "abcdef").unwrap();
    assert_eq!(consumed.taken().await, 0);
    // It is looked at again when its time is over, without anything being told.
    while consumed.taken().await == 0 {
        tokio::time::timeout(Duration::from_secs(30), consumed.source.told()).await.unwrap();
    }
    assert_eq!(consumed.batches().await[0].other["size"].as_u64(), Some(6));
    consumed.end(tree).await;
}

#[tokio::test]
async fn a_drop_box_that_is_not_there_is_told() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let feed = read(&at_box(std::path::Path::new("/no/such/box"), ""));
    let failure = feed::open("x", &feed, &stage.services).await.unwrap_err().to_string();
    assert!(failure.contains("/no/such/box"), "{failure}");
    tree.close().await;
}
