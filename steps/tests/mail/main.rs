//! Mail against a real server.

use std::time::{Duration, SystemTime};

use ingest_harness::MailServer;
use ingest_steps::mail::smtp::{Security, Smtp, SmtpConfig};
use ingest_steps::mail::{Attached, Mail, Message};
use ingest_steps::outcome::Failure;

fn config(port: u16) -> SmtpConfig {
    SmtpConfig {
        host: "127.0.0.1".into(),
        port: Some(port),
        security: Security::None,
        user: None,
        password: None,
        timeout: Duration::from_secs(30),
    }
}

fn message(to: &str) -> Message {
    Message {
        id: "bid0000000007-1@ingest.example.org".into(),
        from: "ingest@example.org".into(),
        to: vec![to.into()],
        subject: "Ingest: OK -- Größe".into(),
        date: SystemTime::UNIX_EPOCH + Duration::from_hours(500_000),
        text: "one\n.two begins with a dot\n".into(),
        html: "<p>one</p>".into(),
        attachments: vec![Attached {
            name: "report.csv".into(),
            mime: "text/csv".into(),
            data: b"batch,job\r\nbid0000000007,jid0000000001\r\n".to_vec(),
        }],
    }
}

#[tokio::test]
async fn a_message_arrives_with_its_id_and_its_attachment() {
    let server = MailServer::start().await;
    let smtp = Smtp::new(&config(server.port())).unwrap();
    smtp.send(&message("curators@example.org")).await.unwrap();
    let received = server.received();
    assert_eq!(received.len(), 1);
    for expected in [
        "X-Envelope-To: curators@example.org",
        "Message-ID: <bid0000000007-1@ingest.example.org>",
        ".two begins with a dot",
        "filename=\"report.csv\"",
        "bid0000000007,jid0000000001",
    ] {
        assert!(received[0].contains(expected), "{expected} in {}", received[0]);
    }
}

#[tokio::test]
async fn a_message_that_is_sent_again_is_the_same_one() {
    let server = MailServer::start().await;
    let smtp = Smtp::new(&config(server.port())).unwrap();
    for _ in 0..2 {
        smtp.send(&message("curators@example.org")).await.unwrap();
    }
    let received = server.received();
    assert_eq!((received.len(), &received[0]), (2, &received[1]));
}

#[tokio::test]
async fn a_server_that_refuses_for_now_is_for_later_and_one_for_good_is_a_failure() {
    let server = MailServer::start().await;
    let smtp = Smtp::new(&config(server.port())).unwrap();
    let later = smtp.send(&message("busy@example.org")).await.unwrap_err();
    assert!(matches!(&later, Failure::Later(why) if why.contains("not now")), "{later:?}");
    let refused = smtp.send(&message("refused@example.org")).await.unwrap_err();
    assert!(matches!(&refused, Failure::Fail(why) if why.contains("no such mailbox")), "{refused:?}");
    assert!(server.received().is_empty());
}

#[tokio::test]
async fn a_server_that_is_away_is_for_later_and_named() {
    // It has the port, and does not listen: nobody else can get it meanwhile.
    let deaf = tokio::net::TcpSocket::new_v4().unwrap();
    deaf.bind("127.0.0.1:0".parse().unwrap()).unwrap();
    let port = deaf.local_addr().unwrap().port();
    let smtp = Smtp::new(&config(port)).unwrap();
    let failure = smtp.send(&message("curators@example.org")).await.unwrap_err();
    let named = format!("by 127.0.0.1:{port}");
    assert!(matches!(&failure, Failure::Later(why) if why.contains(&named)), "{failure:?}");
}

#[tokio::test]
async fn a_server_that_asks_who_sends_is_told_and_a_wrong_password_fails() {
    let server = MailServer::start_with_auth("ingest", "right").await;
    let with = |password: &str| SmtpConfig {
        user: Some("ingest".into()),
        password: Some(password.into()),
        ..config(server.port())
    };
    Smtp::new(&with("right")).unwrap().send(&message("curators@example.org")).await.unwrap();
    let failure =
        Smtp::new(&with("wrong")).unwrap().send(&message("curators@example.org")).await.unwrap_err();
    assert!(matches!(failure, Failure::Fail(_)), "{failure:?}");
    assert!(!failure.to_string().contains("wrong"), "{failure}");
    assert_eq!(server.received().len(), 1);
}

#[tokio::test]
async fn a_server_without_tls_gets_nothing_if_tls_is_asked_for() {
    let server = MailServer::start().await;
    for security in [Security::StartTls, Security::Tls] {
        let smtp = Smtp::new(&SmtpConfig { security, ..config(server.port()) }).unwrap();
        smtp.send(&message("curators@example.org")).await.unwrap_err();
    }
    assert!(server.received().is_empty());
}

#[test]
fn a_password_is_not_shown() {
    let shown = format!("{:?}", SmtpConfig { password: Some("secret".into()), ..config(25) });
    assert!(shown.contains("127.0.0.1") && !shown.contains("secret"), "{shown}");
}
