//! Entry of a lockfile: the source of a skill and the hashes of its folder.

use serde::{Serialize, Serializer, ser::SerializeMap as _};
use serde_json::value::RawValue;
use skills_core::skill::ROOT_PATH;

use super::{FolderHashes, raw_text};

const SOURCE: &str = "source";
const SOURCE_URL: &str = "sourceUrl";
const REFERENCE: &str = "ref";
const SOURCE_TYPE: &str = "sourceType";
const SKILL_PATH: &str = "skillPath";
const HASH: &str = "computedHash";
const ARTIFACT_DIGEST: &str = "wellKnownDigest";
/// Field of this program. `npx skills` keeps it, and leaves it out when it writes an entry anew.
const BUNDLE_DIGEST: &str = "bundleDigest";
/// Order of the fields in the format.
const ORDER: [&str; 8] =
    [SOURCE, SOURCE_URL, REFERENCE, SOURCE_TYPE, SKILL_PATH, HASH, ARTIFACT_DIGEST, BUNDLE_DIGEST];

/// Host of sources of the type `github`.
const GITHUB: &str = "https://github.com/";

/// Place that a skill of a lockfile comes from.
#[derive(Debug, Clone, PartialEq, Eq)]
pub enum LockSource {
    /// Git repository.
    Git {
        /// URL to fetch.
        url: String,
        /// Branch, tag or commit.
        reference: Option<String>,
        /// Folder of the skill; empty for the root.
        path: String,
    },
    /// Repository `owner/repo` of the host that the format means by `github`.
    GitHub {
        /// Owner and name.
        repository: String,
        /// Branch, tag or commit.
        reference: Option<String>,
        /// Folder of the skill; empty for the root.
        path: String,
    },
    /// Site with well-known discovery.
    WellKnown {
        /// URL of the site.
        url: String,
    },
    /// Path on this machine, relative to the lockfile.
    Local {
        /// The path.
        path: String,
    },
}

/// Entry of one skill. Unknown fields are kept.
#[derive(Debug)]
pub struct LockEntry {
    fields: Vec<(String, Box<RawValue>)>,
}

impl LockEntry {
    pub(super) fn new(fields: Vec<(String, Box<RawValue>)>) -> Self {
        Self { fields }
    }

    /// Creates the entry of a skill.
    #[must_use]
    pub fn from_source(source: &LockSource, hashes: &FolderHashes) -> Self {
        let mut entry = Self { fields: vec![] };
        let (kind, reference, path) = match source {
            LockSource::Git { url, reference, path } => {
                entry.set_text(SOURCE, url);
                entry.set_text(SOURCE_URL, url);
                ("git", reference.as_deref(), Some(path))
            }
            LockSource::GitHub { repository, reference, path } => {
                entry.set_text(SOURCE, repository);
                ("github", reference.as_deref(), Some(path))
            }
            LockSource::WellKnown { url } => {
                entry.set_text(SOURCE, host_name(url));
                entry.set_text(SOURCE_URL, url);
                ("well-known", None, None)
            }
            LockSource::Local { path } => {
                entry.set_text(SOURCE, path);
                ("local", None, None)
            }
        };
        entry.set_text(SOURCE_TYPE, kind);
        if let Some(reference) = reference {
            entry.set_text(REFERENCE, reference);
        }
        if let Some(folder) = path {
            let document = if folder.is_empty() {
                ROOT_PATH.to_owned()
            } else {
                format!("{folder}/{ROOT_PATH}")
            };
            entry.set_text(SKILL_PATH, &document);
        }
        entry.set_hashes(hashes);
        entry
    }

    /// Returns the source of the skill.
    ///
    /// # Errors
    /// The reason why this program cannot fetch it.
    pub fn source(&self) -> Result<LockSource, String> {
        let source = self.text(SOURCE).ok_or("it has no source")?;
        let reference = self.text(REFERENCE);
        let path = || {
            let path = self.text(SKILL_PATH).unwrap_or_default();
            let folder = path.strip_suffix(ROOT_PATH).unwrap_or(&path).trim_matches('/');
            folder.to_owned()
        };
        match self.text(SOURCE_TYPE).as_deref() {
            Some("git" | "gitlab") => {
                let url = self.text(SOURCE_URL).unwrap_or(source);
                Ok(LockSource::Git { url, reference, path: path() })
            }
            Some("github") => {
                let repository = source.strip_prefix(GITHUB).unwrap_or(&source).to_owned();
                Ok(LockSource::GitHub { repository, reference, path: path() })
            }
            Some("well-known") => {
                let url = self.text(SOURCE_URL).ok_or("it has no sourceUrl")?;
                Ok(LockSource::WellKnown { url })
            }
            Some("local") => Ok(LockSource::Local { path: source }),
            Some(other) => Err(format!("sources of the type {other:?} are not supported")),
            None => Err("it has no sourceType".to_owned()),
        }
    }

    /// Returns the hash of the skill's folder that `npx skills` computes.
    #[must_use]
    pub fn hash(&self) -> Option<String> {
        self.text(HASH)
    }

    /// Returns the digest of the skill's folder.
    #[must_use]
    pub fn digest(&self) -> Option<String> {
        self.text(BUNDLE_DIGEST)
    }

    /// Returns whether the entry has a digest of this program, even one that no folder can have.
    #[must_use]
    pub fn has_digest(&self) -> bool {
        self.fields.iter().any(|(name, _)| name == BUNDLE_DIGEST)
    }

    /// Returns whether a folder has the content of the entry. A digest is required to match where there is one.
    #[must_use]
    pub fn pins(&self, hashes: &FolderHashes) -> bool {
        let is_digest = || self.digest().as_ref() == Some(&hashes.digest);
        self.hash().as_ref() == Some(&hashes.npx) && (!self.has_digest() || is_digest())
    }

    /// Sets the hashes of the skill's folder.
    pub fn set_hashes(&mut self, hashes: &FolderHashes) {
        self.set_text(HASH, &hashes.npx);
        self.set_text(BUNDLE_DIGEST, &hashes.digest);
    }

    /// Sets the digest of the artifact of a site.
    pub fn set_artifact_digest(&mut self, digest: Option<&str>) {
        match digest {
            Some(digest) => self.set_text(ARTIFACT_DIGEST, digest),
            None => self.fields.retain(|(name, _)| name != ARTIFACT_DIGEST),
        }
    }

    /// Returns a field that is a text.
    fn text(&self, name: &str) -> Option<String> {
        let (_, value) = self.fields.iter().find(|(known, _)| known == name)?;
        serde_json::from_str(value.get()).ok()
    }

    /// Sets a field, at its place in the order of the format if it is new.
    pub(super) fn set_text(&mut self, name: &str, text: &str) {
        let Some(value) = raw_text(text) else { return };
        if let Some((_, old)) = self.fields.iter_mut().find(|(known, _)| known == name) {
            *old = value;
            return;
        }
        let rank = |name: &str| ORDER.iter().position(|known| *known == name);
        let is_later = |(known, _): &(String, Box<RawValue>)| {
            rank(known).zip(rank(name)).is_some_and(|(known, new)| known > new)
        };
        let at = self.fields.iter().position(is_later).unwrap_or(self.fields.len());
        self.fields.insert(at, (name.to_owned(), value));
    }
}

impl Serialize for LockEntry {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        let mut map = serializer.serialize_map(Some(self.fields.len()))?;
        for (name, value) in &self.fields {
            map.serialize_entry(name, value)?;
        }
        map.end()
    }
}

/// Returns the host name of a URL, without a port.
fn host_name(url: &str) -> &str {
    let rest = url.split_once("://").map_or(url, |(_, rest)| rest);
    let authority = rest.split(['/', '?', '#']).next().unwrap_or_default();
    let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
    if host.starts_with('[') {
        return host.split_once(']').map_or(host, |(ip, _)| ip.trim_start_matches('['));
    }
    host.split_once(':').map_or(host, |(host, _)| host)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn entry(text: &str) -> LockEntry {
        let fields: super::super::Fields = serde_json::from_str(text).unwrap();
        LockEntry::new(fields.0)
    }

    #[test]
    fn sources_are_read_and_written_alike() {
        for source in [
            LockSource::Git {
                url: "https://example.com/a.git".to_owned(),
                reference: Some("v1".to_owned()),
                path: "skills/a".to_owned(),
            },
            LockSource::GitHub {
                repository: "acme/skills".to_owned(),
                reference: None,
                path: String::new(),
            },
            LockSource::WellKnown { url: "http://127.0.0.1:8080/x".to_owned() },
            LockSource::Local { path: "./skills/a".to_owned() },
        ] {
            let hashes = FolderHashes { npx: "0".to_owned(), digest: "1".to_owned() };
            let entry = LockEntry::from_source(&source, &hashes);
            assert_eq!(entry.source(), Ok(source.clone()), "{entry:?}");
            assert!(entry.pins(&hashes));
        }
    }

    #[test]
    fn entries_without_a_usable_source_have_a_reason() {
        for (text, words) in [
            ("{}", "no source"),
            (r#"{"source":"a"}"#, "no sourceType"),
            (r#"{"source":1,"sourceType":"git"}"#, "no source"),
            (r#"{"source":"a","sourceType":"well-known"}"#, "no sourceUrl"),
            (r#"{"source":"a","sourceType":"node_modules"}"#, "not supported"),
        ] {
            let reason = entry(text).source().expect_err(text);
            assert!(reason.contains(words), "{text}: {reason}");
        }
    }

    #[test]
    fn a_digest_is_required_where_there_is_one() {
        let hashes = FolderHashes { npx: "0".to_owned(), digest: "sha256:1".to_owned() };
        for (text, is_pinned) in [
            (r#"{"computedHash":"0"}"#, true),
            (r#"{"computedHash":"0","bundleDigest":"sha256:1"}"#, true),
            (r#"{"computedHash":"0","bundleDigest":"sha256:2"}"#, false),
            (r#"{"computedHash":"0","bundleDigest":"sha512:1"}"#, false),
            (r#"{"computedHash":"0","bundleDigest":null}"#, false),
            (r#"{"computedHash":"0","bundleDigest":["sha256:1"]}"#, false),
            (r#"{"computedHash":"1","bundleDigest":"sha256:1"}"#, false),
            (r#"{"bundleDigest":"sha256:1"}"#, false),
            ("{}", false),
        ] {
            assert_eq!(entry(text).pins(&hashes), is_pinned, "{text}");
        }
    }

    #[test]
    fn a_host_name_has_no_port_and_no_credentials() {
        for (url, host) in [
            ("https://example.com", "example.com"),
            ("http://127.0.0.1:8080/x", "127.0.0.1"),
            ("https://me:key@example.com:1/x", "example.com"),
            ("http://[::1]:8080", "::1"),
        ] {
            assert_eq!(host_name(url), host, "{url}");
        }
    }
}
