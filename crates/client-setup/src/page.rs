//! docs/clients.md, made from the table of clients.

use crate::{
    CLIENTS, Client, INSTALLERS, InstallTarget, Installer, KEY_PLACEHOLDER, NAME_PLACEHOLDER,
    ServerCommand, SettingsFormat, clients::Settings,
};

const INTRODUCTION: &str = "\
# Set-up of MCP clients

`skills connect CLIENT` prints what to enter for this registry, with the full path of the program. With `--write` it shows
the difference, makes a backup of the client's settings file and changes it; everything else in the file stays as it is,
comments included. `skills connect --list` lists the clients and their files.

```sh
skills connect claude
skills connect cursor --write
```

The client starts `skills mcp`, which needs no server: the first process opens the store, the others use it through that
process, and one of them takes over when it ends ([docs/cli.md](cli.md#which-registry-a-command-talks-to)). A client that
prefers HTTP uses `http://127.0.0.1:47372/mcp` while `skills serve` runs; if the server has a token, with the header
`Authorization: Bearer SECRET`.

To see the private skills of a user, set `SKILLS_KEY` in the environment of the client: a key in a settings file is read by
every program of the user.

With `--store` or `SKILLS_STORE`, the client uses the database of that URL, and with `store.url`, the configuration that has it. The
password of a database is never printed or written: set `PGPASSWORD` in the environment of the client.

This page is generated from the table that `skills connect` uses; a test compares them.
";

const CONCLUSION: &str = "\
The command line of Inspector, and the TypeScript and Python SDKs, on which many clients are built, are tested
against every change (`interop/run mcp`). The settings of the other programs are taken from their documentation.
";

const INSTALLATION: &str = "\
# Installing skills as files

Clients that have an installer of their own get copies of skills with it. `skills connect CLIENT` prints these lines too,
with the address of the server: `--server URL`, else `public_url` of the configuration, else that of the server that runs on
the data directory. With a key
(`SKILLS_KEY`), they are those for what its user sees. The key is printed as `KEY`, and with `--show-key` in full. It goes into
git's credential helper and not into a URL, because clients write URLs into lockfiles and settings.
";

/// Server in the examples.
const EXAMPLE_SERVER: &str = "https://skills.example.com";

fn installer_section(installer: &Installer) -> String {
    let lines = |key| {
        let (skill, id) = (NAME_PLACEHOLDER, NAME_PLACEHOLDER);
        let target = InstallTarget { server: EXAMPLE_SERVER, skill, id, key };
        installer.lines(target).join("\n")
    };
    let Installer { name, title, note, .. } = installer;
    let (public, private) = (lines(None), lines(Some(KEY_PLACEHOLDER)));
    format!(
        "## {title}: files\n\n`skills connect {name}`:\n\n```sh\n{public}\n```\n\nwith a key:\n\n```sh\n{private}\n```\n\n{note}\n\n"
    )
}

/// Returns the page.
#[must_use]
pub fn page() -> String {
    let command = ServerCommand { program: "skills".to_owned(), arguments: vec!["mcp".to_owned()] };
    let sections: String = CLIENTS.iter().map(|client| section(client, &command)).collect();
    let installers: String = INSTALLERS.iter().map(installer_section).collect();
    format!("{INTRODUCTION}\n{sections}{CONCLUSION}\n{INSTALLATION}\n{installers}")
}

fn section(client: &Client, command: &ServerCommand) -> String {
    let mut text = format!("## {}\n\n`skills connect {}`", client.title, client.name);
    let setup = client.setup_line(command);
    if let Some(Settings { path, macos_path, format }) = client.settings {
        text.push_str(&format!(", `~/{path}`"));
        if macos_path != path {
            text.push_str(&format!(" (macOS: `~/{macos_path}`)"));
        }
        let language = match format {
            SettingsFormat::Json { .. } => "json",
            SettingsFormat::Toml { .. } => "toml",
        };
        text.push_str(&format!(":\n\n```{language}\n{}```\n\n", format.document(command)));
        if let Some(setup) = setup {
            text.push_str(&format!("or\n\n```sh\n{setup}\n```\n\n"));
        }
    } else if let Some(setup) = setup {
        text.push_str(&format!(":\n\n```sh\n{setup}\n```\n\n"));
    }
    format!("{text}{}\n\n", client.note)
}
