//! Output of `validate`: a line and a hint for each finding, or JSON.

use std::io;

use anstyle::{AnsiColor, Style};
use serde_json::json;
use skills_agent_skills::validate::{Finding, FindingLevel};

use super::{routing::PlacedFinding, validate_files::FileReport};
use crate::commands::doctor_search::finding_row;
use crate::output::{self, counted};

/// Counts of a validation.
pub(super) struct Summary {
    skills: usize,
    invalid: usize,
    errors: usize,
    warnings: usize,
    advice: usize,
}

impl Summary {
    pub(super) fn new(reports: &[FileReport]) -> Self {
        let count = |level| reports.iter().map(|it| it.report.count(level)).sum();
        Self {
            skills: reports.len(),
            invalid: reports.iter().filter(|it| !it.report.is_valid()).count(),
            errors: count(FindingLevel::Error),
            warnings: count(FindingLevel::Warning),
            advice: count(FindingLevel::Advice),
        }
    }

    /// Returns the summary sentence, as an error if a skill is invalid.
    pub(super) fn verdict(&self) -> Result<String, String> {
        let Self { skills, invalid, errors, warnings, advice } = self;
        let found = format!(
            "{}, {}, {advice} advice",
            counted(*errors, "error"),
            counted(*warnings, "warning")
        );
        match invalid {
            0 => Ok(format!("{}, all valid: {found}", counted(*skills, "skill"))),
            _ => Err(format!("{invalid} of {} not valid: {found}", counted(*skills, "skill"))),
        }
    }
}

pub(super) fn json(
    reports: &[FileReport],
    summary: &Summary,
    routing: Option<&[PlacedFinding]>,
) -> io::Result<()> {
    let row = |it: &FileReport| {
        json!({
            "path": it.path.to_string_lossy(),
            "valid": it.report.is_valid(),
            "findings": it.report.findings,
        })
    };
    let Summary { skills, invalid, errors, warnings, advice } = summary;
    let mut answer = json!({
        "skills": reports.iter().map(row).collect::<Vec<_>>(),
        "summary": {
            "skills": skills, "invalid": invalid, "errors": errors, "warnings": warnings,
            "advice": advice,
        },
    });
    if let Some(findings) = routing {
        let row = |placed: &PlacedFinding| {
            let mut row = finding_row(&placed.finding);
            row["path"] = json!(placed.path.to_string_lossy());
            row
        };
        answer["routing"] = findings.iter().map(row).collect();
    }
    output::json(&answer)
}

pub(super) fn text(reports: &[FileReport]) -> io::Result<()> {
    for FileReport { path, report } in reports {
        let path = output::plain(&path.display().to_string());
        report.findings.iter().try_for_each(|finding| print_finding(&path, finding))?;
    }
    Ok(())
}

fn print_finding(path: &str, finding: &Finding) -> io::Result<()> {
    let Finding { level, code, line, column, message, hint } = finding;
    let colour = match level {
        FindingLevel::Error => AnsiColor::Red,
        FindingLevel::Warning => AnsiColor::Yellow,
        FindingLevel::Advice => AnsiColor::Cyan,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    let bold = Style::new().bold();
    let (level, message, hint) = (level.as_str(), output::plain(message), output::plain(hint));
    output::line(&format!(
        "{bold}{path}:{line}:{column}:{bold:#} {style}{level}[{code}]{style:#}: {message}\n  hint: {hint}"
    ))
}
