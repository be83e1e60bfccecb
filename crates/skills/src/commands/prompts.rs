//! `prompt list`, `prompt add` and `prompt get`.

use serde_json::{Map, Value, json};
use skills_core::{Code, PromptArgument, PromptDefinition};
use skills_registry::{PromptInfo, SkillRegistry};

use crate::{
    Failure,
    cli::{OutputFormat, PromptAddArgs},
    output,
};

pub(super) async fn list(skills: &dyn SkillRegistry, format: OutputFormat) -> Result<(), Failure> {
    let rows = skills.prompts().await?;
    if format.json {
        return Ok(output::json(&json!({ "prompts": rows }))?);
    }
    if rows.is_empty() {
        return Ok(output::line("No prompts are registered.")?);
    }
    let cells = |row: &PromptInfo| {
        vec![
            row.name.clone(),
            signature(&row.arguments),
            output::plain(&row.function_id),
            output::plain(&row.description),
        ]
    };
    let rows: Vec<_> = rows.iter().map(cells).collect();
    Ok(output::table(&["NAME", "ARGUMENTS", "HANDLER", "DESCRIPTION"], &rows)?)
}

pub(super) async fn add(skills: &dyn SkillRegistry, args: PromptAddArgs) -> Result<(), Failure> {
    let PromptAddArgs { name, function, description, required, optional, tier, publish, format } =
        args;
    let argument = |text: &String, required: bool| match text.split_once('=') {
        Some((name, description)) => {
            let description = Some(description.to_owned());
            PromptArgument { name: name.to_owned(), description, required }
        }
        None => PromptArgument { name: text.clone(), description: None, required },
    };
    let arguments = required.iter().map(|text| argument(text, true));
    let arguments = arguments.chain(optional.iter().map(|text| argument(text, false))).collect();
    let definition = PromptDefinition { description, arguments, function_id: function };
    let published = skills.publish_prompt(tier.into(), &name, definition, publish.into()).await?;
    if format.json {
        let mut answer = json!({ "name": name, "registered_at": published.registered_at });
        if let Some(version) = published.version {
            answer["version"] = json!(version);
        }
        return Ok(output::json(&answer)?);
    }
    Ok(output::line(&format!("registered prompt {}", output::plain(&name)))?)
}

/// Formats arguments as `to subject [cc]`.
fn signature(arguments: &[PromptArgument]) -> String {
    let name = |argument: &PromptArgument| {
        let name = output::plain(&argument.name);
        if argument.required { name } else { format!("[{name}]") }
    };
    match arguments {
        [] => "-".to_owned(),
        some => some.iter().map(name).collect::<Vec<_>>().join(" "),
    }
}

pub(super) fn parse_arguments(arguments: &[String]) -> Result<Value, Failure> {
    let pair = |argument: &String| match argument.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), json!(value))),
        _ => Err(Failure::new(Code::BadArgument, format!("{argument:?} is not name=value"))),
    };
    arguments.iter().map(pair).collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

pub(super) async fn get(
    skills: &dyn SkillRegistry,
    name: &str,
    arguments: Value,
    format: OutputFormat,
) -> Result<(), Failure> {
    let rendered = skills.render_prompt(name, arguments).await?;
    if format.json {
        return Ok(output::json(&rendered)?);
    }
    for (number, message) in rendered.messages.iter().enumerate() {
        if number > 0 {
            output::line("")?;
        }
        if rendered.messages.len() > 1 {
            let role = message["role"].as_str().unwrap_or("?");
            output::line(&format!("[{}]", output::plain(role)))?;
        }
        match message["content"]["text"].as_str().or_else(|| message["content"].as_str()) {
            Some(text) => output::text(&format!("{text}\n"))?,
            None => output::json(&message["content"])?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_parsed_as_name_and_value() {
        let arguments = ["to=a@b.c", "note=x=y", "empty="].map(str::to_owned);
        let parsed = parse_arguments(&arguments).ok();
        assert_eq!(parsed, Some(json!({"to": "a@b.c", "note": "x=y", "empty": ""})));
        assert!(parse_arguments(&["nothing".to_owned()]).is_err());
        assert!(parse_arguments(&["=x".to_owned()]).is_err());
    }
}
