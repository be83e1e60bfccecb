//! `prompt list` and `prompt get`.

use serde_json::{Map, Value, json};
use skills_core::PromptArgument;
use skills_registry::{PromptInfo, Skills};

use crate::{
    Failure,
    cli::{Format, PromptCommand, Target},
    config::Config,
    connect, output,
};

pub(super) async fn run(
    command: PromptCommand,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    match command {
        PromptCommand::List { format } => {
            list(&*connect::open(target, config, false).await?, format).await
        }
        PromptCommand::Get { name, arguments, format } => {
            let arguments = parse_arguments(&arguments)?;
            get(&*connect::open(target, config, false).await?, &name, arguments, format).await
        }
    }
}

async fn list(skills: &dyn Skills, format: Format) -> Result<(), Failure> {
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

/// `to subject [cc]`
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

fn parse_arguments(arguments: &[String]) -> Result<Value, Failure> {
    let pair = |argument: &String| match argument.split_once('=') {
        Some((name, value)) if !name.is_empty() => Ok((name.to_owned(), json!(value))),
        _ => Err(Failure::new("bad_argument", format!("{argument:?} is not name=value"))),
    };
    arguments.iter().map(pair).collect::<Result<Map<_, _>, _>>().map(Value::Object)
}

async fn get(
    skills: &dyn Skills,
    name: &str,
    arguments: Value,
    format: Format,
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
            output::line(&format!("[{}]", message["role"].as_str().unwrap_or("?")))?;
        }
        match message["content"]["text"].as_str().or_else(|| message["content"].as_str()) {
            Some(text) => output::line(text)?,
            None => output::json(&message["content"])?,
        }
    }
    Ok(())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn arguments_are_name_and_value() {
        let given = ["to=a@b.c", "note=x=y", "empty="].map(str::to_owned);
        let parsed = parse_arguments(&given).ok();
        assert_eq!(parsed, Some(json!({"to": "a@b.c", "note": "x=y", "empty": ""})));
        assert!(parse_arguments(&["nothing".to_owned()]).is_err());
        assert!(parse_arguments(&["=x".to_owned()]).is_err());
    }
}
