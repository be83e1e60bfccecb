//! `list`, `search`, `show`, `read` and `remove`.

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use skills_core::{
    FileMeta, SkillId, Tier,
    uri::{SCHEME, TIER_SCHEME},
};
use skills_registry::{Explanation, Place, RegistryError, SkillInfo, Skills};

use crate::{
    Failure,
    cli::{Command, Format, Target},
    config::Config,
    connect, output,
};

pub(super) async fn run(command: Command, target: &Target, config: &Config) -> Result<(), Failure> {
    let open = || connect::open(target, config, false);
    match command {
        Command::List { all, tier, format } => {
            list(&*open().await?, all, tier.map(Into::into), format).await
        }
        Command::Search { words, limit, format } => {
            search(&*open().await?, &words.join(" "), limit, format).await
        }
        Command::Show { id, explain, tier, format } => {
            let shown = Shown { id: &id, explain, tier: tier.map(Into::into) };
            show(&*open().await?, &shown, format).await
        }
        Command::Read { uri, format } => read(&*open().await?, &uri, format).await,
        Command::Remove { ids, tier, format } => {
            remove(&*open().await?, &ids, tier.into(), format).await
        }
        Command::Serve(_)
        | Command::Add(_)
        | Command::Export(_)
        | Command::Sync(_)
        | Command::Import(_)
        | Command::Validate(_)
        | Command::Mcp { .. }
        | Command::Acp { .. }
        | Command::Prompt { .. }
        | Command::Key { .. }
        | Command::Secret { .. }
        | Command::Completions { .. } => Ok(()),
    }
}

async fn list(
    skills: &dyn Skills,
    all: bool,
    tier: Option<Tier>,
    format: Format,
) -> Result<(), Failure> {
    let mut rows = if all { skills.every_skill().await? } else { skills.skills().await? };
    rows.retain(|row| tier.is_none_or(|tier| row.tier == Some(tier)));
    if format.json {
        return Ok(output::json(&json!({ "skills": rows }))?);
    }
    match (rows.is_empty(), tier) {
        (false, _) => table(&rows),
        (true, None) => {
            Ok(output::line("No skills are registered. `skills add PATH` registers some.")?)
        }
        (true, Some(tier)) => Ok(output::line(&format!("No {tier} skills are registered."))?),
    }
}

async fn search(
    skills: &dyn Skills,
    query: &str,
    limit: usize,
    format: Format,
) -> Result<(), Failure> {
    let catalog = skills.catalog().await?;
    let rows = skills_registry::search::search(&catalog, query, limit);
    let rows: Vec<SkillInfo> = rows.into_iter().map(|row| row.as_ref().into()).collect();
    if format.json {
        return Ok(output::json(&json!({ "skills": rows }))?);
    }
    if rows.is_empty() {
        return Ok(output::line("No skill has any of these words.")?);
    }
    table(&rows)
}

/// Where a skill is stored, or that it is not.
fn stored_in(row: &SkillInfo) -> String {
    row.tier.map_or_else(|| "live".to_owned(), |tier| tier.to_string())
}

fn table(rows: &[SkillInfo]) -> Result<(), Failure> {
    let cells = |row: &SkillInfo| {
        vec![
            row.id.clone(),
            stored_in(row),
            row.live.as_ref().map_or_else(|| output::size(row.bytes), |_| "-".to_owned()),
            output::moment(&row.registered_at),
            output::plain(row.description.as_deref().unwrap_or(&row.title)),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    Ok(output::table(&["ID", "TIER", "SIZE", "REGISTERED", "DESCRIPTION"], &rows)?)
}

/// What is to be shown.
struct Shown<'a> {
    id: &'a str,
    explain: bool,
    tier: Option<Tier>,
}

async fn show(skills: &dyn Skills, shown: &Shown<'_>, format: Format) -> Result<(), Failure> {
    let id: SkillId = shown.id.parse().map_err(RegistryError::from)?;
    let resource = match shown.tier {
        None => skills.read(&format!("{SCHEME}{id}")).await?,
        Some(tier) => skills.read(&format!("{TIER_SCHEME}{tier}/{id}")).await?,
    };
    let (uri, text) = (resource.uri.clone(), resource.into_text());
    let catalog = skills.catalog().await?;
    let row = match shown.tier {
        None => catalog.skill(id.as_str()),
        Some(tier) => catalog.skill_in(tier, id.as_str()),
    };
    let Some(row) = row else {
        // A catalog from elsewhere knows of what answers, and of nothing that is shadowed.
        return match shown.tier {
            Some(_) => Ok(output::text(&text)?),
            None => Err(Failure::new("not_found", format!("skill not found: {id}"))),
        };
    };
    let info = SkillInfo::from(row.as_ref());
    let files = row.meta.files.as_slice();
    let explained = if shown.explain { Some(skills.explain(id.as_str()).await?) } else { None };
    if format.json {
        let mut shown = serde_json::to_value(&info).unwrap_or_default();
        shown["uri"] = json!(uri);
        shown["skill"] = json!(text);
        if let Some(Explanation { shadows, tried, .. }) = explained {
            shown["shadows"] = json!(shadows);
            shown["tried"] = json!(tried);
        }
        // A registry of another make does not tell.
        if !files.is_empty() {
            shown["files"] = files.iter().map(file_row).collect();
        }
        return Ok(output::json(&shown)?);
    }
    output::fields(&[
        ("id", info.id.clone()),
        ("uri", uri),
        ("tier", stored_in(&info)),
        ("title", output::plain(&info.title)),
        ("description", output::plain(info.description.as_deref().unwrap_or("-"))),
        ("size", output::size(info.bytes)),
        ("registered", output::moment(&info.registered_at)),
    ])?;
    if let Some(Explanation { shadows, tried, .. }) = explained {
        output::fields(&[("shadows", places(&shadows)), ("tried", places(&tried))])?;
    }
    if let [_, _, ..] = files {
        output::line("")?;
        let cells = |file: &FileMeta| vec![output::plain(&file.path), output::size(file.size)];
        output::table(&["FILE", "SIZE"], &files.iter().map(cells).collect::<Vec<_>>())?;
    }
    output::line("")?;
    Ok(output::text(&text)?)
}

fn places(places: &[Place]) -> String {
    let place = |place: &Place| format!("{}:{}", place.tier, place.id);
    match places {
        [] => "-".to_owned(),
        some => some.iter().map(place).collect::<Vec<_>>().join(", "),
    }
}

fn file_row(file: &FileMeta) -> Value {
    json!({ "path": file.path, "size": file.size, "digest": format!("sha256:{}", file.digest) })
}

async fn read(skills: &dyn Skills, uri: &str, format: Format) -> Result<(), Failure> {
    let resource = skills.read(uri).await.map_err(|error| {
        let failure = Failure::from(error);
        if !uri.contains("://") && failure.hint.is_none() {
            return failure.hint(format!("did you mean {SCHEME}{uri}?"));
        }
        failure
    })?;
    if format.json {
        let mut shown = json!({ "uri": resource.uri, "mimeType": resource.mime_type });
        match resource.text() {
            Some(text) => shown["text"] = json!(text),
            None => shown["blob"] = json!(BASE64.encode(&resource.body)),
        }
        return Ok(output::json(&shown)?);
    }
    match resource.text() {
        Some(text) => Ok(output::text(text)?),
        None => Ok(output::bytes(&resource.body)?),
    }
}

async fn remove(
    skills: &dyn Skills,
    ids: &[String],
    tier: Tier,
    format: Format,
) -> Result<(), Failure> {
    // All or nothing, as far as it can be known before.
    for id in ids {
        id.parse::<SkillId>().map_err(RegistryError::from)?;
    }
    let mut results = Vec::new();
    for id in ids {
        results.push((id, skills.remove_skill_in(tier, id).await?));
    }
    if format.json {
        let rows: Vec<_> =
            results.iter().map(|(id, removed)| json!({ "id": id, "removed": removed })).collect();
        return Ok(output::json(&json!({ "skills": rows }))?);
    }
    for (id, removed) in results {
        let done = if removed { "removed" } else { "there was no" };
        output::line(&format!("{done} {SCHEME}{id}"))?;
    }
    Ok(())
}
