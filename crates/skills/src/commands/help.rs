//! `help`: the help of a command, and the pages of the documentation, which are part of the program.

use skills_core::Code;

use crate::{Failure, cli, output};

macro_rules! pages {
    ($($name:literal),* $(,)?) => {
        /// Pages of the documentation, by name.
        const PAGES: &[(&str, &str)] =
            &[$(($name, include_str!(concat!("../../../../docs/", $name, ".md")))),*];
    };
}

pages![
    "acp",
    "bundles",
    "bus",
    "cli",
    "clients",
    "collections",
    "console",
    "discovery",
    "distribution",
    "engine",
    "errors",
    "gateway",
    "git",
    "glossary",
    "http",
    "install",
    "keys",
    "lockfile",
    "mcp",
    "mdp",
    "scale",
    "search",
    "sources",
    "store",
    "sync",
    "tiers",
    "validate",
    "versions",
];

/// Prints the help of a command and the page of the same name, or either.
pub(super) fn run(topic: &[String]) -> Result<(), Failure> {
    let mut root = cli::command();
    let Some(name) = topic.first() else {
        output::text(&root.render_long_help().to_string())?;
        let names: Vec<&str> = PAGES.iter().map(|(name, _)| *name).collect();
        return Ok(output::line(&format!("\nPages: {}", names.join(", ")))?);
    };
    let mut command = Some(&mut root);
    for word in topic {
        command = command.and_then(|command| command.find_subcommand_mut(word));
    }
    let page = PAGES.iter().find(|(page, _)| page == name).filter(|_| topic.len() == 1);
    let is_command = command.is_some();
    if let Some(command) = command {
        output::text(&command.render_long_help().to_string())?;
    }
    match page {
        Some((_, text)) if is_command => Ok(output::text(&format!("\n{text}"))?),
        Some((_, text)) => Ok(output::text(text)?),
        None if is_command => Ok(()),
        None => {
            let message = format!("there is no help on {:?}", topic.join(" "));
            Err(Failure::new(Code::BadArgument, message)
                .hint("list commands and pages with `skills help`"))
        }
    }
}

#[cfg(test)]
mod tests {
    use std::{fs, path::Path};

    use super::*;

    #[test]
    fn every_page_is_part_of_the_program() {
        let dir = Path::new(env!("CARGO_MANIFEST_DIR")).join("../../docs");
        let file = |entry: std::io::Result<fs::DirEntry>| entry.unwrap().path();
        let mut pages: Vec<String> = fs::read_dir(dir)
            .unwrap()
            .map(file)
            .filter(|path| path.extension().is_some_and(|extension| extension == "md"))
            .map(|path| path.file_stem().unwrap().to_str().unwrap().to_owned())
            .collect();
        pages.sort();
        assert_eq!(PAGES.iter().map(|(name, _)| *name).collect::<Vec<_>>(), pages);
    }
}
