//! What commands print: short, aligned, coloured only on a terminal.

use std::{
    io::{self, Write as _},
    path::Path,
};

use anstyle::Style;
use serde::Serialize;

const BOLD: Style = Style::new().bold();
const DIM: Style = Style::new().dimmed();

/// Prints text as it is.
pub(crate) fn text(text: &str) -> io::Result<()> {
    finish(io::stdout().lock().write_all(text.as_bytes()))
}

/// Prints bytes as they are.
pub(crate) fn bytes(bytes: &[u8]) -> io::Result<()> {
    finish(io::stdout().lock().write_all(bytes))
}

/// Prints a value as JSON.
pub(crate) fn json(value: &impl Serialize) -> io::Result<()> {
    let mut json = serde_json::to_string_pretty(value)?;
    json.push('\n');
    text(&json)
}

/// Prints one line.
pub(crate) fn line(line: &str) -> io::Result<()> {
    finish(writeln!(anstream::stdout().lock(), "{line}"))
}

/// Prints label and value pairs, the values in one column.
pub(crate) fn fields(fields: &[(&str, String)]) -> io::Result<()> {
    let width = fields.iter().map(|(label, _)| label.len()).max().unwrap_or(0);
    fields
        .iter()
        .try_for_each(|(label, value)| line(&format!("{DIM}{label:width$}{DIM:#}  {value}")))
}

/// Prints a table: the first column is what rows are called by, the last may be cut by the terminal.
pub(crate) fn table(header: &[&str], rows: &[Vec<String>]) -> io::Result<()> {
    let width = |column: usize| {
        let cells = rows.iter().filter_map(|row| row.get(column)).map(|cell| cell.chars().count());
        cells.chain(header.get(column).map(|title| title.len())).max().unwrap_or(0)
    };
    let widths: Vec<usize> = (0..header.len()).map(width).collect();
    let pad = |cells: &mut dyn Iterator<Item = &str>| {
        let padded: Vec<String> =
            cells.zip(&widths).map(|(cell, width)| format!("{cell:width$}")).collect();
        padded.join("  ").trim_end().to_owned()
    };
    line(&format!("{DIM}{}{DIM:#}", pad(&mut header.iter().copied())))?;
    rows.iter().try_for_each(|row| {
        let text = pad(&mut row.iter().map(String::as_str));
        let name = row.first().map_or(0, String::len);
        line(&format!("{BOLD}{}{BOLD:#}{}", &text[..name], &text[name..]))
    })
}

/// A size as people read it.
pub(crate) fn size(bytes: u64) -> String {
    match bytes {
        0..1000 => format!("{bytes} B"),
        1000..1_000_000 => format!("{:.1} kB", bytes as f64 / 1e3),
        _ => format!("{:.1} MB", bytes as f64 / 1e6),
    }
}

/// `1 file`, `2 files`
pub(crate) fn counted(count: usize, what: &str) -> String {
    match count {
        1 => format!("1 {what}"),
        _ => format!("{count} {what}s"),
    }
}

/// An RFC 3339 moment as people read it: to the second.
pub(crate) fn moment(timestamp: &str) -> String {
    match timestamp.get(..19) {
        Some(seconds) => seconds.replace('T', " "),
        None => timestamp.to_owned(),
    }
}

/// Text from elsewhere in one line, without anything that could steer the terminal.
pub(crate) fn plain(text: &str) -> String {
    text.chars().map(|c| if c.is_control() { ' ' } else { c }).collect()
}

/// A path, for people.
pub(crate) fn path(path: &Path) -> String {
    plain(&path.display().to_string())
}

/// A reader that has seen enough (`| head`) is not an error.
fn finish(result: io::Result<()>) -> io::Result<()> {
    match result {
        Err(error) if error.kind() == io::ErrorKind::BrokenPipe => Ok(()),
        other => other,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn sizes_and_moments_are_short() {
        assert_eq!(size(999), "999 B");
        assert_eq!(size(2048), "2.0 kB");
        assert_eq!(size(262_144_000), "262.1 MB");
        assert_eq!(moment("2026-01-02T03:04:05.000006Z"), "2026-01-02 03:04:05");
        assert_eq!(moment("odd"), "odd");
    }

    #[test]
    fn foreign_text_cannot_steer_the_terminal() {
        assert_eq!(plain("a\x1b[31mb\nc"), "a [31mb c");
    }
}
