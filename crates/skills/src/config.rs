//! The configuration file. It never keeps the program from starting: what cannot be used is named in a
//! warning and its default stands.

use std::{fs, io, path::Path, time::Duration};

use serde::de::DeserializeOwned;
use serde_json::{Map, Value};
use skills_core::resolve::Prefix;
use skills_http::{Access, Guard};
use skills_registry::RegistryConfig;
use skills_upstream as upstream;
use skills_vault::TierLimits;

use crate::{exempt::Exempt, mdp};

/// Where the file is looked for unless one is named.
pub const DEFAULT_PATH: &str = "config.yaml";

/// No configuration is near this; a larger file is something else.
const MAX_BYTES: u64 = 1 << 20;

/// Names of the state scopes that an attached worker keeps its content in.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Scopes {
    /// For skills.
    pub skills: String,
    /// For prompts.
    pub prompts: String,
}

/// Where an attached worker keeps its content.
#[derive(Debug, Clone, Copy, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "lowercase")]
pub enum StoreChoice {
    /// In the engine's state if it has one, else embedded.
    Auto,
    /// In the engine's state.
    State,
    /// In the data directory.
    Embedded,
}

/// What tools may call.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Execution {
    /// Origins that are exempt from the rules on https and addresses.
    pub allow_upstream: Vec<Exempt>,
    /// Whether others are called over https only.
    pub https_only: bool,
}

impl Default for Execution {
    fn default() -> Self {
        Self { allow_upstream: vec![], https_only: true }
    }
}

impl Execution {
    /// What the client is made of that calls them.
    #[must_use]
    pub fn settings(&self) -> upstream::Settings {
        let Self { allow_upstream, https_only } = self;
        let of_all = allow_upstream.iter().filter(|it| it.tier.is_none()).map(|it| &it.origin);
        upstream::Settings {
            allow: of_all.cloned().collect(),
            https_only: *https_only,
            ..upstream::Settings::default()
        }
    }
}

/// All settings of the file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Config {
    /// State scopes; the embedded store does not need them.
    pub scopes: Scopes,
    /// How long a section or prompt handler may take, in milliseconds.
    pub state_timeout_ms: u64,
    /// Whether payloads between workers get `_caller_worker_id`, as on an iii engine.
    pub inject_caller_id: bool,
    /// Where an attached worker keeps its content.
    pub store: StoreChoice,
    /// Where an attached worker serves HTTP, if it does.
    pub http: Option<String>,
    /// What must be presented over HTTP.
    pub http_token: Option<String>,
    /// Names that the HTTP server is known by.
    pub allow_host: Vec<String>,
    /// Origins whose pages may ask over HTTP.
    pub allow_origin: Vec<String>,
    /// What names of skills and prompts are also looked for with.
    pub prefix: Prefix,
    /// How often keys of each tier may be used in a minute.
    pub limits: TierLimits,
    /// What tools may call.
    pub execution: Execution,
    /// Whether an attached worker sends traces, metrics and logs to its engine.
    pub telemetry: bool,
    /// Of the Model Drive Protocol, where HTTP is served.
    pub mdp: skills_mdp::Config,
}

impl Default for Config {
    fn default() -> Self {
        Self {
            scopes: Scopes { skills: "skills".to_owned(), prompts: "prompts".to_owned() },
            state_timeout_ms: 10_000,
            inject_caller_id: true,
            store: StoreChoice::Auto,
            http: None,
            http_token: None,
            allow_host: vec![],
            allow_origin: vec![],
            prefix: Prefix::default(),
            limits: TierLimits::default(),
            execution: Execution::default(),
            telemetry: false,
            mdp: skills_mdp::Config::default(),
        }
    }
}

impl Config {
    /// Reads the named file, or the one in the working directory if it is there.
    #[must_use]
    pub fn load(path: Option<&Path>) -> Self {
        let (config, warnings) = match path {
            Some(path) => Self::read(path, true),
            None => Self::read(Path::new(DEFAULT_PATH), false),
        };
        for warning in warnings {
            tracing::warn!("{warning}");
        }
        config
    }

    fn read(path: &Path, must_exist: bool) -> (Self, Vec<String>) {
        let unusable = |reason: String| {
            let warning = format!("{}: {reason}; the defaults are used", path.display());
            (Self::default(), vec![warning])
        };
        match fs::metadata(path) {
            Ok(metadata) if metadata.len() > MAX_BYTES => {
                return unusable("too large for a configuration".to_owned());
            }
            Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {
                return (Self::default(), vec![]);
            }
            _ => {}
        }
        let text = match fs::read_to_string(path) {
            Ok(text) => text,
            Err(error) => return unusable(error.to_string()),
        };
        match serde_saphyr::from_str::<Option<Value>>(&text) {
            Ok(None | Some(Value::Null)) => (Self::default(), vec![]),
            Ok(Some(Value::Object(fields))) => Self::from_fields(path, fields),
            Ok(Some(_)) => unusable("not a mapping of settings".to_owned()),
            Err(error) => {
                let reason = error.to_string();
                unusable(reason.lines().next().unwrap_or("not YAML").to_owned())
            }
        }
    }

    fn from_fields(path: &Path, mut fields: Map<String, Value>) -> (Self, Vec<String>) {
        let mut config = Self::default();
        let mut reader = Reader::new(path);
        reader.take(&mut fields, "", "state_timeout_ms", &mut config.state_timeout_ms);
        reader.take(&mut fields, "", "inject_caller_id", &mut config.inject_caller_id);
        reader.take(&mut fields, "", "store", &mut config.store);
        reader.take(&mut fields, "", "http", &mut config.http);
        reader.take(&mut fields, "", "http_token", &mut config.http_token);
        config.allow_host =
            reader.rules(&mut fields, "allow_host", |hosts| Access { hosts, ..Access::default() });
        config.allow_origin = reader
            .rules(&mut fields, "allow_origin", |origins| Access { origins, ..Access::default() });
        reader.take(&mut fields, "", "telemetry", &mut config.telemetry);
        let mut tiers = Map::new();
        reader.take(&mut fields, "", "tiers", &mut tiers);
        reader.prefix(&mut tiers, &mut config.prefix);
        reader.limits(&mut fields, &mut config.limits);
        reader.execution(&mut fields, &mut config.execution);
        let mut scopes = Map::new();
        reader.take(&mut fields, "", "scopes", &mut scopes);
        reader.take(&mut scopes, "scopes.", "skills", &mut config.scopes.skills);
        reader.take(&mut scopes, "scopes.", "prompts", &mut config.scopes.prompts);
        config.mdp = mdp::read(&mut reader, &mut fields);
        reader.unknown(&fields, "");
        reader.unknown(&scopes, "scopes.");
        reader.unknown(&tiers, "tiers.");
        if config.state_timeout_ms == 0 {
            config.state_timeout_ms = Self::default().state_timeout_ms;
            reader.warn("state_timeout_ms must be at least 1; its default is used".to_owned());
        }
        (config, reader.warnings)
    }

    /// What a registry is opened with.
    #[must_use]
    pub fn registry(&self) -> RegistryConfig {
        RegistryConfig {
            handler_timeout: self.handler_timeout(),
            prefix: self.prefix.clone(),
            ..RegistryConfig::default()
        }
    }

    /// How long a section or prompt handler may take.
    #[must_use]
    pub const fn handler_timeout(&self) -> Duration {
        Duration::from_millis(self.state_timeout_ms)
    }
}

/// Takes settings out of a mapping, and notes what it could not use.
pub(crate) struct Reader<'a> {
    path: &'a Path,
    pub(crate) warnings: Vec<String>,
}

impl<'a> Reader<'a> {
    pub(crate) const fn new(path: &'a Path) -> Self {
        Self { path, warnings: vec![] }
    }

    pub(crate) fn warn(&mut self, what: String) {
        self.warnings.push(format!("{}: {what}", self.path.display()));
    }

    pub(crate) fn take<T: DeserializeOwned>(
        &mut self,
        fields: &mut Map<String, Value>,
        prefix: &str,
        name: &str,
        slot: &mut T,
    ) {
        match fields.remove(name).map(serde_json::from_value) {
            None => {}
            Some(Ok(value)) => *slot = value,
            Some(Err(error)) => {
                self.warn(format!("{prefix}{name} cannot be used ({error}); its default is used"));
            }
        }
    }

    fn prefix(&mut self, tiers: &mut Map<String, Value>, slot: &mut Prefix) {
        let mut text = slot.to_string();
        self.take(tiers, "tiers.", "prefix", &mut text);
        match text.parse() {
            Ok(prefix) => *slot = prefix,
            Err(error) => {
                self.warn(format!("tiers.prefix cannot be used ({error}); its default is used"));
            }
        }
    }

    fn limits(&mut self, fields: &mut Map<String, Value>, slot: &mut TierLimits) {
        let mut limits = Map::new();
        self.take(fields, "", "limits", &mut limits);
        let TierLimits { free, starter, pro, scale } = slot;
        for (name, limit) in [("FREE", free), ("STARTER", starter), ("PRO", pro), ("SCALE", scale)]
        {
            self.take(&mut limits, "limits.", name, limit);
        }
        self.unknown(&limits, "limits.");
    }

    fn execution(&mut self, fields: &mut Map<String, Value>, slot: &mut Execution) {
        let mut execution = Map::new();
        self.take(fields, "", "execution", &mut execution);
        self.take(&mut execution, "execution.", "https_only", &mut slot.https_only);
        let mut origins: Vec<String> = vec![];
        self.take(&mut execution, "execution.", "allow_upstream", &mut origins);
        for origin in origins {
            match origin.parse() {
                Ok(origin) => slot.allow_upstream.push(origin),
                Err(error) => self.warn(format!(
                    "execution.allow_upstream cannot be used in full ({error}); the entry is left out"
                )),
            }
        }
        self.unknown(&execution, "execution.");
    }

    /// The entries of a list that can be used as rules.
    fn rules(
        &mut self,
        fields: &mut Map<String, Value>,
        name: &str,
        access: impl Fn(Vec<String>) -> Access,
    ) -> Vec<String> {
        let mut rules = vec![];
        self.take(fields, "", name, &mut rules);
        rules.retain(|rule: &String| match Guard::new(access(vec![rule.clone()])) {
            Ok(_) => true,
            Err(error) => {
                self.warn(format!(
                    "{name} cannot be used in full ({error}); the entry is left out"
                ));
                false
            }
        });
        rules
    }

    pub(crate) fn unknown(&mut self, fields: &Map<String, Value>, prefix: &str) {
        for name in fields.keys() {
            self.warn(format!("{prefix}{name} is not a setting; it is ignored"));
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn read(text: &str) -> (Config, Vec<String>) {
        let dir = tempfile::tempdir().unwrap();
        let path = dir.path().join("c.yaml");
        fs::write(&path, text).unwrap();
        Config::read(&path, true)
    }

    #[test]
    fn the_documented_file_is_read() {
        let (config, warnings) =
            read("# c\nscopes:\n  skills: a\n  prompts: b\nstate_timeout_ms: 250\n");
        assert!(warnings.is_empty(), "{warnings:?}");
        assert_eq!(config.scopes, Scopes { skills: "a".into(), prompts: "b".into() });
        assert_eq!(config.handler_timeout(), Duration::from_millis(250));
    }

    #[test]
    fn an_entry_that_cannot_be_used_does_not_take_the_others_with_it() {
        let (config, warnings) = read("allow_origin: ['*', nonsense, 'https://a.example', 'null']");
        assert_eq!(config.allow_origin, ["*", "https://a.example", "null"]);
        assert!(warnings.len() == 1 && warnings[0].contains("nonsense"), "{warnings:?}");
    }

    #[test]
    fn nothing_to_read_is_nothing_to_say() {
        assert_eq!(read(""), (Config::default(), vec![]));
        assert_eq!(read("# only a comment\n"), (Config::default(), vec![]));
        let absent = Path::new("/nonexistent/config.yaml");
        assert_eq!(Config::read(absent, false), (Config::default(), vec![]));
    }

    #[test]
    fn what_cannot_be_used_is_named_and_the_default_stands() {
        for (text, words) in [
            ("scopes: [unclosed", "the defaults are used"),
            ("- a\n- b\n", "not a mapping"),
            ("state_timeout_ms: soon", "state_timeout_ms cannot be used"),
            ("state_timeout_ms: 0", "at least 1"),
            ("scopes: 7", "scopes cannot be used"),
            ("scopes: {skills: [1]}", "scopes.skills cannot be used"),
            ("store: cloud", "store cannot be used"),
            ("http: 80", "http cannot be used"),
            ("http_token: [x]", "http_token cannot be used"),
            ("allow_host: here", "allow_host cannot be used"),
            ("allow_host: ['a b']", "\"a b\" is not a host"),
            ("allow_origin: [https://a.example/path]", "is not an origin"),
            ("limits: {FREE: many}", "limits.FREE cannot be used"),
            ("limits: {GOLD: 1}", "limits.GOLD is not a setting"),
            ("execution: {allow_upstream: ['a b']}", "is no origin"),
            ("execution: {fast: true}", "execution.fast is not a setting"),
            ("colour: red", "colour is not a setting"),
        ] {
            let (config, warnings) = read(text);
            assert_eq!(config, Config::default(), "{text}");
            assert!(warnings.len() == 1 && warnings[0].contains(words), "{text}: {warnings:?}");
        }
        let (_, warnings) = Config::read(Path::new("/nonexistent/config.yaml"), true);
        assert!(warnings[0].contains("/nonexistent/config.yaml"), "{warnings:?}");
    }
}
