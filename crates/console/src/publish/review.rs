//! The review of an upload: findings, and the difference to the version that it replaces.

use std::sync::Arc;

use axum::response::Response;
use bytes::Bytes;
use maud::{Markup, html};
use skills_agent_skills::Bundle;
use skills_core::{FileMeta, RuleError, Tier, WorkAccount, WorkKind, skill::ROOT_PATH};
use skills_registry::{
    SkillRegistry, SkillRow,
    diff::{ComparedSkill, diff_skills},
};

use super::{FORM_MEMORY, TEXT_FACTOR, draft::Draft, findings, upload};
use crate::{
    components::{size, textarea_text, tier as tier_badge, token_field, user_text},
    error::ConsoleError,
    form::Form,
    layout::{Page, Section},
    session::Person,
    skill::{LineLink, compare},
    units::counted,
    validation::validate,
    visit::Visit,
};

const DIGESTS: WorkKind = WorkKind::compute("digests of the files of a draft");

/// Renders the review of a form, and keeps its bundle until it is confirmed.
pub(super) async fn review(
    visit: &Visit,
    tier: Tier,
    form: Form,
) -> Result<Response, ConsoleError> {
    let named = form.line("id").map(str::to_owned);
    let is_document = form.files.is_empty();
    let keeps_files = form.has("keep") && is_document;
    let text = if is_document { form.text("text").unwrap_or_default() } else { String::new() };
    let mut upload = upload::read(form).await?;
    let _memory = upload.take_memory();
    let id = upload.id(named.as_deref())?;
    let (skills, catalog) = (visit.skills()?, visit.catalog().await?);
    let present = catalog.exact_skill(tier, id.as_str()).filter(|row| row.corruption().is_none());
    let present = match present {
        Some(row) => Some(read_copy(visit, &*skills, row).await?),
        None => None,
    };
    if let Some(present) = present.as_ref().filter(|_| keeps_files) {
        upload.keep_files_of(present);
    }
    let left_out = present.as_ref().filter(|_| is_document && !keeps_files);
    let left_out = left_out.map_or(0, |present| present.files().count());
    let bundle = WorkAccount::current().run(DIGESTS, 0, |_| upload.into_bundle()).await??;
    let changes = match &present {
        Some(present) => {
            let (from, to) =
                (ComparedSkill::from_bundle(present), ComparedSkill::from_bundle(&bundle));
            Some(diff_skills(from, to).await?)
        }
        None => None,
    };
    let changes = match changes {
        Some(changes) => Some(compare::changes(visit, changes).await?),
        None => None,
    };
    let report = {
        let paths = bundle.meta().files.iter().map(|it| it.path.clone()).collect();
        let document = bundle.root().to_owned();
        validate(visit, Some(id.to_string()), document, Some(paths)).await?
    };
    visit.reserve(FORM_MEMORY + text.len() * TEXT_FACTOR)?;
    let meta = bundle.meta().clone();
    let replaces = catalog.exact_skill(tier, id.as_str()).map(|row| row.meta.digest());
    let is_same = replaces == Some(meta.digest());
    let draft = Draft::new(id.clone(), tier, bundle, replaces);
    let draft = visit.console.drafts.put(Person::of(visit.person()?), &visit.session, draft)?;
    let bytes = meta.files.iter().map(|file| file.size).sum();
    let body = html! {
        h1 { "Review " (user_text(id.as_str())) " " (tier_badge(tier)) }
        p.meta { span { (counted(meta.files.len(), "file")) } span { (size(bytes)) } code.digest { "sha256:" (meta.digest()) } }
        @if is_same { div.notice { p { "This is the present version already." } } }
        @if left_out > 0 { (keep_form(visit, id.as_str(), tier, &text, left_out)) }
        form.stack method="post" action="/ui/publish/confirm" {
            (token_field(visit))
            input type="hidden" name="draft" value=(draft);
            label for="message" { "Message" }
            p.hint #message-hint { "What changed, for people who look at the versions." }
            input #message name="message" maxlength="1024" autocomplete="off" aria-describedby="message-hint";
            button.primary type="submit" { @if present.is_some() { "Publish as a new version" } @else { "Publish" } }
            a.button href="/ui/publish" { "Start again" }
        }
        h2 { "Findings" }
        (findings(&report, LineLink::None))
        h2 { "Changes" }
        @match &changes { Some(changes) => (changes), None => { p { "There is no skill of this id in this tier yet. All files are new:" } (file_list(&meta.files)) } }
    };
    Ok(Page::new(format!("Review {id}"), Section::Publish, body).respond(visit))
}

/// Renders the offer to keep the files that a pasted document would remove.
fn keep_form(visit: &Visit, id: &str, tier: Tier, text: &str, count: usize) -> Markup {
    html! {
        form.notice.warning method="post" action="/ui/publish/review" enctype="multipart/form-data" {
            (token_field(visit))
            input type="hidden" name="id" value=(id);
            input type="hidden" name="tier" value=(tier);
            input type="hidden" name="keep" value="yes";
            textarea name="text" hidden readonly { (textarea_text(text)) }
            p { "The present version has " (counted(count, "other file")) ", which this one leaves out." }
            button type="submit" { "Keep the other files" }
        }
    }
}

fn file_list(files: &[FileMeta]) -> Markup {
    html! { ul { @for file in files { li { code { (user_text(&file.path)) } " " (size(file.size)) } } } }
}

/// Reads the files of a stored copy. Files that earlier versions accepted and this one does not are left out.
async fn read_copy(
    visit: &Visit,
    skills: &dyn SkillRegistry,
    row: &Arc<SkillRow>,
) -> Result<Bundle<Bytes>, ConsoleError> {
    visit.reserve(usize::try_from(row.bytes()).unwrap_or(usize::MAX))?;
    let root = skills.document(row, ROOT_PATH).await?.body;
    let root = String::from_utf8_lossy(&root).into_owned();
    let mut files = Vec::new();
    for file in row.meta.files.iter().filter(|file| file.path != ROOT_PATH) {
        if let Ok(path) = file.path.parse() {
            files.push((path, skills.document(row, &file.path).await?.body));
        }
    }
    let row = Arc::clone(row);
    let bundle = move |_: &_| -> Result<_, RuleError> {
        let bit = |path: &str| row.meta.file(path).and_then(|file| file.executable);
        Ok(Bundle::new(root, files)?.with_executable(bit))
    };
    Ok(WorkAccount::current().run(DIGESTS, 0, bundle).await??)
}
