//! The table of keys, and the form for a new one.

use maud::{Markup, html};
use skills_core::{Caller, User};
use skills_vault::{KeyRow, Plan, now};

use super::{ListedKey, PATH, PeopleData};
use crate::{
    components::{token_field, user_text},
    units::ago,
    visit::Visit,
};

/// Renders the keys of a page.
pub(super) fn table(visit: &Visit, data: &PeopleData) -> Markup {
    html! {
        h2 { "Keys" }
        @if data.keys.is_empty() { p { "There is no key yet. A person with a key has private skills, secrets and a rate limit of their own." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Keys" { table {
                thead { tr {
                    th scope="col" { "User" } th scope="col" { "Key" } th scope="col" { "Plan" } th.number scope="col" { "Used this minute" }
                    th scope="col" { "Last use" } th scope="col" { "Created" } th scope="col" { "Expires" } th scope="col" { "State" }
                } }
                tbody { @for key in &data.keys { (row(visit, key)) } }
            } }
        }
        @if let Some(next) = data.next { nav.pager aria-label="Pages" { a.button href=(format!("{PATH}?after={next}")) { "Next" } } }
    }
}

fn row(visit: &Visit, ListedKey { row, plan }: &ListedKey) -> Markup {
    let is_active = row.is_active(now());
    let limiter = &visit.console.parts.limiter;
    let caller = Caller::User(User { owner: row.owner.clone(), key: row.hash });
    let usage = is_active.then(|| limiter.peek(&caller, now())).flatten();
    let last_use = limiter.vault().last_use(&row.hash);
    html! {
        tr {
            th scope="row" { (user_text(row.owner.as_str())) }
            td { code { (row.id()) } @if let Some(label) = &row.label { br; span.muted { (user_text(label)) } } }
            td { (plan.as_str()) }
            td.number { @if let Some(usage) = usage { (usage.limit - usage.remaining) " of " (usage.limit) } }
            td { @match last_use { Some(at) => (ago(at)), None => span.muted { "not since the start" } } }
            td { (ago(row.created_at)) }
            td { @match row.expires_at { Some(at) => (ago(at)), None => span.muted { "never" } } }
            td { (state(visit, row, is_active)) }
        }
    }
}

fn state(visit: &Visit, row: &KeyRow, is_active: bool) -> Markup {
    html! {
        @if is_active {
            span.badge.good { "active" }
            details.confirm {
                summary aria-label=(format!("Revoke key {} of {}", row.id(), row.owner)) { "Revoke" }
                form method="post" action="/ui/people/revoke" {
                    (token_field(visit))
                    input type="hidden" name="key" value=(row.id());
                    p { "The key and its sessions end at once." }
                    button.danger type="submit" aria-label=(format!("Revoke key {} of {} for good", row.id(), row.owner)) { "Revoke for good" }
                }
            }
        } @else if let Some(at) = row.revoked_at { span.badge.bad { "revoked" } " " (ago(at)) }
        @else { span.badge.bad { "expired" } }
    }
}

/// Renders the form for a new key.
pub(super) fn form(visit: &Visit) -> Markup {
    html! {
        h2 { "New key" }
        form.stack method="post" action="/ui/people/keys" {
            (token_field(visit))
            div.row {
                div { label for="uid" { "User" } input #uid name="uid" required maxlength="128" autocomplete="off" spellcheck="false"; }
                div { label for="plan" { "Plan" }
                    select #plan name="plan" { option value="" { "unchanged" } @for plan in Plan::ALL { option value=(plan.as_str()) { (plan.as_str()) } } } }
            }
            div.row {
                div { label for="label" { "Label" } input #label name="label" maxlength="128" autocomplete="off"; }
                div { label for="days" { "Days until it expires" } input #days name="days" inputmode="numeric" placeholder="never"; }
            }
            button.primary type="submit" { "Create key" }
        }
    }
}
