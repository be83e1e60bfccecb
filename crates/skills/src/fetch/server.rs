//! One skill of another server of this kind, in any version.

use std::path::PathBuf;

use skills_bundles::{BundleCandidate, FoundBundles};
use skills_core::{
    Provenance, SourceKind, git_location::is_reference, limits::MAX_SKILL_BYTES, skill::ROOT_PATH,
};

use super::{
    Fetcher, bundles_of_archive,
    download::{self, failed},
    public_url,
    spec::ServerSource,
};
use crate::Failure;

/// Folder of the artifacts on a server.
const FOLDER: &str = ".well-known/agent-skills";

impl Fetcher {
    /// Fetches a skill: the archive of its version or, for a served skill of one document, that document.
    pub(super) async fn fetch_from_server(
        &self,
        source: ServerSource,
    ) -> Result<FoundBundles, Failure> {
        let ServerSource { site, id, version } = source;
        let shown = public_url(site.url.as_str());
        let address = version.as_ref().map_or_else(|| id.clone(), |it| format!("{id}@{it}"));
        let reference = version.clone().filter(|version| is_reference(version));
        let commit = version.filter(|version| !is_reference(version));
        let origin = Provenance {
            path: id.clone(),
            reference,
            commit,
            ..Provenance::new(SourceKind::Url, shown.as_str())
        };
        let url = |file: &str| {
            let url = site.url.join(&format!("{FOLDER}/{file}"));
            url.map_err(|error| failed(&shown, &error.to_string()))
        };
        let place = format!("{}/{address}", shown.trim_end_matches('/'));
        let archive = url(&format!("{address}.tar.gz"))?;
        let downloaded =
            download::download_if_found(archive, site.may_be_local, self.interactive).await?;
        let Some(downloaded) = downloaded else {
            // A served skill of one document has no archive.
            let document = url(&format!("{address}/{ROOT_PATH}"))?;
            let bytes = download::download_bytes(document, site.may_be_local, MAX_SKILL_BYTES);
            let bytes = bytes.await?.ok_or_else(|| {
                failed(&place, "the server has no such skill or version that everyone may read")
            })?;
            let files = vec![(PathBuf::from(ROOT_PATH), bytes)];
            let candidate = BundleCandidate::from_files(&PathBuf::from(place), &id, files, origin);
            return Ok(FoundBundles { candidates: vec![candidate], faults: vec![] });
        };
        // Without the version, which is no part of the skill's name.
        let place = format!("{}/{id}.tar.gz", shown.trim_end_matches('/'));
        let mut found = bundles_of_archive(downloaded, None, place, origin.clone()).await?;
        for candidate in &mut found.candidates {
            candidate.set_provenance(origin.clone());
        }
        Ok(found)
    }
}
