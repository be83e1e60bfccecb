//! Who is connected: workers, live clients, sessions, and the places that skills come from.

use std::collections::BTreeMap;

use axum::response::Response;
use maud::{Markup, html};
use serde_json::{Map, Value};
use skills_core::{WorkAccount, WorkKind, text::truncate};
use skills_http::{Connection, ImportedSource};
use skills_registry::{Catalog, ConnectedWorker, RegistryError, live::LiveOperation};

use crate::{
    browse::source_of,
    components::{is_console, user_text, with_query},
    error::ConsoleError,
    layout::{Page, Section},
    rendering::scan,
    units::{ago, counted},
    visit::Visit,
};

const SOURCES: WorkKind = WorkKind::io("imported sources in the console");

/// Most rows of a list.
const MAX_ROWS: usize = 200;
/// Id of the registry among live clients.
const REGISTRY_CLIENT: &str = "registry";
/// Surfaces over stdio. Their processes connect to the bus as workers, each named after its surface.
const STDIO_SURFACES: [(&str, &str); 2] =
    [("skills-mcp-", "mcp over stdio"), ("skills-acp-", "acp over stdio")];
/// Functions or paths of a row that are listed.
const MAX_NAMES: usize = 50;
/// Functions or paths of a list that are listed.
const MAX_LISTED_NAMES: usize = 2000;
/// Longest text of a row that is shown, in characters.
const MAX_TEXT_CHARS: usize = 200;

/// Renders the page.
pub(crate) async fn page(visit: Visit) -> Result<Response, ConsoleError> {
    let (skills, catalog) = (visit.skills()?, visit.catalog().await?);
    let is_admin = visit.person()?.is_admin();
    let workers = if is_admin { skills.workers().await } else { Ok(vec![]) };
    let (sessions, workers) = match workers {
        Ok(workers) => {
            let is_session = |worker: &ConnectedWorker| stdio_surface(worker).is_some();
            let (sessions, workers) = workers.into_iter().partition(is_session);
            (sessions, Ok(workers))
        }
        Err(error) => (vec![], Err(error)),
    };
    let clients = if skills.hosts_live_clients().await {
        skills.call_live(LiveOperation::ListClients, Map::new()).await
    } else {
        Ok(Value::Null)
    };
    let connections = visit.console.parts.server.connections();
    let server = std::sync::Arc::clone(&visit.console.parts.server);
    let imported = WorkAccount::current().run(SOURCES, 0, move |_| server.sources()).await?;
    let sources = scan(&catalog, source_list).await?;
    let body = html! {
        h1 { "Live" }
        p.lead { "Programs that are connected to this registry now, and the places that its skills come from." }
        @if is_admin {
            section #workers data-live aria-label="Workers" { h2 { "Workers" } (worker_list(workers)) }
        }
        section #clients data-live aria-label="Live clients" { h2 { "Live clients" } (client_list(clients)) }
        @if is_admin {
            section #sessions data-live aria-label="Sessions" { h2 { "Sessions" } (session_list(&connections, &sessions)) }
        }
        @if !imported.is_empty() {
            section #imports data-live aria-label="Imported sources" { h2 { "Imported sources" } (import_list(&imported)) }
        }
        section #sources data-live aria-label="Sources" { h2 { "Sources" } (sources) }
        @if !is_admin { p.muted { "An administrator also sees workers and sessions." } }
    };
    Ok(Page::new("Live", Section::Live, body).polling().respond(&visit))
}

/// Returns the surface that a worker serves over stdio, if it is one of ours.
fn stdio_surface(worker: &ConnectedWorker) -> Option<&'static str> {
    let mut surfaces = STDIO_SURFACES.iter();
    surfaces.find_map(|(prefix, surface)| worker.name.starts_with(prefix).then_some(*surface))
}

fn failure(error: &RegistryError) -> Markup {
    html! { p.muted { (user_text(&error.to_string())) } }
}

fn worker_list(workers: Result<Vec<ConnectedWorker>, RegistryError>) -> Markup {
    let workers = match workers {
        Ok(workers) => workers,
        Err(error) => return failure(&error),
    };
    let mut left = MAX_LISTED_NAMES;
    html! {
        @if workers.is_empty() { p.muted { "No worker is connected to the bus." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Workers" { table {
                thead { tr { th scope="col" { "Name" } th scope="col" { "Runtime" } th scope="col" { "Connected" } th scope="col" { "Functions" } } }
                tbody { @for worker in workers.iter().take(MAX_ROWS) { tr {
                    th scope="row" { (shortened(&worker.name)) }
                    td { (shortened(&worker.runtime)) }
                    td { @if let Some(since) = worker.since { (ago(since)) } }
                    td { (names(&worker.functions, "function", &mut left)) }
                } } }
            } }
        }
    }
}

/// Renders text of a program that is connected.
fn shortened(text: &str) -> Markup {
    user_text(&truncate(text, MAX_TEXT_CHARS))
}

/// Renders names, of which a list has so many left.
fn names(names: &[String], noun: &str, left: &mut usize) -> Markup {
    let shown = &names[..names.len().min(MAX_NAMES).min(*left)];
    *left -= shown.len();
    html! {
        @if names.is_empty() { span.muted { "none" } }
        @else {
            details {
                summary { (counted(names.len(), noun)) }
                ul.plain { @for name in shown { li { code { (shortened(name)) } } } }
                @if names.len() > shown.len() { p.muted { "and " (names.len() - shown.len()) " more" } }
            }
        }
    }
}

fn client_list(clients: Result<Value, RegistryError>) -> Markup {
    let clients = match clients {
        Ok(clients) => clients,
        Err(error) => return failure(&error),
    };
    let rows = clients["clients"].as_array().map(Vec::as_slice).unwrap_or_default();
    // The registry offers its own entries to live clients as one of them.
    let rows: Vec<&Value> = rows.iter().filter(|row| row["id"] != REGISTRY_CLIENT).collect();
    let text = |row: &Value, field: &str| row[field].as_str().unwrap_or_default().to_owned();
    let paths = |row: &Value| -> Vec<String> {
        let paths = row["paths"].as_array().into_iter().flatten();
        paths.filter_map(|path| path["path"].as_str().map(str::to_owned)).collect()
    };
    let mut left = MAX_LISTED_NAMES;
    html! {
        @if rows.is_empty() { p.muted { "No client of the Model Drive Protocol is connected." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Live clients" { table {
                thead { tr { th scope="col" { "Client" } th scope="col" { "Name" } th scope="col" { "Platform" } th scope="col" { "Paths" } } }
                tbody { @for row in rows.iter().take(MAX_ROWS) { tr {
                    th scope="row" { a href=(with_query(crate::HOME, &[("q", &text(row, "id")), ("tier", "live")])) { (shortened(&text(row, "id"))) } }
                    td { (shortened(&text(row, "name"))) }
                    td { (shortened(&text(row, "platform"))) }
                    td { (names(&paths(row), "path", &mut left)) }
                } } }
            } }
            @if clients["nextCursor"].is_string() { p.muted { "Further clients are not shown." } }
        }
    }
}

fn session_list(connections: &[Connection], processes: &[ConnectedWorker]) -> Markup {
    html! {
        @if connections.is_empty() && processes.is_empty() { p.muted { "No client of MCP or ACP is connected." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Sessions" { table {
                thead { tr { th scope="col" { "Client" } th scope="col" { "Surface" } th scope="col" { "Open" } th scope="col" { "Notifications" } } }
                tbody { @for connection in connections.iter().take(MAX_ROWS) { tr {
                    th scope="row" { (shortened(&connection.client)) }
                    td { (connection.surface) }
                    td { (ago(connection.since)) }
                    td { @if connection.is_listening { span.badge.good { "listening" } } @else { span.muted { "not listening" } } }
                } }
                @for process in processes.iter().take(MAX_ROWS) { tr {
                    th scope="row" { (shortened(&process.name)) }
                    td { (stdio_surface(process).unwrap_or_default()) }
                    td { @if let Some(since) = process.since { (ago(since)) } }
                    td { span.badge.good { "listening" } }
                } } }
            } }
        }
    }
}

/// Returns the name of a kind of source. The console is the source of what is published in it.
fn kind_name<'a>(kind: &'a str, location: &str) -> &'a str {
    if is_console(kind, location) { "console" } else { kind }
}

fn import_list(sources: &[ImportedSource]) -> Markup {
    html! {
        div.scroll tabindex="0" role="region" aria-label="Imported sources" { table {
            thead { tr { th scope="col" { "Name" } th scope="col" { "From" } th scope="col" { "Tier" } th.number scope="col" { "Skills" } th.number scope="col" { "Skipped" } th scope="col" { "State" } } }
            tbody { @for source in sources.iter().take(MAX_ROWS) { tr {
                th scope="row" { (user_text(&source.name)) }
                td { (user_text(&source.from)) } td { (user_text(&source.tier)) }
                td.number { (source.skills) } td.number { (source.skipped) }
                td {
                    @if let Some(error) = &source.error { span.badge.bad { "failed" } " " (user_text(error)) }
                    @else if let Some(time) = &source.last_success { span.badge.good { "ok" } " " (user_text(time)) }
                    @else { span.muted { "not imported yet" } }
                }
            } } }
        } }
    }
}

fn source_list(catalog: &Catalog) -> Markup {
    let mut sources: BTreeMap<&str, (&str, usize, skills_core::Timestamp)> = BTreeMap::new();
    for row in catalog.skills_after(None) {
        let (Some(source), Some(location)) = (&row.meta.provenance, source_of(row)) else {
            continue;
        };
        let entry = sources.entry(location);
        let (_, count, last) = entry.or_insert((source.kind.as_str(), 0, row.registered_at));
        *count += 1;
        *last = (*last).max(row.registered_at);
    }
    html! {
        @if sources.is_empty() { p.muted { "No skill says where it came from." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Sources" { table {
                thead { tr { th scope="col" { "Source" } th scope="col" { "Kind" } th.number scope="col" { "Skills" } th scope="col" { "Last change" } } }
                tbody { @for (location, (kind, count, last)) in sources.iter().take(MAX_ROWS) { tr {
                    th scope="row" { a href=(with_query(crate::HOME, &[("source", location)])) { (user_text(location)) } }
                    td { (kind_name(kind, location)) } td.number { (count) } td { (ago(*last)) }
                } } }
            } }
        }
    }
}
