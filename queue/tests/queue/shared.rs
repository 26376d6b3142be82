//! Profiles and settings of the cluster. What holds, whatever breaks: **a document is the old one or the new one, whole; each
//! change is made once, and makes the next version; whoever has lost the write lock changes nothing; the lock is free again
//! when its holder is gone; whoever reads all of it reads it as it was at one moment.**

use std::sync::Arc;
use std::time::Duration;

use ingest_harness::{Matcher, Proxy, Server, chroot};
use ingest_queue::dialect::Dialect;
use ingest_queue::error::{Error, Result};
use ingest_queue::map;
use ingest_queue::queue::Queue;
use ingest_queue::shared::{Document, LARGEST};
use ingest_store::engines::zookeeper::{Zookeeper, ZookeeperConfig};
use ingest_store::recipes::rw_lock;
use ingest_store::{Kind, Limits, Op, Store};

use crate::every_fault::{through_every_fault, through_faults_on_a_server};
use crate::requests::noise;
use crate::tree::{Tree, on_both_engines, within};
use crate::world::{clean, queue, queue_on};

on_both_engines!(
    a_profile_is_put_changed_and_deleted,
    settings_are_changed_by_what_they_were,
    a_large_document_goes_in_and_out_whole_and_one_too_large_is_refused,
    what_cannot_be_read_is_told_and_the_others_are_read,
    a_writer_waits_for_the_holder_of_the_lock_and_goes_on_when_its_session_expires,
    readers_share_the_lock_and_a_writer_waits_for_them,
    whoever_reads_all_of_it_reads_one_moment,
    a_reader_that_is_frozen_keeps_writers_out_until_its_session_ends_and_no_longer,
);

async fn settings(queue: &Queue) -> String {
    queue.shared_settings().await.unwrap().map(|found| found.text).unwrap_or_default()
}

/// Nobody is left at the lock.
async fn is_free(queue: &Queue) {
    queue.session().sync().await.unwrap();
    let (left, _) = queue.session().children(map::CONF_LOCK).await.unwrap();
    assert!(left.is_empty(), "{left:?}");
}

async fn a_profile_is_put_changed_and_deleted(tree: &Tree) {
    let (one, two) = (queue(tree).await, queue(tree).await);
    assert_eq!(one.shared_profile("maps").await.unwrap(), None);
    let put = one.put_profile("maps", "a", "ann").await.unwrap();
    let document = put.document.unwrap();
    assert_eq!((put.changed, document.version, document.who.as_str()), (true, 1, "ann"));
    two.session().sync().await.unwrap();
    assert_eq!(two.shared_profile("maps").await.unwrap(), Some(document.clone()));
    let again = two.put_profile("maps", "a", "bob").await.unwrap();
    assert_eq!(
        (again.changed, again.document),
        (false, Some(document)),
        "the same text is the same document"
    );
    assert_eq!(two.put_profile("maps", "b", "bob").await.unwrap().document.unwrap().version, 2);
    one.session().sync().await.unwrap();
    let all = one.shared().await.unwrap();
    assert_eq!((all.profiles.len(), all.profiles[0].text.as_str()), (1, "b"));
    assert!(all.settings.is_none() && all.unreadable.is_empty() && all.profiles_mark().starts_with("1-"));
    let gone = one.delete_profile("maps", "ann").await.unwrap();
    assert_eq!((gone.changed, gone.document), (true, None));
    assert!(matches!(one.delete_profile("maps", "ann").await, Err(Error::NotFound(_))));
    assert_eq!(one.shared().await.unwrap().profiles_mark(), "-");
    is_free(&one).await;
    clean(one.session(), Dialect::Design).await;
}

async fn settings_are_changed_by_what_they_were(tree: &Tree) {
    let (one, two) = (queue(tree).await, queue(tree).await);
    let add = |text: &'static str| move |before: &str| Ok(format!("{before}{text}"));
    // Side by side: each rests on the other, whoever comes first.
    let (a, b) = tokio::join!(one.change_settings("ann", add("a")), two.change_settings("bob", add("b")));
    let versions = [a, b].map(|changed| changed.unwrap().document.unwrap().version);
    assert!(versions == [1, 2] || versions == [2, 1], "{versions:?}");
    one.session().sync().await.unwrap();
    assert!(["ab", "ba"].contains(&settings(&one).await.as_str()), "{}", settings(&one).await);
    let refused = one.change_settings("ann", |_| Err(Error::Invalid("no".into()))).await;
    assert!(matches!(refused, Err(Error::Invalid(_))), "{refused:?}");
    assert_eq!(one.shared_settings().await.unwrap().unwrap().version, 2);
    is_free(&one).await;
    clean(one.session(), Dialect::Design).await;
}

async fn a_large_document_goes_in_and_out_whole_and_one_too_large_is_refused(tree: &Tree) {
    let queue = queue(tree).await;
    // Of many parts, however it is packed.
    let large = noise(LARGEST);
    queue.put_profile("maps", &large, "ann").await.unwrap();
    assert!(queue.shared_profile("maps").await.unwrap().unwrap().text == large);
    queue.put_profile("maps", "small", "ann").await.unwrap();
    let (parts, _) = queue.session().children(map::profile("maps")).await.unwrap();
    assert!(parts.is_empty(), "the old parts are gone: {parts:?}");
    let refused = queue.put_profile("maps", &format!("{large}."), "ann").await;
    assert!(matches!(&refused, Err(Error::Invalid(why)) if why.contains("is the most")), "{refused:?}");
    assert_eq!(queue.shared_profile("maps").await.unwrap().unwrap().text, "small");
    clean(queue.session(), Dialect::Design).await;
}

async fn what_cannot_be_read_is_told_and_the_others_are_read(tree: &Tree) {
    let queue = queue(tree).await;
    queue.put_profile("good", "a", "ann").await.unwrap();
    queue.put_profile("bad", "b", "ann").await.unwrap();
    queue.session().set(map::profile("bad"), "garbage", None).await.unwrap();
    let all = queue.shared().await.unwrap();
    assert_eq!(all.profiles.len(), 1);
    assert_eq!(all.unreadable[0].0, map::profile("bad"));
    assert!(matches!(queue.shared_profile("bad").await, Err(Error::Corrupt { .. })));
    // Whoever puts it again mends it.
    queue.put_profile("bad", "b", "ann").await.unwrap();
    assert!(queue.shared().await.unwrap().unreadable.is_empty());
    clean(queue.session(), Dialect::Design).await;
}

async fn a_writer_waits_for_the_holder_of_the_lock_and_goes_on_when_its_session_expires(tree: &Tree) {
    let (session, writer) = (tree.mortal_session().await, queue(tree).await);
    writer.put_profile("maps", "old", "ann").await.unwrap();
    let held = rw_lock::write(&session, map::CONF_LOCK, "a holder").await.unwrap();
    let mut putting = {
        let writer = writer.clone();
        tokio::spawn(async move { writer.put_profile("maps", "new", "bob").await })
    };
    // It stands in line, and what is there is the old one.
    let mut line = writer.session().watch_tree(map::CONF_LOCK).await.unwrap();
    while writer.session().children(map::CONF_LOCK).await.unwrap().0.len() < 2 {
        within(line.next()).await;
    }
    assert_eq!(writer.shared_profile("maps").await.unwrap().unwrap().text, "old");
    assert!(!putting.is_finished());
    tree.expire(&session).await;
    assert_eq!(within(&mut putting).await.unwrap().unwrap().document.unwrap().version, 2);
    // Whoever held it cannot write under it any more, on whatever session.
    let late = writer.session().multi(vec![held.fence(), Op::set(map::profile("maps"), "", None)]).await;
    assert_eq!(late.unwrap_err().kind(), Kind::NoNode);
    assert_eq!(writer.shared_profile("maps").await.unwrap().unwrap().text, "new");
    is_free(&writer).await;
    clean(writer.session(), Dialect::Design).await;
}

async fn readers_share_the_lock_and_a_writer_waits_for_them(tree: &Tree) {
    let (session, writer) = (tree.mortal_session().await, queue(tree).await);
    let reader = rw_lock::read(&session, map::CONF_LOCK, "a reader").await.unwrap();
    // Another reader is not kept out.
    within(writer.shared()).await.unwrap();
    let putting = {
        let writer = writer.clone();
        tokio::spawn(async move { writer.put_profile("maps", "new", "bob").await })
    };
    let mut line = writer.session().watch_tree(map::CONF_LOCK).await.unwrap();
    while writer.session().children(map::CONF_LOCK).await.unwrap().0.len() < 2 {
        within(line.next()).await;
    }
    assert!(!putting.is_finished());
    assert_eq!(writer.shared_profile("maps").await.unwrap(), None);
    // It dies with the lock.
    drop(reader);
    tree.expire(&session).await;
    within(putting).await.unwrap().unwrap();
    is_free(&writer).await;
}

/// As on a node that was stopped in the midst of reading, and comes back when all is over.
async fn a_reader_that_is_frozen_keeps_writers_out_until_its_session_ends_and_no_longer(tree: &Tree) {
    let (session, writer) = (tree.mortal_session().await, queue(tree).await);
    writer.put_profile("maps", "old", "ann").await.unwrap();
    let reader = queue_on(&session, Dialect::Design).await;
    reader.session().sync().await.unwrap();
    // It neither goes on nor gives back.
    let frozen = rw_lock::read(&session, map::CONF_LOCK, "a node that reads").await.unwrap();
    assert_eq!(reader.shared_unlocked().await.unwrap().profiles[0].text, "old");
    let put = |text: &'static str| {
        let writer = writer.clone();
        tokio::spawn(async move { writer.put_profile("maps", text, "bob").await })
    };
    let mut line = writer.session().watch_tree(map::CONF_LOCK).await.unwrap();
    let writers = [put("new"), put("newer")];
    while writer.session().children(map::CONF_LOCK).await.unwrap().0.len() < 3 {
        within(line.next()).await;
    }
    assert!(!writers.iter().any(tokio::task::JoinHandle::is_finished));
    assert_eq!(writer.shared_profile("maps").await.unwrap().unwrap().version, 1);
    tree.expire(&session).await;
    for writer in writers {
        within(writer).await.unwrap().unwrap();
    }
    assert_eq!(writer.shared_profile("maps").await.unwrap().unwrap().version, 3);
    // It is back: what it reads now it cannot take for what it read under the lock, and it gives nothing of others back.
    within(frozen.lost()).await;
    assert!(reader.shared_unlocked().await.is_err() && reader.shared().await.is_err());
    let held = rw_lock::write(writer.session(), map::CONF_LOCK, "the next").await.unwrap();
    let _ = frozen.release().await;
    writer.session().multi(vec![held.fence()]).await.unwrap();
    held.release().await.unwrap();
    is_free(&writer).await;
    clean(writer.session(), Dialect::Design).await;
}

async fn whoever_reads_all_of_it_reads_one_moment(tree: &Tree) {
    const CHANGES: u32 = 10;
    let (writer, reader) = (queue(tree).await, queue(tree).await);
    let writing = tokio::spawn(async move {
        for n in 1..=CHANGES {
            writer.put_profile("maps", &n.to_string(), "ann").await.unwrap();
            writer.change_settings("ann", |_| Ok(n.to_string())).await.unwrap();
        }
    });
    loop {
        let all = within(reader.shared()).await.unwrap();
        let version = |document: Option<&Document>| document.map_or(0, |document| document.version);
        let (profile, settings) = (version(all.profiles.first()), version(all.settings.as_ref()));
        assert!(profile == settings || profile == settings + 1, "{profile} and {settings}");
        if settings == CHANGES {
            break;
        }
    }
    writing.await.unwrap();
}

/// Its session ends while it has the lock and has judged what it is about to write.
async fn expired_under_the_lock(tree: &Tree) {
    let (session, other) = (tree.mortal_session().await, queue(tree).await);
    let writer = queue_on(&session, Dialect::Design).await;
    other.change_settings("ann", |_| Ok("old".into())).await.unwrap();
    writer.session().sync().await.unwrap();
    let changed = writer
        .change_settings("bob", |before| {
            assert_eq!(before, "old");
            tokio::task::block_in_place(|| tokio::runtime::Handle::current().block_on(tree.expire(&session)));
            Ok("lost".into())
        })
        .await;
    assert!(changed.is_err(), "{changed:?}");
    let next = within(other.change_settings("ann", |before| Ok(format!("{before}er")))).await.unwrap();
    assert_eq!(next.document.unwrap().version, 2);
    assert_eq!(settings(&other).await, "older");
    is_free(&other).await;
    clean(other.session(), Dialect::Design).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_whose_session_expires_under_the_lock_changes_nothing_embedded() {
    expired_under_the_lock(&Tree::embedded()).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_writer_whose_session_expires_under_the_lock_changes_nothing_zookeeper() {
    expired_under_the_lock(&Tree::zookeeper().await).await;
}

/// Everything that is done to what is shared, from nothing to nothing but settings.
async fn everything(queue: Queue) -> Result<()> {
    for text in ["a", "b"] {
        queue.put_profile("maps", text, "ann").await?;
        assert_eq!(queue.shared_profile("maps").await?.unwrap().text, text);
    }
    queue.change_settings("ann", |_| Ok("x = 1".into())).await?;
    let all = queue.shared().await?;
    assert_eq!((all.profiles.len(), all.settings.unwrap().text.as_str()), (1, "x = 1"));
    match queue.delete_profile("maps", "ann").await {
        Err(Error::NotFound(_)) => {}
        deleted => drop(deleted?),
    }
    assert_eq!(queue.shared_profile("maps").await?, None);
    Ok(())
}

async fn nothing(_: Queue) -> Result<()> {
    Ok(())
}

/// On a server: whoever dies with the lock in its hands, or is not told what it did, leaves it to the next.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_profile_is_put_once_whatever_breaks_on_a_server() {
    async fn story(queue: Queue) -> Result<()> {
        queue.put_profile("maps", "a", "ann").await?;
        let found = queue.shared_profile("maps").await?.unwrap();
        assert_eq!((found.version, found.text.as_str()), (1, "a"), "it was put once");
        Ok(())
    }
    Box::pin(through_faults_on_a_server(nothing, story)).await;
}

#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn what_is_shared_is_changed_once_whatever_breaks() {
    Box::pin(through_every_fault(nothing, everything)).await;
}

/// A queue on a real server, behind a link of its own.
async fn linked(proxy: &Proxy, chroot: &str) -> Queue {
    let config = ZookeeperConfig::new(format!("{}{chroot}", proxy.connect_string()));
    let store = Store::new(Arc::new(Zookeeper::new(config).unwrap()), Limits::default());
    queue_on(&store.session().await.unwrap(), Dialect::Design).await
}

/// Each answer of a real server is lost in turn, and each request: every change is made all the same, and once.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn each_answer_and_each_request_may_be_lost_on_a_server() {
    let (server, chroot) = (Server::shared().await, chroot());
    let proxy = Proxy::start(server.address());
    let queue = linked(&proxy, &chroot).await;
    let mut version = 0;
    for answers in [true, false] {
        for call in 0.. {
            let matcher = Matcher::any().skip(call);
            let (answer, request) = if answers {
                (Some(proxy.drop_reply(matcher)), None)
            } else {
                (None, Some(proxy.drop_request(matcher)))
            };
            let put = within(queue.put_profile("maps", &format!("{answers} {call}"), "ann")).await.unwrap();
            version += 1;
            assert_eq!(put.document.unwrap().version, version, "{call}: changed once");
            let sprung = answer.is_some_and(|answer| answer.has_happened())
                || request.is_some_and(|request| request.has_happened());
            proxy.heal();
            if !sprung {
                assert!(call > 5, "the story makes only {call} calls");
                break;
            }
            is_free(&queue).await;
        }
    }
    assert_eq!(queue.shared_profile("maps").await.unwrap().unwrap().version, version);
    clean(queue.session(), Dialect::Design).await;
    queue.session().close().await.unwrap();
}

/// A taker has written what its action brought, and dies before it can announce it: whoever takes the request again answers
/// it, once, and what was left of the first is collected.
#[tokio::test(flavor = "multi_thread", worker_threads = 2)]
async fn a_taker_that_dies_between_the_data_and_the_result_leaves_a_request_that_is_taken_again() {
    use ingest_queue::date::Date;
    use ingest_queue::map::RequestNode;
    use ingest_queue::requests::NewRequest;
    use serde_json::json;
    let (server, chroot) = (Server::shared().await, chroot());
    let proxy = Proxy::start(server.address());
    let (taker, direct) = (linked(&proxy, &chroot).await, Proxy::start(server.address()));
    let other = linked(&direct, &chroot).await;
    let new = NewRequest { action: "fsck".into(), who: "ann".into(), ..NewRequest::default() };
    let id = other.put_request(&new).await.unwrap();
    taker.session().sync().await.unwrap();
    let line = taker.request(&id).await.unwrap();
    let taken = taker.take_request(&line, "first").await.unwrap();
    // Only the last multi has the result in it. What it rests on is written by then.
    let lost = proxy.drop_request(Matcher::path(RequestNode::Result.of(&id)));
    let large = noise(300_000);
    let answering = {
        let (taker, large) = (taker.clone(), json!(large));
        tokio::spawn(async move { taker.answer_request(taken, Ok(&large)).await })
    };
    lost.happened().await;
    proxy.cut();
    let session = taker.session().id();
    proxy.expire_session(session).await;
    proxy.heal();
    assert!(within(answering).await.unwrap().is_err());
    other.session().sync().await.unwrap();
    let data = RequestNode::ResultData.of(&id);
    assert!(other.session().exists(data.as_str()).await.unwrap().is_some(), "the data was written");
    assert!(other.request_result(&id).await.unwrap().is_none(), "and nobody sees it");
    let line = other.request(&id).await.unwrap();
    assert_eq!(line.state(), "waiting");
    let taken = other.take_request(&line, "second").await.unwrap();
    other.answer_request(taken, Ok(&json!("short"))).await.unwrap();
    let answered = other.request_result(&id).await.unwrap().unwrap();
    assert_eq!((answered.result.attempt, answered.data), (2, json!("short")));
    // Nobody waits: it is collected, with what the first had left.
    let later = Date::from_millis(4_000_000_000_000);
    assert_eq!(other.collect_requests(later, Duration::ZERO, usize::MAX).await.unwrap().requests, 1);
    for kind in RequestNode::ALL {
        assert!(other.session().children(kind.dir()).await.unwrap().0.is_empty(), "{kind:?}");
    }
    clean(other.session(), Dialect::Design).await;
}
