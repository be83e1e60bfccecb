//! What is printed: a line and a hint for each finding, or JSON.

use std::io;

use anstyle::{AnsiColor, Style};
use serde_json::json;
use skills_core::validate::{Finding, Level};

use super::judge::Judged;
use crate::output;

/// How it went.
pub(super) struct Summary {
    skills: usize,
    invalid: usize,
    errors: usize,
    warnings: usize,
    advice: usize,
}

impl Summary {
    pub(super) fn of(judged: &[Judged]) -> Self {
        let count = |level| judged.iter().map(|judged| judged.report.count(level)).sum();
        Self {
            skills: judged.len(),
            invalid: judged.iter().filter(|judged| !judged.report.is_valid()).count(),
            errors: count(Level::Error),
            warnings: count(Level::Warning),
            advice: count(Level::Advice),
        }
    }

    /// A sentence, as an error when a bundle is not valid.
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

fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

pub(super) fn json(judged: &[Judged], summary: &Summary) -> io::Result<()> {
    let row = |judged: &Judged| {
        json!({
            "path": judged.path.to_string_lossy(),
            "valid": judged.report.is_valid(),
            "findings": judged.report.findings,
        })
    };
    let Summary { skills, invalid, errors, warnings, advice } = summary;
    output::json(&json!({
        "skills": judged.iter().map(row).collect::<Vec<_>>(),
        "summary": {
            "skills": skills, "invalid": invalid, "errors": errors, "warnings": warnings,
            "advice": advice,
        },
    }))
}

pub(super) fn text(judged: &[Judged]) -> io::Result<()> {
    for Judged { path, report } in judged {
        let path = output::plain(&path.display().to_string());
        report.findings.iter().try_for_each(|finding| show(&path, finding))?;
    }
    Ok(())
}

fn show(path: &str, finding: &Finding) -> io::Result<()> {
    let Finding { level, code, line, column, message, hint } = finding;
    let colour = match level {
        Level::Error => AnsiColor::Red,
        Level::Warning => AnsiColor::Yellow,
        Level::Advice => AnsiColor::Cyan,
    };
    let style = Style::new().bold().fg_color(Some(colour.into()));
    let bold = Style::new().bold();
    let (level, message, hint) = (level.as_str(), output::plain(message), output::plain(hint));
    output::line(&format!(
        "{bold}{path}:{line}:{column}:{bold:#} {style}{level}[{code}]{style:#}: {message}\n  hint: {hint}"
    ))
}
