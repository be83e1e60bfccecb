//! Loads a configuration file: errors for unusable security settings, warnings for the rest.

use std::{
    fs, io,
    path::{Path, PathBuf},
};

use skills_core::{Code, Coded};
use skills_mdp::MdpTimeouts;

use super::{
    Config,
    document::{self, Position, Unusable},
    settings::{self, Class},
};

/// Default path of the file.
const DEFAULT_PATH: &str = "config.yaml";

/// Largest accepted file.
const MAX_BYTES: u64 = 1 << 20;

/// Purpose that a configuration is loaded for.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum Purpose {
    /// A server.
    Server,
    /// A command, which may run in a folder whose `config.yaml` belongs to another program. An unusable default file is
    /// then a warning, since the defaults that a command uses are the strict ones.
    Command,
}

/// Error of a configuration file.
#[derive(Debug, thiserror::Error)]
pub enum ConfigError {
    /// An explicit file is missing, or a file cannot be read.
    #[error("{}: cannot read the configuration file: {source}", path.display())]
    Unreadable {
        /// Path of the file.
        path: PathBuf,
        /// Cause.
        source: io::Error,
    },
    /// The file is too large.
    #[error("{}: the file is larger than {MAX_BYTES} bytes", path.display())]
    TooLarge {
        /// Path of the file.
        path: PathBuf,
    },
    /// The file is not YAML, or not a mapping.
    #[error("{place}: {reason}")]
    Malformed {
        /// Path, line and column.
        place: String,
        /// Reason, without content of the file.
        reason: &'static str,
        /// Set if a line is indented with a tab, which YAML rejects.
        has_tab: bool,
    },
    /// A security setting is present and cannot be used.
    #[error("{place}: {setting} {reason}")]
    Unusable {
        /// Path, line and column.
        place: String,
        /// Name of the setting.
        setting: String,
        /// Reason.
        reason: String,
        /// Next step.
        hint: String,
    },
}

impl Coded for ConfigError {
    fn code(&self) -> Code {
        match self {
            Self::Unreadable { .. } | Self::TooLarge { .. } => Code::ConfigUnreadable,
            Self::Malformed { .. } => Code::ConfigMalformed,
            Self::Unusable { .. } => Code::BadSetting,
        }
    }

    fn hint(&self) -> Option<&str> {
        Some(match self {
            Self::Unreadable { .. } => "check --config and III_CONFIG",
            Self::TooLarge { .. } => "give the path of the configuration file with --config",
            Self::Malformed { has_tab: true, .. } => "indent with spaces, not with tabs",
            Self::Malformed { .. } => "write settings as lines of `name: value`",
            Self::Unusable { hint, .. } => hint,
        })
    }
}

impl Config {
    /// Loads the given file, or `config.yaml` of the working directory if it exists.
    ///
    /// # Errors
    /// When a given file is missing, a file cannot be read or is not a YAML mapping, or a security setting is unusable. For
    /// a [command](Purpose::Command) only if the file was given.
    pub fn load(path: Option<&Path>, purpose: Purpose) -> Result<Self, ConfigError> {
        let (must_exist, file) = (path.is_some(), path.unwrap_or(Path::new(DEFAULT_PATH)));
        let loaded = read(file, must_exist);
        match loaded {
            Ok((config, warnings)) => {
                for warning in warnings {
                    tracing::warn!("{warning}");
                }
                Ok(Self { path: Some(file.to_owned()), ..config })
            }
            Err(error) if !must_exist && purpose == Purpose::Command => {
                tracing::warn!("{error}; using the defaults");
                Ok(Self::default())
            }
            Err(error) => Err(error),
        }
    }
}

/// Loads a file and returns warnings about it.
fn read(path: &Path, must_exist: bool) -> Result<(Config, Vec<String>), ConfigError> {
    let unreadable = |source| ConfigError::Unreadable { path: path.to_owned(), source };
    match fs::metadata(path) {
        Ok(metadata) if metadata.len() > MAX_BYTES => {
            return Err(ConfigError::TooLarge { path: path.to_owned() });
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound && !must_exist => {
            return Ok((Config::default(), vec![]));
        }
        _ => {}
    }
    let text = fs::read_to_string(path).map_err(unreadable)?;
    let malformed = |at: Option<Position>, reason| {
        let at = at.unwrap_or(Position::START);
        let indentation = |line: &str| line.len() - line.trim_start().len();
        let has_tab = text.lines().any(|line| line[..indentation(line)].contains('\t'));
        ConfigError::Malformed { place: at.in_file(path), reason, has_tab }
    };
    let document = document::parse(&text).map_err(|(at, reason)| malformed(at, reason))?;
    let mut reader = Reader { path, config: Config::default(), warnings: vec![] };
    if let Some(document) = document {
        let at = document.at;
        let entries =
            document.section().map_err(|_| malformed(Some(at), "not a mapping of settings"))?;
        let is_known =
            |name: &str| settings::find(name).is_some() || settings::section_class(name).is_some();
        if !must_exist
            && !entries.is_empty()
            && !entries.iter().any(|(name, _)| is_known(&name.value))
        {
            let warning = format!("{}: it has no setting of this program; ignored", path.display());
            return Ok((Config::default(), vec![warning]));
        }
        reader.section("", entries)?;
    }
    reader.check_dependencies();
    Ok((reader.config, reader.warnings))
}

/// Reads the entries of a file into a configuration.
struct Reader<'a> {
    path: &'a Path,
    config: Config,
    warnings: Vec<String>,
}

impl Reader<'_> {
    fn section(&mut self, prefix: &str, entries: document::Entries) -> Result<(), ConfigError> {
        for (name, node) in entries {
            let path = format!("{prefix}{}", name.value);
            if let Some(setting) = settings::find(&path) {
                if let Err(unusable) = (setting.read)(&mut self.config, &node) {
                    self.report(setting.class, &path, unusable)?;
                }
            } else if let Some(class) = settings::section_class(&path) {
                match node.section() {
                    Ok(entries) => self.section(&format!("{path}."), entries)?,
                    Err(unusable) => self.report(class, &path, unusable)?,
                }
            } else {
                let place = Position::from(name.referenced).in_file(self.path);
                self.warnings.push(format!("{place}: {path} is not a setting; ignored"));
            }
        }
        Ok(())
    }

    fn report(&mut self, class: Class, setting: &str, error: Unusable) -> Result<(), ConfigError> {
        let Unusable { at, entry, reason, hint } = error;
        let entry = entry.map(|entry| format!(".{entry}")).unwrap_or_default();
        let (place, setting) = (at.in_file(self.path), format!("{setting}{entry}"));
        match class {
            Class::Security => {
                let hint = hint.unwrap_or_else(|| {
                    format!("correct or remove {setting}; an unusable security setting prevents the start")
                });
                Err(ConfigError::Unusable { place, setting, reason, hint })
            }
            Class::Plain => {
                self.warnings.push(format!("{place}: {setting} {reason}; using the default"));
                Ok(())
            }
        }
    }

    /// Checks settings that depend on each other.
    fn check_dependencies(&mut self) {
        let times = &mut self.config.mdp.times;
        if times.silence <= times.ping_every {
            let MdpTimeouts { silence, ping_every, .. } = MdpTimeouts::default();
            (times.silence, times.ping_every) = (silence, ping_every);
            self.warnings.push(format!(
                "{}: mdp.timeouts.silence_ms must be more than ping_ms; using the defaults of both",
                self.path.display()
            ));
        }
    }
}

#[cfg(test)]
#[path = "tests.rs"]
mod tests;
