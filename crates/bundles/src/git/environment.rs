//! Environment of the programs that are started: `git`, and the programs that it starts.
//!
//! Variables of this process may hold its secrets, such as keys of administrators and URLs of databases. A program gets
//! only those that it needs to find its files, its credentials and the network.

use std::{env, ffi::OsStr, process::Command};

/// Variables that are passed on.
const NAMES: &[&str] = &[
    // Programs, files and terminals.
    "PATH",
    "HOME",
    "USER",
    "LOGNAME",
    "SHELL",
    "LANG",
    "LANGUAGE",
    "TZ",
    "TERM",
    "TMPDIR",
    "LD_LIBRARY_PATH",
    "DISPLAY",
    "WAYLAND_DISPLAY",
    "DBUS_SESSION_BUS_ADDRESS",
    // Credentials of the user, and programs that ask for them.
    "SSH_AUTH_SOCK",
    "SSH_AGENT_PID",
    "SSH_ASKPASS",
    "SSH_ASKPASS_REQUIRE",
    "GIT_ASKPASS",
    "GNUPGHOME",
    "GPG_TTY",
    "PASSWORD_STORE_DIR",
    "KRB5CCNAME",
    "KRB5_CONFIG",
    // Tokens that the credential helpers of forges read.
    "GH_TOKEN",
    "GH_HOST",
    "GH_CONFIG_DIR",
    "GITHUB_TOKEN",
    "GH_ENTERPRISE_TOKEN",
    "GITHUB_ENTERPRISE_TOKEN",
    "GITLAB_TOKEN",
    "GITLAB_HOST",
    // Network.
    "http_proxy",
    "https_proxy",
    "all_proxy",
    "no_proxy",
    "HTTP_PROXY",
    "HTTPS_PROXY",
    "ALL_PROXY",
    "NO_PROXY",
    "SSL_CERT_FILE",
    "SSL_CERT_DIR",
    "NIX_SSL_CERT_FILE",
    // Settings of git. Those that lead to another repository, such as `GIT_DIR`, are not among them.
    "GIT_SSH",
    "GIT_SSH_COMMAND",
    "GIT_SSH_VARIANT",
    "GIT_EXEC_PATH",
    "GIT_TERMINAL_PROMPT",
    "GIT_CONFIG_GLOBAL",
    "GIT_CONFIG_SYSTEM",
    "GIT_CONFIG_NOSYSTEM",
    "GIT_CONFIG_COUNT",
    "GIT_HTTP_USER_AGENT",
    "GIT_HTTP_LOW_SPEED_LIMIT",
    "GIT_HTTP_LOW_SPEED_TIME",
    "GIT_HTTP_PROXY_AUTHMETHOD",
    "GIT_SSL_CAINFO",
    "GIT_SSL_CAPATH",
    "GIT_SSL_CERT",
    "GIT_SSL_KEY",
    "GIT_SSL_NO_VERIFY",
    "GIT_SSL_VERSION",
    "GIT_CURL_VERBOSE",
];

/// Prefixes of variables that are passed on.
const PREFIXES: &[&str] = &[
    "LC_",
    "XDG_",
    "GCM_",
    "GIT_CONFIG_KEY_",
    "GIT_CONFIG_VALUE_",
    "GIT_PROXY_SSL_",
    "GIT_TRACE",
    // The program that VS Code sets as `GIT_ASKPASS` finds its editor by them.
    "VSCODE_GIT_",
];

/// Returns a command with the variables that programs get. All programs are started by it.
pub(super) fn command(program: impl AsRef<OsStr>) -> Command {
    let mut command = Command::new(program);
    command.env_clear().envs(env::vars_os().filter(|(name, _)| is_passed_on(name)));
    command
}

fn is_passed_on(name: &OsStr) -> bool {
    let Some(name) = name.to_str() else { return false };
    NAMES.contains(&name) || PREFIXES.iter().any(|prefix| name.starts_with(prefix))
}

/// Names of the variables by which curl finds a proxy.
pub(super) fn proxies() -> impl Iterator<Item = &'static str> {
    NAMES.iter().copied().filter(|name| name.to_ascii_lowercase().ends_with("_proxy"))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn secrets_of_the_server_and_other_repositories_are_not_passed_on() {
        for name in [
            "ADMIN_KEY",
            "INTERNAL_API_SECRET",
            "MASTER_ENCRYPTION_KEY",
            "SKILLS_KEY",
            "SKILLS_STORE",
            "SKILLS_HTTP_TOKEN",
            "III_TOKEN",
            "DATABASE_URL",
            "PGPASSWORD",
            "AWS_SECRET_ACCESS_KEY",
            "GIT_DIR",
            "GIT_WORK_TREE",
            "GIT_INDEX_FILE",
            "GIT_OBJECT_DIRECTORY",
            "GIT_NAMESPACE",
            "GIT_TEMPLATE_DIR",
            "GIT_CONFIG",
            "GIT_CONFIG_PARAMETERS",
            "GIT_ALLOW_PROTOCOL",
        ] {
            assert!(!is_passed_on(name.as_ref()), "{name}");
        }
        for name in [
            "PATH",
            "HOME",
            "LC_ALL",
            "XDG_CONFIG_HOME",
            "GIT_CONFIG_VALUE_0",
            "VSCODE_GIT_IPC_HANDLE",
        ] {
            assert!(is_passed_on(name.as_ref()), "{name}");
        }
    }

    #[test]
    fn proxies_are_known_in_both_cases() {
        assert_eq!(proxies().count(), 8);
    }
}
