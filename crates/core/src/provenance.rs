//! Provenance of an entry: the place that its content came from. It is stored with each version in the change log, which
//! has the time and the actor of the version.

use std::fmt;

use serde::{Deserialize, Serialize};

use crate::{
    Field, GitProtocol, RuleError, git_location::is_reference, limits::MAX_PROVENANCE_BYTES,
};

/// Kind of place that content came from.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, Deserialize)]
#[serde(from = "String", into = "&'static str")]
pub enum SourceKind {
    /// Folder, archive or document on a disk.
    Path,
    /// Git repository.
    Git,
    /// Archive that was downloaded.
    Url,
    /// Standard input of a command.
    Command,
    /// Worker on the bus.
    Worker,
    /// Kind that this version does not know.
    Other,
}

impl SourceKind {
    /// Returns the stored name.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Path => "path",
            Self::Git => "git",
            Self::Url => "url",
            Self::Command => "command",
            Self::Worker => "worker",
            Self::Other => "other",
        }
    }
}

impl From<String> for SourceKind {
    fn from(name: String) -> Self {
        let kinds = [Self::Path, Self::Git, Self::Url, Self::Command, Self::Worker];
        kinds.into_iter().find(|kind| kind.as_str() == name).unwrap_or(Self::Other)
    }
}

impl From<SourceKind> for &'static str {
    fn from(kind: SourceKind) -> Self {
        kind.as_str()
    }
}

/// Place that the content of an entry came from.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Provenance {
    /// Kind of the place.
    pub kind: SourceKind,
    /// Absolute path, URL without credentials, or name of the command or worker.
    pub location: String,
    /// Path of the bundle inside an archive or a repository; empty at its root.
    #[serde(default, skip_serializing_if = "String::is_empty")]
    pub path: String,
    /// Branch, tag or commit that was requested from a repository.
    #[serde(default, rename = "ref", skip_serializing_if = "Option::is_none")]
    pub reference: Option<String>,
    /// Commit of a repository that the content is of.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    pub commit: Option<String>,
}

impl Provenance {
    /// Creates the provenance of content at the root of a place.
    #[must_use]
    pub fn new(kind: SourceKind, location: impl Into<String>) -> Self {
        let location = location.into();
        Self { kind, location, path: String::new(), reference: None, commit: None }
    }

    /// Returns whether two versions came from the same place. A repository or an archive is one place, whatever the
    /// commit and the path inside it.
    #[must_use]
    pub fn is_same_source(&self, other: &Self) -> bool {
        self.kind == other.kind && self.location == other.location
    }

    /// Returns whether the content can be fetched from the same place again.
    #[must_use]
    pub const fn can_be_fetched(&self) -> bool {
        matches!(self.kind, SourceKind::Path | SourceKind::Git | SourceKind::Url)
    }

    /// Returns whether every reader of the content may see the place: it names neither this machine nor a worker.
    #[must_use]
    pub fn is_public(&self) -> bool {
        match self.kind {
            SourceKind::Git => !self.location.starts_with("file:"),
            SourceKind::Url => true,
            _ => false,
        }
    }

    /// Returns the bytes of all texts.
    #[must_use]
    pub fn bytes(&self) -> usize {
        let optional = [&self.reference, &self.commit];
        let optional = optional.into_iter().flatten().map(String::len).sum::<usize>();
        self.location.len() + self.path.len() + optional
    }

    /// Checks size and form. Workers and registries choose these texts, and commands fetch from what they name.
    ///
    /// # Errors
    /// When the texts are too long, or name a program, an option or another protocol.
    pub fn check(self) -> Result<Self, RuleError> {
        let len = self.bytes();
        if len > MAX_PROVENANCE_BYTES {
            return Err(RuleError::TooLarge {
                field: Field::Source,
                len,
                max: MAX_PROVENANCE_BYTES,
            });
        }
        let reason = match self.kind {
            SourceKind::Path if self.location.contains('\0') => "location is not a path",
            SourceKind::Git if GitProtocol::of_location(&self.location).is_none() => {
                "location is not a repository at an https, ssh or file URL"
            }
            SourceKind::Url if !is_web_url(&self.location) => "location is not an https URL",
            _ if self.reference.as_deref().is_some_and(|name| !is_reference(name)) => {
                "ref is not the name of a branch, a tag or a commit"
            }
            _ => return Ok(self),
        };
        Err(RuleError::Source(reason))
    }
}

impl fmt::Display for Provenance {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { kind, location, path, reference, commit } = self;
        match kind {
            SourceKind::Path | SourceKind::Git | SourceKind::Url => f.write_str(location)?,
            SourceKind::Command | SourceKind::Worker | SourceKind::Other => {
                write!(f, "{} {location}", kind.as_str())?;
            }
        }
        if !path.is_empty() {
            write!(f, " {path}")?;
        }
        match (reference, commit) {
            (None, None) => Ok(()),
            (Some(reference), None) => write!(f, " ({reference})"),
            (None, Some(commit)) => write!(f, " ({})", short(commit)),
            (Some(reference), Some(commit)) if reference == commit => {
                write!(f, " ({})", short(commit))
            }
            (Some(reference), Some(commit)) => write!(f, " ({reference}, {})", short(commit)),
        }
    }
}

/// Returns whether a text can be the URL of a download. `http` is for this machine, which its users check.
fn is_web_url(text: &str) -> bool {
    let protocol = GitProtocol::of_location(text);
    text.contains("://") && matches!(protocol, Some(GitProtocol::Https | GitProtocol::Http))
}

/// Shortens a commit as git does in its messages.
fn short(commit: &str) -> String {
    commit.chars().take(12).collect()
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_stored_form_is_small_and_tolerates_later_kinds() {
        let provenance = Provenance::new(SourceKind::Path, "/a");
        let json = serde_json::to_string(&provenance).unwrap();
        assert_eq!(json, r#"{"kind":"path","location":"/a"}"#);
        assert_eq!(serde_json::from_str::<Provenance>(&json).unwrap(), provenance);
        let later = r#"{"kind":"torrent","location":"x","peers":3}"#;
        let later: Provenance = serde_json::from_str(later).unwrap();
        assert_eq!((later.kind, later.to_string()), (SourceKind::Other, "other x".to_owned()));
    }

    #[test]
    fn a_repository_is_one_source_at_every_commit() {
        let at = |commit: &str, path: &str| Provenance {
            path: path.to_owned(),
            commit: Some(commit.to_owned()),
            ..Provenance::new(SourceKind::Git, "https://example.com/a")
        };
        assert!(at("1", "pdf").is_same_source(&at("2", "office/pdf")));
        let other = Provenance::new(SourceKind::Git, "https://example.com/b");
        assert!(!other.is_same_source(&at("1", "pdf")));
        assert!(!Provenance { kind: SourceKind::Url, ..at("1", "") }.is_same_source(&at("1", "")));
        assert_eq!(
            at("0123456789abcdef", "p").to_string(),
            "https://example.com/a p (0123456789ab)"
        );
    }

    #[test]
    fn the_texts_are_limited() {
        let provenance = |len| Provenance::new(SourceKind::Path, "x".repeat(len));
        assert!(provenance(MAX_PROVENANCE_BYTES).check().is_ok());
        assert!(provenance(MAX_PROVENANCE_BYTES + 1).check().is_err());
    }

    #[test]
    fn locations_and_references_have_the_form_of_their_kind() {
        for (kind, location) in [
            (SourceKind::Git, "https://example.com/a"),
            (SourceKind::Git, "git@example.com:a"),
            (SourceKind::Url, "https://example.com/a.zip"),
            (SourceKind::Path, "/a b"),
            (SourceKind::Worker, "any name"),
        ] {
            assert!(Provenance::new(kind, location).check().is_ok(), "{location}");
        }
        for (kind, location) in [
            (SourceKind::Git, "ext::sh -c touch% /tmp/x x://y"),
            (SourceKind::Git, "-x"),
            (SourceKind::Url, "file:///etc/passwd"),
            (SourceKind::Url, "git@example.com:a"),
            (SourceKind::Path, "/a\0b"),
        ] {
            let error = Provenance::new(kind, location).check().expect_err(location);
            assert!(error.to_string().starts_with("source location is not"), "{error}");
        }
        let option = Provenance {
            reference: Some("--upload-pack=x".to_owned()),
            ..Provenance::new(SourceKind::Git, "https://example.com/a")
        };
        assert!(option.check().is_err());
    }
}
