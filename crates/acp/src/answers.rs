//! What is said when there is nothing to render: short, and never the whole catalogue.

use agent_client_protocol::v1::schema::AvailableCommand;
use skills_core::{PromptArgument, limits::MAX_ID_BYTES};
use skills_registry::RegistryError;

use crate::{
    arguments::Problem,
    menu::{Menu, usage},
};

/// So many commands are shown as examples.
const SHOWN: usize = 10;
/// So many names are suggested.
const SUGGESTED: usize = 3;
/// How much of a description is shown, in characters.
const DESCRIPTION: usize = 100;
/// How much is shown of what was typed or of an error, in characters.
const QUOTED: usize = 500;
/// A name that differs in more characters than this is another one.
const MAX_DISTANCE: usize = 2;

/// What this is, and some of what it offers.
pub(crate) fn help(menu: &Menu) -> String {
    let commands = &menu.commands;
    if commands.is_empty() {
        return "This is the skills registry. It renders prompts and shows skills; none is \
                registered yet.\n"
            .to_owned();
    }
    let mut text =
        "This is the skills registry. It has no model of its own: it renders a prompt or \
                    shows a skill when a message starts with its name, as in `/name arguments`.\n\n"
            .to_owned();
    text.extend(commands.iter().take(SHOWN).map(line));
    match commands.len().saturating_sub(SHOWN) {
        0 => {}
        more => text.push_str(&format!("\n{more} more are in the list of commands: type `/`.\n")),
    }
    text
}

fn line(command: &AvailableCommand) -> String {
    let description = command.description.lines().next().unwrap_or_default();
    format!("- `/{}`: {}\n", command.name, brief(description, DESCRIPTION))
}

/// Nothing has that name.
pub(crate) fn unknown(name: &str, menu: &Menu) -> String {
    let mut text = format!("There is no prompt or skill called `/{}`.", brief(name, MAX_ID_BYTES));
    let near = near(name, menu);
    if !near.is_empty() {
        let near: Vec<String> = near.iter().map(|name| format!("`/{name}`")).collect();
        text.push_str(&format!(" Did you mean {}?", near.join(" or ")));
    }
    text.push('\n');
    text
}

/// The names that are likely to be meant, the likeliest first.
fn near<'a>(name: &str, menu: &'a Menu) -> Vec<&'a str> {
    if name.is_empty() || name.len() > MAX_ID_BYTES {
        return vec![];
    }
    let name = name.to_lowercase();
    let distance = |candidate: &str| match strsim::osa_distance(&name, candidate) {
        distance if distance <= MAX_DISTANCE && distance < name.chars().count() => Some(distance),
        _ if candidate.contains(&name) => Some(MAX_DISTANCE + 1),
        _ => None,
    };
    let names = menu.commands.iter().map(|command| command.name.as_str());
    let mut near: Vec<(usize, &str)> =
        names.filter_map(|name| distance(name).map(|distance| (distance, name))).collect();
    near.sort_unstable();
    near.into_iter().take(SUGGESTED).map(|(_, name)| name).collect()
}

/// It is there, but not for people.
pub(crate) fn not_invocable(name: &str) -> String {
    format!("The skill `{name}` is for agents; it says that people do not invoke it.\n")
}

/// It cannot be rendered with what was typed.
pub(crate) fn bad_arguments(name: &str, declared: &[PromptArgument], problem: &Problem) -> String {
    let mut text = match problem {
        Problem::Missing(missing) => {
            let missing: Vec<String> = missing.iter().map(|name| format!("`{name}`")).collect();
            let needs = if missing.len() == 1 { "this argument" } else { "these arguments" };
            format!("`/{name}` needs {needs}: {}.", missing.join(", "))
        }
        Problem::NoPlace(text) => {
            format!("`/{name}` has no argument for this: {}", brief(text, QUOTED))
        }
    };
    match usage(declared) {
        usage if usage.is_empty() => text.push_str("\n\nIt takes none.\n"),
        usage => {
            text.push_str(&format!("\n\n`/{name} {usage}`; each may be given as `name=value`.\n"))
        }
    }
    for argument in declared {
        if let Some(description) = &argument.description {
            text.push_str(&format!("\n- `{}`: {}", argument.name, brief(description, DESCRIPTION)));
        }
    }
    text
}

/// More was typed than is passed on.
pub(crate) fn too_long(name: &str, most: usize) -> String {
    format!("What was typed behind `/{name}` is longer than {} KiB.\n", most >> 10)
}

/// The registry, or the function behind a prompt, could not do it.
pub(crate) fn failed(what: &str, error: &RegistryError) -> String {
    let mut text = format!("{what} failed: {}\n", brief(&error.to_string(), QUOTED));
    if let Some(hint) = error.hint() {
        text.push_str(&format!("\nHint: {hint}\n"));
    }
    text
}

fn brief(text: &str, most: usize) -> String {
    match text.char_indices().nth(most) {
        Some((end, _)) => format!("{}...", &text[..end]),
        None => text.to_owned(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn menu(names: &[&str]) -> Menu {
        let commands = names.iter().map(|name| AvailableCommand::new(*name, "d".repeat(300)));
        Menu { commands: commands.collect(), ..Menu::default() }
    }

    #[test]
    fn help_is_bounded() {
        let names: Vec<String> = (0..1_000).map(|number| format!("c{number}")).collect();
        let names: Vec<&str> = names.iter().map(String::as_str).collect();
        let text = help(&menu(&names));
        assert!(
            text.contains("`/c9`") && text.contains("990 more") && text.len() < 2_000,
            "{text}"
        );
        assert!(!help(&menu(&["a"])).contains("more are"));
        assert!(help(&menu(&[])).contains("none is registered"));
    }

    #[test]
    fn near_names() {
        let menu = menu(&["greet", "great", "pdf", "pdf-forms", "x"]);
        assert!(unknown("gret", &menu).contains("`/great` or `/greet`?"));
        assert!(unknown("PDF", &menu).contains("`/pdf` or `/pdf-forms`?"));
        assert!(!unknown("ab", &menu).contains("mean"));
        assert!(!unknown(&"g".repeat(10_000), &menu).contains("mean"));
        assert!(unknown(&"g".repeat(10_000), &menu).len() < 200);
    }

    #[test]
    fn missing_arguments_are_named() {
        let declared = [PromptArgument {
            name: "who".to_owned(),
            description: Some("Who to greet".to_owned()),
            required: true,
        }];
        let text = bad_arguments("greet", &declared, &Problem::Missing(vec!["who".to_owned()]));
        for words in ["needs this argument: `who`", "/greet <who>", "Who to greet"] {
            assert!(text.contains(words), "{text}");
        }
    }
}
