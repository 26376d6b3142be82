//! EZID against a strict service, and against services that fail.

use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::Duration;

use ingest_steps::ark::Ark;
use ingest_steps::minter::ezid::{EzidConfig, EzidMinter};
use ingest_steps::minter::{MintRequest, Minter};
use ingest_steps::outcome::Failure;
use tokio::io::{AsyncReadExt, AsyncWriteExt};
use tokio::net::{TcpListener, TcpSocket, TcpStream};

use crate::clock::{HOUR, jump};
use crate::request;
use crate::service::{PASSWORD, Planned, SHOULDER, Service, USER};
use crate::tree::within;

fn minter(service: &Service) -> EzidMinter {
    EzidMinter::new(service.config()).unwrap()
}

fn planned(status: u16, retry_after: Option<&'static str>, body: &str) -> Planned {
    Planned { status, retry_after, body: body.into(), done: false }
}

/// What went wrong at the one try to reserve a name.
async fn refused(minter: &EzidMinter) -> Failure {
    within(minter.reserve(&request())).await.unwrap_err()
}

fn warns_of_an_orphan(failure: &Failure) -> bool {
    let text = failure.to_string();
    text.contains("belong to nobody") && text.contains("`ingestd.key: jid0000000007/processing/0`")
}

#[tokio::test]
async fn a_name_is_reserved_first_and_public_after() {
    let service = Service::start().await;
    let minter = minter(&service);
    let ark = minter.reserve(&request()).await.unwrap();
    assert_eq!(service.state.lock().names[&ark.to_string()]["_status"], "reserved");
    minter.publish(&ark, &request()).await.unwrap();
    let names = service.state.lock().names.clone();
    let known = &names[&ark.to_string()];
    for (name, value) in [
        ("_status", "public"),
        ("_target", "https://repository.example.org/m/?id=7"),
        ("erc.who", "Stein, Gertrude"),
        ("erc.what", "Tender Buttons: Objects"),
        ("erc.when", "1914"),
        ("ingestd.key", "jid0000000007/processing/0"),
        ("ingestd.owner", "ark:/99999/j2ucop"),
    ] {
        assert_eq!(known[name], value);
    }
}

#[tokio::test]
async fn publishing_twice_is_publishing_once() {
    let service = Service::start().await;
    let minter = minter(&service);
    let ark = minter.reserve(&request()).await.unwrap();
    minter.publish(&ark, &request()).await.unwrap();
    let once = service.state.lock().names.clone();
    minter.publish(&ark, &request()).await.unwrap();
    assert_eq!(service.state.lock().names, once);
}

#[tokio::test]
async fn a_name_that_was_not_reserved_is_not_published() {
    let service = Service::start().await;
    let ark: Ark = "ark:/13030/c7none".parse().unwrap();
    let failure = minter(&service).publish(&ark, &request()).await.unwrap_err();
    let Failure::Fail(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("ark:/13030/c7none") && why.contains("published before it was reserved"), "{why}");
}

#[tokio::test]
async fn values_that_would_break_the_form_arrive_as_they_are() {
    let service = Service::start().await;
    let nasty = "50% of\r\n_status: public\n%0A: «Ünïcode» 名";
    let request = MintRequest { what: Some(nasty.into()), who: None, target: None, ..request() };
    let ark = minter(&service).reserve(&request).await.unwrap();
    let known = service.state.lock().names[&ark.to_string()].clone();
    assert_eq!((known["erc.what"].as_str(), known["erc.who"].as_str()), (nasty, "(:unas)"));
    assert_eq!((known["_status"].as_str(), known.get("_target")), ("reserved", None));
}

#[tokio::test]
async fn wrong_credentials_fail_with_the_remedy_and_without_the_password() {
    let service = Service::start().await;
    let config = EzidConfig { password: "wrong".into(), ..service.config() };
    assert!(!format!("{config:?}").contains("wrong"));
    let failure = refused(&EzidMinter::new(config).unwrap()).await;
    let Failure::Fail(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("401") && why.contains("check the user and password"), "{why}");
    assert!(!why.contains("wrong") && !warns_of_an_orphan(&failure), "{why}");
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_refusal_is_a_failure_that_quotes_the_service() {
    let service = Service::start().await;
    let config = EzidConfig { shoulder: "ark:/13030/zz".into(), ..service.config() };
    let failure = refused(&EzidMinter::new(config).unwrap()).await;
    let Failure::Fail(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("/shoulder/ark:/13030/zz") && why.contains("no such shoulder"), "{why}");
}

#[tokio::test]
async fn a_service_that_asks_to_wait_is_asked_again() {
    let service = Service::start().await;
    service.plan(planned(503, Some("0"), "error: busy"));
    service.plan(planned(429, Some("0"), "error: too many"));
    minter(&service).reserve(&request()).await.unwrap();
    assert_eq!((service.requests().len(), service.state.lock().names.len()), (3, 1));
}

#[tokio::test]
async fn a_service_that_always_asks_to_wait_is_left_alone_after_some_tries() {
    let service = Service::start().await;
    (0..9).for_each(|_| service.plan(planned(503, Some("0"), "error: busy")));
    let failure = refused(&minter(&service)).await;
    assert!(matches!(&failure, Failure::Later(_)) && !warns_of_an_orphan(&failure), "{failure:?}");
    assert_eq!(service.requests().len(), 4);
}

#[tokio::test]
async fn a_long_pause_is_left_to_the_caller() {
    let service = Service::start().await;
    service.plan(planned(503, Some("86400"), "error: maintenance"));
    let failure = refused(&minter(&service)).await;
    assert!(matches!(&failure, Failure::Later(why) if why.contains("maintenance")), "{failure:?}");
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn a_mint_whose_outcome_is_unknown_is_not_repeated_and_says_so() {
    for status in [500, 502, 503, 504] {
        let service = Service::start().await;
        service.plan(Planned { status, retry_after: None, body: "error: internal".into(), done: true });
        let failure = refused(&minter(&service)).await;
        assert!(matches!(&failure, Failure::Later(_)) && warns_of_an_orphan(&failure), "{failure:?}");
        assert_eq!(service.requests().len(), 1, "{status}");
        let names = service.state.lock().names.clone();
        let orphan = names.values().next().unwrap();
        assert_eq!(orphan["ingestd.key"], request().key, "it can be found");
    }
}

#[tokio::test]
async fn a_mint_whose_answer_is_lost_is_not_repeated_and_says_so() {
    // The first closes without a word, the second in the middle of its answer.
    for answer in ["", "HTTP/1.1 201 Created\r\ncontent-length: 30\r\n\r\nsuccess: ark:"] {
        let (config, count) = cut_off(answer).await;
        let failure = refused(&EzidMinter::new(config).unwrap()).await;
        assert!(matches!(&failure, Failure::Later(_)) && warns_of_an_orphan(&failure), "{failure:?}");
        assert_eq!(count.load(Ordering::SeqCst), 1);
    }
}

#[tokio::test]
async fn a_publication_whose_answer_is_lost_is_repeated() {
    let (config, count) = cut_off("").await;
    let ark: Ark = "ark:/13030/c7x".parse().unwrap();
    let failure = within(EzidMinter::new(config).unwrap().publish(&ark, &request())).await.unwrap_err();
    assert!(matches!(&failure, Failure::Later(why) if why.contains("may be repeated")), "{failure:?}");
    assert_eq!(count.load(Ordering::SeqCst), 4);

    let service = Service::start().await;
    let minter = minter(&service);
    let ark = minter.reserve(&request()).await.unwrap();
    service.plan(Planned { status: 500, retry_after: None, body: String::new(), done: true });
    minter.publish(&ark, &request()).await.unwrap();
    assert_eq!(service.requests().len(), 3);
}

#[tokio::test]
async fn a_service_that_never_answers_is_given_up_in_time() {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = EzidConfig { timeout: HOUR, ..config_of(&listener) };
    let minter = EzidMinter::new(config).unwrap();
    let wanted = request();
    let silence = async {
        let (mut stream, _) = listener.accept().await.unwrap();
        read_whole(&mut stream).await;
        jump(2 * HOUR).await;
        stream
    };
    let (answer, _open) = tokio::join!(minter.reserve(&wanted), silence);
    let failure = answer.unwrap_err();
    assert!(matches!(&failure, Failure::Later(_)) && warns_of_an_orphan(&failure), "{failure:?}");
}

#[tokio::test]
async fn an_answer_without_a_name_fails_with_a_warning() {
    for body in ["success: doi:10.5072/FK2", "success:"] {
        let service = Service::start().await;
        service.plan(planned(201, None, body));
        let failure = refused(&minter(&service)).await;
        assert!(matches!(&failure, Failure::Fail(_)) && warns_of_an_orphan(&failure), "{failure:?}");
    }
}

#[tokio::test]
async fn a_name_of_another_shoulder_is_refused() {
    let service = Service::start().await;
    service.plan(planned(201, None, "success: ark:/13030/zz0001"));
    let failure = refused(&minter(&service)).await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("ark:/13030/zz0001")), "{failure:?}");
}

#[tokio::test]
async fn an_endless_answer_is_not_read_to_its_end() {
    let service = Service::start().await;
    service.plan(planned(201, None, &"success: ".repeat(100_000)));
    let failure = refused(&minter(&service)).await;
    assert!(failure.to_string().len() < 1_000 && warns_of_an_orphan(&failure), "{failure:?}");
}

#[tokio::test]
async fn a_redirect_is_not_followed() {
    let service = Service::start().await;
    service.plan(planned(302, None, "elsewhere"));
    let failure = refused(&minter(&service)).await;
    assert!(matches!(&failure, Failure::Fail(why) if why.contains("302")), "{failure:?}");
}

#[tokio::test]
async fn a_refused_connection_leaves_no_doubt() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap()).parse().unwrap();
    let config = EzidConfig {
        pause: Duration::from_millis(1),
        tries: 3,
        ..EzidConfig::new(url, SHOULDER, USER, PASSWORD)
    };
    let failure = refused(&EzidMinter::new(config).unwrap()).await;
    let Failure::Later(why) = &failure else { panic!("{failure:?}") };
    assert!(why.contains("no connection") && !warns_of_an_orphan(&failure), "{why}");
}

#[tokio::test]
async fn a_service_that_comes_up_between_the_tries_is_reached() {
    let socket = TcpSocket::new_v4().unwrap();
    socket.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let url = format!("http://{}", socket.local_addr().unwrap()).parse().unwrap();
    let pause = Duration::from_millis(1);
    let config = EzidConfig { pause, tries: 30, ..EzidConfig::new(url, SHOULDER, USER, PASSWORD) };
    let minter = EzidMinter::new(config).unwrap();
    let wanted = request();
    let (ark, service) = tokio::join!(biased; within(minter.reserve(&wanted)), async {
        Service::on(socket.listen(16).unwrap())
    });
    assert!(ark.unwrap().is_checked());
    assert_eq!(service.requests().len(), 1);
}

#[tokio::test]
async fn the_service_cannot_say_what_is_orphaned() {
    let service = Service::start().await;
    assert_eq!(minter(&service).orphans().await, Ok(None));
}

#[tokio::test]
async fn a_shoulder_that_is_none_is_refused_at_the_start() {
    let service = Service::start().await;
    let config = EzidConfig { shoulder: "doi:10.5072/FK2".into(), ..service.config() };
    let failure = EzidMinter::new(config).unwrap_err();
    assert!(failure.to_string().contains("doi:10.5072/FK2"), "{failure}");
}

fn config_of(listener: &TcpListener) -> EzidConfig {
    let url = format!("http://{}", listener.local_addr().unwrap()).parse().unwrap();
    EzidConfig { pause: Duration::from_millis(1), ..EzidConfig::new(url, SHOULDER, USER, PASSWORD) }
}

/// Reads a request to its end.
async fn read_whole(stream: &mut TcpStream) {
    let mut read = Vec::new();
    // The target ends the body.
    while !read.ends_with(b"/m/?id=7\n") {
        assert!(stream.read_buf(&mut read).await.unwrap() > 0);
    }
}

/// A service that reads each request whole, says this and closes; and how many it has read.
async fn cut_off(answer: &'static str) -> (EzidConfig, Arc<AtomicUsize>) {
    let listener = TcpListener::bind("127.0.0.1:0").await.unwrap();
    let config = config_of(&listener);
    let count = Arc::new(AtomicUsize::new(0));
    let counted = count.clone();
    tokio::spawn(async move {
        loop {
            let (mut stream, _) = listener.accept().await.unwrap();
            read_whole(&mut stream).await;
            counted.fetch_add(1, Ordering::SeqCst);
            stream.write_all(answer.as_bytes()).await.unwrap();
        }
    });
    (config, count)
}
