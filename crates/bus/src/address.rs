//! Bus URLs.

/// Strips the query and fragment of a URL, which may hold a secret.
pub fn without_query(url: &str) -> &str {
    url.split(['?', '#']).next().unwrap_or_default()
}
