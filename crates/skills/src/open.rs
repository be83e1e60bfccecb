//! Opening a registry for a surface that stays, wherever the registry is.
//!
//! It does not know which surface: that is greeted at once and waits with its first request.

use std::{
    path::{Path, PathBuf},
    sync::{Arc, OnceLock},
};

use skills_registry::Skills;
use tokio::sync::watch;
use uuid::Uuid;

use crate::{
    Failure,
    cli::Target,
    config::Config,
    connect::{self, DEFAULT_DATA_DIR},
    follow,
    late::Late,
    people::People,
    work::blocking,
};

/// Where the registry is.
enum Place {
    Bus(String),
    Directory(PathBuf),
}

/// Runs a surface on the registry that the command line names, until one of them ends. The surface's name
/// is also that of its worker on the bus.
pub(crate) async fn run<Served>(
    surface: &str,
    target: &Target,
    config: &Config,
    serve: impl FnOnce(Arc<dyn Skills>) -> Served,
) -> Result<(), Failure>
where
    Served: Future<Output = Result<(), Failure>>,
{
    let (late, opened) = Late::new();
    let people = OnceLock::new();
    let outcome = tokio::select! {
        served = serve(Arc::new(late)) => served,
        failure = keep_open(surface, target, config, opened, &people) => Err(failure),
    };
    if let Some(people) = people.into_inner() {
        blocking(move || People::close(&people)).await?;
    }
    outcome
}

/// Opens the registry and keeps it in step. Ends only with an error.
async fn keep_open(
    surface: &str,
    target: &Target,
    config: &Config,
    opened: watch::Sender<Option<Arc<dyn Skills>>>,
    people: &OnceLock<People>,
) -> Failure {
    match place(target).await {
        Place::Bus(url) => {
            // A worker of its own name, beside any number of others of its kind.
            let name = format!("skills-{surface}-{}", &Uuid::new_v4().simple().to_string()[..8]);
            let engine = connect::engine(target, url, name, vec![]);
            match follow::start(engine, connect::call_timeout(config), target.key.clone()) {
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
        Place::Directory(dir) => match connect::local_with_tools(target, config, &dir).await {
            Ok((skills, of_directory)) => {
                let _ = people.set(of_directory);
                opened.send_replace(Some(skills));
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
