//! Files of a bundle: the list, the text of one, raw bytes, and all of them as a zip archive.

use std::io::{Cursor, Write as _};

use axum::{
    Extension,
    body::{Body, Bytes},
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use maud::{Markup, html};
use skills_core::{
    FileMeta, RequestBudget,
    content::{content_type, media_type},
    skill::ROOT_PATH,
};
use skills_registry::RegistryError;

use super::{ShownSkill, document};
use crate::{
    components::{raw_path, size, user_text, with_query},
    error::ConsoleError,
    highlight::{highlight, language_of},
    markdown::is_image,
    visit::Visit,
};

/// Largest text that is shown; the rest is for the download.
const MAX_SHOWN_BYTES: usize = 512 << 10;
/// Most lines that are shown: each has a number that can be linked to.
const MAX_SHOWN_LINES: usize = 5000;

/// Renders the list of files and the one that the address names.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let path = skill.query.path.as_deref().unwrap_or(ROOT_PATH);
    let file = file(skill, path)?;
    Ok(html! {
        div.files {
            nav.tree aria-label="Files" {
                ul { @for file in &skill.row.meta.files { (tree_row(skill, file, path)) } }
                p { a.button href=(with_query(&format!("/ui/zip/{}.zip", skill.row.id), &[("tier", skill.tier_name()), ("version", &skill.version_name())])) { "Download zip" } }
            }
            section.file aria-label=(path) { (content(skill, file).await?) }
        }
    })
}

fn file<'a>(skill: &'a ShownSkill, path: &str) -> Result<&'a FileMeta, ConsoleError> {
    let mut files = skill.row.meta.files.iter();
    let missing = || ConsoleError::NoFile(skill.row.id.to_string());
    files.find(|file| file.path == path).ok_or_else(missing)
}

fn raw_address(skill: &ShownSkill, path: &str) -> String {
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
    let body = skill.skills.document(&skill.row, &file.path).await?.body;
    let text = std::str::from_utf8(&body).ok().filter(|text| !text.contains('\0'));
    let source = match text {
        Some(_) => Some(render_source(skill, &file.path, body.clone()).await?),
        None => None,
    };
    let is_markdown = media_type(&file.path) == "text/markdown" && file.path != ROOT_PATH;
    let rendered = match text.filter(|_| is_markdown) {
        Some(text) => Some(document::render_file(skill, &file.path, text.to_owned()).await?),
        None => None,
    };
    Ok(html! {
        div.bar {
            h2 { (user_text(&file.path)) }
            span { (size(file.size)) @if file.executable == Some(true) { " executable" } }
            a.button href=(raw_address(skill, &file.path)) { "Raw" }
        }
        @if let Some(rendered) = rendered { (document::article(skill, &file.path, rendered)) }
        @else if is_image(&file.path) {
            p { img src=(raw_address(skill, &file.path)) alt=(format!("Image {}", file.path)); }
        }
        @match source {
            Some(source) => (source),
            None if is_image(&file.path) => {}
            None => p { "This file is not text. Download it to look at it." },
        }
    })
}

/// Renders the text of a file on a blocking thread: highlighting takes a while.
async fn render_source(
    skill: &ShownSkill,
    path: &str,
    body: Bytes,
) -> Result<Markup, ConsoleError> {
    let (path, raw) = (path.to_owned(), raw_address(skill, path));
    let render = move || source(&String::from_utf8_lossy(&body), &path, &raw);
    tokio::task::spawn_blocking(render).await.map_err(|_| ConsoleError::Internal)
}

/// Returns the part of a text that is shown: a bounded number of bytes and lines.
fn shown_part(text: &str) -> &str {
    let shown = &text[..text.floor_char_boundary(MAX_SHOWN_BYTES)];
    let mut ends = shown.match_indices('\n').skip(MAX_SHOWN_LINES - 1);
    ends.next().map_or(shown, |(end, _)| &shown[..=end])
}

/// Renders text with line numbers, which links of findings lead to.
fn source(text: &str, path: &str, raw: &str) -> Markup {
    let shown = shown_part(text);
    let revealed = skills_agent_skills::validate::reveal_hidden(shown);
    let lines = revealed.lines().count();
    html! {
        div.source-code tabindex="0" role="region" aria-label="Source" {
            pre.lines aria-hidden="true" { @for line in 1..=lines { a id=(format!("L{line}")) href=(format!("#L{line}")) tabindex="-1" { (line) } "\n" } }
            pre.text { code { (highlight(&revealed, language_of(path))) } }
        }
        @if shown.len() < text.len() { p { "The rest of this file is not shown. " a href=(raw) { "Raw" } " has all of it." } }
    }
}

/// Answers the bytes of a file. Text is plain text and images are images; all else may only be saved.
pub(crate) async fn raw(
    visit: Visit,
    Path((id, path)): Path<(String, String)>,
) -> Result<Response, ConsoleError> {
    let skill = ShownSkill::load(visit, &id).await?;
    let file = file(&skill, &path)?;
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

/// Answers all files of a bundle as a zip archive.
pub(crate) async fn zip(
    visit: Visit,
    Path(name): Path<String>,
    budget: Option<Extension<RequestBudget>>,
) -> Result<Response, ConsoleError> {
    let id = name.strip_suffix(".zip").ok_or(ConsoleError::NoPage)?;
    let skill = ShownSkill::load(visit, id).await?;
    skill.row.readable()?;
    let bytes: u64 = skill.row.meta.files.iter().map(|file| file.size).sum();
    // The files and the archive are in memory at once.
    if let Some(Extension(budget)) = budget {
        let needed = usize::try_from(bytes * 2).unwrap_or(usize::MAX);
        budget.try_grow(needed).map_err(|_| RegistryError::Overloaded)?;
    }
    let mut files = Vec::with_capacity(skill.row.meta.files.len());
    for file in &skill.row.meta.files {
        let body = skill.skills.document(&skill.row, &file.path).await?.body;
        files.push((file.path.clone(), file.is_executable(&body), body));
    }
    let folder = skill.row.id.to_string();
    let archive = tokio::task::spawn_blocking(move || archive(&folder, &files)).await;
    let archive = archive.ok().and_then(Result::ok).ok_or(ConsoleError::Internal)?;
    let content_type = HeaderValue::from_static("application/zip");
    Ok(([(header::CONTENT_TYPE, content_type)], Body::from(archive)).into_response())
}

/// Packs files below a folder of the skill's name.
fn archive(
    folder: &str,
    files: &[(String, bool, bytes::Bytes)],
) -> zip::result::ZipResult<Vec<u8>> {
    let mut writer = zip::ZipWriter::new(Cursor::new(Vec::new()));
    for (path, is_executable, body) in files {
        let mode = if *is_executable { 0o755 } else { 0o644 };
        let options = zip::write::SimpleFileOptions::default().unix_permissions(mode);
        writer.start_file(format!("{folder}/{path}"), options)?;
        writer.write_all(body)?;
    }
    Ok(writer.finish()?.into_inner())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_source_is_bounded_in_lines_and_bytes() {
        let page = source(&"\n".repeat(MAX_SHOWN_BYTES), "a.txt", "/ui/raw/a/a.txt").into_string();
        assert_eq!(page.matches("<a id=\"L").count(), MAX_SHOWN_LINES);
        assert!(page.contains("<a href=\"/ui/raw/a/a.txt\">Raw</a> has all of it."), "{page}");
        let long = source(&"x".repeat(MAX_SHOWN_BYTES + 1), "a.txt", "/raw").into_string();
        assert!(long.contains("has all of it"));
        let whole = source(&"x\n".repeat(MAX_SHOWN_LINES), "a.txt", "/raw").into_string();
        assert!(whole.contains(&format!(">{MAX_SHOWN_LINES}</a>")) && !whole.contains("not shown"));
    }
}
