//! Lines of a Markdown body by kind. A full parser would cost more and find the same words.

/// Bytes at the start of a body in which explained acronyms are looked for.
const HEAD_BYTES: usize = 4096;

/// Kind of a line.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum LineKind {
    /// Heading.
    Heading,
    /// Ordinary text.
    Text,
    /// Line of a fenced block.
    Code,
}

/// Calls `sink` with each line that has text.
pub(crate) fn for_each_line<'a>(body: &'a str, mut sink: impl FnMut(LineKind, &'a str)) {
    let mut fence: Option<&str> = None;
    for line in body.lines() {
        let trimmed = line.trim();
        if trimmed.is_empty() {
            continue;
        }
        let mark = ["```", "~~~"].into_iter().find(|mark| trimmed.starts_with(mark));
        match (fence, mark) {
            (None, Some(mark)) => fence = Some(mark),
            (Some(open), Some(mark)) if open == mark => fence = None,
            (Some(_), _) => sink(LineKind::Code, trimmed),
            (None, None) if is_heading(trimmed) => {
                sink(LineKind::Heading, trimmed.trim_start_matches('#').trim_start());
            }
            (None, None) => sink(LineKind::Text, trimmed),
        }
    }
}

fn is_heading(line: &str) -> bool {
    let level = line.len() - line.trim_start_matches('#').len();
    (1..=6).contains(&level) && line[level..].starts_with(' ')
}

/// Returns the start of a body.
pub(crate) fn head(body: &str) -> &str {
    &body[..body.floor_char_boundary(HEAD_BYTES)]
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_have_kinds() {
        let mut found = Vec::new();
        let body = "# Title\n\ntext\n#no heading\n```sh\n# comment\n~~~\n```\nend\n";
        for_each_line(body, |kind, line| found.push((kind, line)));
        assert_eq!(
            found,
            [
                (LineKind::Heading, "Title"),
                (LineKind::Text, "text"),
                (LineKind::Text, "#no heading"),
                (LineKind::Code, "# comment"),
                (LineKind::Code, "~~~"),
                (LineKind::Text, "end"),
            ]
        );
    }
}
