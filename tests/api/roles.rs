//! Every operation of the document and every role: who is too low is refused, whoever has no token or a wrong one is nobody.
//!
//! The document says for each operation whom it is for; one that does not say it fails here.

use std::net::{IpAddr, Ipv4Addr};

use reqwest::Method;
use serde_json::{Value, json};

use super::kit::{Answer, TestNode, tokens};

const ROLES: [&str; 3] = ["depositor", "operator", "admin"];

/// Open to anybody: nothing else may be.
const OPEN: [&str; 5] = ["/healthz", "/readyz", "/openapi.json", "/files/{path}", "/api/v1/access/{token}"];

struct Operation {
    method: Method,
    path: String,
    /// The least of the roles that may; none: anybody may.
    role: Option<usize>,
}

impl Operation {
    fn named(&self) -> String {
        format!("{} {}", self.method, self.path)
    }

    /// With ids of nothing.
    fn concrete(&self) -> String {
        let parts = self.path.split('/').map(|part| if part.starts_with('{') { "nothing" } else { part });
        parts.collect::<Vec<_>>().join("/")
    }
}

fn operations(document: &Value) -> Vec<Operation> {
    let mut all = Vec::new();
    for (path, methods) in document["paths"].as_object().unwrap() {
        for (method, operation) in methods.as_object().unwrap() {
            let method = Method::from_bytes(method.to_uppercase().as_bytes()).unwrap();
            let security = operation["security"].as_array();
            let security = security.unwrap_or_else(|| panic!("{method} {path} does not say whom it is for"));
            assert_eq!(security.len(), 1, "{method} {path}");
            let role = security[0].get("token").map(|roles| {
                let name = roles[0].as_str().unwrap();
                ROLES.iter().position(|role| *role == name).unwrap_or_else(|| panic!("{name} is no role"))
            });
            assert_eq!(role.is_none(), OPEN.contains(&path.as_str()), "{method} {path}");
            all.push(Operation { method, path: path.clone(), role });
        }
    }
    all
}

#[tokio::test]
async fn every_operation_is_for_the_role_that_the_document_names() {
    let people = [("dee", "depositor"), ("oli", "operator"), ("ada", "admin")];
    let api = format!("rate = 1000000\n{}", tokens(&people));
    let mut node = TestNode::start_with(&api, "[access]\ndir = 'access'\n").await;
    let operations = operations(&node.get("/openapi.json").await.is(200).json);
    assert!(operations.len() >= 50);
    for (at, operation) in operations.iter().enumerate() {
        let (method, path) = (operation.method.clone(), operation.concrete());
        let sent = |answer: &Answer| format!("{}: {}", operation.named(), answer.text());
        // From an address of its own: whoever guesses too often is not answered any more.
        let guesser = stranger(&node, at).request(method.clone(), format!("{}{path}", node.base));
        let guesser = guesser.bearer_auth("a-guess").json(&json!({})).send().await.unwrap();
        let guessed = Answer::of(guesser).await;
        node.with_token(None);
        let nobody = node.send(method.clone(), &path, &json!({})).await;
        let Some(least) = operation.role else {
            for answer in [nobody, guessed] {
                assert!(![401, 403].contains(&answer.status), "{}", sent(&answer));
            }
            continue;
        };
        for answer in [nobody, guessed] {
            assert_eq!(answer.status, 401, "{}", sent(&answer));
            assert_eq!(answer.header("www-authenticate"), "Bearer");
            answer.problem(401, "unauthorized", "");
        }
        for (role, (name, _)) in people.iter().enumerate() {
            // It would end the node, or never end.
            let is_over = matches!(path.as_str(), "/api/v1/node/drain" | "/api/v1/events");
            if role >= least && is_over {
                continue;
            }
            node.with_token(Some(&format!("{name}-token")));
            let answer = node.send(method.clone(), &path, &json!({})).await;
            if role < least {
                assert_eq!(answer.status, 403, "{name}, {}", sent(&answer));
                answer.problem(403, "forbidden", ROLES[least]);
            } else {
                assert!(![401, 403].contains(&answer.status), "{name}, {}", sent(&answer));
                assert!(answer.status < 500, "{name}, {}", sent(&answer));
            }
        }
    }
}

#[tokio::test]
async fn whoever_submits_with_a_token_is_the_submitter_unless_another_is_named() {
    let people = [("dee", "depositor"), ("oli", "operator"), ("ada", "admin")];
    let mut node = TestNode::start_with(&tokens(&people), "").await;
    let url = node.files.put("/a.txt", "a").to_string();
    for (name, role) in people {
        node.with_token(Some(&format!("{name}-token")));
        let mut body = json!({"profile": "test_content", "payload_url": url, "type": "file"});
        let submitter = async |body: &Value| {
            let bid = node.send(Method::POST, "/api/v1/batches", body).await.is(201).json["bid"].clone();
            let batch = node.get(&format!("/api/v1/batches/{}", bid.as_str().unwrap())).await.is(200).json;
            batch["submitter"].clone()
        };
        assert_eq!(submitter(&body).await, name);
        if role != "depositor" {
            body["submitter"] = json!("ann");
            assert_eq!(submitter(&body).await, "ann");
        }
    }
}

/// Somebody who comes from another loopback address.
fn stranger(node: &TestNode, number: usize) -> reqwest::Client {
    assert!(node.base.contains("127.0.0.1"), "{}", node.base);
    let last = u8::try_from(number).unwrap();
    let from = IpAddr::V4(Ipv4Addr::new(127, 0, 1, last + 1));
    reqwest::Client::builder().no_proxy().local_address(from).build().unwrap()
}
