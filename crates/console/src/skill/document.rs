//! The rendered document.

use std::sync::Arc;

use maud::{Markup, html};
use skills_agent_skills::{frontmatter, markdown::split_frontmatter};
use skills_core::{
    WorkKind,
    skill::ROOT_PATH,
    text::truncate,
    work::{StopFlag, Stopped},
};

use super::{ShownSkill, files::raw_address};
use crate::{
    components::user_text,
    error::ConsoleError,
    markdown::{self, LinkTargets},
    rendering::Rendering,
};

const RENDERING: WorkKind = WorkKind::compute("rendering of a document in the console");
/// Memory for each byte of a frontmatter: the tree of its YAML, and its values.
const FRONTMATTER_FACTOR: usize = 144;
/// Largest frontmatter that is shown.
const MAX_FRONTMATTER_BYTES: usize = 64 << 10;
/// Most fields of the frontmatter that are shown.
const MAX_FIELDS: usize = 100;
/// Longest value of a field that is shown, in characters.
const MAX_VALUE_CHARS: usize = 2000;

/// Renders the root document of a skill with its frontmatter.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let (document, article) = (skill.document().await?, Article::of(skill, ROOT_PATH));
    let (yaml, text) = split_frontmatter(&document);
    let yaml_bytes = yaml.map_or(0, str::len);
    let is_shown = yaml_bytes <= MAX_FRONTMATTER_BYTES;
    let yaml_memory = if is_shown { yaml_bytes * FRONTMATTER_FACTOR } else { 0 };
    let memory = markdown::memory(text.len()).max(yaml_memory);
    let rendering = Rendering::start(&skill.visit, RENDERING, memory).await?;
    let render = move |stop: &StopFlag| {
        let fields = if is_shown {
            frontmatter_list(&document)
        } else {
            html! { p.muted { "The frontmatter is too large to be shown." } }
        };
        stop.check()?;
        let article = article.render(&document, true, stop)?;
        Ok(html! { (fields) (article) })
    };
    rendering.run(render).await
}

fn frontmatter_list(document: &str) -> Markup {
    let fields = frontmatter::fields(document).filter(|fields| !fields.is_empty());
    let shortened = |text: &str| user_text(&truncate(text, MAX_VALUE_CHARS));
    html! {
        @if let Some(fields) = fields {
            details.frontmatter {
                summary { "Frontmatter" }
                dl {
                    @for (name, value) in fields.iter().take(MAX_FIELDS) {
                        dt { (shortened(name)) }
                        dd { @match value.as_str() { Some(text) => (shortened(text)), None => code { (shortened(&value.to_string())) } } }
                    }
                }
                @if fields.len() > MAX_FIELDS { p.muted { "Further fields are not shown." } }
            }
        }
    }
}

/// Document in its skill.
pub(super) struct Article {
    targets: Arc<LinkTargets>,
    /// Address of the bytes; `None` for those of live clients.
    raw: Option<String>,
}

impl Article {
    pub(super) fn of(skill: &ShownSkill, path: &str) -> Self {
        let targets = LinkTargets {
            id: skill.row.id.to_string(),
            tier: skill.tier_name(),
            version: skill.version_name(),
            path: path.to_owned(),
            files: skill.paths().into_iter().collect(),
            title: (path == ROOT_PATH).then(|| skill.row.title().to_owned()),
        };
        let raw = (!skill.row.is_live()).then(|| raw_address(skill, path));
        Self { targets: Arc::new(targets), raw }
    }

    /// Renders the document, or the first part of it.
    pub(super) fn render(
        &self,
        document: &str,
        is_whole: bool,
        stop: &StopFlag,
    ) -> Result<Markup, Stopped> {
        let (_, text) = split_frontmatter(document);
        let rendered = markdown::render(text, &self.targets, stop)?;
        Ok(html! {
            @if rendered.is_truncated || !is_whole {
                div.notice { p { "This document is too large or too deep to be shown whole. "
                    @if let Some(raw) = &self.raw { a href=(raw) { "Raw" } " has all of it." } } }
            }
            article.document { (rendered.html) }
        })
    }
}
