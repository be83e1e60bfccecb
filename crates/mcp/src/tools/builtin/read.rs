//! `read_skill`.

use std::{collections::HashSet, fmt::Write as _};

use futures_util::{StreamExt as _, stream};
use rmcp::model::{CallToolResult, ContentBlock};
use serde::Deserialize;
use skills_core::{
    ResourceUri,
    skill::ROOT_PATH,
    uri::{SCHEME, SKILL_SCHEME, percent_encode_path},
    version::VERSION_SEPARATOR,
};
use skills_registry::{Catalog, ReadVersion, SkillRow};

use crate::{
    budget::{ResponseBudget, StoredSizes, encoded_size, weight},
    resources::full_uri,
    server::Shared,
    skills_extension,
};

pub(super) const MAX_URIS: usize = 50;
/// Most bytes of all documents of a response.
const MAX_READ_BYTES: usize = 4 << 20;
/// Most bytes of all documents as JSON, where a control character takes six.
const MAX_READ_JSON: usize = 2 * MAX_READ_BYTES;
/// Most files of a skill that are named after its root document.
const MAX_LISTED_FILES: usize = 100;
/// Documents that are read concurrently.
const READ_AHEAD: usize = 4;

#[derive(Deserialize)]
pub(super) struct ReadInput {
    uri: Option<String>,
    uris: Option<Vec<String>>,
}

pub(super) async fn read(
    shared: &Shared,
    budget: &ResponseBudget,
    input: ReadInput,
) -> Result<CallToolResult, String> {
    let mut uris = match (input.uri, input.uris) {
        (Some(uri), None) => vec![uri],
        (None, Some(uris)) if !uris.is_empty() && uris.len() <= MAX_URIS => uris,
        (None, Some(_)) => return Err(format!("uris takes 1 to {MAX_URIS} URIs")),
        (Some(_), Some(_)) => return Err("pass either uri or uris, not both".to_owned()),
        (None, None) => return Err("uri or uris is required".to_owned()),
    };
    let has_headings = uris.len() > 1;
    let mut seen = HashSet::new();
    uris.retain(|uri| seen.insert(uri.clone()));
    let mut text = String::new();
    let mut failures = 0;
    let mut remaining = (MAX_READ_BYTES, MAX_READ_JSON);
    let sizes = &budget.stored_sizes(&*shared.skills).await;
    let catalog = shared.skills.catalog().await.ok();
    let (planned, expected) = plan(sizes, &uris);
    let mut reservation = ReadReservation::new(budget, expected)?;
    let mut reading = stream::iter(uris[..planned].to_vec())
        .map(|uri| async move { document(shared, sizes, &uri).await })
        .buffered(READ_AHEAD);
    let mut is_full = false;
    for uri in &uris {
        let read = if is_full {
            // Documents after one that does not fit are not read at all.
            Err(too_large())
        } else if let Some(read) = reading.next().await {
            read
        } else if fits(sizes.get(uri), remaining.0) {
            // Uses the reservation of a planned document that could not be read.
            document(shared, sizes, uri).await
        } else {
            is_full = true;
            Err(too_large())
        };
        let read = read.and_then(|body| {
            let encoded = encoded_size(&body);
            let rest = remaining.0.checked_sub(body.len()).zip(remaining.1.checked_sub(encoded));
            let Some(rest) = rest else {
                is_full = true;
                return Err(too_large());
            };
            remaining = rest;
            reservation.add(body.len(), encoded)?;
            Ok(body)
        });
        if has_headings {
            let _ = writeln!(text, "# {uri}\n");
        }
        match read {
            Ok(body) => {
                text.push_str(&body);
                let mut files = catalog.as_deref().and_then(|all| other_files(all, uri));
                if files.is_none() {
                    files = other_files_of_version(shared, uri).await;
                }
                if let Some(files) = files {
                    reservation.add(files.len(), files.len())?;
                    text.push_str(&files);
                }
            }
            Err(reason) => {
                failures += 1;
                text.push_str(&reason);
            }
        }
        if has_headings {
            text.push_str("\n\n");
        }
    }
    // A partial result is a success.
    let is_error = failures == uris.len();
    Ok(result(text, is_error))
}

/// Builds the response with one document of at most [`MAX_READ_BYTES`], whose bytes are reserved already.
pub(crate) fn read_one(
    mut reservation: ReadReservation<'_>,
    catalog: &Catalog,
    uri: &str,
    mut body: String,
) -> Result<CallToolResult, String> {
    reservation.add(body.len(), encoded_size(&body))?;
    if let Some(files) = other_files(catalog, uri) {
        reservation.add(files.len(), files.len())?;
        body.push_str(&files);
    }
    Ok(result(body, false))
}

fn result(mut text: String, is_error: bool) -> CallToolResult {
    text.truncate(text.trim_end().len());
    let content = vec![ContentBlock::text(text)];
    if is_error { CallToolResult::error(content) } else { CallToolResult::success(content) }
}

/// Lists the other files of a skill whose root document a URI addresses.
fn other_files(catalog: &Catalog, uri: &str) -> Option<String> {
    let path = uri.split_once("://").map_or(uri, |(_, path)| path);
    let folder = path.strip_suffix(ROOT_PATH).and_then(|path| path.strip_suffix('/'));
    let row = catalog.skill(folder.unwrap_or(path))?;
    list_files(row, &row.id)
}

/// Lists the other files of a version whose root document a URI addresses.
async fn other_files_of_version(shared: &Shared, uri: &str) -> Option<String> {
    let ResourceUri::Version { tier, skill, version, path: None } = full_uri(uri).parse().ok()?
    else {
        return None;
    };
    let row = shared.skills.skill_version(tier, skill.as_str(), &version).await.ok()?;
    list_files(&row, &format!("{skill}{VERSION_SEPARATOR}{version}"))
}

/// Lists the files of a skill besides its root document, below an id that may have a version.
fn list_files(row: &SkillRow, id: &str) -> Option<String> {
    let others = row.meta.files.get(1..).filter(|others| !others.is_empty())?;
    let mut text = String::from("\n\nOther files of this skill, for read_skill:\n");
    for file in others.iter().take(MAX_LISTED_FILES) {
        let _ = writeln!(text, "- {SCHEME}{id}/{}", percent_encode_path(&file.path));
    }
    if let Some(more) = others.len().checked_sub(MAX_LISTED_FILES).filter(|more| *more > 0) {
        let _ = writeln!(text, "{more} more: resources/directory/read of skill://{id} lists them.");
    }
    Some(text)
}

/// Returns how many URIs are read before any other is considered, and the bytes of their stored files: the URIs before
/// the first one that does not fit into a response.
fn plan(sizes: &StoredSizes, uris: &[String]) -> (usize, usize) {
    let mut expected = 0;
    for (index, uri) in uris.iter().enumerate() {
        let size = sizes.get(uri);
        if !fits(size, MAX_READ_BYTES - expected) {
            return (index, expected);
        }
        // A file that no response can contain is refused unread.
        if size <= MAX_READ_BYTES {
            expected += size;
        }
    }
    (uris.len(), expected)
}

/// Returns whether a file that a response can contain fits into the bytes that are left of it.
const fn fits(size: usize, remaining: usize) -> bool {
    size <= remaining || size > MAX_READ_BYTES
}

/// Memory of one response: its documents as read, and in the response.
///
/// The memory of all stored documents is reserved before the first is read. If concurrent requests reserved it document
/// by document, each could hold a part and all be refused the rest.
pub(crate) struct ReadReservation<'a> {
    budget: &'a ResponseBudget,
    reserved: usize,
    used: usize,
}

impl<'a> ReadReservation<'a> {
    pub(crate) fn new(budget: &'a ResponseBudget, expected: usize) -> Result<Self, String> {
        let mut reservation = Self { budget, reserved: 0, used: 0 };
        reservation.grow_to(Self::weight(expected, expected))?;
        Ok(reservation)
    }

    const fn weight(content: usize, encoded: usize) -> usize {
        content.saturating_add(weight(content, encoded))
    }

    /// Adds a document; the reservation grows only by what exceeds the expected bytes.
    fn add(&mut self, content: usize, encoded: usize) -> Result<(), String> {
        let used = self.used.saturating_add(Self::weight(content, encoded));
        self.grow_to(used)?;
        self.used = used;
        Ok(())
    }

    fn grow_to(&mut self, bytes: usize) -> Result<(), String> {
        let more = bytes.saturating_sub(self.reserved);
        self.budget.reserve_read(more).map_err(|error| error.message.into_owned())?;
        self.reserved += more;
        Ok(())
    }
}

fn too_large() -> String {
    let mebibytes = MAX_READ_BYTES >> 20;
    format!(
        "omitted: a response has at most {mebibytes} MiB; read fewer at a time, or read a larger file as a resource"
    )
}

async fn document(shared: &Shared, sizes: &StoredSizes, uri: &str) -> Result<String, String> {
    if sizes.get(uri) > MAX_READ_BYTES {
        return Err(too_large());
    }
    let is_in_tier = matches!(uri.parse(), Ok(ResourceUri::Version { tier: Some(_), .. }));
    let resource = if uri.starts_with(SKILL_SCHEME) && !is_in_tier {
        skills_extension::read(shared, uri).await.map_err(|error| error.message.into_owned())?
    } else {
        shared.skills.read(&full_uri(uri)).await.map_err(|error| error.to_string())?
    };
    if resource.text().is_none() {
        return Err(format!("{uri} is not text but {}", resource.mime_type));
    }
    let warning = resource.version.as_ref().and_then(yank_warning).unwrap_or_default();
    let text = resource.into_text();
    Ok(if warning.is_empty() { text } else { warning + &text })
}

/// Returns the warning before the text of a yanked version.
fn yank_warning(ReadVersion { version, yanked, .. }: &ReadVersion) -> Option<String> {
    let reason = yanked.as_ref()?;
    Some(format!("> Warning: version {version} of this skill is yanked: {reason}\n\n"))
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use axum::http::Request;
    use bytes::Bytes;
    use rmcp::model::Extensions;
    use skills_agent_skills::Bundle;
    use skills_core::{Layer, MemoryBudget, RequestBudget};
    use skills_execution::NoExecutor;
    use skills_registry::{Registry, RegistryConfig};
    use skills_store::MemoryStore;

    use super::*;
    use crate::server::{Mcp, Settings};

    const FILE_BYTES: usize = 3 << 20;
    /// One file of [`FILE_BYTES`] as read, in the response, and three times as the response's JSON.
    const RESPONSE_BYTES: usize = 5 * FILE_BYTES;

    async fn server() -> Mcp {
        let store = Arc::new(MemoryStore::new());
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        let root = "---\nname: large\ndescription: Text.\n---\n# R\n".to_owned();
        let file = |path: &str, byte| (path.parse().unwrap(), Bytes::from(vec![byte; FILE_BYTES]));
        let files = vec![file("a.txt", b'a'), file("b.txt", b'b'), file("binary.txt", 0xff)];
        let bundle = Bundle::new(root, files).unwrap();
        registry.register_bundle("t", &Layer::Official, "large", bundle).await.unwrap();
        Mcp::new(registry, Arc::new(NoExecutor), Settings::default())
    }

    fn request(memory: &MemoryBudget) -> (RequestBudget, ResponseBudget) {
        let request = RequestBudget::with_memory(memory);
        let (mut parts, ()) = Request::new(()).into_parts();
        parts.extensions.insert(request.clone());
        let mut extensions = Extensions::new();
        extensions.insert(parts);
        (request, ResponseBudget::from_extensions(&extensions))
    }

    fn input(files: &[&str]) -> ReadInput {
        let uris = files.iter().map(|file| format!("iii://large/{file}")).collect();
        ReadInput { uri: None, uris: Some(uris) }
    }

    /// Returns the text under each heading, cut after 100 characters.
    fn parts(result: &CallToolResult) -> Vec<String> {
        let text = &result.content[0].as_text().unwrap().text;
        let part = |part: &str| part.split_once("\n\n").unwrap().1.chars().take(100).collect();
        text.split("# iii://").skip(1).map(part).collect()
    }

    fn is_omitted(part: &str) -> bool {
        part.starts_with("omitted: ")
    }

    #[tokio::test]
    async fn a_concurrent_read_that_got_its_reservation_completes() {
        let server = server().await;
        // Enough for one response, not for two; the last quarter is for small reservations.
        let memory = MemoryBudget::new(RESPONSE_BYTES / 3 * 4 + (1 << 20));
        let requests = [(); 8].map(|()| request(&memory));
        let reads = requests
            .iter()
            .map(|(_, budget)| read(&server.shared, budget, input(&["a.txt", "b.txt"])));
        let results = futures_util::future::join_all(reads).await;
        let served: Vec<_> = results.iter().flatten().collect();
        assert_eq!(served.len(), 1);
        let parts = parts(served[0]);
        assert!(parts[0].starts_with("aaaa") && is_omitted(&parts[1]), "{parts:?}");
        let refused = requests.iter().filter(|(request, _)| request.is_refused());
        assert_eq!(refused.count(), 7);
        assert_eq!(memory.reserved(), RESPONSE_BYTES);
    }

    #[tokio::test]
    async fn a_document_that_is_not_text_leaves_its_memory_to_the_next() {
        let server = server().await;
        let memory = MemoryBudget::default();
        let (_request, budget) = request(&memory);
        let files = input(&["binary.txt", "a.txt", "b.txt"]);
        let result = read(&server.shared, &budget, files).await.unwrap();
        let parts = parts(&result);
        assert!(parts[0].contains("is not text"), "{parts:?}");
        assert!(parts[1].starts_with("aaaa") && is_omitted(&parts[2]), "{parts:?}");
        assert_eq!(memory.reserved(), RESPONSE_BYTES);
    }
}
