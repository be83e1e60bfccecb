//! The commands of one catalog snapshot: its prompts and skills, and the list of skills.

use std::{
    collections::{HashMap, HashSet},
    sync::Arc,
};

use agent_client_protocol::v1::schema::{
    AvailableCommand, AvailableCommandInput, AvailableCommandsUpdate, UnstructuredCommandInput,
};
use skills_core::PromptArgument;
use skills_registry::{
    Catalog, PromptRow,
    available::{self, ExcludedSkill, Filter, available},
};

use crate::proposal::AvailableSkill;

/// Commands and skills of one catalog snapshot.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct CommandList {
    /// Prompts by name, then skills by id. Names are unique, and a live entry never has the name of a stored one.
    pub(crate) commands: Vec<AvailableCommand>,
    /// All valid skills, also those that only agents invoke.
    pub(crate) skills: Vec<AvailableSkill>,
    /// Skills that are not valid Agent Skills, with reasons.
    pub(crate) left_out: Vec<ExcludedSkill>,
    /// Ids of the skills by command.
    pub(crate) ids: HashMap<String, String>,
}

impl CommandList {
    pub(crate) fn from_catalog(catalog: &Catalog) -> Self {
        let available = available(catalog, &Filter::default());
        let mut list = Self { left_out: available.left_out, ..Self::default() };
        let names = CommandNames::assign(catalog, &available.skills);
        list.commands.extend(names.prompts.into_iter().map(prompt));
        for (available, name) in available.skills.iter().zip(names.skills) {
            let registered_at =
                catalog.skill(&available.id).map(|row| row.registered_at.to_string());
            let skill = AvailableSkill::new(available, registered_at);
            if let Some(name) = name {
                list.commands.push(command(&name, &available.skill, &skill));
                list.ids.insert(name, available.id.clone());
            }
            list.skills.push(skill);
        }
        list
    }

    /// Returns the update of the protocol.
    pub(crate) fn update(&self) -> AvailableCommandsUpdate {
        AvailableCommandsUpdate::new(self.commands.clone())
    }

    /// Returns the id of the skill that a command invokes.
    pub(crate) fn skill(&self, command: &str) -> Option<&str> {
        self.ids.get(command).map(String::as_str)
    }
}

/// Catalog snapshot with its commands.
#[derive(Debug)]
pub(crate) struct CommandSnapshot {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) commands: Arc<CommandList>,
}

/// Assignment of names to commands. Stored entries come before live ones, and prompts before skills.
struct CommandNames<'a> {
    prompts: Vec<&'a PromptRow>,
    /// For each skill its name, or its id if the name is taken. A skill with neither is not a command.
    skills: Vec<Option<String>>,
}

impl<'a> CommandNames<'a> {
    fn assign(catalog: &'a Catalog, skills: &[available::AvailableSkill]) -> Self {
        let (live, mut prompts): (Vec<&PromptRow>, Vec<&PromptRow>) =
            catalog.prompts_after(None).map(Arc::as_ref).partition(|row| row.is_live());
        let mut taken: HashSet<String> = prompts.iter().map(|row| row.name.to_string()).collect();
        let mut names = vec![None; skills.len()];
        let is_stored = |id: &str| catalog.stored(id).is_some();
        assign_skill_names(skills, &mut names, &mut taken, |skill| is_stored(&skill.id));
        // A stored entry can be invoked by its id, even if that is no command.
        let is_free = |row: &&PromptRow| !taken.contains(&*row.name) && !is_stored(&row.name);
        prompts.extend(live.into_iter().filter(is_free));
        prompts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        taken.extend(prompts.iter().map(|row| row.name.to_string()));
        assign_skill_names(skills, &mut names, &mut taken, |live| {
            !is_stored(&live.id) && !is_stored(&live.skill.name)
        });
        Self { prompts, skills: names }
    }
}

/// Assigns names to the skills that a predicate accepts. A skill whose name is its id comes before others of that name.
fn assign_skill_names(
    skills: &[available::AvailableSkill],
    names: &mut [Option<String>],
    taken: &mut HashSet<String>,
    is_included: impl Fn(&available::AvailableSkill) -> bool,
) {
    for by_id in [true, false] {
        for (available, name) in skills.iter().zip(&mut *names) {
            let available::AvailableSkill { id, skill } = available;
            if !skill.user_invocable || (skill.name == *id) != by_id || !is_included(available) {
                continue;
            }
            // The id of a live skill contains slashes, which no command has.
            let mut names = [&skill.name, id].into_iter().filter(|name| !name.contains('/'));
            *name = names.find(|name| !taken.contains(*name)).cloned();
            taken.extend(name.clone());
        }
    }
}

fn command(
    name: &str,
    skill: &skills_core::AgentSkill,
    available: &AvailableSkill,
) -> AvailableCommand {
    AvailableCommand::new(name, &skill.description)
        .input(skill.argument_hint.as_ref().map(hint))
        .meta(available.command_meta())
}

fn prompt(row: &PromptRow) -> AvailableCommand {
    let arguments = &row.definition.arguments;
    let input = (!arguments.is_empty()).then(|| hint(usage(arguments)));
    AvailableCommand::new(&*row.name, &row.definition.description).input(input)
}

fn hint(text: impl Into<String>) -> AvailableCommandInput {
    AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(text))
}

/// Returns the usage of a prompt's arguments: `<required> [optional]`.
pub(crate) fn usage(arguments: &[PromptArgument]) -> String {
    let usage = |PromptArgument { name, required, .. }: &PromptArgument| {
        if *required { format!("<{name}>") } else { format!("[{name}]") }
    };
    arguments.iter().map(usage).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKey, EntryKind, Layer, PromptDefinition, Timestamp};
    use skills_registry::live::{LiveClient, LivePrompt, LiveSkill, LiveUpdate};
    use skills_store::{Change, EntryContent};

    use super::*;

    fn change(kind: EntryKind, id: &str, content: EntryContent) -> Change {
        change_at(1, kind, id, content)
    }

    fn change_at(micros: i64, kind: EntryKind, id: &str, content: EntryContent) -> Change {
        let key = EntryKey { kind, layer: Layer::Official, id: id.into() };
        let content = Some(Arc::new(content));
        Change::without_history(1, Timestamp::from_micros(micros), "t".into(), key, content)
    }

    fn skill(id: &str, body: &str) -> Change {
        change(
            EntryKind::Skill,
            id,
            EntryContent::Skill(skills_agent_skills::skill_meta(body).unwrap()),
        )
    }

    fn prompt(name: &str, arguments: &[(&str, bool)]) -> Change {
        let argument = |(name, required): &(&str, bool)| PromptArgument {
            name: (*name).to_owned(),
            description: None,
            required: *required,
        };
        let definition = PromptDefinition {
            description: "p".to_owned(),
            arguments: arguments.iter().map(argument).collect(),
            function_id: "a::b".to_owned(),
        };
        change(EntryKind::Prompt, name, EntryContent::Prompt(definition))
    }

    fn with(fields: &str) -> String {
        format!("---\n{fields}\n---\n# Body\n")
    }

    fn usages(list: &CommandList) -> Vec<String> {
        let usage = |command: &AvailableCommand| match &command.input {
            Some(AvailableCommandInput::Unstructured(input)) => {
                format!("{} {}", command.name, input.hint)
            }
            _ => command.name.clone(),
        };
        list.commands.iter().map(usage).collect()
    }

    #[test]
    fn prompts_come_first_and_names_are_unique() {
        let list = CommandList::from_catalog(&Catalog::default().with(&[
            prompt("greet", &[("who", true), ("tone", false)]),
            skill("greet", "# G\n\nShadowed, but in the list."),
            skill("a-pdf", &with("name: pdf\ndescription: d")),
            skill("pdf", &with("name: pdf\ndescription: d\nargument-hint: '[file]'")),
            skill("agents", &with("name: agents\ndescription: d\nuser-invocable: false")),
            skill("not_a_name", "# N\n\nText."),
            skill("other", &with("name: fine\ndescription: d")),
        ]));
        assert_eq!(usages(&list), ["greet <who> [tone]", "a-pdf", "fine", "pdf [file]"]);
        assert_eq!(list.skill("a-pdf"), Some("a-pdf"));
        assert_eq!(list.skill("fine"), Some("other"));
        assert_eq!(list.skill("greet"), None);
        let names: Vec<&str> = list.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["pdf", "agents", "greet", "fine", "pdf"]);
        let left_out: Vec<&str> = list.left_out.iter().map(|left| left.id.as_str()).collect();
        assert_eq!(left_out, ["not_a_name"]);
        let meta = list.commands[1].meta.as_ref().unwrap();
        assert_eq!(meta["agentskills.io/skill"]["name"], "pdf");
    }

    fn live(id: &str, skills: &[&str], prompts: &[&str]) -> LiveUpdate {
        let skill = |path: &&str| LiveSkill {
            path: (*path).to_owned(),
            title: None,
            description: Some("d".to_owned()),
        };
        let prompt = |path: &&str| LivePrompt { path: (*path).to_owned(), ..LivePrompt::default() };
        LiveUpdate::Connected(LiveClient {
            id: id.parse().unwrap(),
            order: 1,
            since: Timestamp::from_micros(1),
            skills: skills.iter().map(skill).collect(),
            prompts: prompts.iter().map(prompt).collect(),
        })
    }

    #[test]
    fn live_entries_never_take_the_name_of_a_stored_one() {
        let stored = Catalog::default().with(&[
            prompt("greet", &[]),
            skill("pdf", &with("name: pdf\ndescription: d")),
            skill("zz", &with("name: a-b\ndescription: d")),
            skill("hidden", &with("name: shown\ndescription: d")),
        ]);
        let clients = [
            live("pdf", &["/skill.md", "/x/skill.md"], &["/prompt.md"]),
            live("greet", &["/skill.md"], &["/prompt.md", "/again/prompt.md"]),
            live("a", &["/b/skill.md"], &["/b/prompt.md"]),
            live("hidden", &["/skill.md"], &["/prompt.md"]),
        ];
        let (catalog, _) = stored.with_live(&clients, Timestamp::from_micros(2));
        let list = CommandList::from_catalog(&catalog);
        assert_eq!(usages(&list), ["greet", "greet-again", "shown", "pdf", "pdf-x", "a-b"]);
        assert_eq!(list.skill("pdf"), Some("pdf"));
        assert_eq!(list.skill("a-b"), Some("zz"));
        assert_eq!(list.skill("pdf-x"), Some("pdf/x/skill.md"));
        assert_eq!(list.commands[0].description, "p", "the stored one");
    }

    #[test]
    fn a_new_version_changes_the_list() {
        let first = Catalog::default().with(&[skill("a", "# A\n\nText.")]);
        let content =
            EntryContent::Skill(skills_agent_skills::skill_meta("# A\n\nText.\n\nMore.").unwrap());
        let again = change_at(2, EntryKind::Skill, "a", content);
        assert_eq!(CommandList::from_catalog(&first), CommandList::from_catalog(&first));
        assert_ne!(
            CommandList::from_catalog(&first),
            CommandList::from_catalog(&first.with(&[again]))
        );
    }
}
