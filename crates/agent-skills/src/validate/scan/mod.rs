//! Security scanners: they report what a reader should know before trusting a document. Each scans the whole document
//! in one pass.

mod encoded_blob;
mod hidden_unicode;
mod pipe_to_shell;
mod secret;

pub use self::hidden_unicode::reveal_hidden;
use super::findings::Findings;

pub(super) fn check(document: &str, findings: &mut Findings) {
    hidden_unicode::check(document, findings);
    pipe_to_shell::check(document, findings);
    encoded_blob::check(document, findings);
    secret::check(document, findings);
}

/// Returns the lines of a text without line ends, each with its offset.
fn lines(text: &str) -> impl Iterator<Item = (usize, &str)> {
    let mut next = 0;
    text.split_inclusive('\n').map(move |line| {
        let at = next;
        next += line.len();
        (at, line.trim_end_matches(['\r', '\n']))
    })
}
