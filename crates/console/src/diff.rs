//! Unified difference of two texts, shown side by side.

use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;

use crate::units::counted;

/// Most lines that a page shows.
const MAX_LINES: usize = 8000;
/// Most lines of a file that are shown.
const MAX_FILE_LINES: usize = 4000;
/// Most bytes of lines that a page shows.
const MAX_BYTES: usize = 256 << 10;
/// Most bytes of a line that are shown.
const MAX_LINE_BYTES: usize = 4 << 10;
/// Memory of a line besides its text.
const LINE_MEMORY: usize = 1200;
/// Memory of a text for each of its bytes: on both sides, with escaped characters, in all copies of the table.
const TEXT_FACTOR: usize = 56;

/// Lines and bytes that a page may still show.
pub(crate) struct ShownLines {
    lines: usize,
    bytes: usize,
}

impl Default for ShownLines {
    fn default() -> Self {
        Self { lines: MAX_LINES, bytes: MAX_BYTES }
    }
}

/// Returns the memory that rendering differences takes at most.
pub(crate) fn memory<'a>(diffs: impl Iterator<Item = &'a str>) -> usize {
    let sizes = diffs.map(|diff| (diff.lines().count(), diff.len()));
    let (lines, bytes) = sizes.fold((0, 0), |sum, it| (sum.0 + it.0, sum.1 + it.1));
    lines.min(MAX_LINES) * LINE_MEMORY + bytes.min(MAX_BYTES) * TEXT_FACTOR
}

/// Renders a unified difference, as far as the page may show it.
pub(crate) fn render_unified(diff: &str, caption: &str, shown: &mut ShownLines) -> Markup {
    let is_header = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
    let lines = diff.lines().skip_while(is_header);
    let mut more = lines.clone().count();
    let lines =
        lines.take(MAX_FILE_LINES).map(|line| &line[..line.floor_char_boundary(MAX_LINE_BYTES)]);
    let lines = lines.map_while(|line| {
        let left = (shown.lines.checked_sub(1)?, shown.bytes.checked_sub(line.len())?);
        (shown.lines, shown.bytes) = left;
        more -= 1;
        Some(line)
    });
    let rows = rows(lines);
    html! {
        div.diff tabindex="0" role="region" aria-label=(caption) {
            table.side {
                caption { (reveal_hidden(caption)) }
                tbody { @for row in &rows { (row) } }
            }
        }
        @if more > 0 { p.muted { (counted(more, "more line")) @if more == 1 { " is" } @else { " are" } " not shown." } }
    }
}

/// Converts the lines of a difference to rows of a table.
fn rows<'a>(lines: impl Iterator<Item = &'a str>) -> Vec<Markup> {
    let (mut old, mut new) = (0, 0);
    let mut rows = Vec::new();
    let mut change = Change::default();
    for line in lines {
        if let Some((from, to)) = hunk_start(line) {
            change.take_rows(&mut rows);
            if !rows.is_empty() {
                rows.push(html! { tr { td.line colspan="4" { "⋯" } } });
            }
            (old, new) = (from, to);
            continue;
        }
        let text = line.get(1..).unwrap_or_default();
        match line.as_bytes().first() {
            Some(b'-') => {
                // A removal after an addition begins another change.
                if !change.added.is_empty() {
                    change.take_rows(&mut rows);
                }
                change.removed.push((old, text));
                old += 1;
            }
            Some(b'+') => {
                change.added.push((new, text));
                new += 1;
            }
            // A remark about the end of the file.
            Some(b'\\') => {}
            _ => {
                change.take_rows(&mut rows);
                rows.push(
                    html! { tr { (cell(Some(old), text, None)) (cell(Some(new), text, None)) } },
                );
                old += 1;
                new += 1;
            }
        }
    }
    change.take_rows(&mut rows);
    rows
}

/// Removed lines and the lines that were added in their place, with their numbers.
#[derive(Default)]
struct Change<'a> {
    removed: Vec<(usize, &'a str)>,
    added: Vec<(usize, &'a str)>,
}

impl Change<'_> {
    /// Appends the rows of the change, with removed and added lines paired in order, and empties it.
    fn take_rows(&mut self, rows: &mut Vec<Markup>) {
        let side = |lines: &[(usize, &str)], at: usize, class| match lines.get(at) {
            Some((number, text)) => cell(Some(*number), text, Some(class)),
            None => cell(None, "", None),
        };
        for at in 0..self.removed.len().max(self.added.len()) {
            let (left, right) = (side(&self.removed, at, "del"), side(&self.added, at, "add"));
            rows.push(html! { tr { (left) (right) } });
        }
        self.removed.clear();
        self.added.clear();
    }
}

/// Parses `@@ -FROM,COUNT +TO,COUNT @@`. Lines count from 1.
fn hunk_start(line: &str) -> Option<(usize, usize)> {
    let mut words = line.strip_prefix("@@ ")?.split(' ');
    let mut start = |sign: char| -> Option<usize> {
        words.next()?.strip_prefix(sign)?.split(',').next()?.parse().ok()
    };
    Some((start('-')?, start('+')?))
}

fn cell(number: Option<usize>, text: &str, class: Option<&str>) -> Markup {
    html! {
        td.line { @if let Some(number) = number { (number) } }
        td class=[class] {
            @match class {
                Some("del") => span.visually-hidden { "removed: " },
                Some("add") => span.visually-hidden { "added: " },
                _ => {}
            }
            (reveal_hidden(text))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn render(diff: &str) -> String {
        render_unified(diff, "x", &mut ShownLines::default()).into_string()
    }

    #[test]
    fn a_unified_difference_is_shown_side_by_side() {
        let diff = "--- a\n+++ b\n@@ -3,3 +3,3 @@\n same\n-<old>\n+new \u{202e}\n\\ No newline at end of file\n@@ -20 +20,2 @@\n+x\n";
        let html = render_unified(diff, "<i>SKILL.md", &mut ShownLines::default()).into_string();
        assert!(html.contains("<td class=\"line\">4</td><td class=\"del\">"), "{html}");
        assert!(html.contains("&lt;old&gt;") && html.contains("⟨U+202E⟩"), "{html}");
        assert!(html.contains("⋯") && html.contains(">20<") && !html.contains("<i>"), "{html}");
    }

    #[test]
    fn removed_and_added_lines_of_a_change_are_paired_in_order() {
        let diff = "--- x\n+++ x\n@@ -1,5 +1,6 @@\n-a\n-b\n+A\n+B\n+C\n same\n-d\n-e\n+D\n@@ -20 +21 @@\n--- f\n@@ -30 +31 @@\n+G\n";
        let html = render(diff);
        let html = html.replace("<span class=\"visually-hidden\">", "").replace("</span>", "");
        let rows: Vec<Vec<&str>> = html
            .split("<tr>")
            .skip(1)
            .map(|row| {
                row.split("<td").skip(1).filter_map(|it| it.split(['>', '<']).nth(1)).collect()
            })
            .collect();
        assert_eq!(
            rows,
            [
                vec!["1", "removed: a", "1", "added: A"],
                vec!["2", "removed: b", "2", "added: B"],
                vec!["", "", "3", "added: C"],
                vec!["3", "same", "4", "same"],
                vec!["4", "removed: d", "5", "added: D"],
                vec!["5", "removed: e", "", ""],
                vec!["⋯"],
                vec!["20", "removed: -- f", "", ""],
                vec!["⋯"],
                vec!["", "", "31", "added: G"],
            ]
        );
    }

    #[test]
    fn the_start_of_a_hunk_is_parsed() {
        assert_eq!(hunk_start("@@ -1,2 +10 @@ fn"), Some((1, 10)));
        for other in ["@@ nonsense", "@@", "", "-@@ -1 +1 @@"] {
            assert_eq!(hunk_start(other), None, "{other}");
        }
    }

    #[test]
    fn long_differences_are_bounded() {
        let rows = |page: &str| page.matches("<tr>").count();
        let long = "+x\n".repeat(MAX_FILE_LINES + 100);
        let page = render(&long);
        assert_eq!(rows(&page), MAX_FILE_LINES);
        assert!(page.contains("100 more lines are not shown."), "{page}");
        assert!(!render(&"+x\n".repeat(MAX_FILE_LINES)).contains("not shown"));
        let mut shown = ShownLines::default();
        let pages: Vec<String> =
            (0..9).map(|_| render_unified(&long, "x", &mut shown).into_string()).collect();
        assert_eq!(pages.iter().map(|page| rows(page)).sum::<usize>(), MAX_LINES);
        let wide = format!("+{}\n", "\"".repeat(1 << 20)).repeat(1000);
        let page = render(&wide);
        assert_eq!(rows(&page), MAX_BYTES / MAX_LINE_BYTES);
        assert!(page.len() < memory([&*wide].into_iter()), "{} bytes", page.len());
    }
}
