//! Which of many files belong to which bundle: the same for a folder and for an archive.

use std::{
    collections::{BTreeMap, HashMap},
    ffi::OsString,
    path::{Path, PathBuf},
};

use skills_core::skill::ROOT_PATH;

use crate::candidate::Source;

/// One file, or what stands in place of one.
#[derive(Debug)]
pub(crate) struct Entry {
    /// Relative to what was looked into.
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
}

/// A folder with a root document, and all below it.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    /// How the root document is spelled.
    pub(crate) document: OsString,
    /// Relative to the folder.
    pub(crate) entries: Vec<Entry>,
}

/// Every folder that has a root document, and how that is spelled.
fn documents(entries: &[Entry]) -> HashMap<PathBuf, OsString> {
    let mut documents: HashMap<PathBuf, OsString> = HashMap::new();
    for entry in entries {
        let Some(name) = entry.path.file_name() else { continue };
        if !name.eq_ignore_ascii_case(ROOT_PATH) {
            continue;
        }
        let folder = entry.path.parent().unwrap_or(Path::new("")).to_owned();
        let known = documents.entry(folder).or_insert_with(|| name.to_owned());
        if name == ROOT_PATH {
            name.clone_into(known);
        }
    }
    documents
}

/// A root document, also one that is a file of another bundle.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) folder: PathBuf,
    /// How it is spelled.
    pub(crate) name: OsString,
    /// The paths of all files in its folder and below.
    pub(crate) files: Vec<PathBuf>,
}

/// All root documents, in the order of their folders.
pub(crate) fn all_documents(entries: &[Entry]) -> Vec<Document> {
    let mut all: BTreeMap<PathBuf, (OsString, Vec<PathBuf>)> =
        documents(entries).into_iter().map(|(folder, name)| (folder, (name, vec![]))).collect();
    for entry in entries {
        for folder in entry.path.ancestors().skip(1) {
            if let (Some((_, files)), Ok(inside)) =
                (all.get_mut(folder), entry.path.strip_prefix(folder))
            {
                files.push(inside.to_owned());
            }
        }
    }
    all.into_iter().map(|(folder, (name, files))| Document { folder, name, files }).collect()
}

/// The outermost folders that have a root document, in the order of their names, and what belongs to none.
pub(crate) fn groups(entries: Vec<Entry>) -> (Vec<Group>, Vec<Entry>) {
    let documents = documents(&entries);
    let is_inner =
        |folder: &PathBuf| folder.ancestors().skip(1).any(|outer| documents.contains_key(outer));
    let mut folders: Vec<_> =
        documents.keys().filter(|folder| !is_inner(folder)).cloned().collect();
    folders.sort_unstable();
    let mut groups: Vec<Group> = folders
        .iter()
        .map(|folder| Group {
            folder: folder.clone(),
            document: documents.get(folder).cloned().unwrap_or_default(),
            entries: vec![],
        })
        .collect();
    let at: HashMap<&Path, usize> =
        folders.iter().enumerate().map(|(at, folder)| (folder.as_path(), at)).collect();
    let mut rest = Vec::new();
    for Entry { path, source } in entries {
        let home = path.ancestors().skip(1).find_map(|folder| at.get(folder).copied());
        match home.and_then(|home| groups.get_mut(home)) {
            Some(group) => {
                let path = path.strip_prefix(&group.folder).unwrap_or(&path).to_owned();
                group.entries.push(Entry { path, source });
            }
            None => rest.push(Entry { path, source }),
        }
    }
    (groups, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<String> {
        let entry = |path: &&str| Entry { path: path.into(), source: Source::OnDisk };
        let (groups, rest) = groups(paths.iter().map(entry).collect());
        let names = |entries: &[Entry]| {
            let names: Vec<_> = entries.iter().map(|entry| entry.path.to_string_lossy()).collect();
            names.join(",")
        };
        let mut shown: Vec<String> = groups
            .iter()
            .map(|group| format!("{}={}", group.folder.display(), names(&group.entries)))
            .collect();
        shown.push(names(&rest));
        shown
    }

    #[test]
    fn the_outermost_root_document_makes_the_bundle() {
        assert_eq!(found(&["SKILL.md", "a/SKILL.md", "b"]), ["=SKILL.md,a/SKILL.md,b", ""]);
        assert_eq!(
            found(&["b/SKILL.md", "README.md", "a/x/SKILL.md", "a/x/y/z", "a/w"]),
            ["a/x=SKILL.md,y/z", "b=SKILL.md", "README.md,a/w"]
        );
        assert_eq!(found(&["a/skill.md"]), ["a=skill.md", ""]);
        assert_eq!(found(&["a/README.md"]), ["a/README.md"]);
    }

    #[test]
    fn a_name_that_begins_alike_is_another_folder() {
        assert_eq!(found(&["a/SKILL.md", "ab/x"]), ["a=SKILL.md", "ab/x"]);
    }

    #[test]
    fn the_exact_spelling_comes_first() {
        for order in [["skill.md", "SKILL.md"], ["SKILL.md", "Skill.md"]] {
            let entry = |path: &str| Entry { path: path.into(), source: Source::OnDisk };
            let (groups, _) = groups(order.map(entry).into());
            assert_eq!(groups[0].document, "SKILL.md");
        }
    }
}
