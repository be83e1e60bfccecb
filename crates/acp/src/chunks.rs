//! Splitting of a text into streamed chunks: small enough to show progress, large enough to outweigh their envelopes.

/// Largest chunk, in bytes.
const CHUNK_BYTES: usize = 4 * 1024;

/// Splits a text after a line if possible, otherwise between characters. Concatenated, the chunks are the text.
pub(crate) fn chunks(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let max = text.floor_char_boundary(CHUNK_BYTES);
        let end = match text[..max].rfind('\n') {
            Some(newline) if max < text.len() => newline + 1,
            _ => max,
        };
        let (chunk, rest) = text.split_at(end);
        text = rest;
        Some(chunk)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn concatenated_chunks_are_the_text() {
        for text in [
            String::new(),
            "short\n".to_owned(),
            "a line of text\n".repeat(1_000),
            "é".repeat(CHUNK_BYTES),
            format!("{}\n{}", "x".repeat(CHUNK_BYTES + 7), "y".repeat(9)),
            "\n".repeat(CHUNK_BYTES + 1),
        ] {
            let parts: Vec<&str> = chunks(&text).collect();
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= CHUNK_BYTES));
            assert!(parts.len() <= text.len() / (CHUNK_BYTES / 2) + 1);
        }
        assert!(chunks(&"a line of text\n".repeat(1_000)).all(|chunk| chunk.ends_with('\n')));
    }
}
