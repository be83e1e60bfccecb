//! `secret set`, `list`, `remove`, `grant`, `revoke-grant` and `rotate`.

use std::io::{IsTerminal as _, Read as _};

use serde_json::{Value, json};
use skills_core::{Code, Owner, SkillId, resolve::Prefix};
use skills_vault::{MAX_SECRET_BYTES, SecretInfo, Vault};
use zeroize::{Zeroize as _, Zeroizing};

use super::{actor, open, open_with_master, user};
use crate::{
    Failure,
    cli::{GrantArgs, OutputFormat, SecretArgs, SecretCommand, Target},
    config::Config,
    output,
};

pub(crate) fn run(command: SecretCommand, target: &Target, config: &Config) -> Result<(), Failure> {
    let prefix = &config.prefix;
    match command {
        SecretCommand::Set(secret) => {
            set(&open_with_master(target, config)?, &secret)?;
            if let Some(skill) = &secret.skill {
                warn_about_prefix(skill, prefix);
            }
            Ok(())
        }
        SecretCommand::List { uid, format } => list(&open(target, config, None)?, &uid, format),
        SecretCommand::Remove(secret) => remove(&open(target, config, None)?, &secret),
        SecretCommand::Grant(args) => {
            grant_secret(&open(target, config, None)?, &args)?;
            warn_about_prefix(&args.skill, prefix);
            Ok(())
        }
        SecretCommand::RevokeGrant(args) => revoke_grant(&open(target, config, None)?, &args),
        SecretCommand::Rotate { format } => rotate(&open_with_master(target, config)?, format),
    }
}

/// Warns that a secret is for one id: a call uses the secrets of the id that its name resolves to, which may have the
/// prefix. The registry cannot be asked, since a server may have the store open.
fn warn_about_prefix(skill: &SkillId, prefix: &Prefix) {
    if !prefix.as_str().is_empty() && !skill.as_str().starts_with(prefix.as_str()) {
        tracing::warn!(
            "this applies to the skill {skill} only; the skill {prefix}{skill} is another, even if {skill} resolves to it"
        );
    }
}

fn set(vault: &Vault, secret: &SecretArgs) -> Result<(), Failure> {
    let SecretArgs { name, uid, skill, format } = secret;
    let value = read_value()?;
    vault.set_secret(actor(&user()), uid, skill.as_ref(), name, &value)?;
    if format.json {
        return Ok(output::json(&secret_json(secret))?);
    }
    Ok(output::line(&format!("set {}", describe(secret)))?)
}

/// Reads a value from stdin without its last line end.
fn read_value() -> Result<Zeroizing<String>, Failure> {
    if std::io::stdin().is_terminal() {
        output::error_line("Type the value (it is displayed) and press Ctrl-D.");
    }
    // Allocated at its final size: a reallocation would leave a copy of the value in memory.
    let limit = MAX_SECRET_BYTES + 3;
    let mut bytes = Zeroizing::new(Vec::with_capacity(limit + 1));
    std::io::stdin().take(limit as u64).read_to_end(&mut bytes)?;
    if bytes.ends_with(b"\n") {
        bytes.pop();
        if bytes.ends_with(b"\r") {
            bytes.pop();
        }
    }
    String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(|error| {
        error.into_bytes().zeroize();
        Failure::new(Code::NotText, "the value is not UTF-8")
    })
}

fn list(vault: &Vault, owner: &Owner, format: OutputFormat) -> Result<(), Failure> {
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
        vec![secret.name.clone(), scope, output::format_time(&secret.set_at), granted]
    };
    let rows: Vec<_> = secrets.iter().map(cells).collect();
    Ok(output::table(&["NAME", "FOR", "SET", "GRANTED IN THE MARKET TO"], &rows)?)
}

fn remove(vault: &Vault, secret: &SecretArgs) -> Result<(), Failure> {
    let SecretArgs { name, uid, skill, format } = secret;
    let removed = vault.remove_secret(actor(&user()), uid, skill.as_ref(), name)?;
    if format.json {
        let mut answer = secret_json(secret);
        answer["removed"] = json!(removed);
        return Ok(output::json(&answer)?);
    }
    let result = if removed { "removed" } else { "not found:" };
    Ok(output::line(&format!("{result} {}", describe(secret)))?)
}

fn grant_secret(vault: &Vault, args: &GrantArgs) -> Result<(), Failure> {
    let GrantArgs { name, uid, skill, format } = args;
    vault.grant_secret(actor(&user()), uid, skill, None, name)?;
    if format.json {
        return Ok(output::json(&grant_json(args, true))?);
    }
    let uid = uid.as_str();
    Ok(output::line(&format!("granted {name} of {uid} to the market skill {skill}"))?)
}

fn revoke_grant(vault: &Vault, args: &GrantArgs) -> Result<(), Failure> {
    let GrantArgs { name, uid, skill, format } = args;
    let existed = vault.revoke_grant(actor(&user()), uid, skill, name)?;
    if format.json {
        return Ok(output::json(&grant_json(args, false))?);
    }
    let uid = uid.as_str();
    let result = if existed { "revoked the grant of" } else { "no grant of" };
    Ok(output::line(&format!("{result} {name} of {uid} to the market skill {skill}"))?)
}

fn rotate(vault: &Vault, format: OutputFormat) -> Result<(), Failure> {
    let outcome = vault.rotate_secrets(actor(&user()))?;
    if format.json {
        output::json(&outcome)?;
    } else {
        let count = output::counted(outcome.rotated, "secret");
        let current = outcome.current;
        output::line(&format!("encrypted {count} again; {current} already had the current key"))?;
    }
    if outcome.unreadable == 0 {
        return Ok(());
    }
    let count = output::counted(outcome.unreadable, "secret");
    let names = outcome.unreadable_secrets.join(", ");
    Err(Failure::new(
        Code::UnreadableSecret,
        format!("{count} could not be decrypted and stay as they are: {names}"),
    )
    .hint("add the master keys they were encrypted with to MASTER_ENCRYPTION_KEY_PREVIOUS"))
}

fn describe(secret: &SecretArgs) -> String {
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
