//! `secret set`, `list`, `remove`, `grant`, `revoke-grant` and `rotate`.

use std::io::{IsTerminal as _, Read as _};

use serde_json::{Value, json};
use skills_core::{Owner, SkillId, resolve::Prefix};
use skills_vault::{MAX_SECRET_BYTES, SecretInfo, Vault};
use zeroize::{Zeroize as _, Zeroizing};

use super::{act, open, open_with_master, user};
use crate::{
    Failure,
    cli::{Format, GrantArgs, SecretArgs, SecretCommand, Target},
    output,
};

pub(crate) fn run(command: SecretCommand, target: &Target, prefix: &Prefix) -> Result<(), Failure> {
    match command {
        SecretCommand::Set(secret) => {
            set(&open_with_master(target)?, &secret)?;
            if let Some(skill) = &secret.skill {
                tell_of_prefix(skill, prefix);
            }
            Ok(())
        }
        SecretCommand::List { uid, format } => list(&open(target, None)?, &uid, format),
        SecretCommand::Remove(secret) => remove(&open(target, None)?, &secret),
        SecretCommand::Grant(grant) => {
            give(&open(target, None)?, &grant)?;
            tell_of_prefix(&grant.skill, prefix);
            Ok(())
        }
        SecretCommand::RevokeGrant(grant) => take_back(&open(target, None)?, &grant),
        SecretCommand::Rotate { format } => rotate(&open_with_master(target)?, format),
    }
}

/// A call looks under the id that its name led to, and which one that is is not known here: a server may have the
/// store.
fn tell_of_prefix(skill: &SkillId, prefix: &Prefix) {
    if !prefix.as_str().is_empty() && !skill.as_str().starts_with(prefix.as_str()) {
        tracing::warn!(
            "this is for the skill {skill} alone; one that is stored as {prefix}{skill} is another, though {skill} may lead to it"
        );
    }
}

fn set(vault: &Vault, secret: &SecretArgs) -> Result<(), Failure> {
    let SecretArgs { name, uid, skill, format } = secret;
    let value = read_value()?;
    vault.set_secret(act(&user()), uid, skill.as_ref(), name, &value)?;
    if format.json {
        return Ok(output::json(&secret_json(secret))?);
    }
    Ok(output::line(&format!("set {}", described(secret)))?)
}

/// All of standard input but one line end, which is of whoever typed or echoed it.
fn read_value() -> Result<Zeroizing<String>, Failure> {
    if std::io::stdin().is_terminal() {
        anstream::eprintln!("Type the value and end it with Ctrl-D; it is shown as you type.");
    }
    // Sized beforehand: bytes that move leave a copy of themselves behind.
    let room = MAX_SECRET_BYTES + 3;
    let mut bytes = Zeroizing::new(Vec::with_capacity(room + 1));
    std::io::stdin().take(room as u64).read_to_end(&mut bytes)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        Failure::new("not_text", "the value is not text in UTF-8")
    })
}

fn list(vault: &Vault, owner: &Owner, format: Format) -> Result<(), Failure> {
    let secrets = vault.secrets(owner)?;
    if format.json {
        let row = |secret: &SecretInfo| {
            let mut row = json!({
                "name": secret.name,
                "scope": if secret.skill.is_some() { "skill" } else { "global" },
                "set_at": secret.set_at,
                "granted_to": secret.granted_to,
            });
            if let Some(skill) = &secret.skill {
                row["skill"] = json!(skill);
            }
            row
        };
        let rows: Vec<Value> = secrets.iter().map(row).collect();
        return Ok(output::json(&json!({ "uid": owner.as_str(), "secrets": rows }))?);
    }
    if secrets.is_empty() {
        return Ok(output::line(&format!("{} has no secrets.", owner.as_str()))?);
    }
    let cells = |secret: &SecretInfo| {
        let granted = match secret.granted_to.join(" ") {
            none if none.is_empty() => "-".to_owned(),
            some => some,
        };
        let scope =
            secret.skill.as_ref().map_or("all skills".to_owned(), |id| format!("skill {id}"));
        vec![secret.name.clone(), scope, output::moment(&secret.set_at), granted]
    };
    let rows: Vec<_> = secrets.iter().map(cells).collect();
    Ok(output::table(&["NAME", "FOR", "SET", "GRANTED IN THE MARKET TO"], &rows)?)
}

fn remove(vault: &Vault, secret: &SecretArgs) -> Result<(), Failure> {
    let SecretArgs { name, uid, skill, format } = secret;
    let removed = vault.remove_secret(act(&user()), uid, skill.as_ref(), name)?;
    if format.json {
        let mut answer = secret_json(secret);
        answer["removed"] = json!(removed);
        return Ok(output::json(&answer)?);
    }
    let what = described(secret);
    let said = if removed { format!("removed {what}") } else { format!("there was no {what}") };
    Ok(output::line(&said)?)
}

fn give(vault: &Vault, grant: &GrantArgs) -> Result<(), Failure> {
    let GrantArgs { name, uid, skill, format } = grant;
    vault.grant_secret(act(&user()), uid, skill, None, name)?;
    if format.json {
        return Ok(output::json(&grant_json(grant, true))?);
    }
    let uid = uid.as_str();
    Ok(output::line(&format!("the skill {skill} of the market may have {name} of {uid}"))?)
}

fn take_back(vault: &Vault, grant: &GrantArgs) -> Result<(), Failure> {
    let GrantArgs { name, uid, skill, format } = grant;
    let was_there = vault.ungrant_secret(act(&user()), uid, skill, name)?;
    if format.json {
        return Ok(output::json(&grant_json(grant, false))?);
    }
    let uid = uid.as_str();
    let more = if was_there { " any more" } else { ", and could not before" };
    Ok(output::line(&format!(
        "the skill {skill} of the market may not have {name} of {uid}{more}"
    ))?)
}

fn rotate(vault: &Vault, format: Format) -> Result<(), Failure> {
    let outcome = vault.rotate_secrets(act(&user()))?;
    if format.json {
        output::json(&outcome)?;
    } else {
        let count = output::counted(outcome.rotated, "secret");
        let current = outcome.current;
        output::line(&format!("encrypted {count} anew; {current} had the current key before"))?;
    }
    if outcome.unreadable == 0 {
        return Ok(());
    }
    let count = output::counted(outcome.unreadable, "secret");
    let names = outcome.unreadable_secrets.join(", ");
    Err(Failure::new("unreadable_secret", format!("{count} cannot be read and stayed: {names}"))
        .hint("name the keys they were encrypted with in MASTER_ENCRYPTION_KEY_PREVIOUS"))
}

fn described(secret: &SecretArgs) -> String {
    let SecretArgs { name, uid, skill, .. } = secret;
    let skill = skill.as_ref().map(|id| format!(" for the skill {id}")).unwrap_or_default();
    format!("{name} of {}{skill}", uid.as_str())
}

fn secret_json(secret: &SecretArgs) -> Value {
    let SecretArgs { name, uid, skill, .. } = secret;
    let mut answer = json!({ "name": name.as_str(), "uid": uid.as_str() });
    if let Some(skill) = skill {
        answer["skill"] = json!(skill.as_str());
    }
    answer
}

fn grant_json(grant: &GrantArgs, granted: bool) -> Value {
    let GrantArgs { name, uid, skill, .. } = grant;
    json!({
        "name": name.as_str(), "uid": uid.as_str(), "skill": skill.as_str(), "granted": granted,
    })
}
