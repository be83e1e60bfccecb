//! Unified difference of two texts, shown side by side.

use maud::{Markup, html};
use skills_agent_skills::validate::reveal_hidden;

use crate::units::counted;

/// Most lines that are shown.
const MAX_LINES: usize = 4000;

/// Renders a unified difference.
pub(crate) fn render_unified(diff: &str, caption: &str) -> Markup {
    let is_header = |line: &&str| line.starts_with("--- ") || line.starts_with("+++ ");
    let lines = diff.lines().skip_while(is_header);
    let more = lines.clone().skip(MAX_LINES).count();
    html! {
        div.diff tabindex="0" role="region" aria-label=(caption) {
            table.side {
                caption { (reveal_hidden(caption)) }
                tbody { @for row in rows(lines.take(MAX_LINES)) { (row) } }
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

    #[test]
    fn a_unified_difference_is_shown_side_by_side() {
        let diff = "--- a\n+++ b\n@@ -3,3 +3,3 @@\n same\n-<old>\n+new \u{202e}\n\\ No newline at end of file\n@@ -20 +20,2 @@\n+x\n";
        let html = render_unified(diff, "<i>SKILL.md").into_string();
        assert!(html.contains("<td class=\"line\">4</td><td class=\"del\">"), "{html}");
        assert!(html.contains("&lt;old&gt;") && html.contains("⟨U+202E⟩"), "{html}");
        assert!(html.contains("⋯") && html.contains(">20<") && !html.contains("<i>"), "{html}");
    }

    #[test]
    fn removed_and_added_lines_of_a_change_are_paired_in_order() {
        let diff = "--- x\n+++ x\n@@ -1,5 +1,6 @@\n-a\n-b\n+A\n+B\n+C\n same\n-d\n-e\n+D\n@@ -20 +21 @@\n--- f\n@@ -30 +31 @@\n+G\n";
        let html = render_unified(diff, "x").into_string();
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
        let long = "+x\n".repeat(MAX_LINES + 100);
        let page = render_unified(&long, "x").into_string();
        assert_eq!(page.matches("<tr>").count(), MAX_LINES);
        assert!(page.contains("100 more lines are not shown."), "{page}");
        let whole = "+x\n".repeat(MAX_LINES);
        assert!(!render_unified(&whole, "x").into_string().contains("not shown"));
    }
}
