//! `list`, `show` and `read`.

use std::sync::Arc;

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::{Value, json};
use skills_core::{
    Code, FileMeta, SkillId, Tier, VersionSelector,
    skill::ROOT_PATH,
    uri::{SCHEME, SKILL_SCHEME},
    version::{VERSION_SEPARATOR, split_version},
};
use skills_registry::{
    ExplainedLayer, Explanation, ReadVersion, RegistryError, SkillInfo, SkillRegistry, SkillRow,
};

use super::versions::warn_if_yanked;
use crate::{Failure, cli::OutputFormat, output};

pub(super) async fn list(
    skills: &dyn SkillRegistry,
    all: bool,
    tier: Option<Tier>,
    format: OutputFormat,
) -> Result<(), Failure> {
    let mut rows = if all { skills.all_skills().await? } else { skills.skills().await? };
    rows.retain(|row| tier.is_none_or(|tier| row.tier == Some(tier)));
    if format.json {
        return Ok(output::json(&json!({ "skills": rows }))?);
    }
    match (rows.is_empty(), tier) {
        (false, _) => table(&rows),
        (true, None) => {
            Ok(output::line("No skills are registered. Register some with `skills add PATH`.")?)
        }
        (true, Some(tier)) => Ok(output::line(&format!("No {tier} skills are registered."))?),
    }
}

/// Returns the tier of a skill, or `live`.
fn tier_label(row: &SkillInfo) -> String {
    row.tier.map_or_else(|| "live".to_owned(), |tier| tier.to_string())
}

fn table(rows: &[SkillInfo]) -> Result<(), Failure> {
    let cells = |row: &SkillInfo| {
        vec![
            row.id.clone(),
            tier_label(row),
            row.live.as_ref().map_or_else(|| output::size(row.bytes), |_| "-".to_owned()),
            output::format_time(&row.registered_at),
            output::plain(row.description.as_deref().unwrap_or(&row.title)),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    Ok(output::table(&["ID", "TIER", "SIZE", "REGISTERED", "DESCRIPTION"], &rows)?)
}

pub(super) async fn show(
    skills: &dyn SkillRegistry,
    id: &str,
    tier: Option<Tier>,
    explain: bool,
    format: OutputFormat,
) -> Result<(), Failure> {
    let (id, version) = split_version(id).map_err(RegistryError::from)?;
    let id: SkillId = id.parse().map_err(RegistryError::from)?;
    let (uri, text, row) = match version {
        Some(version) => version_document(skills, &id, tier, &version).await?,
        None => served_document(skills, &id, tier).await?,
    };
    let Some(row) = row else {
        // The catalog of a remote registry has no shadowed entries.
        return match tier {
            Some(_) => Ok(output::text(&text)?),
            None => Err(Failure::new(Code::NotFound, format!("skill not found: {id}"))),
        };
    };
    let info = SkillInfo::from(row.as_ref());
    let version = row.version();
    let files = row.meta.files.as_slice();
    let source = row.meta.provenance.as_deref();
    let explanation = if explain { Some(skills.explain(id.as_str()).await?) } else { None };
    if format.json {
        let mut answer = serde_json::to_value(&info).unwrap_or_default();
        answer["uri"] = json!(uri);
        answer["skill"] = json!(text);
        if let Some(Explanation { shadows, tried, .. }) = explanation {
            answer["shadows"] = json!(shadows);
            answer["tried"] = json!(tried);
        }
        if let Some(source) = source {
            answer["source"] = json!(source);
        }
        add_version(&mut answer, version.as_ref());
        // A third-party registry does not list files.
        if !files.is_empty() {
            answer["files"] = files.iter().map(file_row).collect();
        }
        return Ok(output::json(&answer)?);
    }
    let yanked = version.as_ref().and_then(|version| version.yanked.as_deref());
    warn_if_yanked(&uri, yanked);
    output::fields(&[
        ("id", info.id.clone()),
        ("uri", uri),
        ("version", version.map_or_else(|| "-".to_owned(), |version| version.version.to_string())),
        ("tier", tier_label(&info)),
        ("title", output::plain(&info.title)),
        ("description", output::plain(info.description.as_deref().unwrap_or("-"))),
        ("size", output::size(info.bytes)),
        ("registered", output::format_time(&info.registered_at)),
        (
            "source",
            source.map_or_else(|| "-".to_owned(), |source| output::plain(&source.to_string())),
        ),
    ])?;
    if let Some(Explanation { shadows, tried, .. }) = explanation {
        output::fields(&[("shadows", join_places(&shadows)), ("tried", join_places(&tried))])?;
    }
    if let [_, _, ..] = files {
        output::line("")?;
        let cells = |file: &FileMeta| vec![output::plain(&file.path), output::size(file.size)];
        output::table(&["FILE", "SIZE"], &files.iter().map(cells).collect::<Vec<_>>())?;
    }
    output::line("")?;
    Ok(output::text(&text)?)
}

/// Uri, root document and row of a skill.
type SkillDocument = (String, String, Option<Arc<SkillRow>>);

/// Reads the version of a skill that its id resolves to, or that of one tier.
async fn served_document(
    skills: &dyn SkillRegistry,
    id: &SkillId,
    tier: Option<Tier>,
) -> Result<SkillDocument, Failure> {
    let resource = match tier {
        None => skills.read(&format!("{SCHEME}{id}")).await?,
        Some(tier) => skills.read(&format!("{SKILL_SCHEME}{tier}/{id}")).await?,
    };
    let catalog = skills.catalog().await?;
    let row = match tier {
        None => catalog.skill(id.as_str()),
        Some(tier) => catalog.skill_in(tier, id.as_str()),
    };
    Ok((resource.uri.clone(), resource.into_text(), row.cloned()))
}

/// Reads one version of a skill.
async fn version_document(
    skills: &dyn SkillRegistry,
    id: &SkillId,
    tier: Option<Tier>,
    version: &VersionSelector,
) -> Result<SkillDocument, Failure> {
    let row = skills.skill_version(tier, id.as_str(), version).await?;
    let document = skills.document(&row, ROOT_PATH).await?;
    let scheme = tier.map_or_else(|| SCHEME.to_owned(), |tier| format!("{SKILL_SCHEME}{tier}/"));
    let uri = format!("{scheme}{id}{VERSION_SEPARATOR}{version}");
    Ok((uri, String::from_utf8_lossy(&document.body).into_owned(), Some(row)))
}

/// Adds the version that content is of to an answer.
fn add_version(answer: &mut Value, version: Option<&ReadVersion>) {
    if let Some(ReadVersion { version, yanked, .. }) = version {
        answer["version"] = json!(version);
        if let Some(reason) = yanked {
            answer["yanked"] = json!(reason);
        }
    }
}

fn join_places(places: &[ExplainedLayer]) -> String {
    let place = |place: &ExplainedLayer| format!("{}:{}", place.tier, place.id);
    match places {
        [] => "-".to_owned(),
        some => some.iter().map(place).collect::<Vec<_>>().join(", "),
    }
}

fn file_row(file: &FileMeta) -> Value {
    let mut row = json!({ "path": file.path, "size": file.size, "digest": format!("sha256:{}", file.digest) });
    if let Some(executable) = file.executable {
        row["executable"] = json!(executable);
    }
    row
}

pub(super) async fn read(
    skills: &dyn SkillRegistry,
    uri: &str,
    format: OutputFormat,
) -> Result<(), Failure> {
    let resource = skills.read(uri).await.map_err(|error| {
        let failure = Failure::from(error);
        if !uri.contains("://") && failure.hint.is_none() {
            return failure.hint(format!("did you mean {SCHEME}{uri}?"));
        }
        failure
    })?;
    if format.json {
        let mut answer = json!({ "uri": resource.uri, "mimeType": resource.mime_type });
        match resource.text() {
            Some(text) => answer["text"] = json!(text),
            None => answer["blob"] = json!(BASE64.encode(&resource.body)),
        }
        add_version(&mut answer, resource.version.as_ref());
        return Ok(output::json(&answer)?);
    }
    let version = resource.version.as_ref();
    warn_if_yanked(&resource.uri, version.and_then(|version| version.yanked.as_deref()));
    match resource.text() {
        Some(text) => Ok(output::text(text)?),
        None => Ok(output::bytes(&resource.body)?),
    }
}
