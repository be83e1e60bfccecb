//! Versions of a skill: the timeline, labels, and the forms that promote, roll back and yank.

use axum::response::Response;
use maud::{Markup, html};
use skills_core::{EntryKind, Label, Tier, VersionSelector, version::STABLE};
use skills_registry::{
    HistoryPage, HistoryRequest, LabelRequest, PublishRequest, RollbackRequest, VersionInfo,
    YankRequest,
};

use super::{ShownSkill, compare};
use crate::{
    components::{size, skill_part, token_field, user_text},
    error::ConsoleError,
    form::Form,
    response::see_other,
    units::{ago_text, counted},
    visit::Visit,
};

/// Versions of a page.
const PAGE_SIZE: usize = 50;

/// Renders the versions, or the difference of the two that the address names.
pub(super) async fn render(skill: &ShownSkill) -> Result<Markup, ConsoleError> {
    let request = HistoryRequest {
        id: skill.row.id.to_string(),
        tier: Some(skill.row.tier),
        limit: Some(PAGE_SIZE),
        after: skill.query.after.clone(),
    };
    let page = skill.skills.history(EntryKind::Skill, &request).await?;
    let difference = match (&skill.query.from, &skill.query.to) {
        (Some(from), Some(to)) => Some(compare::render(skill, from, to).await?),
        _ => None,
    };
    let may_write = skill.visit.person()?.may_write(skill.row.tier);
    Ok(html! {
        (compare_form(skill, &page))
        @if let Some(difference) = difference { (difference) }
        ol.timeline { @for version in &page.data { (entry(skill, version, may_write)) } }
        @if let Some(next) = &page.next {
            nav.pager aria-label="Pages" { a.button href=(skill.address(&[("tab", "versions"), ("after", next)])) { "Older" } }
        }
    })
}

fn compare_form(skill: &ShownSkill, page: &HistoryPage) -> Markup {
    let selected = |selector: &Option<VersionSelector>, version: &VersionInfo, otherwise: usize| {
        match selector {
            Some(selector) => selector.to_string() == version.version.to_string(),
            None => page.data.get(otherwise).is_some_and(|it| it.version == version.version),
        }
    };
    let (from, to) = (&skill.query.from, &skill.query.to);
    html! {
        @if page.data.len() > 1 {
            form.inline-form.compare method="get" action=(skill_part("/ui/skills/", &skill.row.id, &[])) {
                input type="hidden" name="tab" value="versions";
                @if !skill.tier_name().is_empty() { input type="hidden" name="tier" value=(skill.tier_name()); }
                label for="from" { "Compare" }
                select #from name="from" { @for version in &page.data { option value=(version.version) selected[selected(from, version, 1)] { (name(version)) } } }
                label for="to" { "with" }
                select #to name="to" { @for version in &page.data { option value=(version.version) selected[selected(to, version, 0)] { (name(version)) } } }
                button type="submit" { "Compare" }
            }
        }
    }
}

fn name(version: &VersionInfo) -> String {
    let labels: String = version.labels.iter().map(|label| format!(" {label}")).collect();
    format!("{}{labels}", version.version)
}

fn entry(skill: &ShownSkill, version: &VersionInfo, may_write: bool) -> Markup {
    let number = version.version.to_string();
    html! {
        li.current[version.served] id=(format!("v{number}")) {
            div.head {
                h2 { "Version " (number) }
                @if version.served { span.badge.good { "served" } }
                @for label in &version.labels { span.badge { (user_text(label)) } }
                @if version.yanked.is_some() { span.badge.bad { "yanked" } }
                @if version.purged { span.badge.bad { "purged" } }
                @if let Some(author) = &version.author_version { span.muted { (user_text(author)) } }
            }
            @if let Some(message) = &version.message { p { (user_text(message)) } }
            @if let Some(reason) = &version.yanked { p.problem { "Yanked: " (user_text(reason)) } }
            p.meta {
                (ago_text(&version.created_at))
                span { "by " (user_text(&version.by)) }
                span { (counted(usize::try_from(version.files).unwrap_or(usize::MAX), "file")) ", " (size(version.bytes)) }
                code.digest { (version.digest.to_string().get(..12).unwrap_or_default()) }
                @if !version.purged && !version.served {
                    a href=(skill_part("/ui/skills/", &skill.row.id, &[("tier", skill.tier_name()), ("version", &number)])) { "Read" }
                }
            }
            @if may_write && !version.purged { (forms(skill, version)) }
        }
    }
}

/// Renders the forms that change a version's place.
fn forms(skill: &ShownSkill, version: &VersionInfo) -> Markup {
    let number = version.version.to_string();
    let field = |action: &str| format!("{action}-{number}");
    let hidden = html! {
        (token_field(&skill.visit))
        input type="hidden" name="id" value=(skill.row.id);
        input type="hidden" name="tier" value=(skill.row.tier);
        input type="hidden" name="version" value=(number);
    };
    html! {
        details.change-version {
            summary { "Change version " (number) }
            div.row {
                @if version.yanked.is_none() {
                    form.stack method="post" action="/ui/versions/label" {
                        (hidden)
                        label for=(field("label")) { "Promote: give it a label" }
                        p.hint { code { (STABLE) } " is the one that readers get." }
                        input id=(field("label")) name="label" value=(STABLE) required maxlength="32" autocomplete="off" spellcheck="false";
                        button type="submit" { "Promote" }
                    }
                    @if !version.served {
                        form.stack method="post" action="/ui/versions/rollback" {
                            (hidden)
                            label for=(field("message")) { "Roll back: publish it again" }
                            p.hint { "Makes a new version with this content." }
                            input id=(field("message")) name="message" maxlength="1024" placeholder="Why";
                            button type="submit" { "Roll back to " (number) }
                        }
                    }
                    form.stack method="post" action="/ui/versions/yank" {
                        (hidden)
                        label for=(field("reason")) { "Yank: warn its readers, serve another" }
                        p.hint { "It stays readable by its number." }
                        input id=(field("reason")) name="reason" required maxlength="1024" placeholder="Reason";
                        button.danger type="submit" { "Yank " (number) }
                    }
                } @else {
                    form.stack method="post" action="/ui/versions/yank" {
                        (hidden)
                        input type="hidden" name="undo" value="yes";
                        input type="hidden" name="reason" value="undone";
                        button type="submit" { "Undo the yank of " (number) }
                    }
                }
            }
        }
    }
}

/// Skill and version that a form is about.
struct Target {
    id: String,
    tier: Tier,
    version: VersionSelector,
}

impl Target {
    async fn of(visit: &Visit, form: &Form) -> Result<Self, ConsoleError> {
        let invalid = |what: &str| ConsoleError::Form(format!("{what} is missing"));
        let tier: Tier =
            form.line("tier").and_then(|it| it.parse().ok()).ok_or_else(|| invalid("the tier"))?;
        visit.authorize_write(tier).await?;
        let id = form.required("id", "the id")?.to_owned();
        let version = form.required("version", "the version")?.parse()?;
        Ok(Self { id, tier, version })
    }

    /// Redirects to the versions of the skill.
    fn versions(&self) -> Response {
        see_other(&skill_part(
            "/ui/skills/",
            &self.id,
            &[("tab", "versions"), ("tier", self.tier.as_str())],
        ))
    }
}

/// Moves a label to a version.
pub(crate) async fn label(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let target = Target::of(&visit, &form).await?;
    let label: Label = form.required("label", "the label")?.parse()?;
    let is_protected = visit.console.parts.protected_labels.contains(&label);
    if is_protected && !visit.person()?.is_admin() {
        return Err(ConsoleError::Forbidden("only an administrator moves this label"));
    }
    let request = LabelRequest {
        id: target.id.clone(),
        tier: Some(target.tier),
        label,
        version: Some(target.version.clone()),
        expected: None,
    };
    visit.skills()?.set_label(EntryKind::Skill, &request).await?;
    Ok(target.versions())
}

/// Publishes the content of an older version again.
pub(crate) async fn rollback(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let target = Target::of(&visit, &form).await?;
    let request = RollbackRequest {
        id: target.id.clone(),
        tier: Some(target.tier),
        to: target.version.clone(),
        publish: PublishRequest {
            message: form.line("message").map(str::to_owned),
            expected_version: None,
        },
    };
    visit.skills()?.rollback(EntryKind::Skill, &request).await?;
    Ok(target.versions())
}

/// Yanks a version, or undoes it.
pub(crate) async fn yank(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let target = Target::of(&visit, &form).await?;
    let request = YankRequest {
        id: target.id.clone(),
        tier: Some(target.tier),
        version: target.version.clone(),
        reason: form.required("reason", "the reason")?.to_owned(),
        undo: form.has("undo"),
        purge: false,
    };
    visit.skills()?.yank(EntryKind::Skill, &request).await?;
    Ok(target.versions())
}
