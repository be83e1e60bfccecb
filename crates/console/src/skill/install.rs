//! Lines that make a client use the skill, from the table of `skills connect`.

use maud::{Markup, html};
use skills_agent_skills::frontmatter::{is_skill_name, name_from_id};
use skills_client_setup::{
    CLIENTS, Client, INSTALLERS, InstallTarget, Installer, KEY_PLACEHOLDER, SERVER_NAME,
    ServerCommand,
};
use skills_registry::SkillRow;

use super::ShownSkill;
use crate::{
    components::{copyable, copyable_text, shell_line},
    visit::Visit,
};

/// Renders the set-up of each client, and other ways to get the skill.
pub(super) fn render(skill: &ShownSkill) -> Markup {
    let (id, address) = (&*skill.row.id, skill.visit.server_address());
    let name = skill_name(&skill.row);
    html! {
        p.lead { "A client that is connected to this registry has every skill, and notices changes. Connect it once:" }
        (clients(&skill.visit))
        h2 { "Over HTTP" }
        p { "Clients that speak Streamable HTTP use this address, with the header " code { "Authorization: Bearer KEY" } " if the server asks for a key." }
        (copyable(&format!("{address}/mcp")))
        @if !skill.row.is_live() {
            h2 { "As files" }
            p { "Agents that read folders get copies, which " code { "skills sync" } " keeps up to date:" }
            (copyable("skills sync"))
            p { "Only this skill, into a folder:" }
            (copyable(&shell_line(&["skills", "export", id, &format!("./{id}")])))
            p { "Clients with an installer of their own get a copy with it:" }
            div.clients { @for installer in INSTALLERS { (installer_lines(installer, &name, id, &address)) } }
        }
        h2 { "On the command line" }
        (copyable(&shell_line(&["skills", "read", &format!("iii://{id}")])))
    }
}

/// Renders the set-up of each client: the command that it starts, which only a client of this machine can.
pub(crate) fn clients(visit: &Visit) -> Markup {
    let command = &visit.console.parts.command;
    html! {
        @if visit.is_local { div.clients { @for client in CLIENTS { (set_up(client, command)) } } }
        @else {
            p { "The registry is on another machine than your browser, so your clients connect over HTTP. Claude Code:" }
            (copyable(&shell_line(&["claude", "mcp", "add", "--transport", "http", SERVER_NAME, &format!("{}/mcp", visit.server_address())])))
        }
    }
}

/// Returns the name by which installers know a skill: that of its frontmatter, or one made from its id.
fn skill_name(row: &SkillRow) -> String {
    let own = row.meta.agent.as_ref().map(|agent| &agent.name).filter(|name| is_skill_name(name));
    own.cloned().unwrap_or_else(|| name_from_id(&row.id))
}

/// Renders the lines of an installer, for what everyone sees and for a key.
fn installer_lines(installer: &Installer, skill: &str, id: &str, server: &str) -> Markup {
    let lines = |key| installer.lines(InstallTarget { server, skill, id, key });
    html! {
        details {
            summary { (installer.title) }
            @for line in lines(None) { (copyable(&line)) }
            p { "With a key:" }
            @for line in lines(Some(KEY_PLACEHOLDER)) { (copyable(&line)) }
            p.muted { (installer.note) }
        }
    }
}

fn set_up(client: &Client, command: &ServerCommand) -> Markup {
    html! {
        details {
            summary { (client.title) }
            @if let Some(line) = client.setup_line(command) { (copyable(&line)) }
            @if let Some(settings) = client.settings {
                p { @if client.setup.is_some() { "Or add this to " } @else { "Add this to " } code { "~/" (settings.path) } ":" }
                (copyable_text(settings.format.document(command).trim_end()))
                p { code { "skills connect " (client.name) " --write" } " does it." }
            }
            p.muted { (client.note) }
        }
    }
}
