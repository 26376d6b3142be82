//! Who may write to which object is decided before anything is fetched, and before anything is stored.

use ingest_queue::ids::Jid;
use ingest_queue::nodes::Submission;
use ingest_queue::plan::job::NewJob;
use ingest_queue::states::{BatchState, JobState};
use ingest_steps::manifest::Kind;
use ingest_steps::outcome::{Cancel, Failure, Progress};
use ingest_steps::payload::PayloadKind;
use ingest_steps::step::expand::{self, Expansion};
use ingest_steps::step::{Ending, Payload, check, conclude};

use crate::expand::{manifest, pending, submission};
use crate::kit::{FileServer, Stage};
use crate::made::{self, ingest, is_all, job, job_with, objects, primary, recorded, work};
use crate::tree::{Tree, on_both_engines, within};

on_both_engines!(a_given_identifier_of_another_owner_is_refused_before_anything_is_fetched);

const FILES: &[(&str, &str)] = &[("a.txt", "one")];
const OTHER: &str = "other_content";

/// Puts another profile beside that of the stage.
fn profile(stage: &Stage, name: &str, more: &str) {
    let dir = stage.services.settings.profiles.dir.clone();
    let text = format!("name = \"{name}\"\ntitle = \"Another\"\n{more}\n");
    std::fs::write(dir.join(format!("{name}.toml")), text).unwrap();
    // Reads all of them.
    stage.profile(str::to_owned);
}

fn of_another_owner(stage: &Stage) {
    profile(stage, OTHER, "collection = \"tests\"\nowner = \"ark:/99999/fk4other\"");
}

fn with(profile: &str, ark: Option<&str>, mode: &str) -> impl FnOnce(&mut NewJob) {
    let (profile, ark, mode) = (profile.to_owned(), ark.map(str::to_owned), mode.to_owned());
    move |new| {
        new.configuration.profile_name = profile;
        new.configuration.submission_mode = mode;
        new.identifiers.primary_id = ark;
    }
}

/// The check of a pending job, and what is said of it.
async fn checked(stage: &Stage, jid: Jid) -> Result<(), Failure> {
    let mut lease = stage.take(jid).await;
    let answer = {
        let mut task = stage.task(&mut lease).await;
        within(check::run(&mut task, &stage.services)).await
    };
    let said = answer.clone().map(|change| assert_eq!(change.message, ""));
    conclude(&stage.queue, &mut lease, answer).await.unwrap();
    said
}

async fn a_given_identifier_of_another_owner_is_refused_before_anything_is_fetched(tree: &Tree) {
    let stage = Stage::new(&tree.session().await).await;
    of_another_owner(&stage);
    let first = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, first).await;
    let before = recorded(&stage, &ark).await;
    let server = FileServer::start().await;
    let url = server.put("/o.checkm", manifest(Kind::Object, ["https://example.org/a | | | | | a".into()]));
    let payload = Payload { url, ..made::payload(PayloadKind::ObjectManifest) };
    let nobody = "ark:/99999/fk4nobody";
    for mode in ["add", "update"] {
        let mut said = Vec::new();
        for name in [&ark.to_string(), nobody] {
            // While it is pending; and, should it come so far, before it is stored.
            let jid = stage.job_with(&payload, with(OTHER, Some(name), mode)).await;
            let Err(Failure::Hopeless(why)) = checked(&stage, jid).await else { panic!("it is not refused") };
            let late = job_with(&stage, FILES, &["l"], with(OTHER, Some(name), mode)).await;
            assert_eq!(work(&stage, late).await, Ending::Moved(JobState::Failed));
            for jid in [jid, late] {
                let status = stage.status(jid).await;
                assert_eq!((status.message.as_str(), status.recoverable), (why.as_str(), false));
            }
            said.push(why.replace(name, "ARK"));
        }
        assert_eq!(said[0], said[1], "it says nothing of whether there is such an object");
    }
    assert!(server.asked("/o.checkm").is_empty(), "nothing was fetched");
    is_all(&stage, &ark, 1, &["l"], "the object is as it was").await;
    assert_eq!(recorded(&stage, &ark).await, before);
    // With the right profile it goes on.
    let own =
        job_with(&stage, &[("b", "2")], &[], with("test_content", Some(&ark.to_string()), "update")).await;
    assert_eq!(ingest(&stage, own).await, ark);
    is_all(&stage, &ark, 2, &["l"], "").await;
}

#[tokio::test]
async fn a_profile_is_for_those_whom_it_names() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    profile(&stage, OTHER, "collection = \"c\"\nowner = \"o\"\nsubmitters = [\"ann\"]");
    let server = FileServer::start().await;
    let url = server
        .put("/b.checkm", manifest(Kind::SingleFileBatch, ["https://example.org/a | | | | | a".into()]));
    for (submitter, may) in [("ann", true), ("bob", false)] {
        let given = Submission {
            profile_name: OTHER.into(),
            submitter: submitter.into(),
            ..submission(url.as_str())
        };
        let asked = server.asked("/b.checkm").len();
        let (bid, mut lease) = pending(&stage, &given).await;
        let (progress, cancel) = (Progress::default(), Cancel::new());
        let answer =
            expand::run(&stage.queue, &mut lease, &stage.services, &progress, &cancel).await.unwrap();
        let state = stage.queue.batch(bid).await.unwrap().state();
        if may {
            assert_eq!(answer, Expansion::Done { jobs: 1 });
            stage.queue.release_batch(&mut lease).await.unwrap();
        } else {
            let why = "`bob` may not use the profile `other_content` (`submitters`)";
            assert_eq!((answer, state), (Expansion::Failed(why.into()), BatchState::Failed));
            assert_eq!(server.asked("/b.checkm").len(), asked, "nothing was fetched");
        }
    }
    // A job that was made otherwise is refused, too.
    let jid = stage.job_with(&made::payload(PayloadKind::Container), with(OTHER, None, "add")).await;
    assert!(matches!(checked(&stage, jid).await, Err(Failure::Hopeless(_))));
    let late = job_with(&stage, FILES, &[], with(OTHER, None, "add")).await;
    assert_eq!(work(&stage, late).await, Ending::Moved(JobState::Failed));
    assert!(objects(&stage).await.is_empty());
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_local_id_does_not_lead_into_a_collection_that_is_not_the_submitters() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    let first = job(&stage, FILES, &["l"]).await;
    let ark = ingest(&stage, first).await;
    // The collection of that object is now for ann alone; another one of the same owner is for everybody.
    stage.profile(|text| text.replace("[notify]", "submitters = [\"ann\"]\n[notify]"));
    let open =
        "name = \"other_content\"\ntitle = \"t\"\ncollection = \"open\"\nowner = \"ark:/99999/fk4tests\"";
    let dir = &stage.services.settings.profiles.dir;
    std::fs::write(dir.join("other_content.toml"), open).unwrap();
    stage.profile(|text| text.replace("[notify]", "submitters = [\"ann\"]\n[notify]"));
    let given = |new: &mut NewJob| {
        new.configuration.profile_name = OTHER.into();
        new.configuration.local_id = vec!["l".into()];
        new.identifiers.local_id = vec!["l".into()];
    };
    let jid = stage.job_with(&made::payload(PayloadKind::Container), given).await;
    let configuration = stage.queue.configuration(jid).await.unwrap();
    assert!(check::is_needed(&configuration, &stage.services));
    assert!(matches!(checked(&stage, jid).await, Err(Failure::Hopeless(why)) if why.contains("no object")));
    let late = job_with(&stage, FILES, &["l"], given).await;
    assert_eq!(work(&stage, late).await, Ending::Moved(JobState::Failed));
    is_all(&stage, &ark, 1, &[], "").await;
    // Ann may use both.
    let ann = job_with(&stage, &[("b", "2")], &["l"], |new| {
        given(new);
        new.configuration.submitter = "ann".into();
    })
    .await;
    assert_eq!(ingest(&stage, ann).await, ark);
    assert_eq!(recorded(&stage, &ark).await.unwrap().collection, "open");
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn an_own_object_whose_first_version_is_under_way_is_waited_for() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    of_another_owner(&stage);
    let first = job(&stage, FILES, &["l"]).await;
    assert_eq!(work(&stage, first).await, Ending::Moved(JobState::Recording));
    let ark = primary(&stage, first).await.unwrap().to_string();
    let pending = async |profile: &str| {
        stage.job_with(&made::payload(PayloadKind::Container), with(profile, Some(&ark), "add")).await
    };
    let (own, foreign) = (pending("test_content").await, pending(OTHER).await);
    assert!(matches!(checked(&stage, own).await, Err(Failure::Blocked { .. })));
    assert!(stage.status(own).await.message.contains(&format!("waits for {first}")));
    assert!(matches!(checked(&stage, foreign).await, Err(Failure::Hopeless(_))), "it learns nothing");
    assert_eq!(work(&stage, first).await, Ending::Moved(JobState::Notify));
    assert_eq!(checked(&stage, own).await, Ok(()));
    stage.fsck().await;
    tree.close().await;
}

#[tokio::test]
async fn a_new_object_gets_a_given_identifier_only_where_the_profile_says_so() {
    let tree = Tree::embedded();
    let stage = Stage::new(&tree.session().await).await;
    stage.profile(|text| text.replace("[notify]", "ark_prefixes = [\"ark:/99999/x1\"]\n[notify]"));
    for (ark, mode, may) in [
        ("ark:/99999/x1a", "add", true),
        ("ark:/99999/x1b", "update", false),
        ("ark:/99999/fk4a", "add", false),
    ] {
        let jid = job_with(&stage, FILES, &[], with("test_content", Some(ark), mode)).await;
        let expected = if may { JobState::Recording } else { JobState::Failed };
        assert_eq!(work(&stage, jid).await, Ending::Moved(expected), "{ark}");
        if may {
            assert_eq!(work(&stage, jid).await, Ending::Moved(JobState::Notify));
        }
    }
    assert_eq!(objects(&stage).await, ["ark:/99999/x1a"]);
    stage.fsck().await;
    tree.close().await;
}
