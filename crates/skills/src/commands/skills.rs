//! `list`, `show`, `read`, `add` and `remove`.

use std::{fs, io::Read as _, path::Path};

use base64::{Engine as _, engine::general_purpose::STANDARD as BASE64};
use serde_json::json;
use skills_core::{SkillId, limits::MAX_SKILL_BYTES, uri::SCHEME};
use skills_registry::{SkillInfo, Skills};

use crate::{
    Failure,
    cli::{Command, Format, Target},
    config::Config,
    connect, output,
};

pub(super) async fn run(command: Command, target: &Target, config: &Config) -> Result<(), Failure> {
    let creates = matches!(command, Command::Add { .. });
    let open = || connect::open(target, config, creates);
    match command {
        Command::List { format } => list(&*open().await?, format).await,
        Command::Search { words, limit, format } => {
            search(&*open().await?, &words.join(" "), limit, format).await
        }
        Command::Show { id, format } => show(&*open().await?, &id, format).await,
        Command::Read { uri, format } => read(&*open().await?, &uri, format).await,
        Command::Add { file, id, format } => {
            // Before the store is touched: a file that cannot be read should leave no trace.
            let id = id.map_or_else(|| id_of(&file), Ok)?;
            let body = body_of(&file)?;
            add(&*open().await?, &id, body, format).await
        }
        Command::Remove { ids, format } => remove(&*open().await?, &ids, format).await,
        Command::Serve(_)
        | Command::Import(_)
        | Command::Mcp
        | Command::Acp { .. }
        | Command::Prompt { .. }
        | Command::Completions { .. } => Ok(()),
    }
}

async fn list(skills: &dyn Skills, format: Format) -> Result<(), Failure> {
    let rows = skills.skills().await?;
    if format.json {
        return Ok(output::json(&json!({ "skills": rows }))?);
    }
    if rows.is_empty() {
        return Ok(output::line("No skills are registered. `skills add FILE.md` registers one.")?);
    }
    table(&rows)
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

fn table(rows: &[SkillInfo]) -> Result<(), Failure> {
    let cells = |row: &SkillInfo| {
        vec![
            row.id.clone(),
            output::size(row.bytes),
            output::moment(&row.registered_at),
            output::plain(row.description.as_deref().unwrap_or(&row.title)),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    Ok(output::table(&["ID", "SIZE", "REGISTERED", "DESCRIPTION"], &rows)?)
}

async fn show(skills: &dyn Skills, id: &str, format: Format) -> Result<(), Failure> {
    let id: SkillId = id.parse().map_err(skills_registry::RegistryError::from)?;
    let resource = skills.read(&format!("{SCHEME}{id}")).await?;
    let (uri, text) = (resource.uri.clone(), resource.into_text());
    let info = skills.skills().await?.into_iter().find(|row| row.id == id.as_str());
    let Some(info) = info else {
        return Err(Failure::new("not_found", format!("skill not found: {id}")));
    };
    if format.json {
        let mut shown = serde_json::to_value(&info).unwrap_or_default();
        shown["uri"] = json!(uri);
        shown["skill"] = json!(text);
        return Ok(output::json(&shown)?);
    }
    output::fields(&[
        ("id", info.id),
        ("uri", uri),
        ("title", output::plain(&info.title)),
        ("description", output::plain(info.description.as_deref().unwrap_or("-"))),
        ("size", output::size(info.bytes)),
        ("registered", output::moment(&info.registered_at)),
    ])?;
    output::line("")?;
    Ok(output::text(&text)?)
}

async fn read(skills: &dyn Skills, uri: &str, format: Format) -> Result<(), Failure> {
    let resource = skills.read(uri).await.map_err(|error| {
        let failure = Failure::from(error);
        if !uri.starts_with(SCHEME) && failure.hint.is_none() {
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

/// The id that a file's name stands for.
fn id_of(file: &Path) -> Result<String, Failure> {
    let stem = file.file_stem().and_then(|stem| stem.to_str()).unwrap_or_default();
    // "-" would be an id, but here it stands for standard input.
    let usable = file != Path::new("-") && stem.parse::<SkillId>().is_ok();
    usable.then(|| stem.to_owned()).ok_or_else(|| {
        Failure::new("id_needed", format!("the name of {} is no skill id", file.display()))
            .hint("give one with --id: lowercase letters, digits, '-' and '_'")
    })
}

fn body_of(file: &Path) -> Result<String, Failure> {
    let unreadable = |reason: String| {
        Failure::new("unreadable", format!("cannot read {}: {reason}", file.display()))
    };
    // One byte more than allowed is enough to know, however long the file is.
    let limit = MAX_SKILL_BYTES as u64 + 1;
    let mut bytes = Vec::new();
    let read = if file == Path::new("-") {
        std::io::stdin().take(limit).read_to_end(&mut bytes)
    } else {
        fs::File::open(file).and_then(|file| file.take(limit).read_to_end(&mut bytes))
    };
    read.map_err(|error| unreadable(error.to_string()))?;
    if bytes.len() > MAX_SKILL_BYTES {
        let message =
            format!("{} is too large: at most {MAX_SKILL_BYTES} bytes are allowed", file.display());
        return Err(Failure::new("too_large", message));
    }
    String::from_utf8(bytes).map_err(|error| {
        let at = error.utf8_error().valid_up_to();
        unreadable(format!("it is not UTF-8 text (byte {at})"))
    })
}

async fn add(skills: &dyn Skills, id: &str, body: String, format: Format) -> Result<(), Failure> {
    let bytes = body.len() as u64;
    let registered_at = skills.register_skill(id, body).await?;
    if format.json {
        return Ok(output::json(&json!({ "id": id, "registered_at": registered_at }))?);
    }
    Ok(output::line(&format!("registered {SCHEME}{id} ({})", output::size(bytes)))?)
}

async fn remove(skills: &dyn Skills, ids: &[String], format: Format) -> Result<(), Failure> {
    // All or nothing, as far as it can be known before.
    for id in ids {
        id.parse::<SkillId>().map_err(skills_registry::RegistryError::from)?;
    }
    let mut results = Vec::new();
    for id in ids {
        results.push((id, skills.remove_skill(id).await?));
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

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_name_of_a_file_is_its_id_when_it_can_be() {
        assert_eq!(id_of(Path::new("a/my-tool.md")).ok().as_deref(), Some("my-tool"));
        for name in ["My Tool.md", "skills.md", "/", "-"] {
            assert!(id_of(Path::new(name)).is_err(), "{name}");
        }
    }
}
