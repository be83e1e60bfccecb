//! `remove`: removes the skills that their names resolve to.

use serde_json::json;
use skills_core::{Code, Coded as _, SkillId, Tier, uri::SCHEME};
use skills_registry::{Catalog, RegistryError, SkillRegistry};

use crate::{
    Failure,
    cli::RemoveArgs,
    output::{self, Confirmation},
};

/// Result of removing one skill.
struct Row {
    /// Id of the skill, or the name that resolved to none.
    id: String,
    tier: Option<Tier>,
    outcome: Outcome,
}

#[derive(Clone, Copy, PartialEq, Eq)]
enum Outcome {
    Removed,
    /// The user answered no.
    Kept,
    NotFound,
}

pub(super) async fn run(skills: &dyn SkillRegistry, args: RemoveArgs) -> Result<(), Failure> {
    let RemoveArgs { ids, tier, yes, format } = args;
    let tier = tier.map(Tier::from);
    // Invalid ids are rejected before any skill is removed.
    for id in &ids {
        id.parse::<SkillId>().map_err(RegistryError::from)?;
    }
    let is_asking = !yes && !format.json;
    let mut rows = Vec::with_capacity(ids.len());
    for name in ids {
        let catalog = skills.catalog().await?;
        let Some((id, tier)) = resolve(&catalog, &name, tier)? else {
            let tier = remove_unserved(skills, &name).await?;
            let outcome = tier.map_or(Outcome::NotFound, |_| Outcome::Removed);
            rows.push(Row { id: name, tier, outcome });
            continue;
        };
        let outcome = if !is_confirmed(&id, tier, is_asking)? {
            Outcome::Kept
        } else if skills.remove_skill(tier, &id).await? {
            Outcome::Removed
        } else {
            Outcome::NotFound
        };
        rows.push(Row { id, tier: Some(tier), outcome });
    }
    if format.json {
        let row = |Row { id, tier, outcome }: &Row| {
            let mut answer = json!({ "id": id, "removed": *outcome == Outcome::Removed });
            if let Some(tier) = tier {
                answer["tier"] = json!(tier);
            }
            answer
        };
        output::json(&json!({ "skills": rows.iter().map(row).collect::<Vec<_>>() }))?;
    } else {
        for Row { id, tier, outcome } in &rows {
            let result = match outcome {
                Outcome::Removed => "removed",
                Outcome::Kept => "kept",
                Outcome::NotFound => continue,
            };
            let tier = tier.map_or_else(String::new, |tier| format!(" ({tier})"));
            output::line(&format!("{result} {SCHEME}{id}{tier}"))?;
        }
    }
    let missing = rows.iter().filter(|row| row.outcome == Outcome::NotFound);
    match missing.map(|row| row.id.as_str()).collect::<Vec<_>>().as_slice() {
        [] => Ok(()),
        missing => {
            let layer = tier.map_or_else(String::new, |tier| format!(" in the {tier} tier"));
            let message = format!("skill not found{layer}: {}", missing.join(", "));
            Err(Failure::new(Code::NotFound, message).hint("list skills with `skills list --all`"))
        }
    }
}

/// Resolves a name as `show` does. An explicit tier is left to the registry where the catalog has no such entry: the
/// catalog of a remote registry has no shadowed ones.
fn resolve(
    catalog: &Catalog,
    name: &str,
    tier: Option<Tier>,
) -> Result<Option<(String, Tier)>, Failure> {
    let row = match tier {
        None => catalog.skill(name),
        Some(tier) => catalog.skill_in(tier, name),
    };
    match row {
        Some(row) if row.is_live() => {
            let message = format!("{name} belongs to a connected client and cannot be removed");
            Err(Failure::new(Code::Unsupported, message).hint("disconnect the client"))
        }
        Some(row) => Ok(Some((row.id.to_string(), row.tier))),
        None => Ok(tier.map(|tier| (name.to_owned(), tier))),
    }
}

/// Removes a skill that no catalog lists, since its versions are yanked, and returns its tier. Nobody reads it by its id,
/// so nothing is asked.
async fn remove_unserved(skills: &dyn SkillRegistry, id: &str) -> Result<Option<Tier>, Failure> {
    for tier in Tier::ALL {
        match skills.remove_skill(tier, id).await {
            Ok(true) => return Ok(Some(tier)),
            Ok(false) => {}
            Err(error) if error.code() == Code::KeyNeeded => {}
            Err(error) => return Err(error.into()),
        }
    }
    Ok(None)
}

/// Asks before a skill is removed that other users see. Without a terminal nothing is asked.
fn is_confirmed(id: &str, tier: Tier, is_asking: bool) -> Result<bool, Failure> {
    if !is_asking || tier == Tier::Private {
        return Ok(true);
    }
    let question = format!("Remove {SCHEME}{id} from the {tier} tier, for all users?");
    Ok(output::confirm(&question)? != Confirmation::No)
}
