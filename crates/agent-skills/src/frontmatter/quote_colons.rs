//! Repair of unquoted values with a colon.
//!
//! `description: Use this when: …` is not YAML, and the most common mistake in skills. The client guide prescribes to
//! quote such values and to parse again. Nothing else is repaired.

/// YAML with quotes added, and their offsets.
#[derive(Debug)]
pub(super) struct QuotedYaml {
    pub(super) yaml: String,
    /// Offsets of the added bytes in `yaml`, in order.
    added: Vec<usize>,
}

impl QuotedYaml {
    /// Maps an offset into `yaml` back to the original text.
    pub(super) fn original_offset(&self, offset: usize) -> usize {
        offset - self.added.partition_point(|&added| added < offset)
    }
}

/// Quotes values with a colon; `None` when there are none.
pub(super) fn quote_colons(yaml: &str) -> Option<QuotedYaml> {
    let mut repaired =
        QuotedYaml { yaml: String::with_capacity(yaml.len() + 16), added: Vec::new() };
    // The indentation of a key whose value is a block of text: deeper lines belong to it.
    let mut block: Option<usize> = None;
    for line in yaml.split_inclusive('\n') {
        let content = line.trim_end();
        let indent = content.len() - content.trim_start_matches(' ').len();
        if block.is_some_and(|outer| content.is_empty() || indent > outer) {
            repaired.yaml.push_str(line);
            continue;
        }
        block = None;
        match value_offset(content) {
            Some(start) if content[start..].starts_with(['|', '>']) => block = Some(indent),
            Some(start) if needs_quotes(without_comment(&content[start..])) => {
                let value = without_comment(&content[start..]);
                repaired.yaml.push_str(&line[..start]);
                repaired.push_quoted(value);
                repaired.yaml.push_str(&line[start + value.len()..]);
                continue;
            }
            _ => {}
        }
        repaired.yaml.push_str(line);
    }
    (!repaired.added.is_empty()).then_some(repaired)
}

impl QuotedYaml {
    fn push_quoted(&mut self, value: &str) {
        self.push_added();
        for part in value.split_inclusive('\'') {
            self.yaml.push_str(part);
            if part.ends_with('\'') {
                self.push_added();
            }
        }
        self.push_added();
    }

    fn push_added(&mut self) {
        self.added.push(self.yaml.len());
        self.yaml.push('\'');
    }
}

/// Returns the offset of the value in a line `key: value`.
fn value_offset(line: &str) -> Option<usize> {
    let (key, rest) = line.split_once(": ")?;
    let name = key.trim_start_matches(' ');
    let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
    let is_key = !name.is_empty() && name.chars().all(is_plain);
    is_key.then(|| line.len() - rest.trim_start_matches(' ').len())
}

fn without_comment(value: &str) -> &str {
    value.split_once(" #").map_or(value, |(value, _)| value.trim_end())
}

fn needs_quotes(value: &str) -> bool {
    let is_plain = !value.starts_with(['"', '\'', '[', '{', '&', '*', '!', '#', '%', '@', '`']);
    is_plain && (value.contains(": ") || value.ends_with(':'))
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    fn quoted(yaml: &str) -> Option<String> {
        quote_colons(yaml).map(|repaired| repaired.yaml)
    }

    #[test]
    fn values_with_a_colon_are_quoted() {
        assert_eq!(quoted("a: Use when: x\r\n"), Some("a: 'Use when: x'\r\n".into()));
        assert_eq!(quoted("a: it's: x # why\n"), Some("a: 'it''s: x' # why\n".into()));
        assert_eq!(quoted("m:\n  b: c:\n"), Some("m:\n  b: 'c:'\n".into()));
    }

    #[test]
    fn other_values_are_unchanged() {
        for yaml in
            ["", "a: b", "a: \"b: c\"", "a: {b: c}", "a: |\n  b: c: d\n\n  e: f: g\n", "- a: b"]
        {
            assert_eq!(quoted(yaml), None, "{yaml}");
        }
    }

    proptest! {
        #[test]
        fn offsets_map_back_to_the_original(yaml in "((a|  b): )?[a:' #é|]{0,12}\n{0,2}") {
            let Some(repaired) = quote_colons(&yaml) else { return Ok(()) };
            let mut original_offset = String::new();
            for (at, c) in repaired.yaml.char_indices() {
                prop_assert!(repaired.original_offset(at) <= yaml.len());
                if !repaired.added.contains(&at) {
                    prop_assert_eq!(repaired.original_offset(at), original_offset.len());
                    original_offset.push(c);
                }
            }
            prop_assert_eq!(original_offset, yaml);
        }
    }
}
