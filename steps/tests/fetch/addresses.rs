//! Where a URL may lead, and who learns its credentials.

use std::net::SocketAddr;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use ingest_steps::fetch::{Allowed, Fetcher, Rules, Wanted};
use ingest_steps::outcome::Failure;
use reqwest::dns::{Addrs, Name, Resolve, Resolving};
use url::Url;

use crate::kit::{Kit, fails, later, rules};
use ingest_harness::bad_server::{Act, GoodFile, answer, redirect};

/// Names that resolve to these addresses, one list after the other; the last stays.
struct Names {
    answers: Vec<Vec<&'static str>>,
    asked: AtomicUsize,
}

impl Names {
    fn new(answers: &[&[&'static str]]) -> Arc<Self> {
        Arc::new(Self {
            answers: answers.iter().map(|list| list.to_vec()).collect(),
            asked: AtomicUsize::new(0),
        })
    }
}

impl Resolve for Names {
    fn resolve(&self, _: Name) -> Resolving {
        let number = self.asked.fetch_add(1, Ordering::SeqCst).min(self.answers.len() - 1);
        let found: Vec<SocketAddr> =
            self.answers[number].iter().map(|ip| SocketAddr::new(ip.parse().unwrap(), 0)).collect();
        Box::pin(async move { Ok(Box::new(found.into_iter()) as Addrs) })
    }
}

fn allow(what: &str) -> Vec<Allowed> {
    vec![Allowed::try_from(what.to_owned()).unwrap()]
}

async fn kit_with_names(rules: Rules, names: Arc<Names>) -> Kit {
    let mut kit = Kit::with(rules.clone()).await;
    kit.fetcher = Fetcher::with_names(rules, names).unwrap();
    let file = GoodFile::new("inside", "1");
    kit.server.on("/a", move |request| file.serve(request));
    kit
}

#[tokio::test]
async fn addresses_written_in_any_way_are_refused() {
    let kit = Kit::with(Rules { allowed: vec![], ..rules() }).await;
    let port = kit.server.url("/").port().unwrap();
    for host in [
        "127.0.0.1",
        "127.1",
        "2130706433",
        "0x7f.0.0.1",
        "0177.0.0.1",
        "[::1]",
        "[::ffff:127.0.0.1]",
        "[::ffff:7f00:1]",
        "[64:ff9b::7f00:1]",
        "0.0.0.0",
        "[::]",
        "localhost",
        "LOCALHOST",
        "169.254.169.254",
        "%31%32%37.0.0.1",
        "127。0。0。1",
    ] {
        let url = Url::parse(&format!("http://{host}:{port}/a")).unwrap();
        let why = fails(kit.fetch(&Wanted::new(url)).await);
        assert!(why.contains("fetch.allowed"), "{host}: {why}");
    }
    assert_eq!((kit.server.all_requests(), kit.names()), (0, vec![]));
}

#[tokio::test]
async fn a_name_that_resolves_to_the_inside_is_refused() {
    let kit = kit_with_names(Rules { allowed: vec![], ..rules() }, Names::new(&[&["127.0.0.1"]])).await;
    let url = kit.server.url_by_name("friendly.example.org", "/a");
    let why = fails(kit.fetch(&Wanted::new(url)).await);
    assert!(why.contains("`friendly.example.org` is at 127.0.0.1, which is loopback"), "{why}");
    assert_eq!(kit.server.all_requests(), 0);
}

#[tokio::test]
async fn names_and_urls_can_be_judged_before_anything_is_fetched() {
    let judged = async |answers: &[&'static str], allowed: &str| {
        let rules = Rules { allowed: allow(allowed), ..rules() };
        Fetcher::with_names(rules, Names::new(&[answers])).unwrap().judge_name("friendly.example.org").await
    };
    let forbidden = judged(&["192.168.0.9"], "10.0.0.0/8").await.unwrap_err();
    assert_eq!((forbidden.host.as_str(), forbidden.why), ("friendly.example.org", "private"));
    // One address that may be reached is enough, and a name may be known later.
    assert_eq!(judged(&["192.168.0.9", "8.8.8.8"], "10.0.0.0/8").await, Ok(()));
    assert_eq!(judged(&["192.168.0.9"], "friendly.example.org").await, Ok(()));
    assert_eq!(judged(&[], "10.0.0.0/8").await, Ok(()));
    let fetcher = Fetcher::new(Rules { allowed: allow("10.0.0.0/8"), ..rules() }).unwrap();
    assert!(fetcher.judge(&Url::parse("http://localhost/x").unwrap()).is_err());
    assert_eq!(fetcher.judge(&Url::parse("http://10.1.1.1/x").unwrap()), Ok(()));
}

#[tokio::test]
async fn a_name_that_changes_its_address_is_judged_each_time() {
    let names = Names::new(&[&["127.0.0.1"], &["127.0.0.2"]]);
    let kit = kit_with_names(Rules { allowed: allow("127.0.0.1"), ..rules() }, names).await;
    let wanted = Wanted::new(kit.server.url_by_name("friendly.example.org", "/a"));
    kit.fetch(&wanted).await.unwrap();
    let why = fails(kit.fetch(&wanted).await);
    assert!(why.contains("127.0.0.2"), "{why}");
    assert_eq!(kit.server.all_requests(), 1);
}

#[tokio::test]
async fn of_several_addresses_only_the_allowed_are_tried() {
    let names = Names::new(&[&["127.0.0.3", "127.0.0.1", "10.0.0.1"]]);
    let kit = kit_with_names(Rules { allowed: allow("127.0.0.1"), ..rules() }, names).await;
    kit.fetch(&Wanted::new(kit.server.url_by_name("many.example.org", "/a"))).await.unwrap();
    assert_eq!(kit.server.all_requests(), 1);
}

#[tokio::test]
async fn a_host_can_be_allowed_by_its_name_and_only_by_its_name() {
    let names = Names::new(&[&["127.0.0.1"]]);
    let kit = kit_with_names(Rules { allowed: allow("in.example.org"), ..rules() }, names).await;
    kit.fetch(&Wanted::new(kit.server.url_by_name("IN.example.org", "/a"))).await.unwrap();
    for url in [kit.server.url_by_name("out.example.org", "/a"), kit.server.url("/a")] {
        fails(kit.fetch(&Wanted::new(url)).await);
    }
    assert_eq!(kit.server.all_requests(), 1);
}

#[tokio::test]
async fn a_redirect_to_a_forbidden_address_is_not_followed() {
    let inside = ingest_harness::bad_server::BadServer::start().await;
    let kit = Kit::with(Rules { allowed: allow("127.0.0.1"), ..rules() }).await;
    let port = inside.url("/").port().unwrap();
    for (number, host) in ["127.0.0.2", "[::ffff:127.0.0.2]", "169.254.169.254"].into_iter().enumerate() {
        let path = format!("/{number}");
        kit.server.on(&path, move |_| redirect(&format!("http://{host}:{port}/secret")));
        let why = fails(kit.fetch_path(&path).await);
        assert!(why.contains("fetch.allowed"), "{why}");
        assert_eq!(kit.fetcher.size(&kit.server.url(&path)).await, None);
        assert!(kit.fetcher.get_small(&kit.server.url(&path), 10, &kit.cancel).await.is_err());
    }
    assert_eq!(inside.all_requests(), 0);
}

#[tokio::test]
async fn our_own_public_url_is_exempt_and_its_neighbours_are_not() {
    let other = ingest_harness::bad_server::BadServer::start().await;
    let mut kit = Kit::new().await;
    let rules = Rules { allowed: vec![], public_url: Some(kit.server.url("/files/")), ..rules() };
    kit.fetcher = Fetcher::new(rules).unwrap();
    let file = GoodFile::new("own", "1");
    kit.server.on("/a", move |request| file.serve(request));
    let away = other.url("/a").to_string();
    kit.server.on("/away", move |_| redirect(&away));
    kit.fetch_path("/a").await.unwrap();
    fails(kit.fetch_path("/away").await);
    fails(kit.fetch(&Wanted::new(other.url("/a"))).await);
    assert_eq!(other.all_requests(), 0);
}

#[tokio::test]
async fn credentials_go_to_their_server_and_into_no_message() {
    let other = ingest_harness::bad_server::BadServer::start().await;
    let kit = Kit::with(Rules { retries: 0, ..rules() }).await;
    let away = other.url("/there").to_string();
    kit.server.on("/away", move |_| redirect(&away));
    kit.server.on("/same", |_| redirect("/busy"));
    kit.server.on("/busy", |_| vec![Act::Send(answer(503, &[], b""))]);
    kit.server.on("/cut", |_| vec![Act::Reset]);
    kit.server.on("/wrong", |_| vec![Act::Send(answer(200, &[], b"x"))]);
    let with_user = |path: &str| {
        let mut wanted = kit.wanted(path);
        wanted.url.set_username("anna").unwrap();
        wanted.url.set_password(Some("s3cret")).unwrap();
        wanted.url.set_query(None);
        wanted.size = Some(2);
        wanted
    };
    let mut said = vec![];
    for path in ["/away", "/wrong", "/none"] {
        said.push(fails(kit.fetch(&with_user(path)).await));
    }
    for path in ["/same", "/cut"] {
        said.push(later(kit.fetch(&with_user(path)).await));
    }
    said.push(kit.fetcher.size_or_reason(&with_user("/none").url).await.unwrap_err());
    for text in &said {
        assert!(!text.contains("s3cret") && !text.contains("anna"), "{text}");
    }
    assert!(said[1].contains("http://***@127.0.0.1"), "{}", said[1]);
    // anna:s3cret
    let basic = Some("Basic YW5uYTpzM2NyZXQ=");
    assert_eq!(kit.server.seen("/away")[0].header("authorization"), basic);
    assert_eq!(kit.server.seen("/busy")[0].header("authorization"), basic, "the same server");
    assert_eq!(other.seen("/there")[0].header("authorization"), None);
}

#[tokio::test]
async fn a_name_that_does_not_resolve_is_later() {
    let kit = kit_with_names(rules(), Names::new(&[&[]])).await;
    let result = kit.fetch(&Wanted::new(kit.server.url_by_name("gone.example.org", "/a"))).await;
    assert!(matches!(result, Err(Failure::Later(_))), "{result:?}");
}
