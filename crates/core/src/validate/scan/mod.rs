//! What a reader should know before trusting a document: looked for in all of it, line by line or word by
//! word, each scanner in one pass.

mod blob;
mod hidden;
mod secret;
mod shell;

use super::findings::Findings;

pub(super) fn check(document: &str, findings: &mut Findings) {
    hidden::check(document, findings);
    shell::check(document, findings);
    blob::check(document, findings);
    secret::check(document, findings);
}

/// The lines of a text without their ends, each with its offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = next;
        next += line.len();
        (at, line.trim_end_matches(['\r', '\n']))
    })
}
