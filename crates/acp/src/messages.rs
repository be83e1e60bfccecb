//! Responses that are not rendered content: help and errors. They are short, and never list the whole catalog.

use agent_client_protocol::v1::schema::AvailableCommand;
use skills_core::{Coded, PromptArgument, limits::MAX_ID_BYTES, text::truncate};
use skills_registry::RegistryError;

use crate::{
    arguments::ArgumentError,
    commands::{CommandList, usage},
};

/// Commands that are shown as examples.
const MAX_EXAMPLES: usize = 10;
/// Most names that are suggested.
const MAX_SUGGESTIONS: usize = 3;
/// Most characters of a description.
const MAX_DESCRIPTION: usize = 100;
/// Most characters of quoted input or of an error.
const MAX_QUOTE: usize = 500;
/// Most edits between a typed name and a suggestion.
const MAX_DISTANCE: usize = 2;

/// Returns a help text with some of the commands.
pub(crate) fn help(list: &CommandList) -> String {
    let commands = &list.commands;
    if commands.is_empty() {
        return "This is the skills registry. It renders prompts and shows skills; none is \
                registered yet.\n"
            .to_owned();
    }
    let mut text =
        "This is the skills registry. It has no model of its own: it renders a prompt or \
                    shows a skill when a message starts with its name, as in `/name arguments`.\n\n"
            .to_owned();
    text.extend(commands.iter().take(MAX_EXAMPLES).map(line));
    let more = commands.len().saturating_sub(MAX_EXAMPLES);
    if more > 0 {
        text.push_str(&format!("\n{more} more are in the list of commands: type `/`.\n"));
    }
    text
}

fn line(command: &AvailableCommand) -> String {
    let description = command.description.lines().next().unwrap_or_default();
    format!("- `/{}`: {}\n", command.name, truncate(description, MAX_DESCRIPTION))
}

/// Returns the error for an unknown command, with suggestions.
pub(crate) fn unknown(name: &str, list: &CommandList) -> String {
    let mut text =
        format!("There is no prompt or skill called `/{}`.", truncate(name, MAX_ID_BYTES));
    let names: Vec<String> =
        suggestions(name, list).iter().map(|name| format!("`/{name}`")).collect();
    if !names.is_empty() {
        text.push_str(&format!(" Did you mean {}?", names.join(" or ")));
    }
    text.push('\n');
    text
}

/// Returns the commands with similar names, the most similar first.
fn suggestions<'a>(name: &str, list: &'a CommandList) -> Vec<&'a str> {
    if name.is_empty() || name.len() > MAX_ID_BYTES {
        return vec![];
    }
    let name = name.to_lowercase();
    let distance = |candidate: &str| match strsim::osa_distance(&name, candidate) {
        distance if distance <= MAX_DISTANCE && distance < name.chars().count() => Some(distance),
        _ if candidate.contains(&name) => Some(MAX_DISTANCE + 1),
        _ => None,
    };
    let names = list.commands.iter().map(|command| command.name.as_str());
    let mut similar: Vec<(usize, &str)> =
        names.filter_map(|name| distance(name).map(|distance| (distance, name))).collect();
    similar.sort_unstable();
    similar.into_iter().take(MAX_SUGGESTIONS).map(|(_, name)| name).collect()
}

/// Returns the error for a skill that users cannot invoke.
pub(crate) fn not_invocable(name: &str) -> String {
    format!("The skill `{name}` is for agents; users cannot invoke it.\n")
}

/// Returns the error for arguments that do not fit a prompt, with its usage.
pub(crate) fn bad_arguments(
    name: &str,
    declared: &[PromptArgument],
    error: &ArgumentError,
) -> String {
    let mut text = match error {
        ArgumentError::Missing(missing) => {
            let missing: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            let needs = if missing.len() == 1 { "this argument" } else { "these arguments" };
            format!("`/{name}` needs {needs}: {}.", missing.join(", "))
        }
        ArgumentError::Unexpected(text) => {
            format!("`/{name}` has no argument for this: {}", truncate(text, MAX_QUOTE))
        }
    };
    if declared.is_empty() {
        text.push_str("\n\nIt takes no arguments.\n");
    } else {
        let usage = usage(declared);
        text.push_str(&format!("\n\n`/{name} {usage}`; each may be given as `name=value`.\n"));
    }
    for argument in declared {
        if let Some(description) = &argument.description {
            text.push_str(&format!(
                "\n- `{}`: {}",
                argument.name,
                truncate(description, MAX_DESCRIPTION)
            ));
        }
    }
    text
}

/// Returns the error for arguments above the size limit.
pub(crate) fn too_long(name: &str, max_bytes: usize) -> String {
    format!("The arguments of `/{name}` are longer than {} KiB.\n", max_bytes >> 10)
}

/// Returns the error of the registry, or of the function behind a prompt.
pub(crate) fn failed(action: &str, error: &RegistryError) -> String {
    let mut text = format!("{action} failed: {}\n", truncate(error.to_string(), MAX_QUOTE));
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nHint: {hint}\n"));
    }
    text
}

/// Returns the warning before the text of a yanked version.
pub(crate) fn yanked(address: &str, reason: &str) -> String {
    let reason = truncate(reason.to_owned(), MAX_QUOTE);
    format!("> Warning: `{address}` is yanked: {reason}\n\n")
}

#[cfg(test)]
mod tests {
    use super::*;

    fn list(names: &[&str]) -> CommandList {
        let commands = names.iter().map(|name| AvailableCommand::new(*name, "d".repeat(300)));
        CommandList { commands: commands.collect(), ..CommandList::default() }
    }

    #[test]
    fn help_is_bounded() {
        let names: Vec<String> = (0..1_000).map(|number| format!("c{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = help(&list(&names));
        assert!(
            text.contains("`/c9`") && text.contains("990 more") && text.len() < 2_000,
            "{text}"
        );
        assert!(!help(&list(&["a"])).contains("more are"));
        assert!(help(&list(&[])).contains("none is registered"));
    }

    #[test]
    fn similar_names_are_suggested() {
        let list = list(&["greet", "great", "pdf", "pdf-forms", "x"]);
        assert!(unknown("gret", &list).contains("`/great` or `/greet`?"));
        assert!(unknown("PDF", &list).contains("`/pdf` or `/pdf-forms`?"));
        assert!(!unknown("ab", &list).contains("mean"));
        assert!(!unknown(&"g".repeat(10_000), &list).contains("mean"));
        assert!(unknown(&"g".repeat(10_000), &list).len() < 200);
    }

    #[test]
    fn missing_arguments_are_named() {
        let declared = [PromptArgument {
            name: "who".to_owned(),
            description: Some("Who to greet".to_owned()),
            required: true,
        }];
        let text =
            bad_arguments("greet", &declared, &ArgumentError::Missing(vec!["who".to_owned()]));
        for words in ["needs this argument: `who`", "/greet <who>", "Who to greet"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
