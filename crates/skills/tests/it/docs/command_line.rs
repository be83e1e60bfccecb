//! The commands in the documentation exist, with their flags, and the synopsis is complete.

use std::collections::BTreeMap;

use clap::{Command, CommandFactory as _};
use skills::cli::Cli;

use super::{code_spans, pages, read, root, sources};

/// Words that end a command in a shell.
const SHELL_OPERATORS: [&str; 9] = ["|", "||", "&&", ";", "&", ">", "2>", "<", "#"];

/// Returns the subcommand that words begin with, and its path.
fn find<'a>(root: &'a Command, words: &[&str]) -> (String, &'a Command) {
    let (mut path, mut command) = (vec![], root);
    for word in words {
        let Some(found) = command.find_subcommand(word) else { break };
        (path, command) = ([&path[..], &[found.get_name()]].concat(), found);
    }
    (path.join(" "), command)
}

/// Returns the long flags in a text.
fn flags(text: &str) -> impl Iterator<Item = &str> {
    let words = text.split(|c: char| !(c.is_ascii_alphanumeric() || c == '-'));
    words.filter_map(|word| word.strip_prefix("--")).filter(|flag| !flag.is_empty())
}

fn has_flag(root: &Command, command: &Command, flag: &str) -> bool {
    let is_flag = |arg: &clap::Arg| arg.get_long() == Some(flag);
    command.get_arguments().any(is_flag)
        || root.get_arguments().any(|arg| arg.is_global_set() && is_flag(arg))
        || ["help", "version"].contains(&flag)
}

/// Checks a command without its program name: its subcommand, unless it has none, and its flags.
fn check(page: &str, root: &Command, text: &str) {
    let words = text.split_whitespace().take_while(|word| !SHELL_OPERATORS.contains(word));
    let words: Vec<&str> = words.map(|word| word.trim_end_matches([')', ';', '"'])).collect();
    let is_name = |word: &&str| word.chars().all(|c| c.is_ascii_lowercase() || c == '-');
    let (path, command) = find(root, &words);
    let named = words.first().filter(|word| is_name(word) && !word.starts_with('-'));
    assert!(named.is_none() || !path.is_empty(), "{page}: no such command: skills {text}");
    for flag in flags(&words.join(" ")) {
        assert!(has_flag(root, command, flag), "{page}: skills {path} has no --{flag}");
    }
}

/// Returns alternatives of a synopsis line, which are separated by `|` outside brackets.
fn alternatives(line: &str) -> Vec<String> {
    let (mut parts, mut depth) = (vec![String::new()], 0);
    for c in line.chars() {
        match c {
            '[' => depth += 1,
            ']' => depth -= 1,
            '|' if depth == 0 && parts.last().is_some_and(|part| part.ends_with(' ')) => {
                parts.push(String::new());
                continue;
            }
            _ => {}
        }
        parts.last_mut().unwrap().push(c);
    }
    parts
}

/// Collects the synopsis of every command, by its path.
fn synopsis(root: &Command) -> BTreeMap<String, String> {
    let page = read("docs/cli.md");
    let (_, block) = page.split_once("```\n").unwrap();
    let (block, _) = block.split_once("```").unwrap();
    let lines = block.replace("\n      ", " ");
    let mut commands = BTreeMap::<String, String>::new();
    for line in lines.lines() {
        let mut last = String::new();
        for part in alternatives(line.strip_prefix("skills").unwrap()) {
            let words: Vec<&str> = part.split_whitespace().collect();
            let (path, _) = find(root, &words);
            // An alternative without a name belongs to the command before it.
            last = if path.is_empty() { last } else { path };
            commands.entry(last.clone()).or_default().push_str(&part);
        }
    }
    commands
}

/// Lists all commands that do something, by their paths.
fn leaves<'a>(command: &'a Command, path: &str, found: &mut Vec<(String, &'a Command)>) {
    let inner = command.get_subcommands().filter(|inner| inner.get_name() != "help");
    let inner: Vec<&Command> = inner.collect();
    if inner.is_empty() || path.is_empty() || !command.is_subcommand_required_set() {
        found.push((path.to_owned(), command));
    }
    for command in inner {
        let path = format!("{path} {}", command.get_name());
        leaves(command, path.trim_start(), found);
    }
}

#[test]
fn the_synopsis_has_every_command_with_its_flags() {
    let root = Cli::command();
    let synopsis = synopsis(&root);
    let mut commands = vec![];
    leaves(&root, "", &mut commands);
    let mut expected: Vec<&str> = commands.iter().map(|(path, _)| path.as_str()).collect();
    expected.sort_unstable();
    assert_eq!(synopsis.keys().map(String::as_str).collect::<Vec<_>>(), expected);
    for (path, command) in commands {
        let text = &synopsis[&path];
        for flag in flags(text) {
            assert!(has_flag(&root, command, flag), "docs/cli.md: skills {path} has no --{flag}");
        }
        let own = command.get_arguments().filter(|arg| !arg.is_global_set() && !arg.is_hide_set());
        // Every command has --json; the page says so once.
        for flag in own.filter_map(clap::Arg::get_long).filter(|flag| *flag != "json") {
            assert!(
                flags(text).any(|found| found == flag),
                "docs/cli.md: the synopsis of skills {path} lacks --{flag}"
            );
        }
    }
}

#[test]
fn commands_in_code_blocks_exist() {
    let root = Cli::command();
    let mut count = 0;
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let text = read(page);
        let blocks = text.split("```").skip(1).step_by(2);
        let blocks = blocks.filter(|it| it.starts_with("sh\n") || it.starts_with("console\n"));
        for line in blocks.flat_map(str::lines) {
            let line = line.strip_prefix("$ ").unwrap_or(line);
            let command =
                line.strip_prefix("skills ").or_else(|| Some(line.split_once("$(skills ")?.1));
            if let Some(command) = command {
                check(page, &root, command);
                count += 1;
            }
        }
    }
    assert!(count > 20, "only {count} commands found");
}

#[test]
fn commands_in_sentences_exist() {
    let root = Cli::command();
    for page in pages().iter().filter(|page| *page != "CHANGELOG.md") {
        let text = read(page);
        let prose: Vec<&str> = text.split("```").step_by(2).collect();
        for command in code_spans(&prose.concat()).filter_map(|span| span.strip_prefix("skills ")) {
            check(page, &root, command);
        }
    }
}

#[test]
fn environment_variables_are_documented() {
    let code = sources(&root().join("crates/skills/src"), "rs").replace("env!(\"", "");
    let text: String = pages().iter().map(|page| read(page)).collect();
    let is_variable = |word: &&str| {
        ["SKILLS_", "III_"].iter().any(|prefix| word.starts_with(prefix))
            && word.chars().all(|c| c.is_ascii_uppercase() || c == '_')
    };
    for name in code.split('"').filter(is_variable) {
        assert!(text.contains(&format!("`{name}`")), "no page describes {name}");
    }
}
