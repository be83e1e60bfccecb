//! Keys, limits, secrets and the log, for administrators.

mod keys;
mod log;

use axum::response::Response;
use maud::{Markup, html};
use skills_core::{Owner, Timestamp, WorkAccount, WorkKind};
use skills_vault::{Actor, KeyRow, KeySelector, NewKey, Plan, SecretInfo, Vault, VaultError, now};

pub(crate) use self::log::log;
use crate::{
    components::{copyable, user_text},
    error::ConsoleError,
    form::Form,
    layout::{Page, Section},
    response::see_other,
    units::ago_text,
    visit::Visit,
};

const ACCOUNTS: WorkKind = WorkKind::io("accounts of users in the console");
/// Memory of a page of keys with the secrets of their owners.
const ACCOUNTS_MEMORY: usize = 1 << 20;

/// Actor of the person at this machine in the audit log.
const LOCAL: &str = "local";
/// Path of the page.
const PATH: &str = "/ui/people";
/// Keys of a page.
const PAGE_SIZE: usize = 100;
/// Longest label of a key, in bytes.
const MAX_LABEL_BYTES: usize = 128;

/// Checks that the person is an administrator.
fn authorize(visit: &Visit) -> Result<(), ConsoleError> {
    if visit.person()?.is_admin() {
        return Ok(());
    }
    Err(ConsoleError::Forbidden("only an administrator sees keys and the log"))
}

/// Returns the name of the administrator in the audit log.
fn actor_name(visit: &Visit) -> String {
    let caller = visit.identity.as_ref().and_then(|identity| identity.caller().actor());
    caller.unwrap_or_else(|| LOCAL.to_owned())
}

/// Runs a blocking operation of the vault on a blocking thread.
async fn vault<T: Send + 'static>(
    visit: &Visit,
    operation: impl FnOnce(&Vault) -> Result<T, VaultError> + Send + 'static,
) -> Result<T, ConsoleError> {
    let vault = visit.console.parts.limiter.vault().clone();
    Ok(WorkAccount::current().run(ACCOUNTS, ACCOUNTS_MEMORY, move |_| operation(&vault)).await??)
}

/// Key with what is known about its owner.
struct ListedKey {
    row: KeyRow,
    plan: Plan,
}

/// Data of the page.
struct PeopleData {
    keys: Vec<ListedKey>,
    /// Number of the last key of the page, if there may be more.
    next: Option<u64>,
    secrets: Vec<(Owner, Vec<SecretInfo>)>,
}

impl PeopleData {
    fn load(vault: &Vault, after: u64) -> Result<Self, VaultError> {
        let rows = vault.keys(None, after, PAGE_SIZE)?;
        let next = rows.last().filter(|_| rows.len() == PAGE_SIZE).map(|row| row.number);
        let mut owners: Vec<Owner> = rows.iter().map(|row| row.owner.clone()).collect();
        owners.sort();
        owners.dedup();
        let mut keys = Vec::with_capacity(rows.len());
        for row in rows {
            let plan = vault.profile(&row.owner)?.map_or(Plan::default(), |profile| profile.plan);
            keys.push(ListedKey { row, plan });
        }
        let mut secrets = Vec::new();
        for owner in owners {
            let listed = vault.secrets(&owner)?;
            if !listed.is_empty() {
                secrets.push((owner, listed));
            }
        }
        Ok(Self { keys, next, secrets })
    }
}

/// Renders the page.
pub(crate) async fn page(visit: Visit) -> Result<Response, ConsoleError> {
    authorize(&visit)?;
    let (_, query) = visit.target.split_once('?').unwrap_or_default();
    let mut pairs = form_urlencoded::parse(query.as_bytes());
    let after = pairs.find_map(|(name, value)| (name == "after").then(|| value.parse().ok())?);
    let after = after.unwrap_or_default();
    let data = vault(&visit, move |vault| PeopleData::load(vault, after)).await?;
    Ok(respond(&visit, &data, None))
}

fn respond(visit: &Visit, data: &PeopleData, created: Option<&str>) -> Response {
    let body = html! {
        h1 { "People" }
        @if let Some(key) = created {
            div.notice.good role="alert" {
                p { "This is the new key. It is shown only now: copy it." }
                (copyable(key))
            }
        }
        (keys::table(visit, data))
        (keys::form(visit))
        h2 { "Secrets and grants" }
        p.muted { "Names only. Values are encrypted and never shown." }
        (secrets(&data.secrets))
        h2 { "Log" }
        p { a.button href="/ui/people/log" { "Changes of accounts and skills" } }
    };
    Page::new("People", Section::People, body).respond(visit)
}

fn secrets(secrets: &[(Owner, Vec<SecretInfo>)]) -> Markup {
    html! {
        @if secrets.is_empty() { p { "Nobody on this page has a secret." } }
        @else {
            div.scroll tabindex="0" role="region" aria-label="Secrets" { table {
                thead { tr { th scope="col" { "Owner" } th scope="col" { "Secret" } th scope="col" { "For" } th scope="col" { "Granted to" } th scope="col" { "Set" } } }
                tbody { @for (owner, infos) in secrets { @for info in infos { tr {
                    th scope="row" { (user_text(owner.as_str())) }
                    td { code { (user_text(&info.name)) } }
                    td { @match &info.skill { Some(skill) => code { (user_text(skill)) }, None => "all skills" } }
                    td { @if info.granted_to.is_empty() { span.muted { "no market skill" } } @else { ul.inline { @for skill in &info.granted_to { li { code { (user_text(skill)) } } } } } }
                    td { (ago_text(&info.set_at)) }
                } } } }
            } }
        }
    }
}

/// Creates a key, and shows it once.
pub(crate) async fn create_key(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    authorize(&visit)?;
    let owner: Owner = form.required("uid", "the user")?.parse()?;
    let plan = form.line("plan").and_then(|plan| plan.parse::<Plan>().ok());
    let label = form.line("label").map(str::to_owned);
    if label.as_ref().is_some_and(|label| label.len() > MAX_LABEL_BYTES) {
        return Err(ConsoleError::Form(format!("the label has more than {MAX_LABEL_BYTES} bytes")));
    }
    let days = match form.line("days") {
        None => None,
        Some(days) => {
            let days = days.parse::<u32>().ok().filter(|days| (1..=36_500).contains(days));
            Some(days.ok_or_else(|| ConsoleError::Form("a key lives 1 to 36500 days".to_owned()))?)
        }
    };
    let expires_at = days.map(|days| {
        Timestamp::now().saturating_add(std::time::Duration::from_secs(u64::from(days) * 86_400))
    });
    let actor = actor_name(&visit);
    let created = vault(&visit, move |vault| {
        let new = NewKey { plan, label: label.as_deref(), expires_at, ..NewKey::for_owner(&owner) };
        let created = vault.create_key(Actor { name: &actor, at: now() }, &new)?;
        Ok((created.key, PeopleData::load(vault, 0)?))
    });
    let (key, data) = created.await?;
    Ok(respond(&visit, &data, Some(&key)))
}

/// Revokes a key.
pub(crate) async fn revoke_key(visit: Visit, form: Form) -> Result<Response, ConsoleError> {
    authorize(&visit)?;
    let id = form.required("key", "the key")?.to_owned();
    let actor = actor_name(&visit);
    let revoked = vault(&visit, move |vault| {
        let actor = Actor { name: &actor, at: now() };
        let revocation = vault.revoke_keys(actor, KeySelector::Id(&id))?;
        // The key has ended also if the revocation is not on disk yet.
        if revocation.storage_error.is_some() {
            tracing::error!("a revocation could not be stored; it holds until the server stops");
        }
        Ok(revocation.keys.len())
    });
    revoked.await?;
    Ok(see_other(PATH))
}
