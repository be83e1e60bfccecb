//! The bundle in a form: pasted text, the files of a folder, or an archive.

use std::{collections::HashMap, io::Cursor, path::Path};

use bytes::Bytes;
use skills_agent_skills::Bundle;
use skills_bundles::{
    BundleError, archive::MAX_BUNDLE_ARCHIVE_BYTES, find_in_archive, is_archive_name,
    is_ignored_path,
};
use skills_core::{
    BundlePath, RuleError, RunningWork, SkillId, WorkAccount, WorkKind, budget::Reservation,
    skill::ROOT_PATH,
};
use skills_registry::RegistryError;

use crate::{
    components::console_provenance,
    error::ConsoleError,
    form::{Form, UploadedFile},
};

/// Unpacking an uploaded archive. Its memory is reserved step by step.
const UNPACK: WorkKind = WorkKind::compute("unpacking an archive");

/// Files of a bundle, and the name of the folder or archive that they were in.
pub(super) struct Upload {
    root: String,
    files: Vec<(BundlePath, Bytes)>,
    /// Executable bits by path, where they are known.
    executable: HashMap<String, bool>,
    name: Option<String>,
    /// Memory of what was unpacked.
    memory: Option<Reservation>,
}

impl Upload {
    fn new(root: String, files: Vec<(BundlePath, Bytes)>, name: Option<String>) -> Self {
        Self { root, files, executable: HashMap::new(), name, memory: None }
    }

    /// Takes the reservation for what was unpacked, which is to be held as long as its bytes.
    pub(super) const fn take_memory(&mut self) -> Option<Reservation> {
        self.memory.take()
    }

    /// Returns the bundle with its provenance.
    pub(super) fn into_bundle(self) -> Result<Bundle<Bytes>, RuleError> {
        let bundle = Bundle::new(self.root, self.files)?;
        let bundle = bundle.with_executable(|path| self.executable.get(path).copied());
        Ok(bundle.with_provenance(Some(Box::new(console_provenance()))))
    }

    /// Adds the files of a bundle beside its root document.
    pub(super) fn keep_files_of(&mut self, bundle: &Bundle<Bytes>) {
        // Clones share the bytes of the files.
        let (meta, _, files) = bundle.clone().into_parts();
        let bits = meta.files.into_iter().filter_map(|file| Some((file.path, file.executable?)));
        self.executable.extend(bits);
        self.files.extend(files);
    }

    /// Returns the id that the form names, or else that of the document, or of the folder or archive.
    pub(super) fn id(&self, named: Option<&str>) -> Result<SkillId, ConsoleError> {
        if let Some(named) = named {
            return Ok(named.parse()?);
        }
        let fields = skills_agent_skills::frontmatter::fields(&self.root);
        let name = fields.as_ref().and_then(|fields| fields.get("name")?.as_str());
        let names = [name, self.name.as_deref()];
        let id = names.into_iter().flatten().find_map(|name| name.parse().ok());
        id.ok_or_else(|| ConsoleError::Form("fill in the id: the document has no name".to_owned()))
    }
}

/// Reads the bundle of a form: its files, or else its text.
///
/// # Errors
/// When there is none, or more than one.
pub(super) async fn read(form: Form) -> Result<Upload, ConsoleError> {
    let text = form.text("text").unwrap_or_default();
    let mut files = form.files;
    if files.is_empty() {
        if text.trim().is_empty() {
            let message = "paste a document, or choose a folder, files or an archive";
            return Err(ConsoleError::Form(message.to_owned()));
        }
        return Ok(Upload::new(text, vec![], None));
    }
    if let [archive] = &files[..]
        && is_archive_name(Path::new(&archive.name))
    {
        let archive = files.remove(0);
        let permit = WorkAccount::current().permit(UNPACK, 0).await;
        let unpacked = permit.map_err(RegistryError::from)?;
        let unpacked = unpacked.run_growing(move |work| unpack(archive, work)).await;
        return unpacked.map_err(RegistryError::from)?;
    }
    from_files(files)
}

/// Unpacks an archive with exactly one bundle.
fn unpack(archive: UploadedFile, work: &mut RunningWork) -> Result<Upload, ConsoleError> {
    let path = Path::new(base_name(&archive.name));
    let origin = console_provenance();
    let file = Cursor::new(&archive.bytes);
    let found = find_in_archive(path, file, &origin, MAX_BUNDLE_ARCHIVE_BYTES, work)?;
    let candidate = match &found.candidates[..] {
        [candidate] => candidate,
        candidates => {
            return Err(ConsoleError::Form(format!(
                "the archive holds {} skills; add them with `skills add {}`, or upload one of them",
                candidates.len(),
                path.display(),
            )));
        }
    };
    let name = candidate.id("").ok().map(|assigned| assigned.id.to_string());
    let bundle = candidate.read()?.into_bundle()?;
    let (meta, root, files) = bundle.into_parts();
    let executable = meta.files.into_iter().filter_map(|file| Some((file.path, file.executable?)));
    let memory = Some(work.keep(work.reserved()));
    Ok(Upload { executable: executable.collect(), memory, ..Upload::new(root, files, name) })
}

/// Groups the files of a folder around its root document.
fn from_files(files: Vec<UploadedFile>) -> Result<Upload, ConsoleError> {
    let mut files: Vec<UploadedFile> =
        files.into_iter().filter(|file| !is_ignored_path(&file.name)).collect();
    let depth = |name: &str| name.matches('/').count();
    let root = files.iter().filter(|file| base_name(&file.name) == ROOT_PATH);
    let root = root.min_by_key(|file| depth(&file.name)).map(|file| file.name.clone());
    let root = match (root, &files[..]) {
        (Some(root), _) => root,
        (None, [only]) => only.name.clone(),
        (None, _) => {
            return Err(ConsoleError::Form("no file has the name SKILL.md".to_owned()));
        }
    };
    let folder = root.rsplit_once('/').map_or("", |(folder, _)| folder).to_owned();
    let at = files.iter().position(|file| file.name == root).ok_or(ConsoleError::Internal)?;
    let document = files.swap_remove(at);
    let path = Path::new(&root).to_owned();
    let text = String::from_utf8(document.bytes.into()).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        BundleError::NotText { path, at }
    })?;
    let inside = |name: &str| match folder.as_str() {
        "" => Some(name.to_owned()),
        folder => name.strip_prefix(folder)?.strip_prefix('/').map(str::to_owned),
    };
    let others = files.into_iter().filter_map(|file| Some((inside(&file.name)?, file.bytes)));
    let others: Result<_, RuleError> =
        others.map(|(path, bytes)| Ok((path.parse::<BundlePath>()?, bytes))).collect();
    let stem = base_name(&root).rsplit_once('.').map_or(root.as_str(), |(stem, _)| stem);
    let name = if folder.is_empty() { stem } else { base_name(&folder) };
    Ok(Upload::new(text, others?, Some(name.to_lowercase())))
}

fn base_name(path: &str) -> &str {
    path.rsplit('/').next().unwrap_or(path)
}

#[cfg(test)]
mod tests {
    use super::*;

    fn file(name: &str, text: &str) -> UploadedFile {
        UploadedFile { name: name.to_owned(), bytes: Bytes::copy_from_slice(text.as_bytes()) }
    }

    #[test]
    fn a_folder_is_grouped_around_its_document() {
        let upload = from_files(vec![
            file("pdf/scripts/run.sh", "#!/bin/sh"),
            file("pdf/SKILL.md", "# PDF"),
            file("pdf/.git/config", "x"),
            file("pdf/sub/SKILL.md", "# Other"),
        ]);
        let upload = upload.unwrap();
        let paths: Vec<&str> = upload.files.iter().map(|(path, _)| path.as_str()).collect();
        assert_eq!((upload.root.as_str(), upload.id(None).unwrap().as_str()), ("# PDF", "pdf"));
        assert_eq!(paths, ["scripts/run.sh", "sub/SKILL.md"]);
    }

    #[test]
    fn the_id_comes_from_the_form_the_document_or_the_name() {
        let upload = from_files(vec![file("Weather.md", "---\nname: rain\ndescription: d\n---\n")]);
        let upload = upload.unwrap();
        assert_eq!(upload.id(Some("snow")).unwrap().as_str(), "snow");
        assert_eq!(upload.id(None).unwrap().as_str(), "rain");
        let plain = from_files(vec![file("Weather.md", "# W")]).unwrap();
        assert_eq!(plain.id(None).unwrap().as_str(), "weather");
        assert!(upload.id(Some("No Id")).is_err());
    }

    #[test]
    fn hostile_paths_are_refused() {
        for path in ["a/../../x", "a/C:\\x", "a/\u{202e}x", "a/x\0"] {
            let files = vec![file("a/SKILL.md", "# A"), file(path, "x")];
            let refused = from_files(files).and_then(|it| Ok(it.into_bundle()?));
            assert!(refused.is_err(), "{path:?}");
        }
        assert!(from_files(vec![file("a.txt", "x"), file("b.txt", "x")]).is_err());
    }
}
