//! Addresses of a bus.

/// An address without what may be a secret.
pub(crate) fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
