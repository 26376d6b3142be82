//! All routes, and the `OpenAPI` document that is made of them.
//!
//! A route is added by naming its handler here: what is served is in the document, and what is in the document is served.

use axum::extract::State;
use axum::middleware;
use axum::response::{IntoResponse as _, Response};
use axum::routing::get;
use axum::{Json, Router};
use utoipa::OpenApi as _;
use utoipa::openapi::request_body::RequestBody;
use utoipa::openapi::security::{HttpAuthScheme, HttpBuilder, SecurityScheme};
use utoipa::openapi::{Components, RefOr, Required, Schema};
use utoipa_axum::router::OpenApiRouter;
use utoipa_axum::routes;

use super::app::App;
use super::guard::guard;
use super::{
    access, batches, bulk, events, export, feeds, files, fsck, health, holds, jobs, limits, metrics, nodes,
    objects, pools, requests, restarts, shared, states, submit,
};

const TOKEN: &str = "token";

#[derive(utoipa::OpenApi)]
#[openapi(
    info(title = "ingestd", description = "The HTTP API of an ingest node."),
    paths(files::get, document)
)]
struct Document;

fn described() -> OpenApiRouter<App> {
    OpenApiRouter::with_openapi(Document::openapi())
        .routes(routes!(submit::submit, batches::list))
        .routes(routes!(submit::profiles))
        .routes(routes!(shared::profile, shared::put_profile, shared::delete_profile))
        .routes(routes!(shared::settings, shared::change_settings))
        .routes(routes!(requests::actions))
        .routes(routes!(requests::list, requests::put))
        .routes(routes!(requests::show, requests::forget))
        .routes(routes!(requests::result))
        .routes(routes!(requests::moment))
        .routes(routes!(batches::show, batches::delete))
        .routes(routes!(batches::report))
        .routes(routes!(batches::hold))
        .routes(routes!(batches::release))
        .routes(routes!(batches::update_report))
        .routes(routes!(export::export))
        .routes(routes!(jobs::list))
        .routes(routes!(jobs::reasons))
        .routes(routes!(bulk::run))
        .routes(routes!(jobs::show, jobs::delete))
        .routes(routes!(jobs::history))
        .routes(routes!(jobs::requeue))
        .routes(routes!(jobs::hold))
        .routes(routes!(jobs::release))
        .routes(routes!(jobs::priority))
        .routes(routes!(states::tables))
        .routes(routes!(states::counts))
        .routes(routes!(holds::list))
        .routes(routes!(holds::hold_queue, holds::release_queue))
        .routes(routes!(holds::hold_collection, holds::release_collection))
        .routes(routes!(feeds::list))
        .routes(routes!(feeds::show, feeds::forget))
        .routes(routes!(feeds::pause))
        .routes(routes!(feeds::resume))
        .routes(routes!(feeds::ask))
        .routes(routes!(feeds::reset))
        .routes(routes!(limits::list))
        .routes(routes!(limits::set, limits::clear))
        .routes(routes!(limits::upkeep))
        .routes(routes!(limits::run_upkeep))
        .routes(routes!(limits::stats))
        .routes(routes!(nodes::me))
        .routes(routes!(nodes::list))
        .routes(routes!(nodes::show))
        .routes(routes!(nodes::pause))
        .routes(routes!(nodes::resume))
        .routes(routes!(nodes::drain))
        .routes(routes!(nodes::tree))
        .routes(routes!(restarts::restarts))
        .routes(routes!(nodes::audit))
        .routes(routes!(pools::list))
        .routes(routes!(pools::show, pools::change))
        .routes(routes!(access::submit, access::list))
        .routes(routes!(access::fetch))
        .routes(routes!(access::requeue))
        .routes(routes!(access::delete))
        .routes(routes!(fsck::check, fsck::repair))
        .routes(routes!(objects::audit))
        .routes(routes!(events::stream))
        .routes(routes!(health::alive))
        .routes(routes!(health::ready))
        .routes(routes!(metrics::text))
}

/// Everything that is served, with `pages` for what the API does not know.
pub(super) fn router(app: &App, pages: Router) -> Router {
    let (router, _) = described().split_for_parts();
    router
        .route("/openapi.json", get(document))
        .route("/files/{*path}", get(files::get))
        .layer(axum::extract::DefaultBodyLimit::disable())
        .with_state(app.clone())
        .merge(pages)
        .layer(middleware::from_fn_with_state(app.clone(), guard))
}

#[utoipa::path(get, path = "/openapi.json", tag = "health", security(()), responses((status = 200, description = "an OpenAPI document")))]
/// Describes all this
async fn document(State(app): State<App>) -> Response {
    let (_, mut document) = described().split_for_parts();
    let tokens = !app.settings.tokens.is_empty();
    let components = document.components.clone().unwrap_or_default();
    nodes::VERSION.clone_into(&mut document.info.version);
    for path in document.paths.paths.values_mut() {
        let all = [&mut path.get, &mut path.post, &mut path.put, &mut path.patch, &mut path.delete];
        for operation in all.into_iter().flatten() {
            // Handlers of different nouns have the same name.
            let tag = operation.tags.iter().flatten().next().cloned().unwrap_or_default();
            let name = operation.operation_id.take().unwrap_or_default();
            operation.operation_id = Some(format!("{tag}_{name}"));
            if let Some(RefOr::T(body)) = &mut operation.request_body
                && may_be_absent(body, &components)
            {
                body.required = Some(Required::False);
            }
            // Each says which role it is for; where nobody has a token, everybody is everything.
            if !tokens {
                operation.security = None;
            }
        }
    }
    if tokens {
        let scheme = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).build();
        let components = document.components.get_or_insert_default();
        components.add_security_scheme(TOKEN, SecurityScheme::Http(scheme));
    }
    Json(document).into_response()
}

/// No body is an empty object; that is right where an empty object is.
fn may_be_absent(body: &RequestBody, components: &Components) -> bool {
    let Some(RefOr::T(content)) = body.content.get("application/json") else { return false };
    let Some(RefOr::Ref(reference)) = &content.schema else { return false };
    let name = reference.ref_location.rsplit('/').next().unwrap_or_default();
    matches!(components.schemas.get(name), Some(RefOr::T(Schema::Object(object))) if object.required.is_empty())
}
