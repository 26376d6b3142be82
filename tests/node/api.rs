//! What a node answers over HTTP.

use ingest_harness::clock::PATIENCE;
use ingest_harness::eventually;
use reqwest::{Client, Method, RequestBuilder};
use serde_json::Value;

use crate::place::Place;

/// A node's API.
pub(crate) struct Api {
    base: String,
    client: Client,
}

impl Api {
    /// Of a node that is ready.
    pub(crate) fn of(place: &Place, name: &str) -> Self {
        let noted = std::fs::read_to_string(place.path(name).join("node/api-address")).unwrap();
        let client = Client::builder().no_proxy().build().unwrap();
        Self { base: noted.trim().trim_end_matches('/').to_owned(), client }
    }

    pub(crate) fn base(&self) -> &str {
        &self.base
    }

    pub(crate) fn request(&self, method: Method, path: &str) -> RequestBuilder {
        self.client.request(method, format!("{}/api/v1/{path}", self.base)).header("x-ingestd", "1")
    }

    pub(crate) async fn get(&self, path: &str) -> (u16, Value) {
        let response = self.request(Method::GET, path).send().await.unwrap();
        (response.status().as_u16(), response.json().await.unwrap())
    }

    /// Changes something, and answers at which moment that is seen.
    pub(crate) async fn change(&self, method: Method, path: &str, body: &Value) -> (Value, i64) {
        let response = self.request(method, path).json(body).send().await.unwrap();
        let moment =
            response.headers().get("x-ingestd-ltime").map(|value| value.to_str().unwrap().to_owned());
        let (status, body) = (response.status(), response.json::<Value>().await.unwrap());
        assert!(status.is_success(), "{path}: {status} {body}");
        (body, moment.expect("a change says its moment").parse().unwrap())
    }

    /// Waits until an answer is as it should be.
    pub(crate) async fn until(&self, what: &str, path: &str, fits: impl Fn(&Value) -> bool) -> Value {
        eventually(what, PATIENCE, || async {
            let (_, found) = self.get(path).await;
            fits(&found).then_some(found)
        })
        .await
    }
}
