//! Files of a bundle: the list, the text of one, and raw bytes.

use axum::{
    body::{Body, Bytes},
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use skills_core::{
    FileMeta, WorkKind,
    content::{content_type, media_type},
    skill::ROOT_PATH,
    work::StopFlag,
};

use super::{ShownSkill, document::Article};
use crate::{
    components::{raw_path, size, user_text, with_query},
    error::ConsoleError,
    highlight::{highlight, language_of},
    markdown::{self, first_part, is_image},
    rendering::Rendering,
    visit::Visit,
};

const FILE: WorkKind = WorkKind::compute("rendering of a file in the console");

/// Largest text that is shown; the rest is for the download.
const MAX_SHOWN_BYTES: usize = 256 << 10;
/// Bytes of a file that are read for a page: enough to know that more follow.
const MAX_READ_BYTES: usize = MAX_SHOWN_BYTES + 4;
/// Most lines that are shown: each has a number that can be linked to.
const MAX_SHOWN_LINES: usize = 5000;
/// Most words of a file that are highlighted.
const MAX_SPANS: usize = 20_000;
/// Memory of the lines and the highlighted words of a file.
const SOURCE_MEMORY: usize = 4 << 20;
/// Memory of the shown text for each of its bytes: hidden characters and escaped ones become six bytes or more.
const TEXT_FACTOR: usize = 40;

/// Renders the list of files and the one that the address names.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let path = skill.query.path.as_deref().unwrap_or(ROOT_PATH);
    let file = file(skill, path)?;
    skill.visit.reserve(skill.table_memory())?;
    let content = content(skill, file).await?;
    Ok(html! {
        div.files {
            nav.tree aria-label="Files" {
                ul { @for file in &skill.row.meta.files { (tree_row(skill, file, path)) } }
                p { a.button href=(with_query(&format!("/ui/zip/{}.zip", skill.row.id), &[("tier", skill.tier_name()), ("version", &skill.version_name())])) { "Download zip" } }
            }
            section.file aria-label=(path) { (content) }
        }
    })
}

fn file<'a>(skill: &'a ShownSkill, path: &str) -> Result<&'a FileMeta, ConsoleError> {
    let mut files = skill.row.meta.files.iter();
    let missing = || ConsoleError::NoFile(skill.row.id.to_string());
    files.find(|file| file.path == path).ok_or_else(missing)
}

/// Returns the address of the bytes of a file.
pub(super) fn raw_address(skill: &ShownSkill, path: &str) -> String {
    let query = [("tier", skill.tier_name()), ("version", &skill.version_name())];
    raw_path(&skill.row.id, path, &query)
}

fn tree_row(skill: &ShownSkill, file: &FileMeta, current: &str) -> Markup {
    let (folder, name) = file.path.rsplit_once('/').map_or(("", file.path.as_str()), |it| it);
    html! {
        li {
            a href=(skill.address(&[("tab", "files"), ("path", &file.path)])) aria-current=[(file.path == current).then_some("true")] {
                @if !folder.is_empty() { span.folder { (user_text(folder)) "/" } }
                (user_text(name))
            }
            (size(file.size))
        }
    }
}

async fn content(skill: &ShownSkill, file: &FileMeta) -> Result<Markup, ConsoleError> {
    let part = FilePart::read(skill, file).await?;
    let is_markdown = media_type(&file.path) == "text/markdown" && file.path != ROOT_PATH;
    let article = is_markdown.then(|| Article::of(skill, &file.path));
    // Source and document are rendered one after the other.
    let shown = SOURCE_MEMORY + part.bytes.len() * TEXT_FACTOR;
    let document = article.as_ref().map_or(0, |_| markdown::memory(part.bytes.len()));
    let rendering = Rendering::start(&skill.visit, FILE, shown.max(document)).await?;
    let (file, raw) = (file.clone(), raw_address(skill, &file.path));
    let render = move |stop: &StopFlag| {
        let text = part.text();
        let document = match text.zip(article) {
            Some((text, article)) => Some(article.render(text, part.is_whole, stop)?),
            None => None,
        };
        stop.check()?;
        Ok(html! {
            div.bar {
                h2 { (user_text(&file.path)) }
                span { (size(file.size)) @if file.executable == Some(true) { " executable" } }
                a.button href=(raw) { "Raw" }
            }
            @if let Some(document) = document { (document) }
            @else if is_image(&file.path) {
                p { img src=(raw) alt=(format!("Image {}", file.path)); }
            }
            @match text {
                Some(text) => (source(text, part.is_whole, &file.path, &raw)),
                None if is_image(&file.path) => {}
                None => p { "This file is not text. Download it to look at it." },
            }
        })
    };
    rendering.run(render).await
}

/// First part of a file, which is all that a page shows.
struct FilePart {
    bytes: Bytes,
    is_whole: bool,
}

impl FilePart {
    /// Reads a file. The request holds the memory of its first part, and that of all of it only meanwhile.
    async fn read(skill: &ShownSkill, file: &FileMeta) -> Result<Self, ConsoleError> {
        let size = usize::try_from(file.size).unwrap_or(usize::MAX);
        skill.visit.reserve(size)?;
        let bytes = skill.skills.document(&skill.row, &file.path).await?.body;
        if bytes.len() <= MAX_READ_BYTES {
            return Ok(Self { bytes, is_whole: true });
        }
        let bytes = Bytes::copy_from_slice(&bytes[..MAX_READ_BYTES]);
        skill.visit.give_back(size.saturating_sub(MAX_READ_BYTES));
        Ok(Self { bytes, is_whole: false })
    }

    /// Returns the text; `None` if the file is not text.
    fn text(&self) -> Option<&str> {
        let text = match std::str::from_utf8(&self.bytes) {
            Ok(text) => text,
            // The last character may be cut.
            Err(error) if !self.is_whole && error.error_len().is_none() => {
                std::str::from_utf8(&self.bytes[..error.valid_up_to()]).unwrap_or_default()
            }
            Err(_) => return None,
        };
        Some(text).filter(|text| !text.contains('\0'))
    }
}

/// Returns the part of a text that is shown: a bounded number of bytes and lines.
fn shown_part(text: &str) -> &str {
    let shown = first_part(text, MAX_SHOWN_BYTES);
    let mut ends = shown.match_indices('\n').skip(MAX_SHOWN_LINES - 1);
    ends.next().map_or(shown, |(end, _)| &shown[..=end])
}

/// Renders text with line numbers, which links of findings lead to.
fn source(text: &str, is_whole: bool, path: &str, raw: &str) -> Markup {
    let shown = shown_part(text);
    let revealed = skills_agent_skills::validate::reveal_hidden(shown);
    let lines = revealed.lines().count();
    html! {
        div.source-code tabindex="0" role="region" aria-label="Source" {
            pre.lines aria-hidden="true" { @for line in 1..=lines { a id=(format!("L{line}")) href=(format!("#L{line}")) tabindex="-1" { (line) } "\n" } }
            pre.text { code { (highlight(&revealed, language_of(path), MAX_SPANS)) } }
        }
        @if shown.len() < text.len() || !is_whole { p { "The rest of this file is not shown. " a href=(raw) { "Raw" } " has all of it." } }
    }
}

/// Answers the bytes of a file. Text is plain text and images are images; all else may only be saved.
pub(crate) async fn raw(
    visit: Visit,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, ConsoleError> {
    let skill = ShownSkill::load(visit, &id).await?;
    let file = file(&skill, &path)?;
    skill.visit.reserve(usize::try_from(file.size).unwrap_or(usize::MAX))?;
    let body = skill.skills.document(&skill.row, &file.path).await?.body;
    let is_text = || std::str::from_utf8(&body).is_ok_and(|text| !text.contains('\0'));
    let declared = match media_type(&path) {
        // Programs that save a page under this name open it in a browser.
        "image/svg+xml" | "text/html" | "application/xml" => "application/octet-stream",
        image if is_image(&path) => image,
        _ if is_text() => "text/plain",
        _ => "application/octet-stream",
    };
    let content_type = HeaderValue::try_from(&*content_type(declared));
    let content_type = content_type.unwrap_or(HeaderValue::from_static("application/octet-stream"));
    Ok(([(header::CONTENT_TYPE, content_type)], Body::from(body)).into_response())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn source(text: &str, raw: &str) -> String {
        super::source(text, true, "a.json", raw).into_string()
    }

    #[test]
    fn the_source_is_bounded_in_lines_bytes_and_words() {
        let page = source(&"\n".repeat(MAX_SHOWN_BYTES), "/ui/raw/a/a.txt");
        assert_eq!(page.matches("<a id=\"L").count(), MAX_SHOWN_LINES);
        assert!(page.contains("<a href=\"/ui/raw/a/a.txt\">Raw</a> has all of it."), "{page}");
        let cut = FilePart { bytes: Bytes::from_static(b"a\xc3"), is_whole: false };
        assert_eq!(cut.text(), Some("a"));
        assert_eq!(FilePart { is_whole: true, ..cut }.text(), None);
        let long = source(&"x".repeat(MAX_SHOWN_BYTES + 1), "/raw");
        assert!(long.contains("has all of it"));
        let whole = source(&"x\n".repeat(MAX_SHOWN_LINES), "/raw");
        assert!(whole.contains(&format!(">{MAX_SHOWN_LINES}</a>")) && !whole.contains("not shown"));
        let words = source(&"1 ".repeat(100_000), "/raw");
        assert_eq!(words.matches("<span").count(), MAX_SPANS);
    }
}
