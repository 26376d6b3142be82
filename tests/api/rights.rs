//! Depositors can neither add to what is others' nor find out whether there is anything.

use serde_json::{Value, json};

use super::kit::{Answer, TestNode, configure, tokens};

const PEOPLE: [(&str, &str); 3] = [("dee", "depositor"), ("eve", "depositor"), ("oli", "operator")];

/// Dee's collection, and Eve's.
async fn node() -> TestNode {
    let dir = tempfile::tempdir().unwrap();
    configure(dir.path(), &tokens(&PEOPLE), "");
    for (name, owner, submitter) in [("test_content", "tests", "dee"), ("other_content", "other", "eve")] {
        let text = format!(
            "name = '{name}'\ncollection = '{owner}'\ntitle = 'Things'\nowner = 'ark:/99999/fk4{owner}'\n\
             submitters = ['{submitter}', 'both']\n"
        );
        std::fs::write(dir.path().join(format!("profiles/{name}.toml")), text).unwrap();
    }
    TestNode::start_in(dir, reqwest::Client::builder()).await
}

async fn submit(node: &TestNode, profile: &str, more: Value) -> Answer {
    let url = node.files.put("/a.txt", "a");
    let mut body = json!({"profile": profile, "payload_url": url, "type": "file"});
    body.as_object_mut().unwrap().extend(more.as_object().unwrap().clone());
    node.post("/api/v1/batches", body).await
}

#[tokio::test]
async fn an_object_of_another_owner_and_none_at_all_are_refused_in_the_same_words() {
    let mut node = node().await;
    node.with_token(Some("dee-token"));
    let submitted = submit(&node, "test_content", json!({})).await.is(201);
    let bid = submitted.json["bid"].as_str().unwrap();
    node.batch_is(bid, "completed").await;
    let jobs = node.get(&format!("/api/v1/jobs?batch={bid}")).await.is(200);
    let ark = jobs.json["jobs"][0]["primary_id"].as_str().unwrap().to_owned();

    node.with_token(Some("eve-token"));
    for mode in ["add", "update"] {
        let mut said = Vec::new();
        for name in [ark.as_str(), "ark:/99999/fk4nobody"] {
            let more = json!({"primary_id": name, "submission_mode": mode});
            let refused = submit(&node, "other_content", more).await.is(400);
            assert_eq!(refused.json["problems"][0]["field"], "primary_id", "{}", refused.json);
            said.push(refused.json.to_string().replace(name, "ARK"));
        }
        assert_eq!(said[0], said[1]);
    }
    let own = node.get("/api/v1/batches").await.is(200);
    assert_eq!(own.json["batches"], json!([]), "nothing was created");

    node.with_token(Some("oli-token"));
    let audited = node.get(&format!("/api/v1/objects/audit?ark={ark}")).await.is(200);
    assert!(audited.text().contains("\"versions\":1"), "{}", audited.text());
    // Whoever it is for may.
    node.with_token(Some("dee-token"));
    submit(&node, "test_content", json!({"primary_id": ark})).await.is(201);
}

#[tokio::test]
async fn a_profile_that_is_for_others_is_not_there() {
    let mut node = node().await;
    node.with_token(Some("eve-token"));
    let listed = node.get("/api/v1/profiles").await.is(200);
    let names: Vec<_> = listed.json["profiles"].as_array().unwrap().iter().map(|one| &one["name"]).collect();
    assert_eq!(names, ["other_content"]);
    let refused = submit(&node, "test_content", json!({})).await.is(400).json.to_string();
    let unknown = submit(&node, "none_content", json!({})).await.is(400).json.to_string();
    assert_eq!(refused.replace("test_content", "NAME"), unknown.replace("none_content", "NAME"));
    // An operator sees all of them, and submits in the name of somebody who may.
    node.with_token(Some("oli-token"));
    let listed = node.get("/api/v1/profiles").await.is(200);
    assert_eq!(listed.json["profiles"].as_array().unwrap().len(), 2);
    let refused = submit(&node, "test_content", json!({"submitter": "eve"})).await.is(400);
    assert_eq!(refused.json["problems"][0]["field"], "profile");
    submit(&node, "test_content", json!({"submitter": "both"})).await.is(201);
}
