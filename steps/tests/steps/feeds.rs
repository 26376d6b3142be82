//! Sources of feeds against real servers, good and bad, and a real directory.
//!
//! Invariants: what a source lists, in whatever order and however often, becomes exactly one batch for each version of each
//! item, the oldest first; a source that says what makes no sense gives nothing, and nothing is lost by it; a file that was
//! put into a drop box becomes one batch, whatever breaks in between.

mod atom;
mod drop_box;
mod oai_pmh;
mod resource_sync;

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

    /// The items that were passed over and why, as the tree keeps them for people.
    fn skipped(&self) -> Vec<(String, String)> {
        let node = &self.lease.feed().node;
        node.skipped_items.iter().map(|skipped| (skipped.item.clone(), skipped.why.clone())).collect()
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

/// Pages by their path; others are not there.
fn pages<const N: usize>(pages: [(&str, String); N]) -> impl FnMut(&Url) -> (u16, String) + Send + use<N> {
    let pages: BTreeMap<String, String> =
        pages.into_iter().map(|(path, text)| (path.to_owned(), text)).collect();
    move |url| pages.get(url.path()).map_or((404, String::new()), |text| (200, text.clone()))
}

fn zips(numbers: impl IntoIterator<Item = usize>) -> Vec<String> {
    numbers.into_iter().map(|number| format!("{number}.zip")).collect()
}
