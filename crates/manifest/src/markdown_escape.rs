//! Escaping of untrusted text in generated Markdown, so that it never becomes structure.

/// Escapes one line of text, cut after `max` characters.
pub(super) fn line(text: &str, max: usize) -> String {
    let mut escaped = String::new();
    let words = text.split(|c: char| c.is_whitespace() || c.is_control()).filter(|w| !w.is_empty());
    let mut left = max;
    for (index, word) in words.enumerate() {
        if index > 0 {
            escaped.push(' ');
        }
        let mut before = ' ';
        for c in word.chars() {
            if left == 0 {
                escaped.push('…');
                return escaped;
            }
            left -= 1;
            // Inside a word neither begins anything.
            let is_plain = match c {
                '_' => before.is_alphanumeric(),
                '#' => before != ' ',
                _ => false,
            };
            if !is_plain
                && matches!(
                    c,
                    '\\' | '`' | '*' | '_' | '[' | ']' | '<' | '>' | '|' | '~' | '#' | '&' | '!'
                )
            {
                escaped.push('\\');
            }
            escaped.push(c);
            before = c;
        }
    }
    escaped
}

/// Escapes paragraphs: lines and inline markup stay, but no line begins another kind of block. Cut after `max` bytes.
pub(super) fn paragraphs(text: &str, max: usize) -> String {
    let mut escaped = String::new();
    for written in text.trim().lines() {
        // Removed first: without them, the rest of a line may begin a block.
        let written: String = written.chars().filter(|c| !c.is_control()).collect();
        let written = written.trim();
        let marker = marker(written);
        for (index, c) in written.char_indices() {
            if escaped.len() >= max {
                escaped.push('…');
                return escaped;
            }
            if marker == Some(index) {
                escaped.push('\\');
            }
            match c {
                // A backslash would be undone by one that stands before it.
                '<' => escaped.push_str("&lt;"),
                c => escaped.push(c),
            }
        }
        escaped.push('\n');
    }
    escaped.truncate(escaped.trim_end().len());
    escaped
}

/// Returns the offset of the character that would make a line anything but text.
fn marker(line: &str) -> Option<usize> {
    let digits = line.bytes().take_while(u8::is_ascii_digit).count();
    if digits > 0 {
        return line[digits..].starts_with(['.', ')']).then_some(digits);
    }
    let begins_block = line.starts_with(['#', '>', '-', '+', '*', '=', '~', '|', '[', '_', ':']);
    (begins_block || line.starts_with("```")).then_some(0)
}

/// Formats a name as code if possible, otherwise as text.
pub(super) fn code(name: &str, max: usize) -> String {
    let is_plain =
        |b: u8| b.is_ascii_alphanumeric() || matches!(b, b'_' | b'-' | b'.' | b'/' | b'$');
    if !name.is_empty() && name.len() <= max && name.bytes().all(is_plain) {
        format!("`{name}`")
    } else {
        line(name, max)
    }
}
