//! Output of commands: aligned, coloured only on a terminal, and sanitized there (`terminal`).

use std::{
    borrow::Cow,
    io::{self, BufRead as _, IsTerminal as _, Read as _, Write as _},
    path::Path,
    sync::atomic::{AtomicBool, Ordering},
};

use anstyle::{AnsiColor, Style};
use serde::Serialize;
use serde_json::{Value, json as value};
pub(crate) use skills_core::text::plain;

use crate::terminal;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();
/// Longest answer to a question, in bytes.
const MAX_ANSWER_BYTES: u64 = 256;

/// Smallest width that the last column of a table is cut to.
const MIN_COLUMN: usize = 12;

/// Set if stderr holds JSON lines only.
static IS_STDERR_JSON: AtomicBool = AtomicBool::new(false);

/// Makes notices and warnings on stderr JSON, for a command with `--json`.
pub fn use_json_stderr() {
    IS_STDERR_JSON.store(true, Ordering::Relaxed);
}

/// Prints text; sanitized on a terminal, byte for byte elsewhere.
pub(crate) fn text(text: &str) -> io::Result<()> {
    let text = sanitize_for(text, io::stdout().is_terminal());
    ignore_broken_pipe(io::stdout().lock().write_all(text.as_bytes()))
}

/// Prints bytes; as sanitized text on a terminal, unchanged elsewhere.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return text(&String::from_utf8_lossy(bytes));
    }
    ignore_broken_pipe(io::stdout().lock().write_all(bytes))
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    let json = sanitize_json_for(&json, io::stdout().is_terminal());
    ignore_broken_pipe(io::stdout().lock().write_all(json.as_bytes()))
}

/// Prints one line of JSON.
pub(crate) fn json_line(json: &str) -> io::Result<()> {
    let json = sanitize_json_for(json, io::stdout().is_terminal());
    ignore_broken_pipe(writeln!(io::stdout().lock(), "{json}"))
}

/// Prints one line.
pub(crate) fn line(line: &str) -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let line = if is_terminal { terminal::sanitize_styled(line) } else { line.into() };
    ignore_broken_pipe(writeln!(anstream::stdout().lock(), "{line}"))
}

/// Prints one line on stderr. Stderr that is closed or on a full disk is no reason to fail.
pub(crate) fn error_line(line: &str) {
    let _ = writeln!(anstream::stderr().lock(), "{line}");
}

/// Prints one line of text that may be foreign, in a style on a terminal and byte for byte elsewhere.
pub(crate) fn styled(style: Style, text: &str) -> io::Result<()> {
    if io::stdout().is_terminal() {
        return line(&format!("{style}{}{style:#}", terminal::sanitize(text)));
    }
    ignore_broken_pipe(writeln!(io::stdout().lock(), "{text}"))
}

/// Prints a label and a sentence on stderr. Only the label is styled: the sentence may contain foreign text and is
/// sanitized.
pub(crate) fn labelled(style: Style, label: &str, sentence: &str) {
    if IS_STDERR_JSON.load(Ordering::Relaxed) {
        return error_json(&value!({ "notice": { "kind": label, "message": sentence } }));
    }
    let sentence = sanitize_for(sentence, io::stderr().is_terminal());
    error_line(&format!("{style}{label}:{style:#} {sentence}"));
}

/// Prints a value as one line of JSON on stderr.
pub(crate) fn error_json(value: &Value) {
    let json = value.to_string();
    let json = sanitize_json_for(&json, io::stderr().is_terminal());
    error_line(&json);
}

/// Prints a notice on stderr, such as about a skipped entry.
pub(crate) fn notice(label: &str, sentence: &str) {
    labelled(Style::new().bold().fg_color(Some(AnsiColor::Yellow.into())), label, sentence);
}

/// Answer to a question on a terminal.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Confirmation {
    Yes,
    No,
    /// There is no terminal to ask on.
    NotAsked,
}

/// Text that the user typed on a terminal.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum Answer {
    Given(String),
    /// There is no terminal to ask on.
    NotAsked,
}

/// Asks a question on the terminal and returns the line that the user types.
pub(crate) fn ask(question: &str) -> io::Result<Answer> {
    if !io::stdin().is_terminal() || !io::stderr().is_terminal() {
        return Ok(Answer::NotAsked);
    }
    write!(anstream::stderr(), "{} ", terminal::sanitize(question))?;
    let mut answer = String::new();
    io::stdin().lock().take(MAX_ANSWER_BYTES).read_line(&mut answer)?;
    Ok(Answer::Given(answer.trim().to_owned()))
}

/// Asks a yes/no question on the terminal; the default is no.
pub(crate) fn confirm(question: &str) -> io::Result<Confirmation> {
    Ok(match ask(&format!("{question} [y/N]"))? {
        Answer::NotAsked => Confirmation::NotAsked,
        Answer::Given(answer) => match answer.to_ascii_lowercase().as_str() {
            "y" | "yes" => Confirmation::Yes,
            _ => Confirmation::No,
        },
    })
}

/// Prints pairs of label and value in two columns.
pub(crate) fn fields(fields: &[(&str, String)]) -> io::Result<()> {
    let width = fields.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    let is_terminal = io::stdout().is_terminal();
    fields.iter().try_for_each(|(label, value)| {
        let value = sanitize_for(value, is_terminal);
        line(&format!("{DIM}{label:width$}{DIM:#}  {value}"))
    })
}

/// Prints a table with a bold first column. On a terminal the last column is cut, so that a row is one line.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let is_terminal = io::stdout().is_terminal();
    let cells = |row: &Vec<String>| -> Vec<String> {
        row.iter().map(|cell| sanitize_for(cell, is_terminal).into_owned()).collect()
    };
    let rows: Vec<Vec<String>> = rows.iter().map(cells).collect();
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|title| title.len())).max().unwrap_or(0)
    };
    let mut widths: Vec<usize> = (0..header.len()).map(width).collect();
    let columns = terminal_size::terminal_size().filter(|_| is_terminal);
    if let (Some((columns, _)), Some((last, others))) = (columns, widths.split_last_mut()) {
        let used = others.iter().map(|width| width + 2).sum();
        let rest = usize::from(columns.0).saturating_sub(used);
        *last = if rest < MIN_COLUMN { *last } else { rest.min(*last) };
    }
    let pad = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> = cells
            .zip(&widths)
            .map(|(cell, width)| format!("{:width$}", cut(cell, *width)))
            .collect();
        padded.join("  ").trim_end().to_owned()
    };
    line(&format!("{DIM}{}{DIM:#}", pad(&mut header.iter().copied())))?;
    rows.iter().try_for_each(|row| {
        let text = pad(&mut row.iter().map(String::as_str));
        let name = row.first().map_or(0, String::len);
        line(&format!("{BOLD}{}{BOLD:#}{}", &text[..name], &text[name..]))
    })
}

/// Cuts a text to a number of characters.
fn cut(text: &str, width: usize) -> Cow<'_, str> {
    match text.char_indices().nth(width) {
        None => text.into(),
        Some(_) => text.chars().take(width.saturating_sub(1)).chain(['…']).collect(),
    }
}

/// Formats a size in bytes.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// Formats a count with its noun: `1 file`, `2 files`.
pub(crate) fn counted(count: usize, noun: &str) -> String {
    match count {
        1 => format!("1 {noun}"),
        _ => format!("{count} {noun}s"),
    }
}

/// Shortens an RFC 3339 time in UTC to seconds.
pub(crate) fn format_time(timestamp: &str) -> String {
    match timestamp.get(..19) {
        Some(seconds) => seconds.replace('T', " ") + "Z",
        None => timestamp.to_owned(),
    }
}

/// Formats a path as one line.
pub(crate) fn path(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// Sanitizes foreign text if it goes to a terminal.
fn sanitize_for(text: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { terminal::sanitize(text) } else { text.into() }
}

fn sanitize_json_for(json: &str, is_terminal: bool) -> Cow<'_, str> {
    if is_terminal { terminal::sanitize_json(json) } else { json.into() }
}

/// Ignores a closed pipe: a reader such as `head` may stop early.
fn ignore_broken_pipe(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_times_are_short() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(2048), "2.0 kB");
        assert_eq!(size(262_144_000), "262.1 MB");
        assert_eq!(format_time("2026-01-02T03:04:05.000006Z"), "2026-01-02 03:04:05Z");
        assert_eq!(format_time("odd"), "odd");
    }

    #[test]
    fn cut_text_has_the_width() {
        assert_eq!(cut("Grüße", 5), "Grüße");
        assert_eq!(cut("Grüße", 4), "Grü…");
        assert_eq!(cut("", 0), "");
    }
}
