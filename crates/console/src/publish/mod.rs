//! Publishing: a form, a review with findings and the difference to the present version, and the registration.

mod draft;
mod review;
mod upload;

use axum::{http::StatusCode, response::Response};
use maud::{Markup, html};
use skills_agent_skills::validate::ValidationReport;
use skills_core::{Tier, skill::ROOT_PATH};
use skills_registry::{PublishRequest, SkillRow};

pub(crate) use self::draft::Drafts;
use crate::{
    components::{skill_path, textarea_text, token_field, user_text},
    error::{ConsoleError, ErrorPage},
    form::Form,
    layout::{Page, Section, error_body},
    response,
    skill::{LineLink, finding_row},
    units::counted,
    validation::validate,
    visit::Visit,
};

const NOT_ALLOWED: &str = "you may not publish";
/// Memory of the form, its findings and a list of files, in all copies of the page.
const FORM_MEMORY: usize = 2 << 20;
/// Memory of a text in the form for each of its bytes: escaped characters, in all copies of the page.
const TEXT_FACTOR: usize = 20;

/// Values of the form.
#[derive(Debug, Default)]
struct FormValues {
    id: String,
    tier: Option<Tier>,
    text: String,
    /// Number of the files beside the document that the present version has.
    other_files: usize,
    /// Findings about the text; `None` without a text.
    report: Option<ValidationReport>,
}

/// Renders the form. The address may name a skill to edit.
pub(crate) async fn page(visit: Visit) -> Result<Response, ConsoleError> {
    visit.person()?;
    let (_, query) = visit.target.split_once('?').unwrap_or_default();
    let mut values = FormValues::default();
    for (name, value) in form_urlencoded::parse(query.as_bytes()) {
        match &*name {
            "id" => values.id = value.into_owned(),
            "tier" => values.tier = value.parse().ok(),
            _ => {}
        }
    }
    if !values.id.is_empty() {
        let catalog = visit.catalog().await?;
        let row = match values.tier {
            Some(tier) => catalog.exact_skill(tier, &values.id),
            None => catalog.stored(&values.id),
        };
        if let Some(row) = row {
            values.tier = values.tier.or(Some(row.tier));
            values.other_files = other_files(row);
            // A corrupt entry is replaced by a new document.
            if let Ok(document) = visit.skills()?.document(row, ROOT_PATH).await {
                values.text = String::from_utf8_lossy(&document.body).into_owned();
            }
        }
    }
    if !values.text.is_empty() {
        values.report =
            Some(validate(&visit, Some(values.id.clone()), values.text.clone(), None).await?);
    }
    visit.reserve(FORM_MEMORY + values.text.len() * TEXT_FACTOR)?;
    Ok(respond(&visit, StatusCode::OK, &values, None))
}

/// Returns the number of files beside the document that a new version of a skill could keep.
fn other_files(row: &SkillRow) -> usize {
    let is_readable = row.corruption().is_none();
    row.meta.files.iter().filter(|file| is_readable && file.path != ROOT_PATH).count()
}

fn respond(
    visit: &Visit,
    status: StatusCode,
    values: &FormValues,
    error: Option<&ErrorPage>,
) -> Response {
    let tiers = visit.identity.as_ref().map_or(&[] as &[Tier], |it| it.writable_tiers());
    let body = if tiers.is_empty() {
        html! {
            h1 { "Publish" }
            div.notice { p { "You see this registry and may not change it." }
                p { a.button href="/ui/sign-in?next=%2Fui%2Fpublish" { "Sign in with a key" } } }
        }
    } else {
        html! {
            h1 { "Publish a skill" }
            @if let Some(error) = error { (error_body(error)) }
            (form(visit, values, tiers))
        }
    };
    Page::new("Publish", Section::Publish, body).respond_with(visit, status)
}

fn form(visit: &Visit, values: &FormValues, tiers: &[Tier]) -> Markup {
    let names_private = tiers.contains(&Tier::Private);
    html! {
        form #publish.stack.wide method="post" action="/ui/publish/review" enctype="multipart/form-data" {
            (token_field(visit))
            div.row {
                div {
                    label for="id" { "Id" }
                    p.hint #id-hint { "Empty: the name in the document or of the folder." }
                    input #id name="id" value=(values.id) autocomplete="off" spellcheck="false" maxlength="64" aria-describedby="id-hint";
                }
                div {
                    label for="tier" { "Tier" }
                    p.hint #tier-hint { @if names_private { "Private skills are seen by you alone." } @else { "Everybody sees official and market skills." } }
                    select #tier name="tier" aria-describedby="tier-hint" {
                        @for tier in tiers { option value=(tier) selected[Some(*tier) == values.tier] { (tier) } }
                    }
                }
            }
            label for="text" { "Document" }
            p.hint #text-hint { "Markdown, with a name and a description between two lines of " code { "---" } " at the top." }
            textarea #text name="text" rows="16" spellcheck="false" aria-describedby="text-hint findings"
                placeholder="---\nname: release-notes\ndescription: Write release notes. Use before a release.\n---\n# Release notes\n" { (textarea_text(&values.text)) }
            div #findings role="status" aria-live="polite" { @if let Some(report) = &values.report { (findings(report, LineLink::Field)) } }
            @if values.other_files > 0 {
                label { input type="checkbox" name="keep" value="yes" checked; "Keep the other files of the present version (" (values.other_files) ")" }
            }
            div.drop #drop {
                label for="folder" { "Or a folder" }
                input #folder name="folder" type="file" webkitdirectory multiple;
                label for="files" { "Or files: a zip or tar archive, or the files of one skill" }
                input #files name="files" type="file" multiple;
                p.hint #dropped role="status" data-hint { "A folder, a zip file or Markdown can be dropped anywhere on this page." }
            }
            button.primary type="submit" { "Review" }
        }
    }
}

/// Validates the document while it is typed, for the script of the page. Changes nothing.
pub(crate) async fn check(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    visit.person()?;
    let text = form.text("text").unwrap_or_default();
    let id = form.line("id").map(str::to_owned);
    let report = validate(&visit, id, text, None).await?;
    Ok(response::html(StatusCode::OK, findings(&report, LineLink::Field)))
}

/// Renders the findings about a document.
fn findings(report: &ValidationReport, link: LineLink<'_>) -> Markup {
    html! {
        @if report.findings.is_empty() { p.muted { "Valid: the validator has nothing to say." } }
        @else {
            p.muted { (counted(report.findings.len(), "finding")) }
            ul.findings { @for finding in &report.findings { (finding_row(finding, link)) } }
        }
    }
}

/// Reviews what the form contains.
pub(crate) async fn review(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let tier = writable_tier(&visit, &form)?;
    let id = form.line("id").unwrap_or_default().to_owned();
    let catalog = visit.catalog().await?;
    let values = FormValues {
        other_files: catalog.exact_skill(tier, &id).map_or(0, |row| other_files(row)),
        id,
        tier: Some(tier),
        text: form.text("text").unwrap_or_default(),
        report: None,
    };
    match review::review(&visit, tier, form).await {
        Ok(response) => Ok(response),
        Err(
            error @ (ConsoleError::Registry(_) | ConsoleError::Bundle(_) | ConsoleError::Form(_)),
        ) => {
            visit.reserve(FORM_MEMORY + values.text.len() * TEXT_FACTOR)?;
            let page = ErrorPage::from(&error);
            Ok(respond(&visit, page.status, &values, Some(&page)))
        }
        Err(error) => Err(error),
    }
}

fn writable_tier(visit: &Visit, form: &Form) -> Result<Tier, ConsoleError> {
    let tier = form.line("tier").and_then(|tier| tier.parse().ok());
    let tier = tier.ok_or_else(|| ConsoleError::Form("choose a tier".to_owned()))?;
    if !visit.person()?.may_write(tier) {
        return Err(ConsoleError::Forbidden(NOT_ALLOWED));
    }
    Ok(tier)
}

/// Registers a reviewed draft.
pub(crate) async fn confirm(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let draft = form.required("draft", "the draft")?;
    let draft = visit.console.drafts.take(&visit.session, draft);
    let (draft, _memory) = draft.ok_or(ConsoleError::FormToken)?;
    visit.authorize_write(draft.tier).await?;
    let catalog = visit.catalog().await?;
    let present = catalog.exact_skill(draft.tier, draft.id.as_str());
    if present.map(|row| row.meta.digest()) != draft.replaces {
        return Err(ConsoleError::ChangedMeanwhile(draft.id.to_string()));
    }
    let (id, tier) = (draft.id.clone(), draft.tier);
    let request = PublishRequest {
        message: form.line("message").map(str::to_owned),
        // Registries without history have no numbers to compare.
        expected_version: present.and_then(|row| Some(row.heads.as_ref()?.latest)),
    };
    visit.skills()?.publish_bundle(tier, id.as_str(), draft.into_bundle(), request).await?;
    Ok(response::see_other(&format!("{}?tier={tier}", skill_path(id.as_str()))))
}

/// Removes a skill from a tier.
pub(crate) async fn remove(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    let tier = writable_tier(&visit, &form)?;
    visit.authorize_write(tier).await?;
    let id = form.required("id", "the id")?;
    if form.line("confirm") != Some(id) {
        return Err(ConsoleError::Form(format!("type {id} to remove it")));
    }
    visit.skills()?.remove_skill(tier, id).await?;
    Ok(response::see_other(crate::HOME))
}

/// Renders the ways to change a stored skill, for people who may.
pub(crate) fn change_links(visit: &Visit, tier: Tier, id: &str) -> Markup {
    let may_write = visit.identity.as_ref().is_some_and(|it| it.may_write(tier));
    html! {
        @if may_write {
            details.menu.change {
                summary { "Change" }
                div {
                    p { a.button href=(crate::components::with_query("/ui/publish", &[("id", id), ("tier", tier.as_str())])) { "Edit or replace" } }
                    form.stack method="post" action="/ui/remove" {
                        (token_field(visit))
                        input type="hidden" name="id" value=(id);
                        input type="hidden" name="tier" value=(tier);
                        label for="confirm" { "Type " (user_text(id)) " to remove it" }
                        input #confirm name="confirm" autocomplete="off" required;
                        button.danger type="submit" { "Remove" }
                    }
                }
            }
        }
    }
}
