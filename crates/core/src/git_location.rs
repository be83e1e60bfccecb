//! Rules of the locations and references of git repositories.
//!
//! git takes `NAME::ADDRESS` for the name of a helper program, and text that begins with a dash for an option. So a
//! location names one of four protocols, or it is refused before git sees it.

/// Protocol of a repository.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum GitProtocol {
    /// `https://…`.
    Https,
    /// `http://…`, which is for this machine only.
    Http,
    /// `ssh://…`, or `user@host:path`.
    Ssh,
    /// `file://…`.
    File,
}

impl GitProtocol {
    const ALL: [Self; 4] = [Self::Https, Self::Http, Self::Ssh, Self::File];

    /// Returns the name that git and URLs use.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Https => "https",
            Self::Http => "http",
            Self::Ssh => "ssh",
            Self::File => "file",
        }
    }

    /// Returns the protocol of a location; `None` if git could take it for anything but a repository.
    #[must_use]
    pub fn of_location(location: &str) -> Option<Self> {
        if location.contains(char::is_control) {
            return None;
        }
        let Some((scheme, rest)) = location.split_once("://") else {
            return is_scp_form(location).then_some(Self::Ssh);
        };
        let protocol = Self::ALL.into_iter().find(|protocol| protocol.as_str() == scheme)?;
        let authority = rest.split('/').next().unwrap_or_default();
        let host = authority.rsplit_once('@').map_or(authority, |(_, host)| host);
        let is_option = authority.starts_with('-') || host.starts_with('-');
        let has_place =
            if protocol == Self::File { rest.starts_with('/') } else { !host.is_empty() };
        (has_place && !is_option).then_some(protocol)
    }
}

/// Returns whether a text is `user@host:path`, without parts that begin with a dash.
fn is_scp_form(text: &str) -> bool {
    let Some((login, path)) = text.split_once(':') else { return false };
    let Some((user, host)) = login.split_once('@') else { return false };
    let is_name = |part: &str| !part.is_empty() && !part.starts_with('-') && !part.contains('/');
    // `HELPER::ADDRESS` starts a program.
    is_name(user) && is_name(host) && !path.is_empty() && !path.starts_with([':', '-'])
}

/// Returns whether git takes a text for the name of a branch, a tag or a commit and for nothing else.
#[must_use]
pub fn is_reference(text: &str) -> bool {
    let is_forbidden = |c: char| c.is_control() || " ~^:?*[\\+".contains(c);
    !text.is_empty() && !text.starts_with('-') && !text.contains(is_forbidden)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_location_has_one_of_four_protocols() {
        for (location, protocol) in [
            ("https://example.com/a", GitProtocol::Https),
            ("http://127.0.0.1:1/a", GitProtocol::Http),
            ("ssh://git@example.com/a", GitProtocol::Ssh),
            ("git@example.com:a/b.git", GitProtocol::Ssh),
            ("file:///srv/git/a", GitProtocol::File),
        ] {
            assert_eq!(GitProtocol::of_location(location), Some(protocol), "{location}");
        }
    }

    #[test]
    fn helpers_options_and_other_protocols_are_no_locations() {
        for location in [
            "",
            "/srv/git/a",
            "ext::sh -c touch% /tmp/x x://y",
            "ext::sh",
            "ext::https://example.com/a",
            "a@ext::sh",
            "https:ext://y",
            "HTTPS://example.com/a",
            "git://example.com/a",
            "fd::3",
            "--upload-pack=x",
            "-x@host:a",
            "git@-oProxyCommand=x:a",
            "git@host:-x",
            "ssh://-oProxyCommand=x/a",
            "ssh://git@-oProxyCommand=x/a",
            "https:///a",
            "file://host/a",
            "https://example.com/a\nb",
        ] {
            assert_eq!(GitProtocol::of_location(location), None, "{location}");
        }
    }

    #[test]
    fn references_cannot_be_options_or_refspecs() {
        for reference in ["main", "v1.2", "feature/x", "0123456789abcdef0123456789abcdef01234567"] {
            assert!(is_reference(reference), "{reference}");
        }
        for reference in ["", "-x", "--upload-pack=x", "a:b", "+main", "a b", "a~1", "a\nb"] {
            assert!(!is_reference(reference), "{reference}");
        }
    }
}
