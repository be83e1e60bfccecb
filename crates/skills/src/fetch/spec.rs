//! Sources of skills as the user writes them: paths, repositories, and URLs of archives, sites, servers and marketplaces.

use std::{
    fs,
    path::{Path, PathBuf},
};

use skills_bundles::{GitSource, is_archive_name};
use skills_core::{
    Code, GitProtocol, Provenance, SkillId, SourceKind, VersionSelector, origin::WebHost,
    version::split_version,
};
use url::{Position, Url};

use super::address::{
    git_source, is_local_repository, is_local_url, parse_shorthand, parse_ssh, public_url,
    split_reference,
};
use crate::Failure;

/// Host of `owner/repo` without `--host`.
pub(crate) const DEFAULT_HOST: &str = "github.com";

/// Prefix of the URL of a skill on another server.
const SERVER_PREFIX: &str = "skills+";
/// File name of a marketplace.
const MARKETPLACE_FILE: &str = "/marketplace.json";
/// Paths of the index of a site, newest format first.
pub(super) const INDEX_PATHS: [&str; 2] =
    ["/.well-known/agent-skills/index.json", "/.well-known/skills/index.json"];

/// Rules for the sources that a user writes.
#[derive(Debug, Clone, Copy)]
pub(crate) struct SourceRules<'a> {
    /// Host of `owner/repo`: a name, or a URL.
    pub(crate) host: &'a str,
    /// Allows http to other machines.
    pub(crate) insecure: bool,
}

impl Default for SourceRules<'_> {
    fn default() -> Self {
        Self { host: DEFAULT_HOST, insecure: false }
    }
}

/// Place that skills are read from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) enum SourceSpec {
    Stdin,
    Path(PathBuf),
    Git(GitSource),
    /// Repository that the user did not name, which has to be on the public internet.
    PublicGit(GitSource),
    Archive(ArchiveSource),
    /// Site with well-known discovery, by the URL that the paths of its index are below.
    Site(WebSource),
    /// A skill of another server.
    Server(ServerSource),
    /// A `marketplace.json`.
    Marketplace(WebSource),
}

/// Archive to download.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ArchiveSource {
    pub(super) url: Url,
    /// Allows an address of a local network.
    pub(super) may_be_local: bool,
    /// Expected SHA-256 in hexadecimal digits.
    pub(super) sha256: Option<String>,
}

/// Address of a site or a file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WebSource {
    pub(super) url: Url,
    /// Allows an address of a local network.
    pub(super) may_be_local: bool,
}

/// A skill of another server.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ServerSource {
    pub(super) site: WebSource,
    pub(super) id: String,
    /// Version, label or digest; by default the served version.
    pub(super) version: Option<String>,
}

/// Party that chose a source.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum ChosenBy {
    /// The user, on this machine and for this registry.
    User,
    /// The registry, or a worker on its bus.
    Registry,
}

impl SourceSpec {
    /// Parses an argument. What exists on disk is a path, whatever else it looks like.
    ///
    /// # Errors
    /// When it is a URL that cannot be used.
    pub(crate) fn parse(argument: &Path, rules: SourceRules<'_>) -> Result<Self, Failure> {
        if argument == Path::new("-") {
            return Ok(Self::Stdin);
        }
        let Some(text) = argument.to_str().filter(|_| fs::symlink_metadata(argument).is_err())
        else {
            return Ok(Self::Path(argument.to_owned()));
        };
        if text.contains("://") {
            return Self::parse_url(text, rules);
        }
        let source = parse_ssh(text).or_else(|| parse_shorthand(text, rules.host));
        Ok(source.map_or_else(|| Self::Path(argument.to_owned()), Self::Git))
    }

    /// Returns the source to fetch again for content that came from somewhere.
    ///
    /// A stored location passes the parser of arguments, and a registry cannot choose files, local networks or
    /// protocols without encryption.
    ///
    /// # Errors
    /// When the location cannot be fetched, or only the user may choose it.
    pub(crate) fn from_provenance(
        provenance: &Provenance,
        chosen_by: ChosenBy,
    ) -> Result<Self, Failure> {
        let location = provenance.location.as_str();
        let spec = match provenance.kind {
            SourceKind::Path => Some(Self::Path(PathBuf::from(location))),
            SourceKind::Url | SourceKind::Git => Self::parse_location(location)?,
            SourceKind::Command | SourceKind::Worker | SourceKind::Other => None,
        };
        let is_own = chosen_by == ChosenBy::User;
        match (provenance.kind, spec) {
            (_, Some(spec)) if !is_own && spec.is_local() => Err(untrusted(location)),
            (SourceKind::Path, Some(spec @ Self::Path(_))) => Ok(spec),
            (SourceKind::Url, Some(Self::Archive(archive))) => {
                Ok(Self::Archive(ArchiveSource { may_be_local: is_own, ..archive }))
            }
            (SourceKind::Url, Some(Self::Site(site))) => {
                let site = WebSource { may_be_local: is_own, ..site };
                Ok(match &provenance.reference {
                    Some(version) => Self::Server(ServerSource {
                        site,
                        id: provenance.path.clone(),
                        version: Some(version.clone()),
                    }),
                    None => Self::Site(site),
                })
            }
            (SourceKind::Git, Some(Self::Git(source))) => {
                let source = source.with_reference(provenance.reference.clone());
                Ok(if is_own { Self::Git(source) } else { Self::PublicGit(source) })
            }
            _ => Err(Failure::new(Code::Unsupported, format!("cannot fetch from {location}"))),
        }
    }

    /// Parses a location as it is stored: a URL or `user@host:path`, without a reference and a folder.
    fn parse_location(location: &str) -> Result<Option<Self>, Failure> {
        if !location.contains("://") {
            return Ok(parse_ssh(location).filter(|git| git.url() == location).map(Self::Git));
        }
        let rules = SourceRules { host: "", insecure: false };
        // The locations of sites end in a slash, those of repositories do not.
        if location.ends_with('/') {
            return Self::parse_site(location, rules).map(|site| Some(Self::Site(site)));
        }
        let spec = Self::parse_url(location, rules)?;
        let is_exact = match &spec {
            Self::Git(git) => git.url() == location,
            _ => true,
        };
        Ok(is_exact.then_some(spec))
    }

    /// Parses the URL of a repository in a lockfile.
    ///
    /// # Errors
    /// When it is not the location of a repository, or uses http to another machine.
    pub(crate) fn parse_repository(
        url: &str,
        reference: Option<String>,
        rules: SourceRules<'_>,
    ) -> Result<Self, Failure> {
        let spec = if url.contains("://") {
            Self::parse_url(url, rules)?
        } else {
            parse_ssh(url).map_or(Self::Stdin, Self::Git)
        };
        match spec {
            Self::Git(source) => {
                let reference = reference.or_else(|| source.reference().map(str::to_owned));
                Ok(Self::Git(source.with_reference(reference)))
            }
            _ => {
                let message = format!("{} is not the location of a repository", public_url(url));
                Err(Failure::new(Code::BadArgument, message))
            }
        }
    }

    /// Parses the URL of a site whose index is below it.
    ///
    /// # Errors
    /// When it is not a web address, or uses http to another machine.
    pub(crate) fn parse_site(url: &str, rules: SourceRules<'_>) -> Result<WebSource, Failure> {
        let bad = || {
            let message = format!("{} is not the address of a site", public_url(url));
            Failure::new(Code::BadArgument, message)
        };
        let mut url = Url::parse(url).map_err(|_| bad())?;
        let path = format!("{}/", url.path().trim_end_matches('/'));
        url.set_path("/");
        url.set_query(None);
        url.set_fragment(None);
        let Self::Site(mut site) = Self::parse_url(url.as_str(), rules)? else { return Err(bad()) };
        site.url.set_path(&path);
        Ok(site)
    }

    /// Returns the site that the address of a repository may be instead: one over http without a reference, a folder and
    /// `.git`.
    pub(super) fn site_at(git: &GitSource, rules: SourceRules<'_>) -> Option<WebSource> {
        let is_web = matches!(git.protocol(), GitProtocol::Http | GitProtocol::Https);
        let is_plain = git.reference().is_none() && git.path().is_empty();
        let is_candidate = is_web && is_plain && !git.url().ends_with(".git");
        is_candidate.then(|| Self::parse_site(git.url(), rules).ok()).flatten()
    }

    /// Returns whether a source is on this machine or, as far as its text tells, in a local network.
    pub(super) fn is_local(&self) -> bool {
        match self {
            Self::Stdin | Self::Path(_) => true,
            Self::Archive(archive) => is_local_url(&archive.url),
            Self::Site(site) | Self::Marketplace(site) => is_local_url(&site.url),
            Self::Server(server) => is_local_url(&server.site.url),
            Self::Git(git) | Self::PublicGit(git) => is_local_repository(git),
        }
    }

    pub(super) fn parse_url(text: &str, rules: SourceRules<'_>) -> Result<Self, Failure> {
        let SourceRules { host, insecure } = rules;
        let bad = |reason: &str| {
            Failure::new(Code::BadArgument, format!("{}: {reason}", public_url(text)))
                .hint("give an https:// URL, an ssh:// URL, owner/repo or a path")
        };
        if let Some(address) = text.strip_prefix(SERVER_PREFIX) {
            return parse_server(address, rules);
        }
        let url = Url::parse(text).map_err(|error| bad(&error.to_string()))?;
        let is_local = || {
            let host = url.host_str().and_then(WebHost::parse_authority);
            host.is_some_and(|(host, _)| host.is_local())
        };
        let unsupported = || bad("it is not the location of a repository");
        match url.scheme() {
            "https" => {}
            "http" if insecure || is_local() => {}
            "http" => {
                let hint = "use https://, or allow it with --insecure";
                return Err(bad("http is not encrypted").hint(hint));
            }
            "ssh" | "file" => {
                let (url, reference) = split_reference(text);
                return git_source(url, reference, "").map(Self::Git).ok_or_else(unsupported);
            }
            _ => return Err(bad("the scheme is not supported")),
        }
        if is_archive_name(Path::new(url.path())) {
            return Ok(Self::Archive(ArchiveSource { url, may_be_local: true, sha256: None }));
        }
        if let Some(spec) = Self::parse_web(&url) {
            return Ok(spec);
        }
        let (text, fragment) = text
            .split_once('#')
            .map_or((text, None), |(url, reference)| (url, Some(reference.to_owned())));
        let (text, reference) = split_reference(text);
        let reference = fragment.or(reference);
        // A page of a repository: HOST/OWNER/REPO[/tree/REF][/PATH].
        let path: Vec<&str> = url.path().trim_matches('/').split('/').collect();
        let source = match path.as_slice() {
            [owner, repo, rest @ ..] if url.host_str() == Some(host) && !rest.is_empty() => {
                let repository = format!("{}/{owner}/{repo}", &url[..Position::BeforePath]);
                let (reference, rest) = match rest {
                    ["tree" | "blob", tree, rest @ ..] => (Some((*tree).to_owned()), rest),
                    rest => (reference, rest),
                };
                let (folder, _) = split_reference(&rest.join("/"));
                let folder = folder.trim_end_matches("/SKILL.md").to_owned();
                git_source(&repository, reference, &folder)
            }
            _ => git_source(&text, reference, ""),
        };
        source.map(Self::Git).ok_or_else(unsupported)
    }

    /// Parses the URL of a marketplace, the index of a site, or a host without a path, which is a site.
    fn parse_web(url: &Url) -> Option<Self> {
        if url.path().ends_with(MARKETPLACE_FILE) {
            return Some(Self::Marketplace(WebSource { url: url.clone(), may_be_local: true }));
        }
        let index = INDEX_PATHS.iter().find_map(|index| url.path().strip_suffix(index));
        let base = match (index, url.path()) {
            (Some(base), _) => base,
            (None, "" | "/") if url.fragment().is_none() => "",
            _ => return None,
        };
        let mut url = url.clone();
        url.set_path(&format!("{base}/"));
        url.set_query(None);
        Some(Self::Site(WebSource { url, may_be_local: true }))
    }
}

/// Parses the address of a server, or of one of its skills: `https://host/id[@version]`.
fn parse_server(address: &str, rules: SourceRules<'_>) -> Result<SourceSpec, Failure> {
    let bad = |reason: &str| {
        let message = format!("{SERVER_PREFIX}{}: {reason}", public_url(address));
        Failure::new(Code::BadArgument, message)
            .hint("write skills+https://HOST/ID[@VERSION], or skills+https://HOST for all skills")
    };
    let mut url = Url::parse(address).map_err(|error| bad(&error.to_string()))?;
    let path = url.path().trim_matches('/').to_owned();
    url.set_path("/");
    url.set_query(None);
    url.set_fragment(None);
    let SourceSpec::Site(site) = SourceSpec::parse_url(url.as_str(), rules)? else {
        return Err(bad("it is not the address of a server"));
    };
    if path.is_empty() {
        return Ok(SourceSpec::Site(site));
    }
    let (id, version) = split_version(&path).map_err(|error| bad(&error.to_string()))?;
    if id.parse::<SkillId>().is_err() {
        return Err(bad("the path is not the id of a skill"));
    }
    let version = version.as_ref().map(VersionSelector::to_string);
    Ok(SourceSpec::Server(ServerSource { site, id: id.into_owned(), version }))
}

/// Creates the error for a source that only the user may choose.
fn untrusted(location: &str) -> Failure {
    let message = format!("{location} was chosen by the registry and not added on this machine");
    Failure::new(Code::UntrustedSource, message)
        .hint(format!("if you trust it, run `skills add {location}`"))
}

#[cfg(test)]
mod tests;
