//! Sites that publish Agent Skills at well-known addresses, in the current format and the earlier one.

use std::{
    path::{Path, PathBuf},
    time::Instant,
};

use bytes::Bytes;
use futures_util::{StreamExt as _, stream};
use serde::Deserialize;
use skills_agent_skills::frontmatter::is_skill_name;
use skills_bundles::{BundleCandidate, is_ignored_path};
use skills_core::{
    BundlePath, Provenance, SourceKind,
    limits::{MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES, MAX_SKILL_BYTES},
    skill::ROOT_PATH,
};
use skills_upstream::UpstreamOrigin;
use url::Url;

use super::{
    Fetcher, bundles_of_archive,
    download::{self, MAX_JSON_BYTES, check_digest, failed},
    public_url,
    spec::{INDEX_PATHS, WebSource},
};
use crate::{Failure, progress::Progress};

/// Downloads at a time.
const CONCURRENCY: usize = 4;
/// Most skills of a site.
const MAX_SKILLS: usize = 10_000;

/// Index of a site, in both formats.
#[derive(Debug, Deserialize)]
struct Index {
    skills: Vec<IndexEntry>,
}

/// Skill of an index. The current format has the address of one artifact, the earlier one lists files.
#[derive(Debug, Deserialize)]
struct IndexEntry {
    name: String,
    #[serde(rename = "type")]
    kind: Option<String>,
    url: Option<String>,
    digest: Option<String>,
    #[serde(default)]
    files: Vec<String>,
}

/// Skill of a site.
pub(crate) struct SiteSkill {
    pub(crate) name: String,
    /// Digest of the artifact, as the index says.
    pub(crate) digest: Option<String>,
    pub(crate) candidates: Result<Vec<BundleCandidate>, Failure>,
}

impl Fetcher {
    /// Fetches the skills of a site, or those of some names. Errors of one skill are in the list.
    pub(crate) async fn fetch_site(
        &self,
        site: &WebSource,
        names: Option<&[String]>,
    ) -> Result<Vec<SiteSkill>, Failure> {
        let shown = public_url(site.url.as_str());
        let (index_url, index) = fetch_index(site).await?;
        let index: Index = serde_json::from_slice(&index)
            .map_err(|error| failed(&shown, &format!("its index cannot be read: {error}")))?;
        if index.skills.len() > MAX_SKILLS {
            return Err(failed(&shown, &format!("it has more than {MAX_SKILLS} skills")));
        }
        let is_wanted = |entry: &IndexEntry| names.is_none_or(|names| names.contains(&entry.name));
        let wanted: Vec<IndexEntry> = index.skills.into_iter().filter(is_wanted).collect();
        let fetch = async |entry: IndexEntry| {
            let candidates = fetch_skill(site, &index_url, &entry).await;
            let IndexEntry { name, digest, .. } = entry;
            let candidates = candidates.map_err(|failure| {
                let message = format!("{name:?} of {shown}: {}", failure.message);
                Failure { message, ..failure }
            });
            SiteSkill { name, digest, candidates }
        };
        let mut progress = Progress::new(wanted.len(), !self.interactive);
        let mut skills = Vec::with_capacity(wanted.len());
        let mut fetched = std::pin::pin!(stream::iter(wanted).map(fetch).buffered(CONCURRENCY));
        while let Some(skill) = fetched.next().await {
            skills.push(skill);
            progress.show(skills.len(), Instant::now());
        }
        progress.clear();
        Ok(skills)
    }
}

/// Returns whether a site has an index.
pub(super) async fn has_index(site: &WebSource) -> bool {
    fetch_index(site).await.is_ok()
}

/// Downloads the index of a site, in the newest format that it has.
async fn fetch_index(site: &WebSource) -> Result<(Url, Bytes), Failure> {
    let shown = public_url(site.url.as_str());
    for path in INDEX_PATHS {
        let url = site.url.join(path.trim_start_matches('/'));
        let url = url.map_err(|error| failed(&shown, &error.to_string()))?;
        let index = download::download_bytes(url.clone(), site.may_be_local, MAX_JSON_BYTES);
        if let Some(index) = index.await? {
            return Ok((url, index));
        }
    }
    let reason = format!("it has no {}", INDEX_PATHS[0]);
    Err(failed(&shown, &reason).hint("for a repository, give its URL with .git, or owner/repo"))
}

async fn fetch_skill(
    site: &WebSource,
    index: &Url,
    entry: &IndexEntry,
) -> Result<Vec<BundleCandidate>, Failure> {
    let IndexEntry { name, kind, url, digest, files } = entry;
    if !is_skill_name(name) {
        return Err(failed(name, "it is not the name of an Agent Skill"));
    }
    let provenance = Provenance {
        path: name.clone(),
        ..Provenance::new(SourceKind::Url, public_url(site.url.as_str()))
    };
    let place = site
        .url
        .join(name)
        .map_or_else(|_| PathBuf::from(name), |url| PathBuf::from(public_url(url.as_str())));
    let Some(artifact) = url else {
        let files = fetch_files(site, index, name, files).await?;
        return Ok(vec![BundleCandidate::from_files(&place, name, files, provenance)]);
    };
    let artifact = index.join(artifact).map_err(|error| failed(artifact, &error.to_string()))?;
    // Only the site that the user named may be in a local network.
    let is_same = UpstreamOrigin::from_url(&artifact) == UpstreamOrigin::from_url(&site.url);
    let may_be_local = site.may_be_local && is_same;
    let shown = public_url(artifact.as_str());
    match kind.as_deref() {
        Some("skill-md") => {
            let bytes = download::download_bytes(artifact, may_be_local, MAX_SKILL_BYTES).await?;
            let bytes = bytes.ok_or_else(|| failed(&shown, "not found"))?;
            if let Some(digest) = digest {
                check_digest(&bytes, digest, &shown)?;
            }
            let files = vec![(PathBuf::from(ROOT_PATH), bytes)];
            Ok(vec![BundleCandidate::from_files(&place, name, files, provenance)])
        }
        Some("archive") => {
            let downloaded = download::download(artifact, may_be_local, false).await?;
            let origin = provenance.clone();
            let found = bundles_of_archive(downloaded, digest.clone(), shown, origin).await?;
            let mut candidates = found.candidates;
            for candidate in &mut candidates {
                candidate.set_provenance(provenance.clone());
            }
            Ok(candidates)
        }
        kind => {
            let kind = kind.unwrap_or("none");
            Err(failed(&shown, &format!("artifacts of the type {kind:?} are not supported")))
        }
    }
}

/// Downloads the files of a skill one by one, as the earlier format lists them. Folders that no bundle has are left out.
async fn fetch_files(
    site: &WebSource,
    index: &Url,
    name: &str,
    files: &[String],
) -> Result<Vec<(PathBuf, Bytes)>, Failure> {
    if files.len() > MAX_BUNDLE_FILES {
        return Err(failed(name, &format!("it has more than {MAX_BUNDLE_FILES} files")));
    }
    let mut all = Vec::with_capacity(files.len());
    let mut left = MAX_BUNDLE_BYTES;
    for path in files.iter().filter(|path| !is_ignored_path(path)) {
        if path != ROOT_PATH {
            let checked = path.parse::<BundlePath>();
            checked.map_err(|error| failed(name, &error.to_string()))?;
        }
        let mut url = index.clone();
        if let Ok(mut segments) = url.path_segments_mut() {
            // `index.json` is replaced.
            segments.pop().push(name).extend(path.split('/'));
        }
        let shown = public_url(url.as_str());
        let bytes = download::download_bytes(url, site.may_be_local, left).await?;
        let bytes = bytes.ok_or_else(|| failed(&shown, "not found"))?;
        left = left.saturating_sub(bytes.len());
        all.push((Path::new(path).to_owned(), bytes));
    }
    Ok(all)
}
