//! Parts of the addresses of sources: references, credentials, hosts.

use skills_bundles::GitSource;
use skills_core::{Code, GitProtocol};
use skills_upstream::is_public;
use url::{Host, Url};

use crate::Failure;

/// Splits `@REF` off. An `@` at the start of a segment or before the host belongs to the path.
pub(super) fn split_reference(text: &str) -> (String, Option<String>) {
    let start = text.find("://").map_or(0, |at| at + 3);
    let path = text[start..].find('/').map_or(text.len(), |at| start + at);
    let start = if start == 0 { 0 } else { path };
    let at = text[start..].match_indices('@').map(|(at, _)| start + at);
    let is_reference = |at: &usize| *at > 0 && !text[..*at].ends_with('/') && *at + 1 < text.len();
    match at.into_iter().find(is_reference) {
        Some(at) => (text[..at].to_owned(), Some(text[at + 1..].to_owned())),
        None => (text.to_owned(), None),
    }
}

/// Returns whether a web address names this machine or a local network, without a DNS lookup.
pub(super) fn is_local_url(url: &Url) -> bool {
    url.host().is_none_or(|host| is_local_host(&host.to_owned()))
}

/// Returns whether a repository is on this machine or in a local network, without a DNS lookup.
pub(super) fn is_local_repository(source: &GitSource) -> bool {
    match source.protocol() {
        GitProtocol::File | GitProtocol::Http => true,
        GitProtocol::Https | GitProtocol::Ssh => {
            source.host().is_none_or(|host| is_local_host(&host))
        }
    }
}

/// Returns whether a host is this machine or one of a local network, without a DNS lookup.
fn is_local_host(host: &Host) -> bool {
    match host {
        Host::Domain(name) => {
            let name = name.trim_end_matches('.');
            name.eq_ignore_ascii_case("localhost") || !name.contains('.')
        }
        Host::Ipv4(address) => !is_public((*address).into()),
        Host::Ipv6(address) => !is_public((*address).into()),
    }
}

/// Creates the error for a repository in a local network that the user did not name.
pub(super) fn local_address(shown: &str) -> Failure {
    let message = format!(
        "{shown} is on this machine or in a local network, and only the user may choose that"
    );
    Failure::new(Code::UntrustedSource, message)
        .hint("if you trust it, add the repository by its own URL")
}

/// Creates the source of a repository from a URL, which may have credentials.
pub(super) fn git_source(
    url: impl AsRef<str>,
    reference: Option<String>,
    path: &str,
) -> Option<GitSource> {
    let url = url.as_ref().trim_end_matches('/');
    let source = GitSource::new(url, public_url(url))?;
    Some(source.with_reference(reference).with_path(path.trim_matches('/')))
}

/// Returns a URL without a password, and without a user if it is fetched over http.
pub(crate) fn public_url(text: &str) -> String {
    let Ok(mut url) = Url::parse(text) else { return text.to_owned() };
    if url.username().is_empty() && url.password().is_none() && url.query().is_none() {
        return text.to_owned();
    }
    // Neither can fail for a URL with a host.
    let _ = url.set_password(None);
    if url.scheme() != "ssh" {
        let _ = url.set_username("");
    }
    url.set_query(None);
    url.to_string()
}

/// Parses `user@host:path[@ref]`.
pub(super) fn parse_ssh(text: &str) -> Option<GitSource> {
    let (login, path) = text.split_once(':')?;
    let (path, reference) = split_reference(path);
    let url = format!("{login}:{path}");
    Some(GitSource::new(url.as_str(), url.as_str())?.with_reference(reference))
}

/// Parses `owner/repo[/path][@ref]`.
pub(super) fn parse_shorthand(text: &str, host: &str) -> Option<GitSource> {
    let (text, reference) = split_reference(text);
    let mut parts = text.trim_end_matches('/').splitn(3, '/');
    let (owner, repo, path) = (parts.next()?, parts.next()?, parts.next().unwrap_or_default());
    let is_name = |name: &str| {
        let is_plain = |c: char| c.is_ascii_alphanumeric() || matches!(c, '-' | '_' | '.');
        !name.is_empty() && !name.starts_with(['-', '.']) && name.chars().all(is_plain)
    };
    if !is_name(owner) || !is_name(repo) || path.split('/').any(|part| part == "..") {
        return None;
    }
    let base = if host.contains("://") { host.to_owned() } else { format!("https://{host}") };
    git_source(format!("{}/{owner}/{repo}", base.trim_end_matches('/')), reference, path)
}
