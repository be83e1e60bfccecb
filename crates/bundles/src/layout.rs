//! Grouping of files into bundles, for folders and archives alike.

use std::{
    collections::{BTreeMap, HashMap, HashSet},
    ffi::{OsStr, OsString},
    path::{Component, Path, PathBuf},
};

use skills_core::skill::ROOT_PATH;

use crate::source::Source;

/// Most links that are followed from one root document to another.
const MAX_LINKS: usize = 8;

/// File of a folder or an archive.
#[derive(Debug)]
pub(crate) struct FileEntry {
    /// Path relative to the searched folder.
    pub(crate) path: PathBuf,
    pub(crate) source: Source,
}

/// Folder with a root document, and everything below it.
#[derive(Debug)]
pub(crate) struct Group {
    pub(crate) folder: PathBuf,
    /// File name of the root document.
    pub(crate) document: OsString,
    /// Files with paths relative to the folder.
    pub(crate) entries: Vec<FileEntry>,
    /// True if the root document is a link.
    pub(crate) is_linked: bool,
}

/// Returns whether a file may be a root document by its name.
pub(crate) fn is_document_name(name: &OsStr) -> bool {
    name.eq_ignore_ascii_case(ROOT_PATH)
}

/// Finds every folder with a root document, and the file name of that.
fn documents(entries: &[FileEntry]) -> HashMap<PathBuf, OsString> {
    let mut documents: HashMap<PathBuf, OsString> = HashMap::new();
    for entry in entries {
        let Some(name) = entry.path.file_name() else { continue };
        if !is_document_name(name) {
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

/// Root document, possibly inside another bundle.
#[derive(Debug)]
pub(crate) struct Document {
    pub(crate) folder: PathBuf,
    /// File name.
    pub(crate) name: OsString,
    /// Paths of all files in its folder and below.
    pub(crate) files: Vec<PathBuf>,
}

/// Returns all root documents in the order of their folders.
pub(crate) fn all_documents(entries: &[FileEntry]) -> Vec<Document> {
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

/// Replaces root documents that are links to a file of the same tree by that file. Returns their paths. Links are
/// resolved in the listing and not by the system, so none of them leads outside.
pub(crate) fn resolve_document_links(entries: &mut [FileEntry]) -> HashSet<PathBuf> {
    let is_link = |entry: &&FileEntry| matches!(entry.source, Source::Link(Some(_)));
    if !entries.iter().any(|entry| is_link(&entry)) {
        return HashSet::new();
    }
    let sources: HashMap<&Path, &Source> =
        entries.iter().map(|entry| (entry.path.as_path(), &entry.source)).collect();
    let resolve = |entry: &FileEntry| {
        let mut path = entry.path.clone();
        for _ in 0..MAX_LINKS {
            match *sources.get(path.as_path())? {
                Source::Link(Some(target)) => path = join_inside(path.parent()?, target)?,
                Source::OnDisk => return Some(Source::OnDiskAt(path)),
                source @ (Source::InMemory { .. } | Source::Object { .. }) => {
                    return Some(source.clone());
                }
                _ => return None,
            }
        }
        None
    };
    let resolved: HashMap<PathBuf, Source> = entries
        .iter()
        .filter(is_link)
        .filter_map(|entry| Some((entry.path.clone(), resolve(entry)?)))
        .collect();
    for entry in entries.iter_mut() {
        if let Some(source) = resolved.get(&entry.path) {
            entry.source = source.clone();
        }
    }
    resolved.into_keys().collect()
}

/// Joins a relative link target to the folder of the link; `None` if it leads outside the tree.
fn join_inside(folder: &Path, target: &Path) -> Option<PathBuf> {
    let mut joined = folder.to_owned();
    for part in target.components() {
        match part {
            Component::CurDir => {}
            Component::ParentDir if joined.pop() => {}
            Component::Normal(name) => joined.push(name),
            Component::ParentDir | Component::RootDir | Component::Prefix(_) => return None,
        }
    }
    Some(joined)
}

/// Groups files by the outermost folder with a root document, sorted by name. Also returns the files that belong to
/// none.
pub(crate) fn groups(mut entries: Vec<FileEntry>) -> (Vec<Group>, Vec<FileEntry>) {
    let linked = resolve_document_links(&mut entries);
    let documents = documents(&entries);
    let is_inner =
        |folder: &PathBuf| folder.ancestors().skip(1).any(|outer| documents.contains_key(outer));
    let mut folders: Vec<_> =
        documents.keys().filter(|folder| !is_inner(folder)).cloned().collect();
    folders.sort_unstable();
    let mut groups: Vec<Group> = folders
        .iter()
        .map(|folder| {
            let document = documents.get(folder).cloned().unwrap_or_default();
            let is_linked = linked.contains(&folder.join(&document));
            Group { folder: folder.clone(), document, entries: vec![], is_linked }
        })
        .collect();
    let at: HashMap<&Path, usize> =
        folders.iter().enumerate().map(|(at, folder)| (folder.as_path(), at)).collect();
    let mut rest = Vec::new();
    for FileEntry { path, source } in entries {
        let home = path.ancestors().skip(1).find_map(|folder| at.get(folder).copied());
        match home.and_then(|home| groups.get_mut(home)) {
            Some(group) => {
                let path = path.strip_prefix(&group.folder).unwrap_or(&path).to_owned();
                group.entries.push(FileEntry { path, source });
            }
            None => rest.push(FileEntry { path, source }),
        }
    }
    (groups, rest)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn found(paths: &[&str]) -> Vec<String> {
        let entry = |path: &&str| FileEntry { path: path.into(), source: Source::OnDisk };
        let (groups, rest) = groups(paths.iter().map(entry).collect());
        let names = |entries: &[FileEntry]| {
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
    fn a_root_document_may_be_a_link_to_a_file_of_the_tree() {
        let link = |path: &str, target: &str| FileEntry {
            path: path.into(),
            source: Source::Link(Some(target.into())),
        };
        let file = |path: &str| FileEntry { path: path.into(), source: Source::OnDisk };
        let target = |target: &str| {
            let (groups, _) = groups(vec![
                file("b/SKILL.md"),
                link("c/SKILL.md", "../a/SKILL.md"),
                link("a/SKILL.md", target),
            ]);
            let group = groups.into_iter().find(|group| group.folder == Path::new("a")).unwrap();
            match &group.entries[0].source {
                Source::OnDiskAt(path) if group.is_linked => Some(path.clone()),
                _ => None,
            }
        };
        assert_eq!(target("../b/SKILL.md"), Some("b/SKILL.md".into()));
        assert_eq!(target("./.././b/SKILL.md"), Some("b/SKILL.md".into()));
        for outside in ["../../b/SKILL.md", "/b/SKILL.md", "absent", "../c/SKILL.md", "../b"] {
            assert_eq!(target(outside), None, "{outside}");
        }
    }

    #[test]
    fn a_name_that_begins_alike_is_another_folder() {
        assert_eq!(found(&["a/SKILL.md", "ab/x"]), ["a=SKILL.md", "ab/x"]);
    }

    #[test]
    fn the_exact_spelling_of_the_root_document_wins() {
        for order in [["skill.md", "SKILL.md"], ["SKILL.md", "Skill.md"]] {
            let entry = |path: &str| FileEntry { path: path.into(), source: Source::OnDisk };
            let (groups, _) = groups(order.map(entry).into());
            assert_eq!(groups[0].document, "SKILL.md", "{order:?}");
        }
    }
}
