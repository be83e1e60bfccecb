//! Which folders are kept in step.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use crate::{
    Failure,
    cli::{Agents, Sync, environment},
    output::path,
};

/// What agents have for skills below a project or a home directory.
const AGENTS: &str = ".agents";
const CLAUDE: &str = ".claude";
const SKILLS: &str = "skills";

/// The folders that the command line means, each once.
pub(super) fn of(sync: &Sync) -> Result<Vec<PathBuf>, Failure> {
    let folders = match sync.dirs.is_empty() {
        false => sync.dirs.clone(),
        true => {
            let home = || environment("HOME").map(PathBuf::from);
            let base = match sync.user {
                true => home().ok_or_else(|| Failure::new("no_home", "HOME is not set"))?,
                false => PathBuf::new(),
            };
            usual(&base, &sync.to)?
        }
    };
    // Often one of them is a link to the other.
    let mut seen = HashSet::new();
    let is_new = |folder: &PathBuf| seen.insert(fs::canonicalize(folder).unwrap_or(folder.clone()));
    Ok(folders.into_iter().filter(is_new).collect())
}

/// The usual folders below a directory: those that are named, else those of agents that are set up there, else the one
/// that most agents read.
fn usual(base: &Path, named: &[Agents]) -> Result<Vec<PathBuf>, Failure> {
    let is_named = |one| named.iter().any(|named| *named == one || *named == Agents::Both);
    let is_set_up = |name: &str| base.join(name).is_dir();
    let names: Vec<&str> = match named.is_empty() {
        false => [(AGENTS, Agents::Agents), (CLAUDE, Agents::Claude)]
            .into_iter()
            .filter_map(|(name, one)| is_named(one).then_some(name))
            .collect(),
        true => [AGENTS, CLAUDE].into_iter().filter(|name| is_set_up(name)).collect(),
    };
    let names = if names.is_empty() { vec![AGENTS] } else { names };
    names.into_iter().map(|name| inside(base, base.join(name).join(SKILLS))).collect()
}

/// A folder that was not named must not lead elsewhere: a project may come from somebody else.
fn inside(base: &Path, folder: PathBuf) -> Result<PathBuf, Failure> {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    // As much of it as is there.
    let real = folder.ancestors().find_map(|part| fs::canonicalize(part).ok());
    let base = fs::canonicalize(base)?;
    match real {
        Some(real) if !real.starts_with(&base) => {
            let message = format!("{} leads to {}", path(&folder), path(&real));
            Err(Failure::new("leads_elsewhere", message)
                .hint("name the folder itself if that is what is meant"))
        }
        _ => Ok(folder),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(base: &Path, named: &[Agents]) -> Vec<String> {
        let folders = usual(base, named).unwrap();
        let inside = |folder: &PathBuf| folder.strip_prefix(base).unwrap().display().to_string();
        folders.iter().map(inside).collect()
    }

    #[test]
    fn those_that_are_named_or_set_up_or_else_the_common_one() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path();
        assert_eq!(found(base, &[]), [".agents/skills"]);
        assert_eq!(found(base, &[Agents::Both]), [".agents/skills", ".claude/skills"]);
        fs::create_dir(base.join(CLAUDE)).unwrap();
        assert_eq!(found(base, &[]), [".claude/skills"]);
        assert_eq!(found(base, &[Agents::Agents]), [".agents/skills"]);
        fs::create_dir(base.join(AGENTS)).unwrap();
        assert_eq!(found(base, &[]), [".agents/skills", ".claude/skills"]);
    }

    #[test]
    fn a_link_out_of_the_project_is_not_followed_by_itself() {
        let dir = tempfile::tempdir().unwrap();
        let (base, elsewhere) = (dir.path().join("project"), dir.path().join("elsewhere"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, base.join(CLAUDE)).unwrap();
        assert_eq!(usual(&base, &[]).unwrap_err().code, "leads_elsewhere");
        // One that leads to the other is fine.
        fs::remove_file(base.join(CLAUDE)).unwrap();
        fs::create_dir_all(base.join(".agents/skills")).unwrap();
        fs::create_dir(base.join(CLAUDE)).unwrap();
        std::os::unix::fs::symlink("../.agents/skills", base.join(".claude/skills")).unwrap();
        assert_eq!(found(&base, &[]).len(), 2);
    }
}
