//! The program on a pseudo-terminal.

use std::{
    ffi::OsStr,
    fs::{File, OpenOptions},
    io::{Read as _, Write as _},
    os::unix::ffi::OsStrExt as _,
    process::{Command, Stdio},
};

use rustix::{
    pty::{OpenptFlags, grantpt, openpt, ptsname, unlockpt},
    termios::{Winsize, tcsetwinsize},
};
use skills_testkit::{program, select_store};

use super::BINARY;

/// Runs the program with its output on a terminal and returns that.
pub(crate) fn on_terminal(arguments: &[&str]) -> String {
    let mut command = program(BINARY);
    command.args(arguments);
    run_on_terminal(command, 0, None)
}

/// Runs a command with all its streams on a terminal, types a line, and returns the output and the exit status.
pub(crate) fn with_typed_line(command: Command, line: &str) -> (String, Option<i32>) {
    run(command, 0, Some(line), None)
}

/// Runs a command on a terminal of a width and returns its output. Ends the command when the output contains `until`.
pub(crate) fn run_on_terminal(command: Command, columns: u16, until: Option<&str>) -> String {
    run(command, columns, None, until).0
}

fn run(
    mut command: Command,
    columns: u16,
    line: Option<&str>,
    until: Option<&str>,
) -> (String, Option<i32>) {
    let master = openpt(OpenptFlags::RDWR | OpenptFlags::NOCTTY).unwrap();
    grantpt(&master).unwrap();
    unlockpt(&master).unwrap();
    let name = ptsname(&master, Vec::new()).unwrap();
    let terminal =
        OpenOptions::new().read(true).write(true).open(OsStr::from_bytes(name.to_bytes()));
    let terminal = terminal.unwrap();
    let size = Winsize { ws_row: 24, ws_col: columns, ws_xpixel: 0, ws_ypixel: 0 };
    tcsetwinsize(&terminal, size).unwrap();
    let mut master = File::from(master);
    match line {
        Some(line) => {
            writeln!(master, "{line}").unwrap();
            command.stdin(terminal.try_clone().unwrap());
        }
        None => {
            command.stdin(Stdio::null());
        }
    }
    command.stdout(terminal.try_clone().unwrap()).stderr(terminal);
    select_store(&mut command);
    let mut child = command.spawn().unwrap();
    // Drops our last handle, so that reading ends with the child.
    drop(command);
    let mut sent = Vec::new();
    let mut buffer = [0; 4096];
    // Linux reports the end of a terminal as an error.
    while let Ok(read @ 1..) = master.read(&mut buffer) {
        sent.extend_from_slice(&buffer[..read]);
        if until.is_some_and(|words| String::from_utf8_lossy(&sent).contains(words)) {
            let _ = child.kill();
        }
    }
    let status = child.wait().unwrap();
    (String::from_utf8(sent).unwrap(), status.code())
}
