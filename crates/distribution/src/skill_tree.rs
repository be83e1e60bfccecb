//! Git objects of one skill: its files with their modes, and the trees of its folders.
//!
//! Files that git reads for itself are in no tree: their attributes would change the bytes of a checkout, and one that git
//! finds faulty would make every checked clone of the whole repository fail.

use std::{
    collections::{BTreeMap, HashMap},
    sync::Arc,
};

use bytes::Bytes;
use parking_lot::Mutex;
use skills_core::{Digest, bundle_path::is_read_by_git, skill::ROOT_PATH};
use skills_git::{EntryMode, ObjectId, ObjectKind, PackWriter, TreeEntry, object::tree};
use skills_registry::{
    RegistryError, SkillRegistry, SkillRow, available::agent_header, bundles::unwritable_files,
};

use crate::pack_entries::PackEntries;

/// Most bytes of a skill's files that are held together, and of one of them.
const MAX_HELD: usize = 1 << 20;
const MAX_HELD_FILE: usize = 64 << 10;

/// Most remembered ids of files; about 100 bytes each.
const MAX_IDS: usize = 1 << 17;

/// File of a skill as a git object.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct FileObject {
    pub(crate) path: String,
    pub(crate) mode: EntryMode,
    pub(crate) id: ObjectId,
    /// Bytes, if they had to be read for the id and are not too many to hold.
    pub(crate) bytes: Option<Bytes>,
}

/// Tree of a folder.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct TreeObject {
    pub(crate) id: ObjectId,
    pub(crate) bytes: Vec<u8>,
}

/// Objects of a skill.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct SkillObjects {
    pub(crate) files: Vec<FileObject>,
    /// Files that are in no tree.
    pub(crate) left_out: Vec<FileObject>,
    /// Trees, the one of the skill's own folder last.
    pub(crate) trees: Vec<TreeObject>,
}

impl SkillObjects {
    /// Returns the id of the skill's folder.
    pub(crate) fn id(&self) -> ObjectId {
        self.trees.last().map_or(ObjectId::ZERO, |tree| tree.id)
    }

    /// Returns the ids of all objects, each once.
    pub(crate) fn ids(&self) -> Box<[ObjectId]> {
        let files = self.files.iter().map(|file| file.id);
        let mut ids: Vec<ObjectId> = files.chain(self.trees.iter().map(|tree| tree.id)).collect();
        ids.sort_unstable();
        ids.dedup();
        ids.into()
    }
}

/// Cache of the ids of files by their digests: computing one needs the bytes.
#[derive(Debug)]
pub(crate) struct BlobIds {
    ids: Mutex<HashMap<Digest, (ObjectId, bool)>>,
    entries: Arc<PackEntries>,
}

impl BlobIds {
    pub(crate) fn new(entries: Arc<PackEntries>) -> Self {
        Self { ids: Mutex::default(), entries }
    }

    /// Compresses objects whose bytes are at hand, so that the first clone does not read them again.
    pub(crate) fn compress(&self, objects: &SkillObjects) {
        let mut pack = PackWriter::new(0);
        let mut add = |kind, id, bytes: &[u8]| {
            let before = pack.pending();
            if self.entries.wants(&id) && pack.object(kind, bytes).is_ok() {
                self.entries.insert(id, None, pack.written_since(before));
            }
        };
        for file in &objects.files {
            if let Some(bytes) = &file.bytes {
                add(ObjectKind::Blob, file.id, bytes);
            }
        }
        objects.trees.iter().for_each(|tree| add(ObjectKind::Tree, tree.id, &tree.bytes));
    }

    /// Returns the objects of a version of a skill. If `may_block`, the calling thread may wait for the disk.
    pub(crate) async fn scanned_objects(
        &self,
        skills: &dyn SkillRegistry,
        row: &SkillRow,
        may_block: bool,
    ) -> Result<SkillObjects, RegistryError> {
        let unwritable: Vec<&str> = unwritable_files(&row.meta).map(|(path, _)| path).collect();
        let (mut files, mut held) = (Vec::new(), 0);
        for file in &row.meta.files {
            if unwritable.contains(&file.path.as_str()) {
                continue;
            }
            let is_root = file.path == ROOT_PATH;
            let known = if is_root { None } else { self.ids.lock().get(&file.digest).copied() };
            let mut read = None;
            let (id, is_script) = match known {
                Some(known) => known,
                None => {
                    let bytes = read_scanned(skills, row, &file.path, may_block).await?;
                    let id = ObjectId::of(ObjectKind::Blob, &bytes);
                    let is_script = bytes.starts_with(b"#!");
                    if !is_root {
                        self.remember(file.digest, (id, is_script));
                    }
                    held += bytes.len();
                    read = Some(bytes)
                        .filter(|bytes| bytes.len() <= MAX_HELD_FILE && held <= MAX_HELD);
                    (id, is_script)
                }
            };
            let is_executable = file.executable.unwrap_or(!is_root && is_script);
            let mode = if is_executable { EntryMode::Executable } else { EntryMode::File };
            files.push(FileObject { path: file.path.clone(), mode, id, bytes: read });
        }
        let (left_out, files): (Vec<_>, Vec<_>) =
            files.into_iter().partition(|file: &FileObject| is_read_by_git(&file.path));
        let trees = trees(&files);
        Ok(SkillObjects { files, left_out, trees })
    }

    fn remember(&self, digest: Digest, known: (ObjectId, bool)) {
        let mut ids = self.ids.lock();
        if ids.len() >= MAX_IDS {
            ids.clear();
        }
        ids.insert(digest, known);
    }
}

/// Reads a file of a skill as clients get it: a root document has the frontmatter that Agent Skills require.
pub(crate) async fn read_file(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
    path: &str,
) -> Result<Bytes, RegistryError> {
    read_scanned(skills, row, path, false).await
}

/// Reads a file as [`read_file`] does. If `may_block`, the calling thread may wait for the disk.
async fn read_scanned(
    skills: &dyn SkillRegistry,
    row: &SkillRow,
    path: &str,
    may_block: bool,
) -> Result<Bytes, RegistryError> {
    let body = skills.scanned_document(row, path, may_block).await?;
    if path != ROOT_PATH {
        return Ok(body);
    }
    let header = agent_header(row, &String::from_utf8_lossy(&body));
    Ok(if header.is_empty() { body } else { [header.as_bytes(), &body].concat().into() })
}

/// Builds the trees of all folders, those below before those above.
pub(crate) fn trees(files: &[FileObject]) -> Vec<TreeObject> {
    let mut trees = Vec::new();
    let paths: Vec<(&str, &FileObject)> =
        files.iter().map(|file| (file.path.as_str(), file)).collect();
    folder(&paths, &mut trees);
    trees
}

fn folder(files: &[(&str, &FileObject)], trees: &mut Vec<TreeObject>) -> ObjectId {
    let mut below: BTreeMap<&str, Vec<(&str, &FileObject)>> = BTreeMap::new();
    let mut entries = Vec::new();
    for (path, file) in files {
        match path.split_once('/') {
            Some((name, rest)) => below.entry(name).or_default().push((rest, file)),
            None => entries.push(TreeEntry { mode: file.mode, name: path, id: file.id }),
        }
    }
    for (name, files) in &below {
        let id = folder(files, trees);
        entries.push(TreeEntry { mode: EntryMode::Tree, name, id });
    }
    let bytes = tree(entries);
    let id = ObjectId::of(ObjectKind::Tree, &bytes);
    trees.push(TreeObject { id, bytes });
    id
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn folders_become_trees_with_the_root_last() {
        let blob = ObjectId::of(ObjectKind::Blob, b"x");
        let file =
            |path: &str, mode| FileObject { path: path.to_owned(), mode, id: blob, bytes: None };
        let files = [
            file("SKILL.md", EntryMode::File),
            file("scripts/a/run.sh", EntryMode::Executable),
            file("scripts/b.py", EntryMode::File),
        ];
        let trees = trees(&files);
        assert_eq!(trees.len(), 3);
        let text = |index: usize| String::from_utf8_lossy(&trees[index].bytes).into_owned();
        assert!(text(0).starts_with("100755 run.sh\0"));
        assert!(text(1).starts_with("40000 a\0") && text(1).contains("100644 b.py\0"));
        assert!(text(2).starts_with("100644 SKILL.md\0") && text(2).contains("40000 scripts\0"));
    }
}
