//! Plugins of a Claude marketplace: the skills in the repositories and archives that it names.

use std::collections::BTreeMap;

use serde::Deserialize;
use serde_json::Value;
use skills_bundles::BundleCandidate;
use skills_core::{Code, git_location::is_reference};
use skills_upstream::UpstreamOrigin;
use url::Url;

use super::{
    Fetcher, Found,
    address::{is_local_repository, local_address},
    download::{self, MAX_JSON_BYTES, failed},
    public_url,
    spec::{ArchiveSource, DEFAULT_HOST, SourceSpec, WebSource},
};
use crate::Failure;

/// Most plugins of a marketplace.
const MAX_PLUGINS: usize = 2000;

#[derive(Debug, Deserialize)]
struct Marketplace {
    plugins: Vec<Plugin>,
}

#[derive(Debug, Deserialize)]
struct Plugin {
    name: String,
    source: Value,
}

/// Source of a plugin.
#[derive(Debug, PartialEq, Eq)]
enum PluginSource {
    /// Folder of a repository, which is fetched once for all plugins in it.
    Git {
        url: String,
        reference: Option<String>,
        path: String,
    },
    Archive {
        url: String,
        sha256: Option<String>,
    },
}

impl Fetcher {
    /// Fetches the plugins of a marketplace. Errors of one plugin do not affect the others.
    pub(super) async fn fetch_marketplace(&self, source: WebSource) -> Result<Found, Failure> {
        let shown = public_url(source.url.as_str());
        let text =
            download::download_bytes(source.url.clone(), source.may_be_local, MAX_JSON_BYTES);
        let text = text.await?.ok_or_else(|| failed(&shown, "not found"))?;
        let market: Marketplace = serde_json::from_slice(&text)
            .map_err(|error| failed(&shown, &format!("it is not a marketplace: {error}")))?;
        if market.plugins.len() > MAX_PLUGINS {
            return Err(failed(&shown, &format!("it has more than {MAX_PLUGINS} plugins")));
        }
        let mut found = Found::default();
        let mut repositories: BTreeMap<(String, Option<String>), Vec<String>> = BTreeMap::new();
        for Plugin { name, source: plugin } in market.plugins {
            match parse_source(&plugin) {
                Ok(PluginSource::Git { url, reference, path }) => {
                    repositories.entry((url, reference)).or_default().push(path);
                }
                Ok(PluginSource::Archive { url, sha256 }) => {
                    found.add(&name, self.fetch_archive(&source.url, &url, sha256).await);
                }
                Err(reason) => {
                    let message = format!("plugin {name:?} of {shown}: {reason}");
                    found.faults.push(Failure::new(Code::Unsupported, message));
                }
            }
        }
        for ((url, reference), paths) in repositories {
            let fetched = self.fetch_repository(&source.url, &url, reference).await;
            let fetched = fetched.map(|mut fetched| {
                fetched.candidates.retain(|candidate| is_in(candidate, &paths));
                fetched
            });
            found.add(&url, fetched);
        }
        if found.candidates.is_empty() && found.faults.is_empty() {
            return Err(Failure::new(Code::NoBundle, format!("{shown} has no skills")));
        }
        Ok(found)
    }

    async fn fetch_repository(
        &self,
        market: &Url,
        url: &str,
        reference: Option<String>,
    ) -> Result<Found, Failure> {
        let SourceSpec::Git(source) = SourceSpec::parse_url(url, self.rules())? else {
            return Err(failed(&public_url(url), "it is not a repository"));
        };
        let source = source.with_reference(reference);
        // Only the host that the user named may be in a local network, and it must not lead to another one there.
        if Url::parse(url).is_ok_and(|url| same_origin(market, &url)) {
            return Ok(self.find_in_git(source.without_redirects()).await?.into());
        }
        if is_local_repository(&source) {
            return Err(local_address(&public_url(url)));
        }
        Ok(self.find_in_public_git(source).await?.into())
    }

    async fn fetch_archive(
        &self,
        market: &Url,
        url: &str,
        sha256: Option<String>,
    ) -> Result<Found, Failure> {
        let url = market.join(url).map_err(|error| failed(url, &error.to_string()))?;
        let may_be_local = same_origin(market, &url);
        let source = ArchiveSource { url, may_be_local, sha256 };
        Ok(self.find_in_archive(source).await?.into())
    }
}

impl Found {
    fn add(&mut self, name: &str, fetched: Result<Self, Failure>) {
        match fetched {
            Ok(fetched) => {
                self.candidates.extend(fetched.candidates);
                self.faults.extend(fetched.faults);
            }
            Err(failure) => {
                let message = format!("{}: {}", public_url(name), failure.message);
                self.faults.push(Failure { message, ..failure });
            }
        }
    }
}

fn same_origin(one: &Url, other: &Url) -> bool {
    UpstreamOrigin::from_url(one) == UpstreamOrigin::from_url(other)
}

/// Returns whether a bundle is in one of some folders of its repository.
fn is_in(candidate: &BundleCandidate, folders: &[String]) -> bool {
    let path = candidate.provenance().map_or("", |provenance| provenance.path.as_str());
    folders.iter().any(|folder| {
        let rest = path.strip_prefix(folder.as_str());
        folder.is_empty() || rest.is_some_and(|rest| rest.is_empty() || rest.starts_with('/'))
    })
}

/// Parses the source of a plugin.
///
/// # Errors
/// The reason why it cannot be fetched.
fn parse_source(source: &Value) -> Result<PluginSource, String> {
    let Value::Object(fields) = source else {
        return Err(
            "its source is a path, which only the repository of the marketplace has: add that"
                .to_owned(),
        );
    };
    let text = |name: &str| fields.get(name).and_then(Value::as_str).map(str::to_owned);
    let required = |name: &str| text(name).ok_or_else(|| format!("its source has no {name}"));
    let kind = required("source")?;
    let git = |url: String, path: String| {
        let reference = text("sha").or_else(|| text("ref"));
        if reference.as_deref().is_some_and(|name| !is_reference(name)) {
            return Err("its ref is not the name of a branch, a tag or a commit".to_owned());
        }
        let path = path.trim_start_matches("./").trim_matches('/').to_owned();
        if path.split('/').any(|part| part == "..") {
            return Err("its path leads outside the repository".to_owned());
        }
        Ok(PluginSource::Git { url, reference, path })
    };
    match kind.as_str() {
        "github" => git(format!("https://{DEFAULT_HOST}/{}", required("repo")?), String::new()),
        "url" => git(required("url")?, String::new()),
        "git-subdir" => git(required("url")?, required("path")?),
        "archive" => Ok(PluginSource::Archive { url: required("url")?, sha256: text("sha256") }),
        kind => Err(format!("sources of the type {kind:?} are not supported")),
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    #[test]
    fn sources_of_plugins_are_repositories_or_archives() {
        let git = |url: &str, reference: Option<&str>, path: &str| PluginSource::Git {
            url: url.to_owned(),
            reference: reference.map(str::to_owned),
            path: path.to_owned(),
        };
        for (source, expected) in [
            (json!({"source": "github", "repo": "a/b"}), git("https://github.com/a/b", None, "")),
            (
                json!({"source": "url", "url": "https://h/x.git", "ref": "v1", "sha": "abc"}),
                git("https://h/x.git", Some("abc"), ""),
            ),
            (
                json!({"source": "git-subdir", "url": "https://h/x", "path": "./p/q/"}),
                git("https://h/x", None, "p/q"),
            ),
            (
                json!({"source": "archive", "url": "https://h/x.zip", "sha256": "00"}),
                PluginSource::Archive {
                    url: "https://h/x.zip".to_owned(),
                    sha256: Some("00".to_owned()),
                },
            ),
        ] {
            assert_eq!(parse_source(&source), Ok(expected), "{source}");
        }
        for (source, words) in [
            (json!("./skills/x"), "is a path"),
            (json!({"source": "npm", "package": "x"}), "not supported"),
            (json!({"source": "url"}), "no url"),
            (json!({"url": "https://h"}), "no source"),
            (json!({"source": "url", "url": "https://h", "ref": "--upload-pack=x"}), "ref"),
            (json!({"source": "git-subdir", "url": "https://h", "path": "a/../.."}), "outside"),
        ] {
            let reason = parse_source(&source).expect_err(words);
            assert!(reason.contains(words), "{source}: {reason}");
        }
    }
}
