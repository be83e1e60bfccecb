//! The frame of every page: head, navigation, the person, footer.

use axum::{body::Bytes, http::StatusCode, response::Response};
use maud::{DOCTYPE, Markup, html};
use skills_core::Code;

use crate::{
    HOME, assets, components::token_field, error::ErrorPage, response, session::Identity,
    visit::Visit,
};

/// Section of the navigation that a page belongs to.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Section {
    Browse,
    Publish,
    Live,
    Overview,
    People,
    /// A page outside the navigation.
    None,
}

/// Page without its frame.
pub(crate) struct Page {
    pub(crate) title: String,
    pub(crate) section: Section,
    pub(crate) body: Markup,
    /// Updates while the page is open.
    updates: Updates,
}

/// Updates of a page while it is open: elements with an id and `data-live` are replaced.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Updates {
    None,
    /// After each change of the registry.
    Changes,
    /// Also every few seconds, for figures that are no change of the registry.
    Polling,
}

impl Updates {
    /// Returns the attribute for the script: the interval of polling in milliseconds.
    const fn attribute(self) -> Option<&'static str> {
        match self {
            Self::None => None,
            Self::Changes => Some(""),
            Self::Polling => Some("5000"),
        }
    }
}

impl Page {
    pub(crate) fn new(title: impl Into<String>, section: Section, body: Markup) -> Self {
        Self { title: title.into(), section, body, updates: Updates::None }
    }

    /// Makes the page follow changes of the registry.
    pub(crate) fn live(self) -> Self {
        Self { updates: Updates::Changes, ..self }
    }

    /// Makes the page follow changes of the registry, and fetch its figures from time to time.
    pub(crate) fn polling(self) -> Self {
        Self { updates: Updates::Polling, ..self }
    }

    /// Renders the page.
    pub(crate) fn respond(self, visit: &Visit) -> Response {
        self.respond_with(visit, StatusCode::OK)
    }

    /// Renders the page with a status.
    pub(crate) fn respond_with(self, visit: &Visit, status: StatusCode) -> Response {
        response::html(status, frame(visit, &self))
    }
}

fn frame(visit: &Visit, page: &Page) -> Markup {
    let Page { title, section, body, updates } = page;
    html! {
        (DOCTYPE)
        html lang="en" {
            (head(title, html! {
                script type="module" src=(assets::SCRIPT.path) {}
                @if *section == Section::Publish {
                    script type="module" src=(assets::PUBLISH_SCRIPT.path) {}
                }
            }))
            body data-events=[updates.attribute()] {
                a.skip href="#main" { "Skip to content" }
                (header(visit, *section))
                main #main tabindex="-1" { (problem(visit, *section)) (body) }
                (footer(visit))
            }
        }
    }
}

fn head(title: &str, scripts: Markup) -> Markup {
    html! {
        head {
            meta charset="utf-8";
            meta name="viewport" content="width=device-width, initial-scale=1";
            meta name="color-scheme" content="light dark";
            title { (title) " · skills" }
            link rel="icon" type="image/svg+xml" href=(assets::ICON.path);
            link rel="stylesheet" href=(assets::STYLE.path);
            (scripts)
        }
    }
}

fn header(visit: &Visit, current: Section) -> Markup {
    let identity = visit.identity.as_ref();
    let is_admin = identity.is_some_and(Identity::is_admin);
    let links = [
        (Section::Browse, HOME, "Browse", identity.is_some()),
        (Section::Publish, "/ui/publish", "Publish", identity.is_some()),
        (Section::Live, "/ui/live", "Live", identity.is_some()),
        (Section::Overview, "/ui/overview", "Overview", identity.is_some()),
        (Section::People, "/ui/people", "People", is_admin),
    ];
    html! {
        header.top {
            a.brand href=(HOME) { (icon()) span { "skills" } }
            nav aria-label="Sections" {
                @for (section, path, label, is_shown) in links {
                    @if is_shown {
                        a href=(path) aria-current=[(section == current).then_some("page")] { (label) }
                    }
                }
            }
            (person(visit, identity))
        }
    }
}

fn person(visit: &Visit, identity: Option<&Identity>) -> Markup {
    html! {
        div.person {
            @match identity {
                Some(identity) => {
                    details.menu {
                        summary title=(identity.description()) {
                            span.visually-hidden { @if visit.is_signed_in() { "Signed in as " } @else { "You are at " } }
                            bdi { (identity.name()) }
                        }
                        div {
                            p { (identity.description()) }
                            @if visit.is_signed_in() {
                                form method="post" action="/ui/sign-out" {
                                    (token_field(visit))
                                    button type="submit" { "Sign out" }
                                }
                            } @else {
                                a.button href="/ui/sign-in" { "Sign in with a key" }
                            }
                        }
                    }
                }
                None => a.button href="/ui/sign-in" { "Sign in" },
            }
        }
    }
}

/// Renders the line about what does not work at the moment. The page Overview lists all problems itself.
fn problem(visit: &Visit, section: Section) -> Markup {
    let problem = visit.console.parts.server.problem().filter(|_| section != Section::Overview);
    html! {
        div #problem data-live {
            @if let Some(problem) = problem { p.notice.warning role="status" { (problem.message) "." } }
        }
    }
}

fn footer(visit: &Visit) -> Markup {
    html! {
        footer.bottom {
            span { "skills " (env!("CARGO_PKG_VERSION")) }
            span { "MCP at " code { (visit.server_address()) "/mcp" } }
            span #connection role="status" aria-live="polite" {}
        }
    }
}

fn icon() -> Markup {
    html! {
        svg.mark viewBox="0 0 32 32" width="22" height="22" aria-hidden="true" {
            rect x="3" y="5" width="26" height="6" rx="3" {}
            rect x="3" y="13" width="18" height="6" rx="3" {}
            rect x="3" y="21" width="22" height="6" rx="3" {}
        }
    }
}

/// Renders an error: what failed, its code, and the next step.
pub(crate) fn error_page(visit: &Visit, error: &ErrorPage) -> Response {
    let body = error_body(error);
    if visit.is_fragment {
        return response::html(error.status, body);
    }
    let title = error.status.canonical_reason().unwrap_or("Error");
    let body = html! { h1 { (title) } (body) p { a href=(HOME) { "All skills" } } };
    Page::new(title, Section::None, body).respond_with(visit, error.status)
}

/// Renders the page about a request that the server refuses before it knows the person. It has no navigation.
pub(crate) fn refusal_page(code: Code, message: &str) -> Bytes {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            (head("Refused", html! {}))
            body {
                main #main {
                    h1 { "Refused" }
                    div.notice.error role="alert" { p { (message) "." } p.code { code { (code.as_str()) } } }
                    p { a href=(HOME) { "All skills" } }
                }
            }
        }
    };
    page.into_string().into()
}

/// Renders the page that a link of another site opens. Browsers send no cookie with such a request; they do when this
/// page, which is ours, opens the same address again.
pub(crate) fn arrival_page(target: &str) -> Response {
    let page = html! {
        (DOCTYPE)
        html lang="en" {
            head {
                meta charset="utf-8";
                meta name="viewport" content="width=device-width, initial-scale=1";
                meta http-equiv="refresh" content=(format!("0; url={target}"));
                title { "skills" }
            }
            body { p { a href=(target) { "Open the page" } } }
        }
    };
    response::html(StatusCode::OK, page)
}

/// Renders the sentences of an error.
pub(crate) fn error_body(error: &ErrorPage) -> Markup {
    html! {
        div.notice.error role="alert" {
            p { bdi { (skills_agent_skills::validate::reveal_hidden(&error.message)) } }
            @if let Some(hint) = &error.hint { p { "Next: " (hint) } }
            p.code { code { (error.code) } }
        }
    }
}
