//! The console: web pages to look at a registry and to change it.
//!
//! Pages are rendered on the server and work without scripts; `assets` adds search while typing, live updates and copy
//! buttons. Content is hostile: it is escaped by the templates, or sanitised by [`markdown`](mod@markdown), and never
//! answered with a type that a browser would run.
//!
//! - [`Console`], [`ConsoleParts`]: routes and the parts of the server that they need
//! - `session`: cookies, form tokens, and the person behind a request; `sign_in`, `local_link`: ways to sign in
//! - `visit`: context of a request, and the middleware that provides it; `form`: submitted forms, with the token check
//! - `layout`, `components`, `assets`, `response`, `error`: what all pages share
//! - `browse`, `skill`, `prompt`, `publish`, `live`, `people`, `overview`: the pages
//! - `events`: stream of changes
//! - `validation`: permits for it; `rendering`: permits for it; `markdown`, `highlight`, `diff`, `plot`, `units`: the parts
//!
//! This crate knows the registry, the executor of tools and the vault, and no other surface.

mod assets;
mod browse;
mod components;
mod diff;
mod error;
mod events;
mod form;
mod highlight;
mod layout;
mod live;
mod local_link;
mod markdown;
mod overview;
mod people;
mod plot;
mod prompt;
mod publish;
mod rendering;
mod response;
mod session;
mod sign_in;
mod skill;
mod state;
mod units;
mod validation;
mod visit;

use axum::{
    Router, middleware,
    routing::{get, post},
};
use skills_core::limits::MAX_BUNDLE_BYTES;
use skills_http::{BodyLimit, ErrorBody, ErrorFormat, RouteGroup, RoutePolicy, SessionLookup};

pub use local_link::LocalLink;
pub use state::{Console, ConsoleParts};

/// Name of the surface in counters.
const SURFACE: &str = "console";

/// Path of the page that lists everything.
const HOME: &str = "/ui";

/// Largest upload: the largest bundle, and the other parts of the form.
const MAX_UPLOAD_BYTES: usize = MAX_BUNDLE_BYTES + (2 << 20);

/// Documentation of the console, which repeats limits of the code.
#[cfg(test)]
const DOCUMENTATION: &str = include_str!("../../../docs/console.md");

/// Routes of the console, by policy.
#[derive(Debug, Clone)]
pub struct ConsoleRoutes {
    /// Pages and forms, streams, uploads.
    pub groups: Vec<RouteGroup>,
    /// Page at `/`.
    pub front_page: RouteGroup,
    /// Page about a request that the server refuses before a page could.
    pub error_format: ErrorFormat,
}

/// Returns the routes. The console authenticates all of them itself, by cookie.
#[must_use]
pub fn routes(console: &Console) -> ConsoleRoutes {
    let sessions = console.clone();
    let policy = RoutePolicy {
        session: Some(SessionLookup::new(move |headers| sessions.sessions.caller(headers))),
        auth_bypass: Some(|_, _| true),
        same_origin: true,
        linkable: false,
        surface: Some(SURFACE),
        ..RoutePolicy::default()
    };
    let with_visit = |router: Router<Console>, policy: RoutePolicy| {
        let layer = middleware::from_fn_with_state(console.clone(), visit::provide);
        RouteGroup::new(router.layer(layer).with_state(console.clone()), policy)
    };
    let pages = Router::new()
        .route(HOME, get(browse::page))
        .route("/ui/skills/{*id}", get(skill::page))
        .route("/ui/run/{*id}", post(skill::run))
        .route("/ui/prompts/{name}", get(prompt::page).post(prompt::render))
        .route("/ui/publish", get(publish::page))
        .route("/ui/publish/check", post(publish::check))
        .route("/ui/publish/confirm", post(publish::confirm))
        .route("/ui/remove", post(publish::remove))
        .route("/ui/versions/label", post(skill::versions::label))
        .route("/ui/versions/rollback", post(skill::versions::rollback))
        .route("/ui/versions/yank", post(skill::versions::yank))
        .route("/ui/live", get(live::page))
        .route("/ui/overview", get(overview::page))
        .route("/ui/people", get(people::page))
        .route("/ui/people/log", get(people::log))
        .route("/ui/people/keys", post(people::create_key))
        .route("/ui/people/revoke", post(people::revoke_key))
        .route("/ui/sign-in", get(sign_in::page).post(sign_in::sign_in))
        .route("/ui/sign-out", post(sign_in::sign_out))
        .route("/ui/link/{secret}", get(sign_in::open_link))
        .route("/ui/", get(error::home))
        .route("/ui/{*path}", get(error::not_found));
    let page_policy = RoutePolicy { linkable: true, ..policy.clone() };
    let files = Router::new()
        .route("/ui/raw/{id}/{*path}", get(skill::raw))
        .route("/ui/zip/{name}", get(skill::zip));
    // Only this form has files.
    let uploads = Router::new().route("/ui/publish/review", post(publish::review));
    let body_limit = Some(BodyLimit::new(|_| MAX_UPLOAD_BYTES));
    let upload_policy = RoutePolicy { body_limit, raw_bodies: true, ..policy.clone() };
    let streams = Router::new().route("/ui/events", get(events::stream));
    let assets = Router::new().route("/ui/assets/{name}", get(assets::serve));
    let front_page = Router::new().route("/", get(browse::page));
    ConsoleRoutes {
        groups: vec![
            with_visit(pages, page_policy.clone()),
            with_visit(files, policy.clone()),
            with_visit(uploads, upload_policy),
            with_visit(streams, RoutePolicy { long_poll: true, ..policy.clone() }),
            RouteGroup::new(assets, RoutePolicy { surface: None, ..policy }),
        ],
        front_page: with_visit(front_page, page_policy),
        error_format: ErrorFormat {
            path_prefix: "/ui/",
            body: ErrorBody::Page(layout::refusal_page),
        },
    }
}
