//! What the name of a skill resolves to for the person, and why.

use maud::{Markup, html};
use skills_registry::ExplainedLayer;

use super::ShownSkill;
use crate::{
    components::{skill_part, tier, user_text},
    error::ConsoleError,
};

/// Renders the explanation.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let id = &skill.row.id;
    let person = skill.visit.person()?;
    if let Some((client, path)) = skill.row.origin() {
        return Ok(html! {
            p { "The live client " (user_text(client)) " has it at " code { (user_text(path)) } ". It is not stored: it disappears with the client." }
        });
    }
    let explanation = skill.skills.explain(id).await?;
    Ok(html! {
        p { (person.description()) }
        @match &explanation.answer {
            Some(answer) => p { code { "iii://" (user_text(id)) } " is " (copy(answer)) "." },
            None => p { code { "iii://" (user_text(id)) } " is nothing that you see." },
        }
        h2 { "Tiers that were tried" }
        ol.tried {
            @for step in &explanation.tried {
                @let is_answer = explanation.answer.as_ref() == Some(step);
                li { (tier(step.tier)) " " code { (user_text(&step.id)) } @if is_answer { strong { " found" } } @else { span.muted { " not there" } } }
            }
        }
        h2 { "What it shadows" }
        @if explanation.shadows.is_empty() { p.muted { "Nothing: no other tier has a skill of this name." } }
        @else { ul { @for shadowed in &explanation.shadows { li { (copy(shadowed)) } } } }
    })
}

fn copy(step: &ExplainedLayer) -> Markup {
    let path = skill_part("/ui/skills/", &step.id, &[("tier", step.tier.as_str())]);
    html! { a href=(path) { (user_text(&step.id)) } " in " (tier(step.tier)) }
}
