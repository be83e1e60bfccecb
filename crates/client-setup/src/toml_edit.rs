//! Edits of TOML settings: sets the table of one server, and leaves everything else as it is, comments included.

use toml_edit::{Array, DocumentMut, InlineTable, Item, Table, TableLike, TomlError, Value};

use crate::{EditError, ServerCommand};

/// Returns the settings with a table of the server and no others.
pub(super) fn document(servers: &str, name: &str, command: &ServerCommand) -> String {
    set("", servers, name, command).unwrap_or_default()
}

/// Returns whether there is an entry `servers.name`.
pub(super) fn has(text: &str, servers: &str, name: &str) -> bool {
    let document = text.parse::<DocumentMut>();
    document.is_ok_and(|document| document.get(servers).and_then(|list| list.get(name)).is_some())
}

/// Sets the table `servers.name`. One that has a command keeps its other keys, such as `env`.
///
/// # Errors
/// When the text is not TOML, or the servers are not a table.
pub(super) fn set(
    text: &str,
    servers: &str,
    name: &str,
    command: &ServerCommand,
) -> Result<String, EditError> {
    let mut document: DocumentMut = text.parse().map_err(|error| describe(text, &error))?;
    let is_first = document.is_empty();
    let list = document.entry(servers).or_insert_with(|| {
        let mut list = Table::new();
        list.set_implicit(true);
        Item::Table(list)
    });
    let is_inline = list.is_inline_table();
    let list =
        list.as_table_like_mut().ok_or_else(|| EditError(format!("{servers} is not a table")))?;
    match list.get_mut(name).and_then(Item::as_table_like_mut) {
        Some(stored) => {
            if !stored.contains_key("command") {
                stored.clear();
            }
            set_command(stored, command);
        }
        None => {
            list.insert(name, new_table(command, is_inline, is_first));
        }
    }
    // The parser drops a byte order mark.
    let mark = if text.starts_with('\u{feff}') { "\u{feff}" } else { "" };
    Ok(format!("{mark}{}", document.to_string().trim_start_matches('\u{feff}')))
}

fn new_table(command: &ServerCommand, is_inline: bool, is_first: bool) -> Item {
    if is_inline {
        let mut table = InlineTable::new();
        set_command(&mut table, command);
        return Item::Value(table.into());
    }
    let mut table = Table::new();
    if !is_first {
        table.decor_mut().set_prefix("\n");
    }
    set_command(&mut table, command);
    Item::Table(table)
}

fn set_command(table: &mut dyn TableLike, command: &ServerCommand) {
    let ServerCommand { program, arguments } = command;
    set_value(table, "command", program.into());
    set_value(table, "args", arguments.iter().collect::<Array>().into());
}

/// Sets a value and keeps the comment that follows it.
fn set_value(table: &mut dyn TableLike, key: &str, mut value: Value) {
    if let Some(stored) = table.get(key).and_then(Item::as_value) {
        *value.decor_mut() = stored.decor().clone();
    }
    table.insert(key, Item::Value(value));
}

/// Returns the message of the parser with the line it is about.
fn describe(text: &str, error: &TomlError) -> EditError {
    let at = error.span().map_or(0, |span| span.start);
    let line = text.bytes().take(at).filter(|byte| *byte == b'\n').count() + 1;
    EditError(format!("line {line}: {}", error.message()))
}

#[cfg(test)]
mod tests {
    use super::*;

    fn edit(text: &str) -> Result<String, EditError> {
        let command = ServerCommand {
            program: "/a \"b\"/skills".to_owned(),
            arguments: vec!["mcp".to_owned()],
        };
        set(text, "mcp_servers", "skills", &command)
    }

    const TABLE: &str = "[mcp_servers.skills]\ncommand = '/a \"b\"/skills'\nargs = [\"mcp\"]\n";

    #[test]
    fn a_table_is_added_beside_the_others() {
        let other = "[mcp_servers.other]\ncommand = \"o\" # keep\n";
        for (case, text, expected) in [
            ("empty", "", TABLE.to_owned()),
            ("no servers", "model = \"x\"", format!("model = \"x\"\n\n{TABLE}")),
            ("other server", other, format!("{other}\n{TABLE}")),
            (
                "comments and tables after it",
                &format!("# Mine.\n{other}\n# Next.\n[tui] # t\na=1\n"),
                format!("# Mine.\n{other}\n{TABLE}\n# Next.\n[tui] # t\na=1\n"),
            ),
            (
                "inline",
                "mcp_servers = { a = { command = \"o\" } }\n",
                "mcp_servers = { a = { command = \"o\" } , skills = { command = '/a \"b\"/skills', args = [\"mcp\"] } }\n".to_owned(),
            ),
            ("byte order mark", "\u{feff}a = 1\n", format!("\u{feff}a = 1\n\n{TABLE}")),
        ] {
            let edited = edit(text).unwrap();
            assert_eq!(edited, expected, "{case}");
            assert_eq!(edit(&edited).unwrap(), edited, "{case}: a second time changes nothing");
        }
    }

    #[test]
    fn a_stored_table_is_changed_however_it_is_written() {
        for (case, text, expected) in [
            (
                "other keys and comments stay",
                "[mcp_servers.skills] # mine\ncommand = \"old\" # c\nenv = { A = \"1\" }\n\n[tui]\n",
                "[mcp_servers.skills] # mine\ncommand = '/a \"b\"/skills' # c\nenv = { A = \"1\" }\nargs = [\"mcp\"]\n\n[tui]\n",
            ),
            (
                "spaces and quotes",
                "[ mcp_servers . 'skills' ]\ncommand=1\nargs=[]\n",
                "[ mcp_servers . 'skills' ]\ncommand ='/a \"b\"/skills'\nargs =[\"mcp\"]\n",
            ),
            (
                "dotted keys",
                "mcp_servers.skills.command = \"old\"\nmcp_servers.skills.args = []\n",
                "mcp_servers.skills.command = '/a \"b\"/skills'\nmcp_servers.skills.args = [\"mcp\"]\n",
            ),
            (
                "inline in a table",
                "[mcp_servers]\nskills = { command = \"old\" }\n",
                "[mcp_servers]\nskills = { command = '/a \"b\"/skills' , args = [\"mcp\"] }\n",
            ),
            ("another transport", "[mcp_servers.skills]\nurl = \"http://x\"\n", TABLE),
        ] {
            let edited = edit(text).unwrap();
            assert_eq!(edited, expected, "{case}");
            assert_eq!(edit(&edited).unwrap(), edited, "{case}: a second time changes nothing");
        }
    }

    #[test]
    fn text_of_another_form_is_refused() {
        for (text, words) in [
            ("mcp_servers = 3", "mcp_servers is not a table"),
            ("[[mcp_servers]]\na = 1", "mcp_servers is not a table"),
            ("a = 1\n\n[broken\n", "line 3: "),
            ("a = 1\na = 2\n", "line 2: "),
        ] {
            let error = edit(text).unwrap_err().to_string();
            assert!(error.contains(words), "{text:?}: {error}");
        }
    }
}
