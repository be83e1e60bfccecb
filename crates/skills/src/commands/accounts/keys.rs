//! `key create`, `key list` and `key revoke`.

use std::{collections::HashMap, io::Read as _};

use serde_json::{Value, json};
use skills_core::{Code, Coded, Owner, Timestamp, caller::KEY_PREFIX};
use skills_vault::{KeyRow, KeySelector, NewKey, Plan, Revocation, Vault};

use super::{actor, open, user};
use crate::{
    Failure,
    cli::{KeyCommand, KeyCreateArgs, KeyRevokeArgs, OutputFormat, Target},
    config::Config,
    data_dir, output, registry_socket,
};

/// Rows of one page.
const PAGE: usize = 1000;
/// Longest input for a key.
const MAX_INPUT: u64 = 1024;

pub(crate) async fn run(
    command: KeyCommand,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    match command {
        KeyCommand::Create(args) => {
            create(&open(target, config, None)?, args)?;
            let dir = data_dir::locate(target)?;
            if config.database.is_none() && !registry_socket::is_served(&dir).await {
                let sentence = format!(
                    "no server runs on {}; the key works on a server that is started with this --data-dir",
                    output::path(&dir)
                );
                output::notice("note", &sentence);
            }
            Ok(())
        }
        KeyCommand::List { uid, format } => {
            list(&open(target, config, None)?, uid.as_ref(), format)
        }
        KeyCommand::Revoke(args) => {
            let key = if args.id.as_deref() == Some("-") { Some(read_key()?) } else { None };
            revoke(&open(target, config, None)?, &args, key.as_deref())
        }
    }
}

fn create(vault: &Vault, args: KeyCreateArgs) -> Result<(), Failure> {
    let KeyCreateArgs { uid, plan, label, ttl, format } = args;
    let user = user();
    let actor = actor(&user);
    let expires_at = ttl.map(|ttl| {
        let micros = i64::try_from(ttl.as_micros()).unwrap_or(i64::MAX);
        Timestamp::from_micros(actor.at.as_micros().saturating_add(micros))
    });
    let key = NewKey { owner: &uid, plan, label: label.as_deref(), expires_at };
    let created = vault.create_key(actor, &key)?;
    if format.json {
        let mut answer = row_json(&created.row, created.plan, actor.at);
        answer["key"] = json!(*created.key);
        return Ok(output::json(&answer)?);
    }
    // Only the key on stdout, so that it can be piped without being displayed.
    output::line(&created.key)?;
    let until = created.row.expires_at.map(|at| format!(", until {}", format_time(at)));
    output::error_line(&format!(
        "key {} of {} ({}{}); it is not shown again",
        created.row.id(),
        uid.as_str(),
        created.plan,
        until.unwrap_or_default(),
    ));
    Ok(())
}

fn list(vault: &Vault, owner: Option<&Owner>, format: OutputFormat) -> Result<(), Failure> {
    let mut rows: Vec<KeyRow> = vec![];
    loop {
        let after = rows.last().map_or(0, |row| row.number);
        let page = vault.keys(owner, after, PAGE)?;
        if page.is_empty() {
            break;
        }
        rows.extend(page);
    }
    let mut plans: HashMap<Owner, Plan> = HashMap::new();
    for row in &rows {
        if !plans.contains_key(&row.owner) {
            let profile = vault.profile(&row.owner)?;
            plans.insert(row.owner.clone(), profile.map(|p| p.plan).unwrap_or_default());
        }
    }
    let plan = |row: &KeyRow| plans.get(&row.owner).copied().unwrap_or_default();
    let now = skills_vault::now();
    if format.json {
        let rows: Vec<_> = rows.iter().map(|row| row_json(row, plan(row), now)).collect();
        return Ok(output::json(&json!({ "keys": rows }))?);
    }
    if rows.is_empty() {
        return Ok(output::line("No keys.")?);
    }
    let cells = |row: &KeyRow| {
        vec![
            row.id(),
            row.owner.as_str().to_owned(),
            plan(row).to_string(),
            status(row, now).to_owned(),
            format_time(row.created_at),
            row.expires_at.map_or_else(|| "-".to_owned(), format_time),
            output::plain(row.label.as_deref().unwrap_or_default()),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    let header = ["ID", "UID", "TIER", "STATUS", "CREATED", "EXPIRES", "LABEL"];
    Ok(output::table(&header, &rows)?)
}

fn revoke(vault: &Vault, args: &KeyRevokeArgs, key: Option<&str>) -> Result<(), Failure> {
    let selector = match (key, &args.id, &args.uid) {
        (Some(key), _, _) => KeySelector::Key(key),
        (None, Some(id), _) if id.starts_with(KEY_PREFIX) => {
            let message = "a key on the command line is visible to other users of this machine";
            return Err(Failure::new(Code::KeyOnCommandLine, message)
                .hint("give its id, or the key on stdin: `skills key revoke - < FILE`"));
        }
        (None, Some(id), _) => KeySelector::Id(id),
        (None, None, Some(owner)) => KeySelector::Owner(owner),
        (None, None, None) => {
            return Err(Failure::new(Code::BadArgument, "neither KEYID nor --uid is given"));
        }
    };
    let user = user();
    let Revocation { keys: revoked, storage_error } = vault.revoke_keys(actor(&user), selector)?;
    if let Some(error) = storage_error {
        // A revocation in memory would end with this process.
        let failure = Failure::new(error.code(), format!("the keys are not revoked: {error}"));
        return Err(failure.hint(
            "free some space, or revoke on the running server, which does so in memory: DELETE /v1/admin/keys/KEYID with ADMIN_KEY",
        ));
    }
    if args.format.json {
        let row = |row: &KeyRow| json!({ "id": row.id(), "uid": row.owner.as_str() });
        let rows: Vec<_> = revoked.iter().map(row).collect();
        return Ok(output::json(&json!({ "revoked": rows }))?);
    }
    if revoked.is_empty() {
        let message = match &args.uid {
            Some(owner) => format!("{} has no active keys", owner.as_str()),
            None => "already revoked".to_owned(),
        };
        return Ok(output::line(&message)?);
    }
    for row in &revoked {
        output::line(&format!("revoked {} of {}", row.id(), row.owner.as_str()))?;
    }
    Ok(())
}

/// Reads the key to revoke from stdin.
fn read_key() -> Result<String, Failure> {
    let mut text = String::new();
    std::io::stdin().take(MAX_INPUT).read_to_string(&mut text)?;
    Ok(text.trim().to_owned())
}

fn format_time(at: Timestamp) -> String {
    output::format_time(&at.to_string())
}

fn status(row: &KeyRow, now: Timestamp) -> &'static str {
    match row.revoked_at {
        Some(_) => "revoked",
        None if row.is_active(now) => "active",
        None => "expired",
    }
}

fn row_json(row: &KeyRow, plan: Plan, now: Timestamp) -> Value {
    let mut answer = json!({
        "id": row.id(),
        "uid": row.owner.as_str(),
        "tier": plan,
        "status": status(row, now),
        "hash": row.hash,
        "created_at": row.created_at.to_string(),
    });
    let times = [("expires_at", row.expires_at), ("revoked_at", row.revoked_at)];
    for (name, at) in times {
        if let Some(at) = at {
            answer[name] = json!(at.to_string());
        }
    }
    if let Some(label) = &row.label {
        answer["label"] = json!(label);
    }
    answer
}
