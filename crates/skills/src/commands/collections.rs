//! `collection`: named lists of skills.

use serde_json::json;
use skills_core::{Code, EntryKind, SkillCollection, Tier};
use skills_registry::{
    Catalog, CollectionInfo, PublishRequest, Published, RegistryError, SkillRegistry,
};

use super::versions;
use crate::{
    Failure,
    cli::{CollectionCommand, CollectionSkillsArgs, CreateCollectionArgs},
    output::{self, counted, plain},
};

pub(super) async fn run(
    skills: &dyn SkillRegistry,
    command: CollectionCommand,
) -> Result<(), Failure> {
    match command {
        CollectionCommand::Create(args) => create(skills, args).await,
        CollectionCommand::Add(args) => {
            let add = |collection: &mut SkillCollection, address: &str| {
                collection.add(address).map_err(RegistryError::from)
            };
            change(skills, args, add).await
        }
        CollectionCommand::Remove(args) => {
            let remove =
                |collection: &mut SkillCollection, address: &str| Ok(collection.remove(address));
            change(skills, args, remove).await
        }
        CollectionCommand::Version(command) => {
            versions::run(skills, EntryKind::Collection, command).await
        }
        CollectionCommand::List { format } => list(skills, format.json).await,
        CollectionCommand::Show { name, format } => show(skills, &name, format.json).await,
        CollectionCommand::Delete { name, tier, format } => {
            let tier = match tier {
                Some(tier) => tier.into(),
                None => skills.collection(&name).await?.tier,
            };
            let removed = skills.remove_collection(tier, &name).await?;
            if !removed {
                return Err(Failure::new(Code::NotFound, format!("collection not found: {name}")));
            }
            if format.json {
                return Ok(output::json(&json!({ "name": name, "removed": removed }))?);
            }
            Ok(output::line(&format!("deleted {name}"))?)
        }
    }
}

async fn create(skills: &dyn SkillRegistry, args: CreateCollectionArgs) -> Result<(), Failure> {
    let CreateCollectionArgs { name, skills: addresses, title, description, tier, format } = args;
    let tier: Tier = tier.into();
    let known = match skills.collection(&name).await {
        Ok(known) if known.tier == tier => Some(known.collection),
        Ok(_) | Err(RegistryError::NotFound { .. }) => None,
        Err(error) if error_is_not_found(&error) => None,
        Err(error) => return Err(error.into()),
    };
    let mut collection = known
        .unwrap_or_else(|| SkillCollection { title: name.clone(), ..SkillCollection::default() });
    if let Some(title) = title {
        collection.title = title;
    }
    if let Some(description) = description {
        collection.description = description;
    }
    for address in &addresses {
        collection.add(address).map_err(RegistryError::from)?;
    }
    store(skills, tier, &name, collection, None, format.json).await
}

/// Changes the skills of a collection. Another change in between fails, so none is lost.
async fn change(
    skills: &dyn SkillRegistry,
    args: CollectionSkillsArgs,
    apply: impl Fn(&mut SkillCollection, &str) -> Result<bool, RegistryError>,
) -> Result<(), Failure> {
    let CollectionSkillsArgs { name, skills: addresses, format } = args;
    let CollectionInfo { tier, mut collection, version, .. } = skills.collection(&name).await?;
    for address in &addresses {
        apply(&mut collection, address)?;
    }
    store(skills, tier, &name, collection, version, format.json).await
}

async fn store(
    skills: &dyn SkillRegistry,
    tier: Tier,
    name: &str,
    collection: SkillCollection,
    expected_version: Option<u64>,
    json: bool,
) -> Result<(), Failure> {
    let missing = missing_skills(&*skills.catalog().await?, &collection);
    let count = collection.skills.len();
    let request = PublishRequest { message: None, expected_version };
    let published = skills.put_collection(tier, name, collection, request).await?;
    for address in missing {
        let sentence = format!("{address} is in the collection, and no skill has this id");
        output::notice("note", &plain(&sentence));
    }
    if json {
        let Published { registered_at, version, created, .. } = published;
        let answer = json!({
            "name": name, "tier": tier, "registered_at": registered_at, "version": version,
            "created": created,
        });
        return Ok(output::json(&answer)?);
    }
    let word = if published.created { "stored" } else { "unchanged" };
    Ok(output::line(&format!("{word} {name} ({})", counted(count, "skill")))?)
}

/// Returns the addresses whose ids no skill has.
fn missing_skills(catalog: &Catalog, collection: &SkillCollection) -> Vec<String> {
    let id = |address: &str| address.split('@').next().unwrap_or_default().to_owned();
    let is_missing = |address: &&String| catalog.skill(&id(address)).is_none();
    collection.skills.iter().filter(is_missing).cloned().collect()
}

/// Returns whether a registry behind a bus has no such collection.
fn error_is_not_found(error: &RegistryError) -> bool {
    skills_core::Coded::code(error) == Code::NotFound
}

async fn list(skills: &dyn SkillRegistry, json: bool) -> Result<(), Failure> {
    let collections = skills.collections().await?;
    if json {
        return Ok(output::json(&json!({ "collections": collections }))?);
    }
    if collections.is_empty() {
        return Ok(output::line(
            "No collections. Create one with `skills collection create NAME ID…`.",
        )?);
    }
    let cells = |info: &CollectionInfo| {
        let count = info.collection.skills.len().to_string();
        let (tier, title) = (info.tier.to_string(), plain(&info.collection.title));
        vec![info.name.clone(), tier, count, title]
    };
    let rows: Vec<Vec<String>> = collections.iter().map(cells).collect();
    Ok(output::table(&["NAME", "TIER", "SKILLS", "TITLE"], &rows)?)
}

async fn show(skills: &dyn SkillRegistry, name: &str, json: bool) -> Result<(), Failure> {
    let info = skills.collection(name).await?;
    if json {
        return Ok(output::json(&info)?);
    }
    let CollectionInfo { name, tier, collection, registered_at, version } = info;
    let SkillCollection { title, description, skills } = collection;
    output::fields(&[
        ("name", name),
        ("tier", tier.to_string()),
        ("version", version.map_or_else(|| "-".to_owned(), |version| version.to_string())),
        ("title", plain(&title)),
        ("description", if description.is_empty() { "-".to_owned() } else { plain(&description) }),
        ("registered", output::format_time(&registered_at)),
    ])?;
    output::line("")?;
    skills.iter().try_for_each(|address| Ok(output::line(address)?))
}
