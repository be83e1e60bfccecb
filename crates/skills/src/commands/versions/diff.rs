//! `diff`: two versions of an entry, or a version and a folder.

use std::path::{Path, PathBuf};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_bundles::find_bundles;
use skills_core::{Code, EntryKind, Tier, VersionSelector, version::VERSION_SEPARATOR};
use skills_registry::{
    DiffRequest, HistoryRequest, ReadVersion, SkillRegistry, VersionInfo,
    bundles::read_row,
    diff::{ComparedSkill, VersionDiff, diff_skills},
};

use super::{find_version, parse_address, print_diff};
use crate::{Failure, blocking::blocking, cli::DiffArgs, output};

/// Later side of a difference.
#[derive(Debug, PartialEq, Eq)]
enum Later {
    Newest,
    /// Version that the plain id reads.
    Served,
    Version(VersionSelector),
    Folder(PathBuf),
}

pub(super) async fn diff(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    args: DiffArgs,
) -> Result<(), Failure> {
    let DiffArgs { from, to, tier, format } = args;
    let (id, from) = parse_address(&from)?;
    let later = parse_later(&id, to)?;
    let entry = Entry { skills, kind, tier: tier.map(Into::into), id };
    let diff = match later {
        Later::Folder(path) => entry.against_folder(from, path).await?,
        later => entry.between_versions(from, later).await?,
    };
    if format.json {
        return Ok(output::json(&diff)?);
    }
    print_diff::print(&entry.id, &diff)
}

/// Parses the second argument: a version of the same entry, or else a path.
fn parse_later(id: &str, to: Option<PathBuf>) -> Result<Later, Failure> {
    let Some(path) = to else { return Ok(Later::Newest) };
    let Some(text) = path.to_str() else { return Ok(Later::Folder(path)) };
    match text.strip_prefix(id) {
        Some("") if !path.exists() => return Ok(Later::Served),
        Some(version) if version.starts_with(VERSION_SEPARATOR) => {
            let (_, version) = parse_address(text)?;
            return Ok(version.map_or(Later::Served, Later::Version));
        }
        _ => {}
    }
    match parse_address(text) {
        Ok((other, Some(_))) if !path.exists() => {
            let message = format!("{text} is a version of {other}, and not of {id}");
            Err(Failure::new(Code::BadArgument, output::plain(&message))
                .hint("compare versions of one entry, or a version and a folder"))
        }
        _ => Ok(Later::Folder(path)),
    }
}

/// Entry whose versions are compared.
struct Entry<'a> {
    skills: &'a dyn SkillRegistry,
    kind: EntryKind,
    tier: Option<Tier>,
    id: String,
}

impl Entry<'_> {
    fn history(&self) -> HistoryRequest {
        HistoryRequest { id: self.id.clone(), tier: self.tier, limit: None, after: None }
    }

    /// Returns the number of the version that the plain id reads.
    async fn served(&self) -> Result<u64, Failure> {
        let served = find_version(self.skills, self.kind, self.history(), |version| version.served);
        let none = || {
            let message = format!("no version of {} is served", self.id);
            Failure::new(Code::NotFound, message).hint(format!("name one: {}@3", self.id))
        };
        Ok(served.await?.ok_or_else(none)?.version)
    }

    /// Returns the newest version before another one that still has its content.
    async fn before(&self, number: u64) -> Result<u64, Failure> {
        let is_older = |version: &VersionInfo| version.version < number && !version.purged;
        let older = find_version(self.skills, self.kind, self.history(), is_older);
        let none = || {
            let message = format!("{} has no version before {number}", self.id);
            Failure::new(Code::NotFound, message)
        };
        Ok(older.await?.ok_or_else(none)?.version)
    }

    async fn between_versions(
        &self,
        from: Option<VersionSelector>,
        later: Later,
    ) -> Result<VersionDiff, Failure> {
        let to = match later {
            Later::Version(version) => version,
            Later::Served => VersionSelector::Number(self.served().await?),
            Later::Newest | Later::Folder(_) => VersionSelector::Latest,
        };
        let from = match from {
            Some(from) => from,
            None => VersionSelector::Number(self.default_from(&to).await?),
        };
        let (id, tier) = (self.id.clone(), self.tier);
        Ok(self.skills.diff(self.kind, &DiffRequest { id, tier, from, to }).await?)
    }

    /// Returns the served version, or the one before if the other side is that.
    async fn default_from(&self, to: &VersionSelector) -> Result<u64, Failure> {
        let served = self.served().await?;
        let to = self.skills.version(self.kind, self.tier, &self.id, to).await?;
        if to.version == served { self.before(served).await } else { Ok(served) }
    }

    async fn against_folder(
        &self,
        from: Option<VersionSelector>,
        path: PathBuf,
    ) -> Result<VersionDiff, Failure> {
        if self.kind == EntryKind::Prompt {
            let message = "a prompt has no files to compare with a folder";
            return Err(Failure::new(Code::BadArgument, message)
                .hint(format!("compare two versions: {}@1 {}@2", self.id, self.id)));
        }
        let folder = blocking(move || read_folder(&path)).await??;
        let from = match from {
            Some(from) => from,
            None => VersionSelector::Number(self.served().await?),
        };
        let row = self.skills.skill_version(self.tier, &self.id, &from).await?;
        let stored = read_row(self.skills, &row).await?;
        let mut stored = ComparedSkill::from_bundle(&stored);
        if let Some(ReadVersion { version, yanked, .. }) = row.version() {
            stored = stored.with_version(version, yanked);
        }
        Ok(diff_skills(stored, ComparedSkill::from_bundle(&folder)).await?)
    }
}

/// Reads the only skill of a folder, an archive or a document.
fn read_folder(path: &Path) -> Result<Bundle<Bytes>, Failure> {
    let mut found = find_bundles(path)?;
    match (found.candidates.pop(), found.candidates.len()) {
        (Some(candidate), 0) => Ok(candidate.read()?.into_bundle()?),
        (_, others) => {
            let message = format!("{} has {} skills", output::path(path), others + 1);
            Err(Failure::new(Code::BadArgument, message).hint("name the folder of one skill"))
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn later(text: &str) -> Result<Later, Code> {
        parse_later("pdf", Some(PathBuf::from(text))).map_err(|failure| failure.code)
    }

    #[test]
    fn the_second_argument_is_a_version_of_the_entry_or_a_path() {
        assert_eq!(parse_later("pdf", None), Ok(Later::Newest));
        assert_eq!(later("pdf"), Ok(Later::Served));
        assert_eq!(later("pdf@4"), Ok(Later::Version(VersionSelector::Number(4))));
        assert_eq!(later("pdf@latest"), Ok(Later::Version(VersionSelector::Latest)));
        for path in ["./pdf", "pdfs", "/a/b@2/c", "../x@y z"] {
            assert_eq!(later(path), Ok(Later::Folder(PathBuf::from(path))), "{path}");
        }
        assert_eq!(later("docx@3"), Err(Code::BadArgument));
        assert_eq!(later("pdf@"), Err(Code::InvalidInput));
    }
}
