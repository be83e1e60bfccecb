//! Commands that install skills of a server as files, with the installer of each client.
//!
//! The lines name a server that serves git, a marketplace and well-known discovery. A key is never part of a URL: clients
//! write those into lockfiles and settings. It goes into git's credential helper instead.

/// Placeholder of a key in the lines.
pub const KEY_PLACEHOLDER: &str = "KEY";
/// Placeholder of the name of a skill in the lines.
pub const NAME_PLACEHOLDER: &str = "NAME";

/// Name of the marketplace of all skills that everyone sees.
pub const MARKETPLACE: &str = "skills";
/// Name of the marketplace of all skills that the user of a key sees.
pub const OWN_MARKETPLACE: &str = "my-skills";

/// Address and caller that the lines are for.
#[derive(Debug, Clone, Copy)]
pub struct InstallTarget<'a> {
    /// URL of the server, without a slash at the end.
    pub server: &'a str,
    /// Name of the skill, or [`NAME_PLACEHOLDER`].
    pub skill: &'a str,
    /// Id of the skill, or [`NAME_PLACEHOLDER`]. It differs from the name if that is no id, or another skill has it.
    pub id: &'a str,
    /// Key of a user, or [`KEY_PLACEHOLDER`]; `None` for what everyone sees.
    pub key: Option<&'a str>,
}

/// Way to install skills as files.
#[derive(Debug, Clone, Copy)]
pub struct Installer {
    /// Name on the command line.
    pub name: &'static str,
    /// Name of the product.
    pub title: &'static str,
    /// Lines for what everyone sees. `{server}`, `{git}`, `{market}`, `{skill}` and `{id}` are replaced.
    public: &'static [&'static str],
    /// Lines for what the user of a key sees; `{key}` is replaced too.
    private: &'static [&'static str],
    /// Remark for people.
    pub note: &'static str,
}

/// Lines that put a key into git's credential helper.
const CREDENTIAL: [&str; 2] = [
    "git config --global credential.{server}.helper 'cache --timeout=86400'",
    "printf 'url={server}\\nusername=key\\npassword={key}\\n' | git credential approve",
];

/// All installers, in the order of the documentation.
pub const INSTALLERS: &[Installer] = &[
    Installer {
        name: "claude",
        title: "Claude Code",
        public: &["claude plugin marketplace add {git}", "claude plugin install {skill}@{market}"],
        private: &["claude plugin marketplace add {git}", "claude plugin install {skill}@{market}"],
        note: "`claude plugin marketplace update` fetches changes.",
    },
    Installer {
        name: "codex",
        title: "Codex",
        public: &["codex plugin marketplace add {git}", "codex plugin add {skill}@{market}"],
        private: &["codex plugin marketplace add {git}", "codex plugin add {skill}@{market}"],
        note: "`codex plugin marketplace upgrade` fetches changes.",
    },
    Installer {
        name: "cursor",
        title: "Cursor",
        public: &["npx skills add {server} --skill {skill} --agent cursor"],
        private: &["npx skills add {git} --skill {skill} --agent cursor"],
        note: "The skill is written to the folder that the program reads.",
    },
    Installer {
        name: "copilot",
        title: "Copilot CLI",
        public: &[
            "copilot plugin marketplace add {git}",
            "copilot plugin install {skill}@{market}",
        ],
        private: &[
            "copilot plugin marketplace add {git}",
            "copilot plugin install {skill}@{market}",
        ],
        note: "`copilot plugin update NAME` fetches changes.",
    },
    Installer {
        name: "vscode",
        title: "VS Code",
        public: &["npx skills add {server} --skill {skill} --agent github-copilot"],
        private: &["npx skills add {git} --skill {skill} --agent github-copilot"],
        note: "The skill is written to the folder that the program reads.",
    },
    Installer {
        name: "gemini",
        title: "Gemini CLI",
        public: &["gemini skills install {git} --path skills/{skill} --consent"],
        private: &["gemini skills install {git} --path skills/{skill} --consent"],
        note: "`--path skills` installs all of them.",
    },
    Installer {
        name: "openclaw",
        title: "OpenClaw",
        public: &["clawhub --registry {server} install {id}"],
        private: &[
            "clawhub --registry {server} login --token {key}",
            "clawhub --registry {server} install {id}",
        ],
        note: "The program `clawhub` is an npm package that needs Node 22 or newer. With a key, \
               `publish FOLDER` in place of `install NAME` publishes a folder for the key's user.",
    },
    Installer {
        name: "npx",
        title: "npx skills",
        public: &["npx skills add {server} --skill {skill}"],
        private: &["npx skills add {git} --skill {skill}"],
        note: "It sends no key to a web address, so private skills come over git.",
    },
    Installer {
        name: "git",
        title: "git",
        public: &["git clone {git}"],
        private: &["git clone {git}"],
        note: "Each skill is a folder below `skills`.",
    },
];

impl Installer {
    /// Returns the installer of a name.
    #[must_use]
    pub fn find(name: &str) -> Option<&'static Self> {
        INSTALLERS.iter().find(|installer| installer.name == name)
    }

    /// Returns the lines for a shell. With a key, those that give it to git come first.
    #[must_use]
    pub fn lines(&self, target: InstallTarget<'_>) -> Vec<String> {
        let InstallTarget { server, skill, id, key } = target;
        let server = server.trim_end_matches('/');
        let (view, market) =
            if key.is_some() { ("mine", OWN_MARKETPLACE) } else { ("all", MARKETPLACE) };
        let own = if key.is_some() { self.private } else { self.public };
        let uses_git = own.iter().any(|line| line.contains("{git}"));
        let credential = CREDENTIAL.iter().filter(|_| key.is_some() && uses_git);
        let fill = |line: &&str| {
            line.replace("{git}", &format!("{server}/git/{view}.git"))
                .replace("{server}", server)
                .replace("{market}", market)
                .replace("{skill}", skill)
                .replace("{id}", id)
                .replace("{key}", key.unwrap_or(KEY_PLACEHOLDER))
        };
        credential.chain(own).map(fill).collect()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn lines(name: &str, key: Option<&str>) -> Vec<String> {
        let target = InstallTarget {
            server: "https://skills.example.com/",
            skill: "pdf",
            id: "pdf_id",
            key,
        };
        Installer::find(name).unwrap().lines(target)
    }

    #[test]
    fn a_key_is_in_no_url_and_only_where_it_is_needed() {
        for installer in INSTALLERS {
            let public = lines(installer.name, None).join("\n");
            assert!(!public.contains("KEY") && !public.contains("mine.git"), "{public}");
            assert!(!public.contains('{') && public.contains("skills.example.com"), "{public}");
            let private = lines(installer.name, Some("us-s3cret"));
            let with_key: Vec<_> = private.iter().filter(|line| line.contains("s3cret")).collect();
            assert_eq!(with_key.len(), 1, "{private:?}");
            assert!(!private.iter().any(|line| line.contains("s3cret@")), "{private:?}");
        }
        assert_eq!(
            lines("claude", None)[1..],
            ["claude plugin install pdf@skills"],
            "the name of the marketplace"
        );
        assert_eq!(
            lines("codex", Some(KEY_PLACEHOLDER))[3..],
            ["codex plugin add pdf@my-skills"],
            "the name of the user's own marketplace"
        );
        assert!(lines("openclaw", None)[0].ends_with(" install pdf_id"), "a slug is an id");
        assert_eq!(
            lines("git", Some(KEY_PLACEHOLDER)),
            [
                "git config --global credential.https://skills.example.com.helper 'cache --timeout=86400'",
                "printf 'url=https://skills.example.com\\nusername=key\\npassword=KEY\\n' | git credential approve",
                "git clone https://skills.example.com/git/mine.git",
            ]
        );
    }
}
