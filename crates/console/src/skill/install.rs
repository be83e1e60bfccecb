//! Lines that make a client use the skill, from the table of `skills connect`.

use maud::{Markup, html};
use skills_client_setup::{
    CLIENTS, Client, INSTALLERS, InstallTarget, Installer, KEY_PLACEHOLDER, ServerCommand,
};

use super::ShownSkill;
use crate::components::copyable;

/// Renders the set-up of each client, and other ways to get the skill.
pub(super) fn render(skill: &ShownSkill) -> Markup {
    let command = &skill.visit.console.parts.command;
    let (id, host) = (&skill.row.id, &skill.visit.host);
    html! {
        p.lead { "A client that is connected to this registry has every skill, and notices changes. Connect it once:" }
        div.clients { @for client in CLIENTS { (set_up(client, command)) } }
        h2 { "Over HTTP" }
        p { "Clients that speak Streamable HTTP use this address, with the header " code { "Authorization: Bearer KEY" } " if the server asks for a key." }
        (copyable(&format!("http://{host}/mcp")))
        @if !skill.row.is_live() {
            h2 { "As files" }
            p { "Agents that read folders get copies, which " code { "skills sync" } " keeps up to date:" }
            (copyable("skills sync"))
            p { "Only this skill, into a folder:" }
            (copyable(&format!("skills export {id} ./{id}")))
            p { "Clients with an installer of their own get a copy with it:" }
            div.clients { @for installer in INSTALLERS { (installer_lines(installer, id, host)) } }
        }
        h2 { "On the command line" }
        (copyable(&format!("skills read iii://{id}")))
    }
}

/// Renders the lines of an installer, for what everyone sees and for a key.
fn installer_lines(installer: &Installer, skill: &str, host: &str) -> Markup {
    let server = format!("http://{host}");
    let lines = |key| installer.lines(InstallTarget { server: &server, skill, key });
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
                (copyable(settings.format.document(command).trim_end()))
                p { code { "skills connect " (client.name) " --write" } " does it." }
            }
            p.muted { (client.note) }
        }
    }
}
