//! Help of each command with the common options that matter there.

use std::io::Write as _;

use clap::CommandFactory as _;

use super::Cli;

/// Options of the registry, which are accepted everywhere. Help shows them only where they have an effect.
const REGISTRY_OPTIONS: [&str; 8] =
    ["url", "data_dir", "store", "token", "key", "verbose", "config", "log_format"];

/// Commands with the common options that have no effect on them.
const HIDDEN_OPTIONS: [(&str, &[&str]); 9] = [
    ("completions", &REGISTRY_OPTIONS),
    ("help", &REGISTRY_OPTIONS),
    ("init", &REGISTRY_OPTIONS),
    ("store", &REGISTRY_OPTIONS),
    ("validate", &REGISTRY_OPTIONS),
    ("connect", &["token", "key", "verbose", "config", "log_format"]),
    ("key", &["url", "token", "key", "verbose", "config"]),
    ("secret", &["url", "token", "key", "verbose"]),
    ("serve", &["url", "key", "verbose"]),
];

/// Hides options in the help of a command and of its subcommands.
fn hide_options(mut command: clap::Command, options: &[&str]) -> clap::Command {
    for option in options {
        if command.get_arguments().any(|argument| argument.get_id() == option) {
            command = command.mut_arg(option, |argument| argument.hide(true));
        }
    }
    let names: Vec<String> =
        command.get_subcommands().map(|inner| inner.get_name().to_owned()).collect();
    names.into_iter().fold(command, |command, name| {
        command.mut_subcommand(name, |inner| hide_options(inner, options))
    })
}

/// Prints the help of the command that arguments name.
pub(super) fn print(arguments: impl Iterator<Item = String>) {
    let (mut command, mut is_long) = (command(), false);
    for argument in arguments.skip(1) {
        is_long |= argument == "--help";
        if let Some(inner) = command.find_subcommand(&argument) {
            command = inner.clone();
        }
    }
    let help = if is_long { command.render_long_help() } else { command.render_help() };
    // A reader that stops early, as `head` does, is no reason to fail.
    let _ = write!(anstream::stdout(), "{}", help.ansi());
}

/// Returns the command line with the help of each command reduced to what matters there, for help only.
#[must_use]
pub fn command() -> clap::Command {
    let mut root = Cli::command();
    // Copies the common options to all commands.
    root.build();
    HIDDEN_OPTIONS.iter().fold(root, |root, (name, options)| {
        root.mut_subcommand(name, |command| hide_options(command, options))
    })
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn help_shows_common_options_only_where_they_matter() {
        let help = |names: &[&str]| {
            let mut root = command();
            let mut command = &mut root;
            for name in names {
                command = command.find_subcommand_mut(name).unwrap();
            }
            command.render_long_help().to_string()
        };
        for names in [&["validate"] as &[&str], &["init"], &["key", "create"]] {
            assert!(!help(names).contains("--url"), "{names:?}");
        }
        assert!(help(&["key", "create"]).contains("--data-dir"));
        assert!(help(&["list"]).contains("--url") && help(&["list"]).contains("--verbose"));
    }
}
