//! Profiles and settings of the whole cluster.

use std::collections::BTreeMap;

use axum::Json;
use axum::extract::{Path, State};
use ingest_actors::actions::Order;
use ingest_actors::actions::order::{DeleteProfile, PutProfile as Put, SetSettings, UnsetSettings};

use super::app::App;
use super::caller::{Admin, Operator};
use super::problem::{Answer, Refusal};
use super::read::Body;
use super::shown;
use super::wire::{ChangeSettings, ClusterSettings, Problem, PutProfile, SharedChanged, SharedProfile};

#[utoipa::path(get, path = "/api/v1/profiles/{name}", tag = "shared", security(("token" = ["operator"])), params(("name" = String, Path)), responses(
    (status = 200, body = SharedProfile),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows a profile as it is in the tree
pub(crate) async fn profile(
    State(app): State<App>,
    _: Operator,
    Path(name): Path<String>,
) -> Answer<Json<SharedProfile>> {
    let missing = || {
        let shown: String = name.chars().take(64).collect();
        Refusal::not_found(format_args!("profile {} in the tree", shown.escape_debug()))
    };
    let found = app.queue().await?.shared_profile(&name).await?.ok_or_else(missing)?;
    Ok(Json(SharedProfile {
        name: found.name,
        version: found.version,
        digest: found.digest,
        who: found.who,
        at: found.at,
        text: without_passwords(&found.text),
    }))
}

/// A callback may have a password.
fn without_passwords(text: &str) -> String {
    let clean = |line: &str| {
        let (Some(start), Some(end)) = (line.find(['"', '\'']), line.rfind(['"', '\''])) else {
            return line.to_owned();
        };
        match line.get(start + 1..end) {
            Some(inner) if inner.contains("://") => {
                format!("{}{}{}", &line[..=start], shown::url(inner), &line[end..])
            }
            _ => line.to_owned(),
        }
    };
    text.lines().map(|line| clean(line) + "\n").collect()
}

#[utoipa::path(put, path = "/api/v1/profiles/{name}", tag = "shared", security(("token" = ["admin"])), params(("name" = String, Path)), request_body = PutProfile, responses(
    (status = 200, body = SharedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Puts a profile into the tree, for all nodes
pub(crate) async fn put_profile(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
    Body(asked): Body<PutProfile>,
) -> Answer<Json<SharedChanged>> {
    app.act(&caller, Order::PutProfile(Put { name, text: asked.text })).await.map(Json)
}

#[utoipa::path(delete, path = "/api/v1/profiles/{name}", tag = "shared", security(("token" = ["admin"])), params(("name" = String, Path)), responses(
    (status = 200, body = SharedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Removes a profile from the tree
pub(crate) async fn delete_profile(
    State(app): State<App>,
    Admin(caller): Admin,
    Path(name): Path<String>,
) -> Answer<Json<SharedChanged>> {
    app.act(&caller, Order::DeleteProfile(DeleteProfile { name })).await.map(Json)
}

#[utoipa::path(get, path = "/api/v1/settings", tag = "shared", security(("token" = ["operator"])), responses(
    (status = 200, body = ClusterSettings),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Shows the settings of the cluster, and where this node has its values from
pub(crate) async fn settings(State(app): State<App>, _: Operator) -> Answer<Json<ClusterSettings>> {
    let found = app.queue().await?.shared_settings().await?;
    let house = app.node.house();
    let mut settings = BTreeMap::new();
    let text = found.as_ref().map_or("", |found| &found.text);
    let table: toml::Table = toml::from_str(text).unwrap_or_default();
    flatten(&table, "", &mut settings);
    Ok(Json(ClusterSettings {
        mark: found.as_ref().map_or_else(|| "-".to_owned(), ingest_queue::shared::Document::mark),
        applied: house.settings_mark().unwrap_or_else(|| "-".to_owned()),
        who: found.as_ref().map(|found| found.who.clone()),
        at: found.and_then(|found| found.at),
        settings,
        sources: house.sources(),
    }))
}

fn flatten(table: &toml::Table, above: &str, found: &mut BTreeMap<String, serde_json::Value>) {
    for (name, value) in table {
        let key = if above.is_empty() { name.clone() } else { format!("{above}.{name}") };
        match value {
            toml::Value::Table(inner) => flatten(inner, &key, found),
            value => {
                found.insert(key, serde_json::to_value(value).unwrap_or_default());
            }
        }
    }
}

#[utoipa::path(patch, path = "/api/v1/settings", tag = "shared", security(("token" = ["admin"])), request_body = ChangeSettings, responses(
    (status = 200, body = SharedChanged),
    (status = "default", body = Problem, content_type = "application/problem+json"),
))]
/// Sets keys for the whole cluster, or leaves them to each node again
pub(crate) async fn change_settings(
    State(app): State<App>,
    Admin(caller): Admin,
    Body(asked): Body<ChangeSettings>,
) -> Answer<Json<SharedChanged>> {
    let ChangeSettings { set, unset } = asked;
    if set.is_empty() && unset.is_empty() {
        return Err(Refusal::field("set", "nothing is to be changed: say what to set or to unset"));
    }
    let mut last = None;
    if !unset.is_empty() {
        last = Some(
            app.act::<SharedChanged>(&caller, Order::UnsetSettings(UnsetSettings { keys: unset })).await?,
        );
    }
    if !set.is_empty() {
        let before = last.is_some_and(|changed| changed.changed);
        let order = Order::SetSettings(SetSettings { settings: set });
        let changed: SharedChanged = app.act(&caller, order).await?;
        last = Some(SharedChanged { changed: changed.changed || before, ..changed });
    }
    last.map(Json).ok_or_else(|| Refusal::defect("settings were changed, and nothing came back"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn passwords_of_a_profile_are_not_shown() {
        let text = "name = \"a\"\ncallback = \"https://u:secret@example.org/x\"\n";
        let shown = without_passwords(text);
        assert!(
            !shown.contains("secret") && shown.contains("example.org") && shown.contains("name = \"a\""),
            "{shown}"
        );
    }
}
