//! `skills mcp`: MCP over standard input and output.

use std::{path::Path, sync::Arc};

use skills_mcp::{Mcp, Settings};
use skills_registry::{RegistryConfig, Skills};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;
use uuid::Uuid;

use crate::{
    Failure,
    cli::Target,
    config::Config,
    connect::{self, DEFAULT_DATA_DIR},
    follow,
    late::Late,
    serve::open_registry,
};

/// Where the registry is.
enum Place {
    Bus(String),
    Directory(std::path::PathBuf),
}

pub(super) async fn run(target: &Target, config: &Config) -> Result<(), Failure> {
    let shutdown = CancellationToken::new();
    super::stop_on_signal(shutdown.clone())?;
    let (late, opened) = Late::new();
    let settings = Settings { shutdown, ..Settings::default() };
    let mcp = Mcp::new(Arc::new(late), settings);
    tokio::select! {
        served = skills_mcp::stdio::serve(&mcp) => {
            served.map_err(|error| Failure::new("mcp", error.to_string()))
        }
        failure = keep_open(target, config, opened) => Err(failure),
    }
}

/// Opens the registry and keeps it in step. Ends only with an error.
async fn keep_open(
    target: &Target,
    config: &Config,
    opened: watch::Sender<Option<Arc<dyn Skills>>>,
) -> Failure {
    match place(target).await {
        Place::Bus(url) => {
            // A worker of its own name, beside any number of others of its kind.
            let name = format!("skills-mcp-{}", &Uuid::new_v4().simple().to_string()[..8]);
            let engine = super::engine(target, url, name, vec![]);
            match follow::start(engine, connect::call_timeout(config)) {
                Ok(follower) => {
                    let mirror: Arc<dyn Skills> = follower.mirror.clone();
                    opened.send_replace(Some(mirror));
                    let failure = follower.run().await;
                    follower.stop().await;
                    failure
                }
                Err(failure) => failure,
            }
        }
        Place::Directory(dir) => match open_registry(&dir, None, RegistryConfig::default()).await {
            Ok(registry) => {
                opened.send_replace(Some(registry));
                std::future::pending().await
            }
            Err(failure) => failure,
        },
    }
}

/// A bus that is named, a directory that is named, a bus at the usual address, a store in the usual
/// directory; or else the usual address, for when somebody comes there.
async fn place(target: &Target) -> Place {
    if let Some(url) = connect::named_url(target)
        && (target.url.is_some() || target.data_dir.is_none())
    {
        return Place::Bus(url);
    }
    if let Some(dir) = &target.data_dir {
        return Place::Directory(dir.clone());
    }
    let dir = Path::new(DEFAULT_DATA_DIR);
    if !connect::answers_by_default(target).await && dir.join("skills.db").exists() {
        return Place::Directory(dir.to_owned());
    }
    Place::Bus(connect::url(target))
}
