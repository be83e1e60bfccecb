//! The folders that `sync` writes.

use std::{
    collections::HashSet,
    fs,
    path::{Path, PathBuf},
};

use skills_bundles::sync::FolderLocation;
use skills_core::Code;

use crate::{Failure, cli::AgentFolders, environment, output::path};

/// Directories of agents in a project or home directory.
const AGENTS: &str = ".agents";
const CLAUDE: &str = ".claude";
const SKILLS: &str = "skills";

/// Returns the folders of a command line, each once.
pub(in super::super) fn from_args(
    dirs: &[PathBuf],
    to: &[AgentFolders],
    user: bool,
) -> Result<Vec<FolderLocation>, Failure> {
    let folders = if dirs.is_empty() {
        let base = if user {
            let no_home = || Failure::new(Code::NoHome, "HOME is not set");
            environment::path("HOME").ok_or_else(no_home)?
        } else {
            PathBuf::new()
        };
        default_folders(&base, to)?
    } else {
        dirs.iter().map(FolderLocation::named).collect()
    };
    // One of them is often a link to the other.
    let mut seen = HashSet::new();
    let is_new = |folder: &FolderLocation| {
        let path = folder.path();
        seen.insert(fs::canonicalize(path).unwrap_or_else(|_| path.to_owned()))
    };
    Ok(folders.into_iter().filter(is_new).collect())
}

/// Returns the default folders in a directory: those of the selected agents, else of agents that have a directory there,
/// else the folder that most agents read.
fn default_folders(base: &Path, selected: &[AgentFolders]) -> Result<Vec<FolderLocation>, Failure> {
    let is_wanted = |name: &str, agent| match selected {
        [] => base.join(name).is_dir(),
        _ => selected.contains(&agent) || selected.contains(&AgentFolders::Both),
    };
    let agents = [(AGENTS, AgentFolders::Agents), (CLAUDE, AgentFolders::Claude)];
    let names = agents.into_iter().filter(|(name, agent)| is_wanted(name, *agent));
    let names: Vec<&str> = names.map(|(name, _)| name).collect();
    let names = if names.is_empty() { vec![AGENTS] } else { names };
    names.into_iter().map(|name| locate(base, base.join(name).join(SKILLS))).collect()
}

/// Locates a default folder below its base. It must not lead outside, because a project may come from another author.
/// Links inside the base are resolved here, once; links created later are rejected when the folder is opened.
fn locate(base: &Path, folder: PathBuf) -> Result<FolderLocation, Failure> {
    let base = if base.as_os_str().is_empty() { Path::new(".") } else { base };
    let real_base = fs::canonicalize(base)?;
    // The longest existing part of the path.
    let resolve = |part: &Path| Some((fs::canonicalize(part).ok()?, part.to_owned()));
    let (real, found) =
        folder.ancestors().find_map(resolve).unwrap_or((real_base.clone(), PathBuf::new()));
    let Ok(below) = real.strip_prefix(&real_base) else {
        let message = format!("{} links to {}, outside its base", path(&folder), path(&real));
        return Err(Failure::new(Code::LeadsElsewhere, message)
            .hint("give the folder itself as DIR to write there"));
    };
    let rest = folder.strip_prefix(&found).unwrap_or(&folder);
    Ok(FolderLocation::below(&real_base, &below.join(rest), folder)?)
}

#[cfg(test)]
mod tests {
    use skills_bundles::sync::{Options, SyncFolder};

    use skills_core::Coded as _;

    use super::*;

    fn found(base: &Path, selected: &[AgentFolders]) -> Vec<String> {
        let folders = default_folders(base, selected).unwrap();
        let inside = |folder: &FolderLocation| {
            folder.path().strip_prefix(base).unwrap().display().to_string()
        };
        folders.iter().map(inside).collect()
    }

    #[test]
    fn default_folders_are_those_selected_or_existing_or_the_common_one() {
        let dir = tempfile::tempdir().unwrap();
        let base = dir.path();
        assert_eq!(found(base, &[]), [".agents/skills"]);
        assert_eq!(found(base, &[AgentFolders::Both]), [".agents/skills", ".claude/skills"]);
        fs::create_dir(base.join(CLAUDE)).unwrap();
        assert_eq!(found(base, &[]), [".claude/skills"]);
        assert_eq!(found(base, &[AgentFolders::Agents]), [".agents/skills"]);
        fs::create_dir(base.join(AGENTS)).unwrap();
        assert_eq!(found(base, &[]), [".agents/skills", ".claude/skills"]);
    }

    #[test]
    fn a_link_out_of_the_project_is_rejected() {
        let dir = tempfile::tempdir().unwrap();
        let (base, elsewhere) = (dir.path().join("project"), dir.path().join("elsewhere"));
        fs::create_dir(&base).unwrap();
        fs::create_dir(&elsewhere).unwrap();
        std::os::unix::fs::symlink(&elsewhere, base.join(CLAUDE)).unwrap();
        assert_eq!(default_folders(&base, &[]).unwrap_err().code, Code::LeadsElsewhere);
        // A link from one folder to the other is accepted.
        fs::remove_file(base.join(CLAUDE)).unwrap();
        fs::create_dir_all(base.join(".agents/skills")).unwrap();
        fs::create_dir(base.join(CLAUDE)).unwrap();
        std::os::unix::fs::symlink("../.agents/skills", base.join(".claude/skills")).unwrap();
        assert_eq!(found(&base, &[]).len(), 2);
        // A link that is created later is rejected for both.
        let folders = default_folders(&base, &[]).unwrap();
        fs::rename(base.join(AGENTS), base.join("old")).unwrap();
        std::os::unix::fs::symlink(&elsewhere, base.join(AGENTS)).unwrap();
        for folder in &folders {
            let error = SyncFolder::open_at(folder, Options::default()).unwrap_err();
            assert_eq!(error.code().as_str(), "leads_elsewhere", "{error}");
        }
        assert_eq!(fs::read_dir(&elsewhere).unwrap().count(), 0);
    }
}
