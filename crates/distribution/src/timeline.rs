//! Changes of the skills of one layer, without their files: what versions clients see, and when a list of skills changed.
//!
//! A marketplace lists many collections, and each has the revision of its own last commit as its version. Replaying the
//! log into commits for each of them reads it once for each; here it is read once for all of them, and kept in a few
//! dozen bytes a change.

use std::{collections::HashMap, sync::Arc};

use parking_lot::RwLock;
use skills_core::{
    Layer, Owner, Tier, Timestamp, VersionSelector, WorkAccount, WorkKind,
    work::{Turn, Turns},
};
use skills_registry::{
    ServedSkill, SkillChange, SkillLogRequest, SkillRegistry, SkillRow, available::to_agent_skill,
    catalog::StoredRevision,
};

use crate::{
    error::DistributionError,
    history::{Act, FolderEntry, FoldersOf, Held, Next, Replay, Served, version_row},
    plugin_version::{PluginVersion, PluginVersions},
    turn_cache::{TurnCache, turn_end},
};

/// Most bytes of cached timelines of private layers.
const MAX_PRIVATE_BYTES: usize = 16 << 20;

const TIMELINE: WorkKind = WorkKind::compute("changes of a layer");
/// Memory of a turn: a page of the log.
const TIMELINE_BYTES: usize = 1 << 20;

/// Timelines of layers, shared by all clients that see them.
#[derive(Debug)]
pub(crate) struct Timelines {
    official: Turns<TimelineState>,
    market: Turns<TimelineState>,
    private: Arc<TurnCache<Owner, TimelineState>>,
}

/// Timeline as it grows.
#[derive(Debug, Default)]
struct TimelineState {
    timeline: Arc<RwLock<LayerTimeline>>,
    /// Revision of the catalog that the timeline has all changes of; `None` while it lacks some.
    catalog: Option<StoredRevision>,
}

impl Default for Timelines {
    fn default() -> Self {
        let private = Arc::new(TurnCache::new(MAX_PRIVATE_BYTES));
        Self { official: Turns::default(), market: Turns::default(), private }
    }
}

impl Timelines {
    /// Returns the timeline of a layer with all changes up to a revision. `skills` is the registry as the layer's owner
    /// sees it.
    pub(crate) async fn get(
        &self,
        skills: &Arc<dyn SkillRegistry>,
        layer: &Layer,
        wanted: StoredRevision,
    ) -> Result<Arc<RwLock<LayerTimeline>>, DistributionError> {
        let find = move |state: &TimelineState| {
            state.catalog.filter(|catalog| includes(*catalog, wanted))?;
            Some(Arc::clone(&state.timeline))
        };
        let turns = match layer {
            Layer::Official => self.official.clone(),
            Layer::Market => self.market.clone(),
            Layer::Private(owner) => self.private.get(owner),
        };
        if let Some(found) = turns.peek(find) {
            return Ok(found);
        }
        let account = WorkAccount::current();
        let (own, skills, tier) = (account.clone(), Arc::clone(skills), layer.tier());
        let (private, layer) = (Arc::clone(&self.private), layer.clone());
        let turn = move |state: &mut TimelineState, turn: &Turn<'_>| {
            let extended = own.block_on(state.extend(&*skills, tier, turn));
            if let Layer::Private(owner) = &layer {
                private.set_weight(owner, state.timeline.read().weight);
            }
            turn_end(extended)
        };
        turns.take(&account, (TIMELINE, TIMELINE_BYTES), find, turn).await
    }
}

/// Returns whether a revision is at least as new as another one. One of a later history is: the store has lost the commits
/// that the other may have, and nothing brings them back.
pub(crate) fn includes(revision: StoredRevision, other: StoredRevision) -> bool {
    revision >= other
}

impl TimelineState {
    /// Reads changes for a turn.
    async fn extend(
        &mut self,
        skills: &dyn SkillRegistry,
        tier: Tier,
        turn: &Turn<'_>,
    ) -> Result<(), DistributionError> {
        let (revision, _) = skills.catalog().await?.stored_version();
        let (after, history) = {
            let timeline = self.timeline.read();
            (timeline.revision, timeline.history)
        };
        // The store lost commits, which the timeline may have.
        let mut after = if history == revision.history { after } else { 0 };
        if after == 0 {
            let history = revision.history;
            self.timeline = Arc::new(RwLock::new(LayerTimeline { history, ..Default::default() }));
        }
        self.catalog = None;
        loop {
            let request = SkillLogRequest { id: None, tier: Some(tier), after };
            let page = skills.skill_log(&request).await?;
            let mut created = Vec::new();
            for change in &page.changes {
                created.push(created_version(skills, change).await?);
            }
            let mut timeline = self.timeline.write();
            for (change, created) in page.changes.iter().zip(created) {
                timeline.add(change, created);
            }
            after = timeline.revision;
            if !page.has_more {
                self.catalog = Some(revision);
                return Ok(());
            }
            if turn.is_over() {
                return Ok(());
            }
        }
    }
}

/// Returns the row of a version that a change created; `None` for other changes, and if its content is gone.
async fn created_version(
    skills: &dyn SkillRegistry,
    change: &SkillChange,
) -> Result<Option<Arc<SkillRow>>, DistributionError> {
    match (Act::from(&change.action), &change.served) {
        (Act::New(number), ServedSkill::Version(served, row)) if *served == number => {
            Ok(Some(Arc::clone(row)))
        }
        (Act::New(number), _) => version_row(skills, change.tier, &change.id, number).await,
        _ => Ok(None),
    }
}

/// Changes of the skills of a layer.
#[derive(Debug, Default)]
pub(crate) struct LayerTimeline {
    skills: HashMap<Arc<str>, SkillTimeline>,
    /// Revision of the last change.
    revision: u64,
    /// Number of the store's history.
    history: u64,
    /// Approximate memory in bytes.
    weight: usize,
}

/// Changes of a skill in one layer.
#[derive(Debug, Default)]
struct SkillTimeline {
    /// Versions in the order of their numbers.
    versions: Vec<(u64, VersionFacts)>,
    /// Versions that clients see.
    shown: PluginVersions,
    events: Vec<Event>,
}

/// What a list shows of a version.
#[derive(Debug)]
struct VersionFacts {
    content: Content,
    /// Author's version.
    author: Option<Box<str>>,
    /// True if the log has the creation of the version.
    is_numbered: bool,
}

#[derive(Debug, Clone, PartialEq, Eq)]
enum Content {
    /// Agent Skill of this name.
    Skill(Arc<str>),
    /// No valid Agent Skill.
    Unusable,
    /// The metadata cannot be read.
    Corrupt,
    /// It was purged or collected.
    Gone,
}

#[derive(Debug)]
struct Event {
    revision: u64,
    at: Timestamp,
    act: Act<Box<str>>,
    /// Version that the plain id reads afterwards, in this layer.
    served: Option<u64>,
}

impl LayerTimeline {
    /// Returns the revision of the last change.
    pub(crate) const fn revision(&self) -> u64 {
        self.revision
    }

    /// Returns the version of a skill as clients see it.
    pub(crate) fn plugin_version(&self, id: &str, number: u64) -> PluginVersion {
        self.skills.get(id).map_or(PluginVersion::FIRST, |skill| skill.shown.get(number))
    }

    /// Returns the revision of the last change of a skill.
    pub(crate) fn last_change(&self, id: &str) -> Option<u64> {
        self.skills.get(id)?.events.last().map(|event| event.revision)
    }

    fn add(&mut self, change: &SkillChange, created: Option<Arc<SkillRow>>) {
        self.revision = change.revision;
        self.weight += size_of::<Event>();
        let skill = self.skills.entry(Arc::clone(&change.id)).or_insert_with(|| {
            self.weight += size_of::<SkillTimeline>() + 64;
            SkillTimeline::default()
        });
        let act = match Act::from(&change.action) {
            Act::New(number) => {
                let author = created.as_ref().and_then(|row| row.meta.author_version());
                skill.shown.add(number, author);
                self.weight += size_of::<(u64, VersionFacts)>() + author.map_or(0, str::len) + 48;
                let content = created.as_deref().map_or(Content::Gone, Content::of);
                let author = author.map(Box::from);
                skill.put(number, VersionFacts { content, author, is_numbered: true });
                Act::New(number)
            }
            Act::Drop(number) => {
                skill.drop_content(number);
                Act::Drop(number)
            }
            Act::Label(label, to) => Act::Label(Box::from(label), to),
            Act::Remove => Act::Remove,
            Act::SetYanked(number, is_yanked) => Act::SetYanked(number, is_yanked),
            Act::Other => Act::Other,
        };
        let served = match &change.served {
            ServedSkill::None => None,
            ServedSkill::Version(number, row) => {
                skill.learn(*number, || Content::of(row));
                Some(*number)
            }
            ServedSkill::Gone(number) => {
                skill.learn(*number, || Content::Gone);
                Some(*number)
            }
            ServedSkill::Corrupt(number) => {
                skill.learn(*number, || Content::Corrupt);
                if let Some(facts) = skill.facts_mut(*number) {
                    facts.content = Content::Corrupt;
                }
                Some(*number)
            }
        };
        skill.events.push(Event { revision: change.revision, at: change.at, act, served });
    }
}

impl SkillTimeline {
    fn position(&self, number: u64) -> Result<usize, usize> {
        self.versions.binary_search_by_key(&number, |(number, _)| *number)
    }

    fn content(&self, number: u64) -> &Content {
        self.position(number).map_or(&Content::Gone, |at| &self.versions[at].1.content)
    }

    fn facts_mut(&mut self, number: u64) -> Option<&mut VersionFacts> {
        self.position(number).ok().map(|at| &mut self.versions[at].1)
    }

    fn put(&mut self, number: u64, facts: VersionFacts) {
        match self.position(number) {
            Ok(at) => self.versions[at] = (number, facts),
            Err(at) => self.versions.insert(at, (number, facts)),
        }
    }

    /// Adds a version whose creation the log does not have.
    fn learn(&mut self, number: u64, content: impl FnOnce() -> Content) {
        if self.position(number).is_err() {
            let content = content();
            self.put(number, VersionFacts { content, author: None, is_numbered: false });
        }
    }

    /// Forgets the content of a version, as if it had never been there: later versions are numbered again.
    fn drop_content(&mut self, number: u64) {
        let Some(facts) = self.facts_mut(number) else { return };
        (facts.content, facts.author) = (Content::Gone, None);
        self.shown = PluginVersions::default();
        for (number, facts) in self.versions.iter().filter(|(_, facts)| facts.is_numbered) {
            self.shown.add(*number, facts.author.as_deref());
        }
    }
}

impl Content {
    fn of(row: &SkillRow) -> Self {
        match to_agent_skill(row) {
            Ok(agent) if agent.name == *row.id => Self::Skill(Arc::clone(&row.id)),
            Ok(agent) => Self::Skill(agent.name.into()),
            Err(_) => Self::Unusable,
        }
    }
}

/// Skill in a folder of a list.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct ListedVersion {
    tier: Tier,
    id: Arc<str>,
    version: u64,
    name: Arc<str>,
}

impl FolderEntry for ListedVersion {
    fn name(&self) -> &str {
        &self.name
    }

    fn version(&self) -> u64 {
        self.version
    }
}

/// Folders of a list, and the revision of the last change that altered them; `None` if none did.
pub(crate) type ListState = (Arc<FoldersOf<ListedVersion>>, Option<u64>);

/// Replays the changes of a list of skills, each at the version that it serves, or at one that is selected.
pub(crate) fn replay_list<'a>(
    layers: &[(Tier, &LayerTimeline)],
    members: impl Iterator<Item = (&'a Arc<str>, Option<&'a VersionSelector>)>,
) -> ListState {
    let mut events = Vec::new();
    for (id, selector) in members {
        for (tier, layer) in layers {
            if let Some((id, skill)) = layer.skills.get_key_value(id) {
                events.extend(skill.events.iter().map(|event| (event, skill, *tier, id, selector)));
            }
        }
    }
    events.sort_by_key(|(event, ..)| event.revision);
    let (mut replay, mut changed_at) = (Replay::default(), None);
    for (event, skill, tier, id, selector) in events {
        if !replay.continues_group(event.revision, event.at) {
            changed_at = replay.changed_at().or(changed_at);
        }
        replay.enter_group(event.revision, event.at);
        let served = match event.served.map(|number| (number, skill.content(number))) {
            None => Served::Nothing,
            Some((_, Content::Gone)) => Served::Gone,
            Some((_, Content::Corrupt)) => Served::Corrupt,
            Some((number, _)) => Served::Version(number),
        };
        let held = match replay.record((tier, id), (&event.act, None), served, selector) {
            Next::Same => None,
            Next::Nothing => Some(Held::Nothing),
            Next::Unusable => Some(Held::Unusable),
            Next::Served(version) | Next::Selected(version) => match skill.content(version) {
                Content::Skill(name) => {
                    let (id, name) = (Arc::clone(id), Arc::clone(name));
                    Some(Held::Skill(Arc::new(ListedVersion { tier, id, version, name })))
                }
                Content::Unusable => Some(Held::Unusable),
                Content::Corrupt | Content::Gone => None,
            },
        };
        if let Some(held) = held {
            replay.set_held(tier, id, held);
        }
    }
    changed_at = replay.changed_at().or(changed_at);
    (replay.into_folders(), changed_at)
}
