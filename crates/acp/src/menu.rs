//! What is on offer: prompts and skills as commands, and the list of skills.

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
    available::{self, Filter, LeftOut, available},
};

use crate::proposal::AvailableSkill;

/// What one snapshot of the catalog offers.
#[derive(Debug, Default, PartialEq, Eq)]
pub(crate) struct Menu {
    /// Prompts by name, then skills by id. No name is there twice, and no live client has one that leads to
    /// something stored.
    pub(crate) commands: Vec<AvailableCommand>,
    /// All skills that can be offered, also those that only agents invoke.
    pub(crate) skills: Vec<AvailableSkill>,
    /// Those that cannot.
    pub(crate) left_out: Vec<LeftOut>,
    /// The ids of the skills behind commands.
    pub(crate) ids: HashMap<String, String>,
}

impl Menu {
    pub(crate) fn of(catalog: &Catalog) -> Self {
        let offered = available(catalog, &Filter::default());
        let mut menu = Self { left_out: offered.left_out, ..Self::default() };
        let named = Names::of(catalog, &offered.skills);
        menu.commands.extend(named.prompts.into_iter().map(prompt));
        for (offered, name) in offered.skills.iter().zip(named.skills) {
            let registered_at = catalog.skill(&offered.id).map(|row| row.registered_at.to_string());
            let skill = AvailableSkill::new(offered, registered_at);
            if let Some(name) = name {
                menu.commands.push(command(&name, &offered.skill, &skill));
                menu.ids.insert(name, offered.id.clone());
            }
            menu.skills.push(skill);
        }
        menu
    }

    /// The update of the protocol.
    pub(crate) fn update(&self) -> AvailableCommandsUpdate {
        AvailableCommandsUpdate::new(self.commands.clone())
    }

    /// The id of the skill that a command invokes.
    pub(crate) fn skill(&self, command: &str) -> Option<&str> {
        self.ids.get(command).map(String::as_str)
    }
}

/// A snapshot and what it offers, which is made once.
#[derive(Debug)]
pub(crate) struct Kept {
    pub(crate) catalog: Arc<Catalog>,
    pub(crate) menu: Arc<Menu>,
}

/// Who is invoked as what. Names go to what is stored first, prompts before skills, and then to what live clients
/// have.
struct Names<'a> {
    prompts: Vec<&'a PromptRow>,
    /// For each skill its name, or its id where somebody else has that name already. A skill that is left none
    /// is not a command.
    skills: Vec<Option<String>>,
}

impl<'a> Names<'a> {
    fn of(catalog: &'a Catalog, skills: &[available::AvailableSkill]) -> Self {
        let (live, mut prompts): (Vec<&PromptRow>, Vec<&PromptRow>) =
            catalog.prompts_after(None).map(Arc::as_ref).partition(|row| row.is_live());
        let mut taken: HashSet<String> = prompts.iter().map(|row| row.name.to_string()).collect();
        let mut names = vec![None; skills.len()];
        let is_stored = |id: &str| catalog.stored(id).is_some();
        name_skills(skills, &mut names, &mut taken, |offered| is_stored(&offered.id));
        // A stored one may be asked for by its id, also where that is no command.
        let is_free = |row: &&PromptRow| !taken.contains(&*row.name) && !is_stored(&row.name);
        prompts.extend(live.into_iter().filter(is_free));
        prompts.sort_unstable_by(|one, other| one.name.cmp(&other.name));
        taken.extend(prompts.iter().map(|row| row.name.to_string()));
        name_skills(skills, &mut names, &mut taken, |offered| {
            !is_stored(&offered.id) && !is_stored(&offered.skill.name)
        });
        Self { prompts, skills: names }
    }
}

/// Gives names to some of the skills. One whose name is its id comes before others of that name.
fn name_skills(
    skills: &[available::AvailableSkill],
    names: &mut [Option<String>],
    taken: &mut HashSet<String>,
    is_meant: impl Fn(&available::AvailableSkill) -> bool,
) {
    for by_id in [true, false] {
        for (offered, name) in skills.iter().zip(&mut *names) {
            let available::AvailableSkill { id, skill } = offered;
            if !skill.user_invocable || (skill.name == *id) != by_id || !is_meant(offered) {
                continue;
            }
            // The id of a live one is an address, which is no command.
            let mut names = [&skill.name, id].into_iter().filter(|name| !name.contains('/'));
            *name = names.find(|name| !taken.contains(*name)).cloned();
            taken.extend(name.clone());
        }
    }
}

fn command(
    name: &str,
    skill: &skills_core::AgentSkill,
    offered: &AvailableSkill,
) -> AvailableCommand {
    AvailableCommand::new(name, &skill.description)
        .input(skill.argument_hint.as_ref().map(hint))
        .meta(offered.command_meta())
}

fn prompt(row: &PromptRow) -> AvailableCommand {
    let arguments = &row.definition.arguments;
    let shown = (!arguments.is_empty()).then(|| hint(usage(arguments)));
    AvailableCommand::new(&*row.name, &row.definition.description).input(shown)
}

fn hint(text: impl Into<String>) -> AvailableCommandInput {
    AvailableCommandInput::Unstructured(UnstructuredCommandInput::new(text))
}

/// The arguments of a prompt, as they are typed: `<needed> [optional]`.
pub(crate) fn usage(arguments: &[PromptArgument]) -> String {
    let shown = |argument: &PromptArgument| match argument.required {
        true => format!("<{}>", argument.name),
        false => format!("[{}]", argument.name),
    };
    arguments.iter().map(shown).collect::<Vec<_>>().join(" ")
}

#[cfg(test)]
mod tests {
    use skills_core::{EntryKey, Kind, Layer, PromptDefinition, SkillMeta, Timestamp};
    use skills_registry::live::{LiveClient, LivePrompt, LiveSkill, LiveUpdate};
    use skills_store::{Change, EntryContent};

    use super::*;

    fn change(kind: Kind, id: &str, content: EntryContent) -> Change {
        Change {
            revision: 1,
            at: Timestamp::from_micros(1),
            actor: "t".into(),
            key: EntryKey { kind, layer: Layer::Official, id: id.into() },
            before: None,
            content: Some(Arc::new(content)),
        }
    }

    fn skill(id: &str, body: &str) -> Change {
        change(Kind::Skill, id, EntryContent::Skill(SkillMeta::of_document(body).unwrap()))
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
        change(Kind::Prompt, name, EntryContent::Prompt(definition))
    }

    fn with(fields: &str) -> String {
        format!("---\n{fields}\n---\n# Body\n")
    }

    fn shown(menu: &Menu) -> Vec<String> {
        let shown = |command: &AvailableCommand| match &command.input {
            Some(AvailableCommandInput::Unstructured(input)) => {
                format!("{} {}", command.name, input.hint)
            }
            _ => command.name.clone(),
        };
        menu.commands.iter().map(shown).collect()
    }

    #[test]
    fn prompts_come_first_and_names_are_unique() {
        let menu = Menu::of(&Catalog::default().with(&[
            prompt("greet", &[("who", true), ("tone", false)]),
            skill("greet", "# G\n\nShadowed, but in the list."),
            skill("a-pdf", &with("name: pdf\ndescription: d")),
            skill("pdf", &with("name: pdf\ndescription: d\nargument-hint: '[file]'")),
            skill("agents", &with("name: agents\ndescription: d\nuser-invocable: false")),
            skill("not_a_name", "# N\n\nText."),
            skill("other", &with("name: fine\ndescription: d")),
        ]));
        assert_eq!(shown(&menu), ["greet <who> [tone]", "a-pdf", "fine", "pdf [file]"]);
        assert_eq!(menu.skill("a-pdf"), Some("a-pdf"));
        assert_eq!(menu.skill("fine"), Some("other"));
        assert_eq!(menu.skill("greet"), None);
        let names: Vec<&str> = menu.skills.iter().map(|skill| skill.name.as_str()).collect();
        assert_eq!(names, ["pdf", "agents", "greet", "fine", "pdf"]);
        let left_out: Vec<&str> = menu.left_out.iter().map(|left| left.id.as_str()).collect();
        assert_eq!(left_out, ["not_a_name"]);
        let meta = menu.commands[1].meta.as_ref().unwrap();
        assert_eq!(meta["agentskills.io/skill"]["name"], "pdf");
    }

    fn live(id: &str, skills: &[&str], prompts: &[&str]) -> LiveUpdate {
        let skill = |path: &&str| LiveSkill {
            path: (*path).to_owned(),
            title: None,
            description: Some("d".to_owned()),
        };
        let prompt = |path: &&str| LivePrompt { path: (*path).to_owned(), ..LivePrompt::default() };
        LiveUpdate::Here(LiveClient {
            id: id.parse().unwrap(),
            order: 1,
            since: Timestamp::from_micros(1),
            skills: skills.iter().map(skill).collect(),
            prompts: prompts.iter().map(prompt).collect(),
        })
    }

    #[test]
    fn live_clients_take_no_name_of_what_is_stored() {
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
        let menu = Menu::of(&catalog);
        assert_eq!(shown(&menu), ["greet", "greet-again", "shown", "pdf", "pdf-x", "a-b"]);
        assert_eq!(menu.skill("pdf"), Some("pdf"));
        assert_eq!(menu.skill("a-b"), Some("zz"));
        assert_eq!(menu.skill("pdf-x"), Some("pdf/x/skill.md"));
        assert_eq!(menu.commands[0].description, "p", "the stored one");
    }

    #[test]
    fn a_new_version_is_another_menu() {
        let first = Catalog::default().with(&[skill("a", "# A\n\nText.")]);
        let mut again = skill("a", "# A\n\nText.\n\nMore.");
        assert_eq!(Menu::of(&first), Menu::of(&first));
        again.at = Timestamp::from_micros(2);
        assert_ne!(Menu::of(&first), Menu::of(&first.with(&[again])));
    }
}
