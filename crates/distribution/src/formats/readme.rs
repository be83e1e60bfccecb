//! `README.md`: a list of the skills, for people who look at a clone.

use super::PluginInfo;

/// Most characters of a description.
const MAX_CHARS: usize = 160;

/// Returns the file. It has no versions, so that it changes only with names and descriptions.
pub(crate) fn readme<'a>(name: &str, plugins: impl Iterator<Item = &'a PluginInfo>) -> String {
    let mut text = format!(
        "# {name}\n\nGenerated from the skills registry; each folder below `skills` is one skill. Changes are \
         made there, not here.\n\n"
    );
    plugins.for_each(|plugin| text.push_str(plugin.readme_line()));
    text
}

/// Returns the line of a skill.
pub(super) fn line(plugin: &PluginInfo) -> String {
    let line = plugin.description.split_whitespace().collect::<Vec<_>>().join(" ");
    let mut short: String = line.chars().take(MAX_CHARS).collect();
    if short.len() < line.len() {
        short.push_str("...");
    }
    // Descriptions are written by anyone: nothing in them becomes markup.
    let escaped: String = short
        .chars()
        .flat_map(|c| {
            let escape = matches!(c, '<' | '[' | ']' | '`' | '*' | '_' | '\\' | '|' | '!');
            escape.then_some('\\').into_iter().chain([c])
        })
        .collect();
    format!("- [{0}](skills/{0}/SKILL.md): {escaped}\n", plugin.name)
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::formats::example;

    #[test]
    fn descriptions_are_one_line_without_markup() {
        let mut plugin = example();
        plugin.description = format!("a\n[b](c) <img> {}", "x".repeat(200));
        let text = readme("skills", [&plugin].into_iter());
        let line = text.lines().last().unwrap();
        assert!(
            line.starts_with("- [pdf](skills/pdf/SKILL.md): a \\[b\\](c) \\<img> xxx"),
            "{line}"
        );
        assert!(line.ends_with("..."));
    }
}
