//! `key create`, `key list` and `key revoke`.

use std::{collections::HashMap, io::Read as _};

use serde_json::{Value, json};
use skills_core::{Owner, Timestamp, caller::KEY_PREFIX};
use skills_vault::{AccountTier, KeyRow, NewKey, Vault, WhichKeys};

use super::{act, open, user};
use crate::{
    Failure,
    cli::{Format, KeyCommand, KeyCreate, KeyRevoke, Target},
    output,
};

/// Rows that are read at a time.
const PAGE: usize = 1000;
/// More than any key has.
const MAX_INPUT: u64 = 1024;

pub(crate) fn run(command: KeyCommand, target: &Target) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(options) => create(&open(target, None)?, options),
        KeyCommand::List { uid, format } => list(&open(target, None)?, uid.as_ref(), format),
        KeyCommand::Revoke(options) => {
            let presented = match options.id.as_deref() {
                Some("-") => Some(presented_key()?),
                _ => None,
            };
            revoke(&open(target, None)?, &options, presented.as_deref())
        }
    }
}

fn create(vault: &Vault, options: KeyCreate) -> Result<(), Failure> {
    let KeyCreate { uid, tier, label, ttl, format } = options;
    let user = user();
    let act = act(&user);
    let expires_at = ttl.map(|ttl| {
        let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(act.at.as_micros().saturating_add(micros))
    });
    let key = NewKey { owner: &uid, tier, label: label.as_deref(), expires_at };
    let created = vault.create_key(act, &key)?;
    if format.json {
        let mut answer = row_json(&created.row, created.tier, act.at);
        answer["key"] = json!(*created.key);
        return Ok(output::json(&answer)?);
    }
    // The key alone on stdout, so that it can go where it is needed without being seen.
    output::line(&created.key)?;
    let until = created.row.expires_at.map(|at| format!(", until {}", moment(at)));
    anstream::eprintln!(
        "key {} of {} ({}{}); it is not shown again",
        created.row.id(),
        uid.as_str(),
        created.tier,
        until.unwrap_or_default(),
    );
    Ok(())
}

fn list(vault: &Vault, owner: Option<&Owner>, format: Format) -> Result<(), Failure> {
    let mut rows: Vec<KeyRow> = vec![];
    loop {
        let after = rows.last().map_or(0, |row| row.number);
        let page = vault.keys(owner, after, PAGE)?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let mut tiers: HashMap<Owner, AccountTier> = HashMap::new();
    for row in &rows {
        if !tiers.contains_key(&row.owner) {
            let profile = vault.profile(&row.owner)?;
            tiers.insert(row.owner.clone(), profile.map(|p| p.tier).unwrap_or_default());
        }
    }
    let tier = |row: &KeyRow| tiers.get(&row.owner).copied().unwrap_or_default();
    let now = skills_vault::now();
    if format.json {
        let rows: Vec<_> = rows.iter().map(|row| row_json(row, tier(row), now)).collect();
        return Ok(output::json(&json!({ "keys": rows }))?);
    }
    if rows.is_empty() {
        return Ok(output::line("There are no keys.")?);
    }
    let cells = |row: &KeyRow| {
        vec![
            row.id(),
            row.owner.as_str().to_owned(),
            tier(row).to_string(),
            status(row, now).to_owned(),
            moment(row.created_at),
            row.expires_at.map_or_else(|| "-".to_owned(), moment),
            output::plain(row.label.as_deref().unwrap_or_default()),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    let header = ["ID", "UID", "TIER", "STATUS", "CREATED", "EXPIRES", "LABEL"];
    Ok(output::table(&header, &rows)?)
}

fn revoke(vault: &Vault, options: &KeyRevoke, presented: Option<&str>) -> Result<(), Failure> {
    let which = match (presented, &options.id, &options.uid) {
        (Some(key), _, _) => WhichKeys::Key(key),
        (None, Some(key), _) if key.starts_with(KEY_PREFIX) => {
            let message = "a key on a command line can be seen by others";
            return Err(Failure::new("key_on_command_line", message)
                .hint("give its id, or the key on standard input: `skills key revoke - < FILE`"));
        }
        (None, Some(id), _) => WhichKeys::Id(id),
        (None, None, Some(owner)) => WhichKeys::Of(owner),
        (None, None, None) => return Err(Failure::new("bad_argument", "no key is named")),
    };
    let user = user();
    let revoked = vault.revoke_keys(act(&user), which)?;
    if options.format.json {
        let row = |row: &KeyRow| json!({ "id": row.id(), "uid": row.owner.as_str() });
        let rows: Vec<_> = revoked.iter().map(row).collect();
        return Ok(output::json(&json!({ "revoked": rows }))?);
    }
    if revoked.is_empty() {
        let nothing = match &options.uid {
            Some(owner) => format!("{} had no keys to revoke", owner.as_str()),
            None => "it was revoked before".to_owned(),
        };
        return Ok(output::line(&nothing)?);
    }
    for row in &revoked {
        output::line(&format!("revoked {} of {}", row.id(), row.owner.as_str()))?;
    }
    Ok(())
}

/// The key that is to be revoked, from standard input.
fn presented_key() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().take(MAX_INPUT).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn moment(at: Timestamp) -> String {
    output::moment(&at.to_string())
}

fn status(row: &KeyRow, now: Timestamp) -> &'static str {
    match row.revoked_at {
        Some(_) => "revoked",
        None if row.is_live(now) => "active",
        None => "expired",
    }
}

fn row_json(row: &KeyRow, tier: AccountTier, now: Timestamp) -> Value {
    let mut answer = json!({
        "id": row.id(),
        "uid": row.owner.as_str(),
        "tier": tier,
        "status": status(row, now),
        "hash": row.hash,
        "created_at": row.created_at.to_string(),
    });
    let moments = [("expires_at", row.expires_at), ("revoked_at", row.revoked_at)];
    for (name, at) in moments {
        if let Some(at) = at {
            answer[name] = json!(at.to_string());
        }
    }
    if let Some(label) = &row.label {
        answer["label"] = json!(label);
    }
    answer
}
