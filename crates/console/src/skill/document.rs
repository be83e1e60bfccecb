//! The rendered document.

use std::sync::Arc;

use maud::{Markup, html};
use skills_agent_skills::{frontmatter, markdown::split_frontmatter};
use skills_core::skill::ROOT_PATH;

use super::ShownSkill;
use crate::{
    components::user_text,
    error::ConsoleError,
    markdown::{LinkTargets, Rendered, render as render_markdown},
};

/// Renders the root document of a skill with its frontmatter.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let document = skill.document().await?;
    let fields = frontmatter::fields(&document);
    let rendered = render_file(skill, ROOT_PATH, document).await?;
    Ok(html! {
        @if let Some(fields) = fields.filter(|fields| !fields.is_empty()) {
            details.frontmatter {
                summary { "Frontmatter" }
                dl {
                    @for (name, value) in &fields {
                        dt { (user_text(name)) }
                        dd { @match value.as_str() { Some(text) => (user_text(text)), None => code { (user_text(&value.to_string())) } } }
                    }
                }
            }
        }
        (article(skill, ROOT_PATH, rendered))
    })
}

/// Renders a Markdown file of the bundle, on a blocking thread: a document may take a while.
pub(super) async fn render_file(
    skill: &ShownSkill,
    path: &str,
    document: String,
) -> Result<Rendered, ConsoleError> {
    let (id, tier, files) = (skill.row.id.to_string(), skill.tier_name(), skill.paths());
    let title = (path == ROOT_PATH).then(|| skill.row.title().to_owned());
    let targets = Arc::new(LinkTargets {
        id,
        tier,
        version: skill.version_name(),
        path: path.to_owned(),
        files,
        title,
    });
    let render = move || {
        let (_, text) = split_frontmatter(&document);
        render_markdown(text, &targets)
    };
    tokio::task::spawn_blocking(render).await.map_err(|_| ConsoleError::Internal)
}

/// Renders the frame of a document.
pub(super) fn article(skill: &ShownSkill, path: &str, rendered: Rendered) -> Markup {
    html! {
        @if rendered.is_truncated {
            div.notice { p { "This document is too large or too deep to be shown whole. "
                a href=(skill.address(&[("tab", "files"), ("path", path)])) { "Show its source" } } }
        }
        article.document { (rendered.html) }
    }
}
