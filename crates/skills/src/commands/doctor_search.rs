//! `doctor search`: skills that are hard to find, and queries that found nothing.

use serde_json::{Value, json};
use skills_core::Code;
use skills_registry::{SkillRegistry, search::RoutingFinding};
use skills_vault::{SearchMiss, now};

use crate::{
    Failure,
    blocking::blocking,
    cli::{OutputFormat, Target},
    config::Config,
    connect, data_dir, output,
    vault_location::VaultLocation,
};

/// Most queries that are listed.
const MAX_MISSES: usize = 100;

/// Reports skills that are hard to find, or that compete for the same searches.
pub(super) async fn routing(
    skills: &dyn SkillRegistry,
    format: OutputFormat,
) -> Result<(), Failure> {
    let catalog = skills.catalog().await?;
    let findings = blocking(move || catalog.routing_findings()).await?;
    if format.json {
        let rows: Vec<Value> = findings.iter().map(finding_row).collect();
        return Ok(output::json(&json!({ "findings": rows }))?);
    }
    if findings.is_empty() {
        return Ok(output::line("Every skill is found by its own words.")?);
    }
    findings.iter().try_for_each(|finding| print_finding(&finding.id, finding))
}

/// Returns a finding as JSON.
pub(super) fn finding_row(finding: &RoutingFinding) -> Value {
    let mut row = json!(finding);
    row["message"] = json!(finding.to_string());
    row["hint"] = json!(finding.code.hint());
    row
}

/// Prints a finding about the skill at a place.
pub(super) fn print_finding(place: &str, finding: &RoutingFinding) -> Result<(), Failure> {
    let (code, hint) = (finding.code.as_str(), finding.code.hint());
    let (place, message) = (output::plain(place), output::plain(&finding.to_string()));
    Ok(output::line(&format!("{place}: warning[{code}]: {message}\n  hint: {hint}"))?)
}

/// Lists the queries that found nothing.
pub(super) async fn misses(
    target: &Target,
    config: &Config,
    format: OutputFormat,
) -> Result<(), Failure> {
    if connect::explicit_bus(target).is_some() {
        let message = "the queries of a remote registry are not read over its bus";
        let hint = "ask its server: GET /v1/admin/search-misses with ADMIN_KEY";
        return Err(Failure::new(Code::Unsupported, message).hint(hint));
    }
    let location = VaultLocation::new(&data_dir::locate(target)?, config);
    let read = move || -> Result<Vec<SearchMiss>, Failure> {
        if !location.exists() {
            return Ok(vec![]);
        }
        Ok(location.open(None)?.search_misses(now(), MAX_MISSES)?)
    };
    let misses = blocking(read).await??;
    if format.json {
        return Ok(output::json(&json!({ "misses": misses }))?);
    }
    if misses.is_empty() {
        return Ok(output::line("No query of the last 30 days found nothing.")?);
    }
    let cells = |miss: &SearchMiss| {
        let (count, callers) = (miss.count.to_string(), miss.callers.to_string());
        vec![count, callers, output::format_time(&miss.last_at), output::plain(&miss.query)]
    };
    let rows: Vec<_> = misses.iter().map(cells).collect();
    Ok(output::table(&["SEARCHES", "CALLERS", "LAST", "QUERY"], &rows)?)
}
