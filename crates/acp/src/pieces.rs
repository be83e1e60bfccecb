//! Streaming a text: in pieces small enough to show progress and large enough not to be all envelope.

/// Largest piece, in bytes.
const PIECE: usize = 4 * 1024;

/// Cuts a text after lines where it can, between characters where it must. Together the pieces are the text.
pub(crate) fn pieces(mut text: &str) -> impl Iterator<Item = &str> {
    std::iter::from_fn(move || {
        if text.is_empty() {
            return None;
        }
        let most = text.floor_char_boundary(PIECE);
        let end = match text[..most].rfind('\n') {
            Some(newline) if most < text.len() => newline + 1,
            _ => most,
        };
        let (piece, rest) = text.split_at(end);
        text = rest;
        Some(piece)
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn together_they_are_the_text() {
        for text in [
            String::new(),
            "short\n".to_owned(),
            "a line of text\n".repeat(1_000),
            "é".repeat(PIECE),
            format!("{}\n{}", "x".repeat(PIECE + 7), "y".repeat(9)),
            "\n".repeat(PIECE + 1),
        ] {
            let parts: Vec<&str> = pieces(&text).collect();
            assert_eq!(parts.concat(), text);
            assert!(parts.iter().all(|part| !part.is_empty() && part.len() <= PIECE));
            assert!(parts.len() <= text.len() / (PIECE / 2) + 1);
        }
        assert!(pieces(&"a line of text\n".repeat(1_000)).all(|piece| piece.ends_with('\n')));
    }
}
