//! Location of the registry that a command uses.

use std::{fmt, path::PathBuf};

use clap::Args;

/// Heading of the options that every command accepts, which follow its own.
pub(super) const COMMON_OPTIONS: &str = "Common options";

/// Location of the registry, and the credentials for it.
#[derive(Clone, Args)]
pub struct Target {
    /// URL of a running bus [env: III_URL] [default: ws://127.0.0.1:49134, if there is no own store and this user's bus answers there]
    #[arg(long, value_name = "URL", global = true, help_heading = COMMON_OPTIONS)]
    pub url: Option<String>,

    /// URL from the environment, if no flag sets one.
    #[arg(skip)]
    pub env_url: Option<String>,

    /// Use the bus at the default address and never the data directory.
    #[arg(skip)]
    pub is_default_bus_only: bool,

    /// Print on stderr which registry is used
    #[arg(short, long, global = true, help_heading = COMMON_OPTIONS)]
    pub verbose: bool,

    /// Data directory [env: SKILLS_DATA_DIR] [default: ./data if it holds a store, else the user's data folder]
    #[arg(long, value_name = "DIR", global = true, help_heading = COMMON_OPTIONS)]
    pub data_dir: Option<PathBuf>,

    /// The flag `--data-dir` precedes the databases of the environment and of the configuration.
    #[arg(skip)]
    pub is_data_dir_chosen: bool,

    /// PostgreSQL database of the registry, instead of the file in the data directory [env: SKILLS_STORE]
    #[arg(long, value_name = "URL", global = true, help_heading = COMMON_OPTIONS)]
    pub store: Option<String>,

    /// Bearer token of the bus; `serve` also requires it over HTTP [env: III_TOKEN]
    #[arg(long, value_name = "TOKEN", global = true, help_heading = COMMON_OPTIONS)]
    pub token: Option<String>,

    /// User key, to see that user's private skills; prefer the environment variable [env: SKILLS_KEY]
    #[arg(long, value_name = "KEY", global = true, help_heading = COMMON_OPTIONS)]
    pub key: Option<String>,
}

impl fmt::Debug for Target {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { url, data_dir, .. } = self;
        f.debug_struct("Target")
            .field("url", url)
            .field("data_dir", data_dir)
            .finish_non_exhaustive()
    }
}
