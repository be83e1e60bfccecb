//! A remote registry with a memory: the catalog is kept until the bus tells of a change.

use std::{
    collections::HashSet,
    sync::{Arc, Mutex as StdMutex, MutexGuard, PoisonError},
};

use async_trait::async_trait;
use bytes::Bytes;
use futures_util::StreamExt as _;
use serde_json::{Map, Value};
use skills_core::{Bundle, Caller, HandlerId, PromptDefinition, Tier};
use tokio::sync::Mutex;

use super::{RemoteRegistry, listing, private::Private};
use crate::{
    Catalog, Changed, Changes, Explanation, ExposedFunction, RegistryError, RenderedPrompt,
    Resource, SkillInfo, Skills,
    feed::{Delivery, Feed},
    live::Question,
};

/// What the news of a feed may take up: they are ids.
const FEED_BYTES: usize = 64 << 10;
const CHANGE_BYTES: usize = 128;

/// More skills than this are not asked for one by one.
const MAX_SINGLE: usize = 500;

/// A registry at the other end of a bus, for a surface that stays.
///
/// Somebody has to tell it of changes, with [`hear`](Self::hear): it does not know how they travel.
#[derive(Debug)]
pub struct Mirror {
    remote: RemoteRegistry,
    /// What has changed since the catalog was asked for.
    stale: StdMutex<Stale>,
    known: Mutex<Arc<Catalog>>,
    /// What the private layer was when it was last looked at.
    private: Mutex<Option<Private>>,
    news: Feed<Changed>,
}

/// What is not known any more.
#[derive(Debug, Clone, Default)]
struct Stale {
    everything: bool,
    skills: HashSet<Arc<str>>,
    prompts: bool,
}

impl Stale {
    fn add(&mut self, changed: &Changed) {
        match changed {
            Changed::Skill(id) => drop(self.skills.insert(Arc::clone(id))),
            Changed::Prompt(_) => self.prompts = true,
            // The list of tools is made of the skills.
            Changed::Tools | Changed::Functions => {}
            Changed::Everything => self.everything = true,
        }
        if self.skills.len() > MAX_SINGLE {
            self.everything = true;
            self.skills.clear();
        }
    }

    /// Whether this is not known any more.
    fn has(&self, changed: &Changed) -> bool {
        self.everything
            || match changed {
                Changed::Skill(id) => self.skills.contains(id),
                Changed::Prompt(_) => self.prompts,
                Changed::Tools | Changed::Functions | Changed::Everything => false,
            }
    }

    /// Whether what was not known any more turned out to have to do with tools.
    fn tools_differ(&self, before: &Catalog, now: &Catalog) -> bool {
        if self.everything {
            return before.tools() != now.tools();
        }
        self.skills.iter().any(|id| before.tools_around(id) != now.tools_around(id))
    }

    fn merge(&mut self, other: Self) {
        self.everything |= other.everything;
        self.prompts |= other.prompts;
        self.skills.extend(other.skills);
    }

    fn is_nothing(&self) -> bool {
        !self.everything && !self.prompts && self.skills.is_empty()
    }
}

impl Mirror {
    /// A mirror of a registry, with nothing in it yet.
    #[must_use]
    pub fn new(remote: RemoteRegistry) -> Self {
        Self {
            remote,
            stale: StdMutex::new(Stale { everything: true, ..Stale::default() }),
            known: Mutex::default(),
            private: Mutex::default(),
            news: Feed::new(FEED_BYTES),
        }
    }

    fn stale(&self) -> MutexGuard<'_, Stale> {
        self.stale.lock().unwrap_or_else(PoisonError::into_inner)
    }

    /// Takes in that something has changed there.
    pub fn hear(&self, changed: Changed) {
        if changed == Changed::Everything {
            self.remote.forget();
        }
        self.stale().add(&changed);
        self.news.send(changed, CHANGE_BYTES);
    }

    /// Whether it is seen with somebody's key.
    #[must_use]
    pub fn is_somebodys(&self) -> bool {
        self.remote.key.is_some()
    }

    /// Looks at the private layer of whose key it is, and takes in what has changed there.
    ///
    /// # Errors
    /// When it cannot be asked for.
    pub async fn look_at_private(&self) -> Result<(), RegistryError> {
        // Who has no tiers would tell of everything.
        if !self.remote.has_tiers().await? {
            return Ok(());
        }
        let found = Private::look(&self.remote).await.inspect_err(|error| {
            // What was known with a key that is no longer good is not known any more.
            if error.code() == RegistryError::UnknownKey.code() {
                self.stale().add(&Changed::Everything);
            }
        })?;
        let mut last = self.private.lock().await;
        let mut news = last.as_ref().map_or_else(Vec::new, |last| last.changes(&found));
        // What came and went between two looks may be in a catalog that was asked for in between.
        let known = Arc::clone(&*self.known.lock().await);
        let stale = self.stale().clone();
        let is_news = |changed: &Changed| !stale.has(changed) && !news.contains(changed);
        let unlike: Vec<Changed> = found.unlike(&known).into_iter().filter(is_news).collect();
        news.extend(unlike);
        *last = Some(found);
        news.into_iter().for_each(|changed| self.hear(changed));
        Ok(())
    }

    async fn refreshed(&self, before: &Catalog, stale: &Stale) -> Result<Catalog, RegistryError> {
        if !stale.everything {
            let ids: Vec<Arc<str>> = stale.skills.iter().cloned().collect();
            let changed = listing::changed(&self.remote, before, &ids, stale.prompts).await?;
            if let Some(catalog) = changed {
                return Ok(catalog);
            }
        }
        listing::catalog(&self.remote).await
    }
}

#[async_trait]
impl Skills for Mirror {
    fn view(self: Arc<Self>, caller: &Caller) -> Result<Arc<dyn Skills>, RegistryError> {
        super::view(self, caller)
    }

    async fn every_skill(&self) -> Result<Vec<SkillInfo>, RegistryError> {
        self.remote.every_skill().await
    }

    async fn explain(&self, id: &str) -> Result<Explanation, RegistryError> {
        self.remote.explain(id).await
    }

    async fn catalog(&self) -> Result<Arc<Catalog>, RegistryError> {
        // Held while asking: those who want the same meanwhile get the same answer.
        let mut known = self.known.lock().await;
        let stale = std::mem::take(&mut *self.stale());
        if stale.is_nothing() {
            return Ok(Arc::clone(&known));
        }
        // Put back unless it is learnt, also if nobody waits for the answer any more.
        let unlearnt = Unlearnt { mirror: self, stale: Some(stale) };
        let stale = unlearnt.stale.clone().unwrap_or_default();
        let before = Arc::clone(&known);
        *known = Arc::new(self.refreshed(&before, &stale).await?);
        unlearnt.done();
        if stale.tools_differ(&before, &known) {
            self.news.send(Changed::Tools, CHANGE_BYTES);
        }
        Ok(Arc::clone(&known))
    }

    fn changes(&self) -> Changes {
        futures_util::stream::unfold(self.news.subscribe(), |mut news| async move {
            let changed = match news.next().await? {
                Delivery::Item(changed) => changed,
                Delivery::Missed(_) => Changed::Everything,
            };
            Some((changed, news))
        })
        .boxed()
    }

    async fn has_paths(&self) -> bool {
        self.remote.has_paths().await
    }

    async fn ask_paths(&self, question: Question) -> Result<Value, RegistryError> {
        self.remote.ask_paths(question).await
    }

    async fn read(&self, uri: &str) -> Result<Resource, RegistryError> {
        self.remote.read(uri).await
    }

    async fn render_prompt(
        &self,
        name: &str,
        arguments: Value,
    ) -> Result<RenderedPrompt, RegistryError> {
        self.remote.render_prompt(name, arguments).await
    }

    async fn functions(&self) -> Result<Vec<ExposedFunction>, RegistryError> {
        self.remote.functions().await
    }

    async fn call_function(
        &self,
        function: &HandlerId,
        arguments: Value,
    ) -> Result<Value, RegistryError> {
        self.remote.call_function(function, arguments).await
    }

    async fn call_tool(
        &self,
        id: &str,
        arguments: Map<String, Value>,
    ) -> Result<Value, RegistryError> {
        self.remote.call_tool(id, arguments).await
    }

    async fn register_bundle_in(
        &self,
        tier: Tier,
        id: &str,
        bundle: Bundle<Bytes>,
    ) -> Result<String, RegistryError> {
        self.remote.register_bundle_in(tier, id, bundle).await
    }

    async fn remove_skill_in(&self, tier: Tier, id: &str) -> Result<bool, RegistryError> {
        self.remote.remove_skill_in(tier, id).await
    }

    async fn register_prompt_in(
        &self,
        tier: Tier,
        name: &str,
        definition: PromptDefinition,
    ) -> Result<String, RegistryError> {
        self.remote.register_prompt_in(tier, name, definition).await
    }

    async fn remove_prompt_in(&self, tier: Tier, name: &str) -> Result<bool, RegistryError> {
        self.remote.remove_prompt_in(tier, name).await
    }
}

/// What is being asked for, and has to be asked for again if no answer comes.
struct Unlearnt<'a> {
    mirror: &'a Mirror,
    stale: Option<Stale>,
}

impl Unlearnt<'_> {
    fn done(mut self) {
        self.stale = None;
    }
}

impl Drop for Unlearnt<'_> {
    fn drop(&mut self) {
        if let Some(stale) = self.stale.take() {
            self.mirror.stale().merge(stale);
        }
    }
}
