//! `lock`: writes the skills in the folders of agents to the lockfile.

use std::{
    collections::{BTreeMap, BTreeSet},
    env,
    path::{Path, PathBuf},
};

use serde_json::json;
use skills_bundles::{
    is_archive_name,
    lock::{FolderHashes, LOCKFILE, LockEntry, LockSource, Lockfile},
};
use skills_core::{Provenance, SourceKind};
use skills_registry::Catalog;

use super::{DIR, note_unpinned, open_for_reading};
use crate::{
    Failure,
    cli::{LockArgs, Target},
    commands::sync::folders,
    config::Config,
    connect,
    fetch::SourceSpec,
    output::{self, counted, plain},
};

/// Start of the URLs of repositories that the format writes as `owner/repo`.
const GITHUB: &str = "https://github.com/";

/// An installed skill.
struct Installed {
    hashes: FolderHashes,
    /// Id in the registry, if a sync wrote it.
    id: Option<String>,
}

pub(in super::super) async fn write(
    args: LockArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let LockArgs { dirs, to, from, format } = args;
    if let Some(url) = &from {
        SourceSpec::parse_site(url, crate::fetch::SourceRules::default())?;
    }
    let mut lock = Lockfile::load(Path::new(DIR))?.unwrap_or_default();
    let installed = installed_skills(&folders::from_args(&dirs, &to, false)?)?;
    let is_new = |(name, it): &(&String, &Installed)| lock.get(name).is_none() && it.id.is_some();
    let catalog = if installed.iter().any(|it| is_new(&it)) {
        registry_catalog(target, config).await
    } else {
        None
    };
    let mut left_out = Vec::new();
    let mut locked = BTreeSet::new();
    for (name, Installed { hashes, id }) in installed {
        if let Some(entry) = lock.get_mut(&name) {
            if !entry.pins(&hashes) {
                entry.set_hashes(&hashes);
                entry.set_artifact_digest(None);
            }
        } else {
            let source = match id {
                Some(id) => registry_source(&id, catalog.as_deref(), from.as_deref()),
                None => Err("no command recorded where it came from".to_owned()),
            };
            match source {
                Ok(source) => lock.insert(&name, LockEntry::from_source(&source, &hashes)),
                Err(reason) => {
                    left_out.push((name, reason));
                    continue;
                }
            }
        }
        locked.insert(name);
    }
    let removed = lock.retain(|name| locked.contains(name));
    lock.save(Path::new(DIR))?;
    note_unpinned(&lock);
    if format.json {
        let left_out = left_out
            .iter()
            .map(|(name, reason)| json!({ "name": name, "status": "left_out", "reason": reason }));
        let answer = json!({
            "skills": locked,
            "removed": removed,
            "left_out": left_out.collect::<Vec<_>>(),
        });
        return Ok(output::json(&answer)?);
    }
    for (name, reason) in &left_out {
        output::notice("left out", &plain(&format!("{name}: {reason}")));
    }
    for name in &removed {
        output::notice("removed", &plain(&format!("{name} is not installed")));
    }
    Ok(output::line(&format!("{} in {LOCKFILE}", counted(locked.len(), "skill")))?)
}

/// Returns the skills of all folders; of two copies, the first.
fn installed_skills(
    locations: &[skills_bundles::sync::FolderLocation],
) -> Result<BTreeMap<String, Installed>, Failure> {
    let mut all: BTreeMap<String, Installed> = BTreeMap::new();
    for folder in open_for_reading(locations)? {
        for name in folder.installed_skills()? {
            let Some(installed) = folder.installed(&name)? else { continue };
            let hashes = installed.hashes();
            let id = folder.synced_id(&name).map(str::to_owned);
            match all.get(&name) {
                Some(first) if first.hashes != hashes => {
                    let place = output::path(&folder.path().join(&name));
                    output::notice("note", &format!("{place} differs from another copy"));
                }
                Some(_) => {}
                None => {
                    all.insert(name, Installed { hashes, id });
                }
            }
        }
    }
    Ok(all)
}

/// Returns the catalog of the registry; `None` if it cannot be opened.
async fn registry_catalog(target: &Target, config: &Config) -> Option<std::sync::Arc<Catalog>> {
    let opened =
        async { Ok::<_, Failure>(connect::open(target, config, false).await?.catalog().await?) };
    opened.await.inspect_err(|failure| output::notice("note", &failure.message)).ok()
}

/// Returns the source of a skill that a sync wrote: the server that others use, or the place where it came from.
fn registry_source(
    id: &str,
    catalog: Option<&Catalog>,
    from: Option<&str>,
) -> Result<LockSource, String> {
    if let Some(url) = from {
        return Ok(LockSource::WellKnown { url: url.to_owned() });
    }
    let catalog = catalog.ok_or("the registry that it came from cannot be read")?;
    let row = catalog.skill(id).ok_or("the registry no longer has it")?;
    let unknown = "its source is not one that others can use; name a server with --from";
    let source = row.meta.provenance.as_deref().ok_or(unknown)?;
    from_provenance(source).ok_or_else(|| unknown.to_owned())
}

fn from_provenance(source: &Provenance) -> Option<LockSource> {
    let Provenance { kind, location, path, reference, .. } = source;
    let (path, reference) = (path.clone(), reference.clone());
    match kind {
        SourceKind::Git => {
            let repository = location.strip_prefix(GITHUB).map(|it| it.trim_end_matches(".git"));
            Some(match repository {
                Some(repository) => {
                    let repository = repository.to_owned();
                    LockSource::GitHub { repository, reference, path }
                }
                None => LockSource::Git { url: location.clone(), reference, path },
            })
        }
        SourceKind::Url if is_archive_name(Path::new(location)) || reference.is_some() => None,
        SourceKind::Url => Some(LockSource::WellKnown { url: location.clone() }),
        SourceKind::Path => Some(LockSource::Local { path: portable(Path::new(location)) }),
        SourceKind::Command | SourceKind::Worker | SourceKind::Other => None,
    }
}

/// Returns a path relative to the current directory if it is below it.
fn portable(path: &Path) -> String {
    let base: PathBuf = env::current_dir().and_then(|dir| dir.canonicalize()).unwrap_or_default();
    match path.strip_prefix(&base) {
        Ok(inside) if inside.as_os_str().is_empty() => ".".to_owned(),
        Ok(inside) => format!("./{}", inside.display()),
        Err(_) => path.display().to_string(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_of_a_skill_is_written_as_other_programs_expect_it() {
        let git = |location: &str| Provenance {
            path: "skills/a".to_owned(),
            ..Provenance::new(SourceKind::Git, location)
        };
        let url = |location: &str| Provenance::new(SourceKind::Url, location);
        for (source, expected) in [
            (
                git("https://github.com/acme/skills.git"),
                Some(LockSource::GitHub {
                    repository: "acme/skills".to_owned(),
                    reference: None,
                    path: "skills/a".to_owned(),
                }),
            ),
            (
                git("https://example.com/x"),
                Some(LockSource::Git {
                    url: "https://example.com/x".to_owned(),
                    reference: None,
                    path: "skills/a".to_owned(),
                }),
            ),
            (
                url("https://example.com/"),
                Some(LockSource::WellKnown { url: "https://example.com/".to_owned() }),
            ),
            (url("https://example.com/a.zip"), None),
            (Provenance::new(SourceKind::Worker, "w"), None),
        ] {
            assert_eq!(from_provenance(&source), expected, "{source}");
        }
        let here = env::current_dir().unwrap().canonicalize().unwrap();
        assert_eq!(portable(&here.join("a/b")), "./a/b");
        assert_eq!(portable(&here), ".");
        assert_eq!(portable(Path::new("/elsewhere/x")), "/elsewhere/x");
    }
}
