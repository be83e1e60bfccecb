//! Server that git would contact for a source, and the connection to addresses of it that were checked.
//!
//! The settings of the user count: git rewrites URLs (`url.BASE.insteadOf`), and ssh renames hosts (`HostName`). So both are
//! asked which server they would contact, and then they are given its addresses, so that neither looks the name up again.
//!
//! | | https | ssh |
//! |---|---|---|
//! | host | of the rewritten URL, parsed as browsers do | as `ssh -G` prints it |
//! | addresses | `http.curloptResolve`, which git knows since 2.37 | `HostName` |
//! | other ways to another server | redirects and proxies are off | `HostKeyAlias` keeps the name for known hosts |

use std::{
    env, io,
    net::IpAddr,
    path::Path,
    process::{Command, Stdio},
};

use skills_core::GitProtocol;
use url::{Host, Url};

use super::{GitSource, command::Git, environment};
use crate::BundleError;

/// First version of git with `http.curloptResolve`.
const FIRST_PINNING_GIT: (u32, u32) = (2, 37);
/// Port of ssh, without which known hosts have no port.
const SSH_PORT: u16 = 22;

/// Server that git would contact for a source.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct GitRemote {
    /// URL that git fetches, after the settings of the user have rewritten it.
    url: String,
    host: Host,
    transport: Transport,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Transport {
    Https {
        /// Scheme, host and port, as in the settings of git for one server.
        origin: String,
        port: u16,
    },
    Ssh {
        /// Command of the user, for a shell.
        command: String,
        /// Name of the host among the known hosts.
        alias: String,
    },
}

/// Server with addresses that git has to use.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct PinnedRemote {
    remote: GitRemote,
    addresses: Vec<IpAddr>,
}

/// Returns the host of the location of a repository, parsed as browsers do: `0x7f.1` is an address.
pub(super) fn host_of(location: &str) -> Option<Host> {
    let host = match (GitProtocol::of_location(location)?, location.contains("://")) {
        (GitProtocol::File, _) => return None,
        (GitProtocol::Ssh, false) => {
            let (login, _) = location.split_once(':')?;
            Host::parse(login.rsplit_once('@')?.1).ok()?
        }
        (_, _) => match Url::parse(location).ok()?.host()? {
            // The host of a scheme that is not the web's stays a text.
            Host::Domain(text) => Host::parse(text).ok()?,
            Host::Ipv4(address) => Host::Ipv4(address),
            Host::Ipv6(address) => Host::Ipv6(address),
        },
    };
    Some(match host {
        // A trailing dot denotes the same name, and not all programs know that.
        Host::Domain(name) => Host::Domain(name.trim_end_matches('.').to_owned()),
        address => address,
    })
}

impl GitRemote {
    /// Asks git, and ssh, which server they would contact for a source. Nothing is sent to it.
    pub(super) fn find(source: &GitSource) -> Result<Self, BundleError> {
        let refused = |reason: &str| BundleError::RefusedRemote {
            url: source.public_url.clone(),
            reason: reason.to_owned(),
        };
        let io_error = |error: io::Error| match error.kind() {
            io::ErrorKind::NotFound => BundleError::GitMissing,
            _ => refused(&error.to_string()),
        };
        let dir = super::temporary_dir().map_err(|error| refused(&error.to_string()))?;
        let git = Git::new(dir.path(), source.protocol);
        let rewritten = |url: &str| {
            let said = git.run(&["ls-remote", "--get-url", "--", url]).map_err(io_error)?;
            said.map(trimmed).map_err(|reason| refused(&reason))
        };
        let first = rewritten(&normal_form(&source.url))?;
        let url = normal_form(&first);
        if url != first && rewritten(&url)? != url {
            return Err(refused("the settings of git rewrite its URL more than once"));
        }
        let unknown = || refused("the host in its URL cannot be parsed");
        let (host, transport) = match GitProtocol::of_location(&url) {
            Some(GitProtocol::Https) => {
                let version = git.run(&["version"]).map_err(io_error)?.map(trimmed);
                let version = version.map_err(|reason| refused(&reason))?;
                if !can_pin(&version) {
                    let (major, minor) = FIRST_PINNING_GIT;
                    return Err(refused(&format!(
                        "{version} cannot be held to an address that was checked; {major}.{minor} or newer can"
                    )));
                }
                let parsed = Url::parse(&url).map_err(|_| unknown())?;
                let port = parsed.port_or_known_default().ok_or_else(unknown)?;
                let origin = parsed.origin().ascii_serialization();
                (host_of(&url).ok_or_else(unknown)?, Transport::Https { origin, port })
            }
            Some(GitProtocol::Ssh) => {
                let command = ssh_command(&git).map_err(io_error)?;
                let settings = ssh_settings(&command, &url, dir.path()).map_err(io_error)?;
                let settings = settings.ok_or_else(|| {
                    refused("ssh does not say which server it would contact (`ssh -G`)")
                })?;
                let host = settings.host().ok_or_else(unknown)?;
                (host, Transport::Ssh { command, alias: settings.alias() })
            }
            _ => return Err(refused("it is fetched neither over https nor over ssh")),
        };
        Ok(Self { url, host, transport })
    }

    /// Returns the host to look up.
    #[must_use]
    pub const fn host(&self) -> &Host {
        &self.host
    }

    /// Holds git to addresses of the server; `None` if there are none.
    #[must_use]
    pub fn pin(self, addresses: Vec<IpAddr>) -> Option<PinnedRemote> {
        (!addresses.is_empty()).then_some(PinnedRemote { remote: self, addresses })
    }
}

impl PinnedRemote {
    /// Returns the URL that git fetches.
    pub(super) fn url(&self) -> &str {
        &self.remote.url
    }

    /// Returns the only protocol that git may use.
    pub(super) const fn protocol(&self) -> GitProtocol {
        match self.remote.transport {
            Transport::Https { .. } => GitProtocol::Https,
            Transport::Ssh { .. } => GitProtocol::Ssh,
        }
    }

    /// Adds the settings that hold git to the addresses.
    pub(super) fn apply(&self, git: &mut Command) {
        match &self.remote.transport {
            Transport::Https { origin, port } => {
                let pinned = match &self.remote.host {
                    Host::Domain(name) => Some(format!("{name}:{port}:{}", self.address_list())),
                    Host::Ipv4(_) | Host::Ipv6(_) => None,
                };
                // Settings of the user for one server precede those for all.
                for scope in ["http".to_owned(), format!("http.{origin}/")] {
                    git.args(["-c", &format!("{scope}.followRedirects=false")]);
                    // A proxy would look the name up itself.
                    git.args(["-c", &format!("{scope}.proxy=")]);
                    if let Some(pinned) = &pinned {
                        git.args(["-c", &format!("{scope}.curloptResolve={pinned}")]);
                    }
                }
                for name in environment::proxies() {
                    git.env_remove(name);
                }
            }
            Transport::Ssh { command, alias } => {
                let Some(address) = self.addresses.first() else { return };
                // The first value of an option counts, so these precede those of files. A shared connection may lead elsewhere.
                git.env(
                    "GIT_SSH_COMMAND",
                    format!(
                        "{command} -o HostName={address} -o HostKeyAlias={} -o ControlPath=none",
                        quoted(alias)
                    ),
                );
            }
        }
    }

    /// Returns the addresses as curl parses them.
    fn address_list(&self) -> String {
        let address = |address: &IpAddr| match address {
            IpAddr::V4(address) => address.to_string(),
            IpAddr::V6(address) => format!("[{address}]"),
        };
        self.addresses.iter().map(address).collect::<Vec<_>>().join(",")
    }
}

fn trimmed(output: Vec<u8>) -> String {
    String::from_utf8_lossy(&output).trim().to_owned()
}

/// Returns an https URL as the parser of browsers writes it, so that no other parser finds another host in it.
fn normal_form(url: &str) -> String {
    if GitProtocol::of_location(url) != Some(GitProtocol::Https) {
        return url.to_owned();
    }
    let Some(mut parsed) = Url::parse(url).ok() else { return url.to_owned() };
    if let Some(Host::Domain(name)) = host_of(url)
        && parsed.set_host(Some(&name)).is_err()
    {
        return url.to_owned();
    }
    parsed.to_string()
}

/// Returns whether git can be held to addresses: `git version 2.39.5 (Apple Git-154)`.
fn can_pin(version: &str) -> bool {
    let version = version.strip_prefix("git version ").unwrap_or_default();
    let mut numbers = version.split(['.', ' ']).map(str::parse::<u32>);
    match (numbers.next(), numbers.next()) {
        (Some(Ok(major)), Some(Ok(minor))) => (major, minor) >= FIRST_PINNING_GIT,
        _ => false,
    }
}

/// Returns the command by which git starts ssh, for a shell.
fn ssh_command(git: &Git<'_>) -> io::Result<String> {
    let variable = |name: &str| env::var(name).ok().filter(|value| !value.trim().is_empty());
    if let Some(command) = variable("GIT_SSH_COMMAND") {
        return Ok(command);
    }
    let setting = git.run(&["config", "--get", "core.sshCommand"])?.map(trimmed);
    let program = || variable("GIT_SSH").map_or_else(|| "ssh".to_owned(), |path| quoted(&path));
    Ok(setting.ok().filter(|command| !command.is_empty()).unwrap_or_else(program))
}

/// Settings of ssh for one server.
#[derive(Debug, PartialEq, Eq)]
struct SshSettings {
    host: String,
    port: u16,
    alias: Option<String>,
}

impl SshSettings {
    /// Parses what `ssh -G` prints: a setting in each line.
    fn parse(text: &str) -> Option<Self> {
        let value = |name: &str| {
            let mut settings = text.lines().filter_map(|line| line.split_once(' '));
            settings.find(|(key, _)| *key == name).map(|(_, value)| value.trim().to_owned())
        };
        Some(Self {
            host: value("hostname")?,
            port: value("port")?.parse().ok()?,
            alias: value("hostkeyalias").filter(|alias| alias != "none"),
        })
    }

    fn host(&self) -> Option<Host> {
        match self.host.parse() {
            Ok(IpAddr::V4(address)) => Some(Host::Ipv4(address)),
            Ok(IpAddr::V6(address)) => Some(Host::Ipv6(address)),
            Err(_) => Host::parse(&self.host).ok(),
        }
    }

    /// Returns the name under which ssh knows the key of the host.
    fn alias(&self) -> String {
        match (&self.alias, self.port) {
            (Some(alias), _) => alias.clone(),
            (None, SSH_PORT) => self.host.clone(),
            (None, port) => format!("[{}]:{port}", self.host),
        }
    }
}

/// Asks ssh for its settings for a location. `None` if it does not print them.
fn ssh_settings(command: &str, location: &str, dir: &Path) -> io::Result<Option<SshSettings>> {
    let login = login_and_port(location).filter(|(login, _)| !login.starts_with('-'));
    let Some((login, port)) = login else { return Ok(None) };
    let mut ssh = environment::command("sh");
    ssh.args(["-c", &format!("{command} \"$@\""), "sh", "-G"]);
    if let Some(port) = port {
        ssh.args(["-p", &port.to_string()]);
    }
    let output = ssh.arg(login).current_dir(dir).stdin(Stdio::null()).output()?;
    let settings = output.status.success().then(|| String::from_utf8_lossy(&output.stdout));
    Ok(settings.and_then(|text| SshSettings::parse(&text)))
}

/// Returns `user@host` as git gives it to ssh, and the port.
fn login_and_port(location: &str) -> Option<(String, Option<u16>)> {
    if !location.contains("://") {
        return Some((location.split_once(':')?.0.to_owned(), None));
    }
    let url = Url::parse(location).ok()?;
    let host = match host_of(location)? {
        Host::Ipv6(address) => address.to_string(),
        host => host.to_string(),
    };
    let login = match url.username() {
        "" => host,
        user => format!("{user}@{host}"),
    };
    Some((login, url.port()))
}

/// Quotes a text for a shell.
fn quoted(text: &str) -> String {
    format!("'{}'", text.replace('\'', "'\\''"))
}

#[cfg(test)]
mod tests {
    use std::net::{Ipv4Addr, Ipv6Addr};

    use super::*;

    #[test]
    fn hosts_are_parsed_as_browsers_do() {
        let v4 = |text: &str| Some(Host::Ipv4(text.parse::<Ipv4Addr>().unwrap()));
        let v6 = |text: &str| Some(Host::Ipv6(text.parse::<Ipv6Addr>().unwrap()));
        let name = |text: &str| Some(Host::Domain(text.to_owned()));
        for (location, host) in [
            ("https://Example.com/a", name("example.com")),
            ("https://example.com./a", name("example.com")),
            ("https://bücher.example/a", name("xn--bcher-kva.example")),
            ("https://a@b@example.com/a", name("example.com")),
            ("https://example.com\\@127.0.0.1/a", name("example.com")),
            ("https://0x7f.1/a", v4("127.0.0.1")),
            ("https://2130706433/a", v4("127.0.0.1")),
            ("ssh://git@Example.com:22/a", name("example.com")),
            ("ssh://127.1/a", v4("127.0.0.1")),
            ("ssh://git@0177.0.0.1:22/a", v4("127.0.0.1")),
            ("ssh://git@0x7f000001/a", v4("127.0.0.1")),
            ("ssh://git@%31%32%37.1/a", v4("127.0.0.1")),
            ("ssh://git@127.0.0.1./a", v4("127.0.0.1")),
            ("ssh://git@[::ffff:127.0.0.1]/a", v6("::ffff:127.0.0.1")),
            ("git@example.com:a", name("example.com")),
            ("git@127.1:a", v4("127.0.0.1")),
            ("a@b@0177.1:a", v4("127.0.0.1")),
            ("git@[::1]:a", None),
            ("git@[10.0.0.1:22]:a", None),
            ("ssh://git@127.0.0.256/a", None),
            ("file:///srv/a", None),
        ] {
            assert_eq!(host_of(location), host, "{location}");
        }
    }

    #[test]
    fn https_urls_have_one_spelling() {
        for (url, normal) in [
            ("https://Example.com.:443/a", "https://example.com/a"),
            ("https://example.com\\@127.0.0.1/a", "https://example.com/@127.0.0.1/a"),
            ("https://me:x@0x8.8.8.8/a", "https://me:x@8.8.8.8/a"),
            ("git@Example.com.:a", "git@Example.com.:a"),
        ] {
            assert_eq!(normal_form(url), normal, "{url}");
            assert_eq!(normal_form(normal), normal, "{url}");
        }
    }

    #[test]
    fn git_can_be_pinned_since_2_37() {
        for (version, expected) in [
            ("git version 2.47.3", true),
            ("git version 2.39.5 (Apple Git-154)", true),
            ("git version 2.37.0.windows.1", true),
            ("git version 3.0", true),
            ("git version 2.36.9", false),
            ("git version 1.99", false),
            ("git version unknown", false),
            ("", false),
        ] {
            assert_eq!(can_pin(version), expected, "{version}");
        }
    }

    #[test]
    fn known_hosts_have_the_name_and_not_the_address() {
        let alias = |text: &str| SshSettings::parse(text).map(|settings| settings.alias());
        for (settings, expected) in [
            ("user git\nhostname example.com\nport 22\n", Some("example.com")),
            ("hostname example.com\nport 2222\n", Some("[example.com]:2222")),
            ("hostname example.com\nport 2222\nhostkeyalias other\n", Some("other")),
            ("hostname example.com\n", None),
            ("port 22\n", None),
            ("usage: ssh", None),
        ] {
            assert_eq!(alias(settings).as_deref(), expected, "{settings:?}");
        }
    }

    #[test]
    fn ssh_gets_the_login_and_the_port_of_the_location() {
        for (location, expected) in [
            ("git@example.com:a", Some(("git@example.com", None))),
            ("ssh://git@example.com:2222/a", Some(("git@example.com", Some(2222)))),
            ("ssh://[2001:db8::1]/a", Some(("2001:db8::1", None))),
            ("ssh://%2DoProxyCommand/a", Some(("-oproxycommand", None))),
        ] {
            let expected = expected.map(|(login, port)| (login.to_owned(), port));
            assert_eq!(login_and_port(location), expected, "{location}");
        }
        let dir = tempfile::tempdir().unwrap();
        let settings = ssh_settings("true", "ssh://%2DoProxyCommand/a", dir.path());
        assert_eq!(settings.unwrap(), None, "it would be an option");
    }
}
