//! Telling clients of changes.
//!
//! Every session and every listen stream has a task that follows the registry's news. What happens within
//! a few milliseconds, or while the client is still taking in what came before, becomes one notification
//! of each kind; so the memory of a client that is slow is bounded, and nothing is lost for it.

use std::{
    collections::{HashSet, VecDeque},
    sync::{Arc, Mutex, MutexGuard, PoisonError},
    time::Duration,
};

use futures_util::{FutureExt as _, StreamExt as _};
use rmcp::model::{
    PromptListChangedNotification, ResourceListChangedNotification, ResourceUpdatedNotification,
    ResourceUpdatedNotificationParam, ServerNotification, SubscriptionFilter,
    ToolListChangedNotification,
};
use skills_core::{
    Tier,
    id::INDEX_ID,
    skill::{LEAVES, ROOT_PATH},
    uri,
};
use skills_registry::{Changed, Changes, Skills};
use tokio::sync::watch;
use tokio_util::sync::CancellationToken;

use crate::{server::Shared, skills_extension, tools::WorkerTools};

/// Changes this close to each other are told together. A client hears of a change well within 50 ms.
const GATHER: Duration = Duration::from_millis(5);
/// Who has not taken in a notification after this does not read.
pub(crate) const STALLED: Duration = Duration::from_secs(30);
/// More changed skills than this at once are told as "any may have changed".
const MAX_GATHERED: usize = 10_000;
/// More subscriptions than this, or longer URIs, are not kept for one client.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1_000;
pub(crate) const MAX_URI_BYTES: usize = 2_048;

/// The URIs that a session has subscribed to. They need not exist yet.
#[derive(Debug, Default, Clone)]
pub(crate) struct Subscriptions(Arc<Mutex<HashSet<String>>>);

impl Subscriptions {
    fn lock(&self) -> MutexGuard<'_, HashSet<String>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Adds a URI, unless there are too many.
    pub(crate) fn add(&self, uri: String) -> Result<(), &'static str> {
        let mut uris = self.lock();
        if uri.len() > MAX_URI_BYTES {
            return Err("the URI is too long to be subscribed to");
        }
        if uris.len() >= MAX_SUBSCRIPTIONS && !uris.contains(&uri) {
            return Err("too many subscriptions; unsubscribe from some first");
        }
        uris.insert(uri);
        Ok(())
    }

    pub(crate) fn remove(&self, uri: &str) {
        self.lock().remove(uri);
    }
}

/// What a client wants to hear of.
pub(crate) enum Wants {
    /// All lists, and the URIs it has subscribed to.
    Session(Subscriptions),
    /// What it asked for when it began to listen.
    Filter(SubscriptionFilter),
}

impl Wants {
    fn resources(&self) -> bool {
        self.list(|filter| filter.resources_list_changed)
    }

    fn prompts(&self) -> bool {
        self.list(|filter| filter.prompts_list_changed)
    }

    fn tools(&self) -> bool {
        self.list(|filter| filter.tools_list_changed)
    }

    fn list(&self, which: impl Fn(&SubscriptionFilter) -> Option<bool>) -> bool {
        match self {
            Self::Session(_) => true,
            Self::Filter(filter) => which(filter) == Some(true),
        }
    }

    fn uris(&self, is_wanted: impl Fn(&str) -> bool) -> Vec<String> {
        let wanted = |uri: &&String| is_wanted(uri);
        match self {
            Self::Session(uris) => uris.lock().iter().filter(wanted).cloned().collect(),
            Self::Filter(filter) => {
                let uris = filter.resource_subscriptions.as_deref().unwrap_or_default();
                uris.iter().filter(wanted).cloned().collect()
            }
        }
    }
}

/// What happened since the client was last told.
#[derive(Debug, Default)]
struct News {
    skills: HashSet<Arc<str>>,
    any_skill: bool,
    prompts: bool,
    tools: bool,
}

impl News {
    fn everything() -> Self {
        Self { any_skill: true, prompts: true, tools: true, ..Self::default() }
    }

    fn is_empty(&self) -> bool {
        self.skills.is_empty() && !self.any_skill && !self.prompts && !self.tools
    }

    fn add(&mut self, changed: Changed) {
        match changed {
            Changed::Skill(id) => {
                if self.skills.len() < MAX_GATHERED {
                    self.skills.insert(id);
                } else {
                    self.any_skill = true;
                }
            }
            Changed::Prompt(_) => self.prompts = true,
            Changed::Tools => self.tools = true,
            // The tools of workers have news of their own, when it is known whether theirs changed.
            Changed::Functions => {}
            Changed::Everything => {
                self.any_skill = true;
                self.prompts = true;
                self.tools = true;
            }
        }
    }

    fn has_skills(&self) -> bool {
        self.any_skill || !self.skills.is_empty()
    }

    fn affects(&self, uri: &str) -> bool {
        let path =
            uri.strip_prefix(uri::SCHEME).or_else(|| uri.strip_prefix(skills_extension::SCHEME));
        let Some(path) = path else { return false };
        let mut segments = path.split('/');
        let id = segments.next().unwrap_or_default();
        // What follows a tier is an id too.
        let in_tier = segments.next().filter(|_| id.parse::<Tier>().is_ok());
        let is_index = path == INDEX_ID && !self.skills.is_empty();
        let has_changed = |id| self.skills.contains(id);
        self.any_skill
            || is_index
            || has_changed(id)
            || in_tier.is_some_and(has_changed)
            || self.affects_live(path)
    }

    /// The id of a live skill is the whole path, and its client alone is the address of all of them.
    fn affects_live(&self, path: &str) -> bool {
        let is_of = |id: &Arc<str>| id.strip_prefix(path).is_some_and(|rest| rest.starts_with('/'));
        let is_at = |folder: &str| {
            LEAVES.iter().any(|leaf| self.skills.contains(&*format!("{folder}{leaf}")))
        };
        match path.contains('/') {
            true => self.skills.contains(path) || path.strip_suffix(ROOT_PATH).is_some_and(is_at),
            false => self.skills.iter().any(is_of),
        }
    }

    /// The notifications that tell a client of it.
    fn notifications(&self, wants: &Wants) -> Vec<ServerNotification> {
        let mut notifications: Vec<ServerNotification> = wants
            .uris(|uri| self.affects(uri))
            .into_iter()
            .map(|uri| {
                let params = ResourceUpdatedNotificationParam::new(uri);
                ResourceUpdatedNotification::new(params).into()
            })
            .collect();
        if self.has_skills() && wants.resources() {
            notifications.push(ResourceListChangedNotification::default().into());
        }
        if self.prompts && wants.prompts() {
            notifications.push(PromptListChangedNotification::default().into());
        }
        if self.tools && wants.tools() {
            notifications.push(ToolListChangedNotification::default().into());
        }
        notifications
    }
}

/// Why a client is no longer told of changes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) enum End {
    /// It does not read.
    Stalled,
    /// It is gone.
    Gone,
    /// There is nothing more for it: its key was revoked, or the registry is gone.
    Over,
}

/// All news, from the moment this was made.
pub(crate) struct Source {
    changes: Changes,
    tools: Tools,
    skills: Arc<dyn Skills>,
}

impl Source {
    pub(crate) fn new(shared: &Shared) -> Self {
        let tools =
            Tools { now: shared.worker_tools.subscribe(), told: shared.known_worker_tools() };
        Self { changes: shared.skills.changes(), tools, skills: Arc::clone(&shared.skills) }
    }

    /// Waits for one piece of news and adds it; `None` at the end. Nothing is lost if it is not awaited to
    /// the end.
    async fn more(&mut self, news: &mut News) -> Option<()> {
        tokio::select! {
            changed = self.changes.next() => news.add(changed?),
            differ = self.tools.changed() => news.tools |= differ?,
        }
        Some(())
    }
}

/// Has a registry that learns only when it is asked find out whether skills that changed are tools; that is then
/// news of its own.
async fn look_for_tools(skills: Arc<dyn Skills>) {
    if let Err(error) = skills.catalog().await {
        tracing::debug!(%error, "it is not known whether the tools changed");
    }
}

/// The tools of workers, and which of them a client may have seen.
struct Tools {
    now: watch::Receiver<Option<Arc<WorkerTools>>>,
    told: Arc<WorkerTools>,
}

impl Tools {
    /// Waits for news of them and says whether they differ: to learn that there are none is no change.
    /// `None` at the end.
    async fn changed(&mut self) -> Option<bool> {
        self.now.changed().await.ok()?;
        let now = self.now.borrow_and_update().clone().unwrap_or_default();
        let differ = now != self.told;
        self.told = now;
        Some(differ)
    }
}

/// A source that was begun before its client was answered: what happens after the answer and before somebody
/// follows is news too.
#[derive(Default)]
pub(crate) struct Begun(Mutex<VecDeque<Source>>);

/// How many listen requests of one client can be under way between answer and following.
const MAX_BEGUN: usize = 16;

impl Begun {
    fn lock(&self) -> MutexGuard<'_, VecDeque<Source>> {
        self.0.lock().unwrap_or_else(PoisonError::into_inner)
    }

    pub(crate) fn begin(&self, shared: &Shared) {
        let mut begun = self.lock();
        // One that nobody came for belongs to a request that failed.
        if begun.len() >= MAX_BEGUN {
            begun.pop_front();
        }
        begun.push_back(Source::new(shared));
    }

    pub(crate) fn take(&self, shared: &Shared) -> Source {
        self.lock().pop_front().unwrap_or_else(|| Source::new(shared))
    }
}

/// Whether a session has a stream on which it can be told of something, and the how manyeth it is.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(crate) struct Ear {
    pub(crate) is_open: bool,
    pub(crate) streams: u64,
}

/// How a session is told of something, and that there is nothing more to tell it.
#[derive(Debug, Clone)]
pub(crate) struct Hearing {
    pub(crate) ear: watch::Receiver<Ear>,
    pub(crate) over: CancellationToken,
}

/// News for one client.
pub(crate) struct Follow {
    source: Source,
    wants: Wants,
    /// `None` for a client that can always be told.
    ear: Option<watch::Receiver<Ear>>,
    /// The stream that was told last.
    told: u64,
}

impl Follow {
    pub(crate) fn new(source: Source, wants: Wants, ear: Option<watch::Receiver<Ear>>) -> Self {
        Self { source, wants, ear, told: 0 }
    }

    /// Tells of every change until the client or the registry is gone.
    pub(crate) async fn tell<Sent>(mut self, send: impl Fn(ServerNotification) -> Sent) -> End
    where
        Sent: Future<Output = bool>,
    {
        let mut news = News::default();
        while self.gather(&mut news).await.is_some() {
            if news.has_skills() && self.wants.tools() {
                look_for_tools(Arc::clone(&self.source.skills)).await;
            }
            for notification in std::mem::take(&mut news).notifications(&self.wants) {
                match tokio::time::timeout(STALLED, send(notification)).await {
                    Ok(true) => {}
                    Ok(false) => return End::Gone,
                    Err(_) => return End::Stalled,
                }
            }
        }
        End::Over
    }

    /// Waits until there is something to tell, and somebody who hears it; `None` at the end.
    async fn gather(&mut self, news: &mut News) -> Option<()> {
        loop {
            let ear = self.hearing(news);
            if ear.is_open && !news.is_empty() {
                break;
            }
            tokio::select! {
                more = self.source.more(news) => more?,
                moved = moved(self.ear.as_mut()) => moved?,
            }
        }
        let gathered = tokio::time::sleep(GATHER);
        tokio::pin!(gathered);
        loop {
            tokio::select! {
                // First, so that news without end do not put it off.
                biased;
                () = &mut gathered => break,
                more = self.source.more(news) => more?,
            }
        }
        // What is there already costs nothing to take along.
        for _ in 0..MAX_GATHERED {
            if self.source.more(news).now_or_never().is_none() {
                break;
            }
        }
        Some(())
    }

    /// Who hears now. On a new stream after another, what the other was told last may not have arrived.
    fn hearing(&mut self, news: &mut News) -> Ear {
        let Some(ear) = &mut self.ear else { return Ear { is_open: true, streams: 0 } };
        let now = *ear.borrow_and_update();
        if now.streams > self.told {
            if self.told > 0 {
                *news = News::everything();
            }
            self.told = now.streams;
        }
        now
    }
}

async fn moved(ear: Option<&mut watch::Receiver<Ear>>) -> Option<()> {
    match ear {
        Some(ear) => ear.changed().await.ok(),
        None => std::future::pending().await,
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn methods(news: &News, wants: &Wants) -> Vec<String> {
        let shown = |notification: &ServerNotification| {
            let json = serde_json::to_value(notification).unwrap();
            let method = json["method"].as_str().unwrap().trim_start_matches("notifications/");
            match json["params"]["uri"].as_str() {
                Some(uri) => format!("{method} {uri}"),
                None => method.to_owned(),
            }
        };
        news.notifications(wants).iter().map(shown).collect()
    }

    fn news(changes: &[Changed]) -> News {
        let mut news = News::default();
        changes.iter().cloned().for_each(|changed| news.add(changed));
        news
    }

    #[test]
    fn a_burst_is_one_notification_of_each_kind() {
        let subscriptions = Subscriptions::default();
        for uri in [
            "iii://a",
            "iii://b",
            "iii://c",
            "iii://skills",
            "skill://a/SKILL.md",
            "skill://market/a/SKILL.md",
            "skill://market/c/SKILL.md",
            "x://a",
        ] {
            subscriptions.add(uri.to_owned()).unwrap();
        }
        let wants = Wants::Session(subscriptions);
        let skill = |id: &str| Changed::Skill(id.into());
        let news = news(&[skill("a"), skill("b"), skill("a"), Changed::Prompt("p".into())]);
        let mut told = methods(&news, &wants);
        told.sort();
        assert_eq!(
            told,
            [
                "prompts/list_changed",
                "resources/list_changed",
                "resources/updated iii://a",
                "resources/updated iii://b",
                "resources/updated iii://skills",
                "resources/updated skill://a/SKILL.md",
                "resources/updated skill://market/a/SKILL.md",
            ]
        );
    }

    #[test]
    fn nothing_outside_the_filter() {
        let wants = Wants::Filter(SubscriptionFilter::builder().prompts_list_changed().build());
        assert_eq!(methods(&news(&[Changed::Everything]), &wants), ["prompts/list_changed"]);
        assert!(methods(&news(&[Changed::Skill("a".into())]), &wants).is_empty());
    }

    #[test]
    fn subscriptions_are_bounded() {
        let subscriptions = Subscriptions::default();
        for number in 0..MAX_SUBSCRIPTIONS {
            subscriptions.add(format!("iii://s{number}")).unwrap();
        }
        assert!(subscriptions.add("iii://one-more".to_owned()).is_err());
        assert!(subscriptions.add("iii://s1".to_owned()).is_ok());
        assert!(subscriptions.add("x".repeat(MAX_URI_BYTES + 1)).is_err());
    }
}
