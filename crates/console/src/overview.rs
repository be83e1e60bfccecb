//! The state of the server in figures.

use axum::response::Response;
use maud::{Markup, html};
use skills_core::{SurfaceStats, WorkAccount, WorkKind, request_stats::MINUTES};
use skills_http::ServerStatus;
use skills_registry::Catalog;

use crate::{
    components::user_text,
    error::ConsoleError,
    layout::{Page, Section},
    plot::{Bars, Series, render as render_plot, sum_into},
    rendering::scan,
    units::{ago, bytes, number},
    visit::Visit,
};

const STATUS: WorkKind = WorkKind::io("state of the server in the console");

const HOUR: usize = 60;
/// Bars of a plot.
const BARS: usize = 60;

/// Renders the page.
pub(crate) async fn page(visit: Visit) -> Result<Response, ConsoleError> {
    let catalog = visit.catalog().await?;
    let server = visit.console.parts.server.clone();
    let status = WorkAccount::current().run(STATUS, 0, move |_| server.status()).await?;
    let counts = scan(&catalog, Counts::of).await?;
    let stats = visit.console.parts.server.requests();
    let is_admin = visit.person()?.is_admin();
    let body = html! {
        h1 { "Overview" }
        div #state data-live { (state(&status)) }
        div #figures data-live { (figures(&catalog, &counts, &status, &stats, is_admin)) }
        @if is_admin {
            div #requests data-live {
                h2 { "Requests" }
                h3 { "Last hour" } (render_plot(&bars(&stats, HOUR, ["60 minutes ago", "now"], "hour")))
                h3 { "Last day" } (render_plot(&bars(&stats, MINUTES, ["24 hours ago", "now"], "day")))
                (surfaces(&stats))
            }
        } @else { p.muted { "An administrator also sees requests, sizes and memory." } }
    };
    Ok(Page::new("Overview", Section::Overview, body).polling().respond(&visit))
}

fn state(status: &ServerStatus) -> Markup {
    html! {
        @if status.problems.is_empty() { div.notice.good role="status" { p { "Everything works." } } }
        @for problem in &status.problems {
            div.notice.error role="alert" { p { "Something does not work: " (problem.message) "." } p { "Next: " (problem.hint) "." } }
        }
    }
}

/// Numbers of entries.
struct Counts {
    tools: usize,
    prompts: usize,
    versions: u64,
}

impl Counts {
    fn of(catalog: &Catalog) -> Self {
        let of_skills = catalog.skills_after(None).filter_map(|row| row.heads.as_ref());
        let of_prompts = catalog.prompts_after(None).filter_map(|row| row.heads.as_ref());
        Self {
            tools: catalog.skills_after(None).filter(|row| row.meta.tool.is_some()).count(),
            prompts: catalog.prompts_after(None).count(),
            versions: of_skills.chain(of_prompts).map(|heads| heads.latest).sum(),
        }
    }
}

fn figures(
    catalog: &Catalog,
    counts: &Counts,
    status: &ServerStatus,
    stats: &[SurfaceStats],
    is_admin: bool,
) -> Markup {
    let total = |minutes| {
        stats
            .iter()
            .map(|it| it.total(minutes))
            .fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1))
    };
    let (requests, errors) = total(HOUR);
    let figure = |value: String, label: &str| html! { li { strong { (value) } span { (label) } } };
    html! {
        ul.figures {
            (figure(number(catalog.skill_count() as u64), "skills that you see"))
            (figure(number(counts.tools as u64), "of them tools"))
            (figure(number(counts.prompts as u64), "prompts"))
            (figure(number(counts.versions), "versions published"))
            @if is_admin {
                (figure(number(catalog.revision()), "changes since the beginning"))
                (figure(number(requests), "requests in the last hour"))
                (figure(number(errors), "of them failed"))
                @if let Some(size) = status.store_bytes { (figure(bytes(size), "in the data directory")) }
                @if let Some(size) = status.memory_bytes { (figure(bytes(size), "memory of the process")) }
            }
            li { strong { (status.version) } span { "version, started " (ago(status.started_at)) } }
        }
        @if is_admin { p.muted { "Data directory: " code { (user_text(&status.data_dir)) } } }
    }
}

fn bars(stats: &[SurfaceStats], minutes: usize, ends: [&'static str; 2], period: &str) -> Bars {
    let mut failed = vec![0; minutes];
    let mut series = Vec::with_capacity(stats.len());
    for surface in stats {
        let mut answered = vec![0; minutes];
        let counted = surface.requests.iter().zip(&surface.errors).rev().take(minutes);
        let sums = answered.iter_mut().rev().zip(failed.iter_mut().rev());
        for ((answered, failed), (requests, errors)) in sums.zip(counted) {
            *answered = u64::from(requests.saturating_sub(*errors));
            *failed += u64::from(*errors);
        }
        series.push(Series { name: surface.surface, counts: sum_into(&answered, BARS) });
    }
    let totals = stats.iter().map(|it| (it.surface, it.total(minutes).0));
    let words: Vec<String> = totals.map(|(name, total)| format!("{name} {total}")).collect();
    let description = format!("Requests in the last {period} by surface: {}", words.join(", "));
    Bars { series, errors: sum_into(&failed, BARS), ends, description }
}

fn surfaces(stats: &[SurfaceStats]) -> Markup {
    html! {
        h3 { "By surface" }
        div.scroll tabindex="0" role="region" aria-label="Requests by surface" { table {
            thead { tr { th scope="col" { "Surface" } th.number scope="col" { "Last hour" } th.number scope="col" { "failed" } th.number scope="col" { "Last day" } th.number scope="col" { "failed" } } }
            tbody { @for surface in stats {
                @let (hour, day) = (surface.total(HOUR), surface.total(MINUTES));
                tr {
                    th scope="row" { (surface.surface) }
                    td.number { (number(hour.0)) } td.number { (number(hour.1)) }
                    td.number { (number(day.0)) } td.number { (number(day.1)) }
                }
            } }
        } }
        p.muted { "Counted since the server started. Reads of this page count as requests of the console." }
    }
}
