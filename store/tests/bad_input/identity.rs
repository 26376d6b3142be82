//! Users, passwords and access lists.

use std::sync::Arc;

use ingest_harness::shared_connect_string_with_chroot;
use ingest_store::engines::zookeeper::{Acl, Auth, Zookeeper, ZookeeperConfig};
use ingest_store::{Kind, Limits, Mode, Op, Result, Session};

use crate::says;

fn auth(password: &str) -> Auth {
    Auth { user: "ingest".into(), password: password.into() }
}

pub(crate) async fn open(config: ZookeeperConfig) -> Result<Session> {
    Session::open(Arc::new(Zookeeper::new(config)?), Limits::default()).await
}

#[test]
fn a_creator_list_without_a_creator_is_refused() {
    let config = ZookeeperConfig { acl: Acl::Creator, ..ZookeeperConfig::new("a:2181") };
    let error = Zookeeper::new(config.clone()).unwrap_err();
    says(&error, Kind::InvalidAcl, &["acl = \"creator\" needs auth"]);
    Zookeeper::new(ZookeeperConfig { auth: Some(auth("x")), ..config }).unwrap();
}

#[test]
fn a_password_is_not_shown() {
    let config = ZookeeperConfig { auth: Some(auth("s3cret")), ..ZookeeperConfig::new("a:2181") };
    let shown = [
        format!("{config:?}"),
        format!("{config:#?}"),
        format!("{:?}", config.auth),
        format!("{:?}", Zookeeper::new(config).unwrap()),
    ];
    for text in shown {
        assert!(text.contains("ingest") && !text.contains("s3cret"), "{text}");
    }
}

#[tokio::test]
async fn a_node_of_its_creator_is_closed_to_wrong_passwords_and_to_none() {
    let base = ZookeeperConfig::new(shared_connect_string_with_chroot().await);
    let owner = ZookeeperConfig { auth: Some(auth("right")), acl: Acl::Creator, ..base.clone() };
    let wrong = ZookeeperConfig { auth: Some(auth("wrong")), ..base.clone() };
    let first = open(owner.clone()).await.unwrap();
    first.create("/mine", "secret", Mode::Persistent).await.unwrap();

    for config in [wrong, base] {
        let stranger = open(config).await.unwrap();
        let errors = [
            stranger.get("/mine").await.map(drop).unwrap_err(),
            stranger.children("/mine").await.map(drop).unwrap_err(),
            stranger.set("/mine", "", None).await.map(drop).unwrap_err(),
            stranger.delete("/mine", None).await.unwrap_err(),
            stranger.multi(vec![Op::set("/mine", "", None)]).await.map(drop).unwrap_err(),
        ];
        for error in errors {
            says(&error, Kind::NoAuth, &["/mine: not permitted", "check the configured user and password"]);
        }
        stranger.close().await.unwrap();
    }

    let second = open(owner).await.unwrap();
    assert_eq!(&second.get("/mine").await.unwrap().0[..], b"secret");
    second.set("/mine", "still", 0).await.unwrap();
    first.close().await.unwrap();
    second.close().await.unwrap();
}
