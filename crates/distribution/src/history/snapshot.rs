//! Generated files and trees of one commit.

use std::sync::Arc;

use skills_core::{WorkAccount, WorkKind};
use skills_git::{EntryMode, ObjectId, ObjectKind, TreeEntry, object::tree};

use super::{Folders, FoldersOf};
use crate::{
    formats::{ListLines, PluginInfo, agent_plugin, claude, codex, cursor, readme},
    plugin_version::PluginVersion,
    view::{Selection, View},
};

/// Properties of a repository that no change alters.
#[derive(Debug, Clone)]
pub(crate) struct RepositoryHead {
    /// Name of the marketplace, and of the plugin of a collection.
    pub(crate) name: Arc<str>,
    /// Description of a collection; `None` for other views.
    description: Option<Arc<str>>,
    mcp_url: Option<Arc<str>>,
}

impl RepositoryHead {
    pub(crate) fn new(view: &View) -> Self {
        let name = view.marketplace_name().into();
        match &view.selection {
            Selection::List { description, mcp_url, .. } => {
                let description = Some(Arc::clone(description));
                Self { name, description, mcp_url: mcp_url.clone() }
            }
            _ => Self { name, description: None, mcp_url: None },
        }
    }

    /// Returns the plugin that has all skills of a collection. A skill of the same name goes before it.
    pub(crate) fn collection_plugin<S>(
        &self,
        folders: &FoldersOf<S>,
        revision: u64,
    ) -> Option<PluginInfo> {
        let is_taken = folders.contains_key(&format!("{}/", self.name));
        let description = self.description.as_deref().filter(|_| !is_taken)?;
        (!folders.is_empty()).then(|| PluginInfo {
            name: self.name.to_string(),
            description: description.to_owned(),
            version: PluginVersion::of_revision(revision),
            license: None,
            lines: ListLines::default(),
        })
    }
}

/// Object that each commit has one of.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum Slot {
    ClaudeFile,
    ClaudeTree,
    CodexFile,
    CodexTree,
    AgentsTree,
    CursorFile,
    CursorTree,
    Readme,
    Plugin,
    Skills,
    /// `mcp.json` of a collection.
    Mcp,
    CollectionManifest,
    CollectionManifests,
    /// Wrapper with all skills of a collection.
    CollectionWrapper,
    Dist,
    Root,
}

impl Slot {
    /// All slots, each after those that it is made of.
    pub(crate) const ALL: [Self; 16] = [
        Self::CodexFile,
        Self::CodexTree,
        Self::AgentsTree,
        Self::CursorFile,
        Self::CursorTree,
        Self::Readme,
        Self::Plugin,
        Self::Skills,
        Self::Mcp,
        Self::CollectionManifest,
        Self::CollectionManifests,
        Self::CollectionWrapper,
        Self::Dist,
        Self::ClaudeFile,
        Self::ClaudeTree,
        Self::Root,
    ];
    /// Place of the marketplace of Claude Code among the slots. Those before do not depend on it.
    const MARKETPLACE: usize = 13;

    pub(crate) const fn kind(self) -> ObjectKind {
        match self {
            Self::ClaudeFile
            | Self::CodexFile
            | Self::CursorFile
            | Self::Readme
            | Self::Plugin
            | Self::Mcp
            | Self::CollectionManifest => ObjectKind::Blob,
            _ => ObjectKind::Tree,
        }
    }

    /// Returns whether the object depends on names and descriptions alone.
    const fn is_listing(self) -> bool {
        matches!(
            self,
            Self::CodexFile
                | Self::CodexTree
                | Self::AgentsTree
                | Self::CursorFile
                | Self::CursorTree
                | Self::Readme
        )
    }
}

/// Ids of the slots of a commit; zero for those that it does not have.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIds([ObjectId; Slot::ALL.len()]);

impl SlotIds {
    pub(crate) const fn get(&self, slot: Slot) -> ObjectId {
        self.0[slot as usize]
    }

    const fn with(mut self, slot: Slot, id: ObjectId) -> Self {
        self.0[slot as usize] = id;
        self
    }

    fn has(&self, slot: Slot) -> bool {
        self.get(slot) != ObjectId::ZERO
    }

    pub(super) const fn root(&self) -> ObjectId {
        self.get(Slot::Root)
    }
}

/// Commits of at least this many skills use two threads, if the client has a second one.
const MANY_FOLDERS: usize = 300;

const SECOND_THREAD: WorkKind = WorkKind::compute("marketplace file of a commit");

/// Computes the ids of all slots. `reused` has those of a commit with the same names and descriptions.
///
/// In a long history of many skills this is most of the work: each commit has a new marketplace and two new trees with a
/// line for every skill. The marketplace is about half of that and depends on no other slot, so it has its own thread.
pub(super) fn slots(
    account: &WorkAccount,
    head: &RepositoryHead,
    folders: &Folders,
    revision: u64,
    reused: Option<SlotIds>,
) -> SlotIds {
    let ids = reused.unwrap_or(SlotIds([ObjectId::ZERO; Slot::ALL.len()]));
    let marketplace = || {
        let bytes = render(Slot::ClaudeFile, head, folders, revision, &ids);
        ObjectId::of(ObjectKind::Blob, &bytes)
    };
    let is_reused = |slot: Slot| reused.is_some() && slot.is_listing();
    let compute = |slots: &[Slot], ids| with_slots(slots, head, folders, revision, ids, is_reused);
    let all: &'static [Slot] = &Slot::ALL;
    let (independent, dependent) = all.split_at(Slot::MARKETPLACE);
    let permit = (folders.len() >= MANY_FOLDERS)
        .then(|| account.try_permit(SECOND_THREAD, 0).ok())
        .flatten();
    let (ids, marketplace) = std::thread::scope(|scope| {
        let spawn = |_| std::thread::Builder::new().spawn_scoped(scope, marketplace).ok();
        let spawned = permit.as_ref().and_then(spawn);
        let ids = compute(independent, ids);
        let computed = spawned.and_then(|thread| thread.join().ok());
        (ids, computed.unwrap_or_else(marketplace))
    });
    compute(&dependent[1..], ids.with(Slot::ClaudeFile, marketplace))
}

/// Computes the ids of some slots, in their order.
fn with_slots(
    slots: &[Slot],
    head: &RepositoryHead,
    folders: &Folders,
    revision: u64,
    mut ids: SlotIds,
    is_reused: impl Fn(Slot) -> bool,
) -> SlotIds {
    let has_plugin = head.collection_plugin(folders, revision).is_some();
    for slot in slots.iter().copied() {
        let is_absent = match slot {
            Slot::Mcp => !has_plugin || head.mcp_url.is_none(),
            Slot::CollectionManifest | Slot::CollectionManifests | Slot::CollectionWrapper => {
                !has_plugin
            }
            _ => false,
        };
        if is_absent {
            ids.0[slot as usize] = ObjectId::ZERO;
        } else if !is_reused(slot) {
            let bytes = render(slot, head, folders, revision, &ids);
            ids.0[slot as usize] = ObjectId::of(slot.kind(), &bytes);
        }
    }
    ids
}

/// Returns the bytes of a slot. `ids` has the slots that it is made of.
pub(crate) fn render(
    slot: Slot,
    head: &RepositoryHead,
    folders: &Folders,
    revision: u64,
    ids: &SlotIds,
) -> Vec<u8> {
    let name = &*head.name;
    let collection = head.collection_plugin(folders, revision);
    let plugins = || folders.values().map(|skill| &skill.info);
    let with_collection = || plugins().chain(&collection);
    let file = |name, slot| TreeEntry { mode: EntryMode::File, name, id: ids.get(slot) };
    let folder = |name, slot| TreeEntry { mode: EntryMode::Tree, name, id: ids.get(slot) };
    match slot {
        Slot::ClaudeFile => {
            let whole = collection.as_ref().map(|it| claude::collection_entry(it, plugins()));
            let entries = folders.values().map(|skill| skill.entry.as_str());
            claude::marketplace(name, entries.chain(whole.as_deref())).into()
        }
        Slot::CodexFile => codex::marketplace(name, with_collection()).into(),
        Slot::CursorFile => cursor::marketplace(name, with_collection()).into(),
        Slot::Readme => readme::readme(name, plugins()).into(),
        Slot::Plugin => match &collection {
            Some(collection) => agent_plugin::manifest(collection).into(),
            None => agent_plugin::repository_manifest(name, revision).into(),
        },
        Slot::Mcp => agent_plugin::mcp(head.mcp_url.as_deref().unwrap_or_default()).into(),
        Slot::CollectionManifest => {
            collection.as_ref().map(codex::manifest).unwrap_or_default().into()
        }
        Slot::CollectionManifests => tree(vec![file("plugin.json", Slot::CollectionManifest)]),
        Slot::CollectionWrapper => {
            let mut entries = vec![
                folder(".codex-plugin", Slot::CollectionManifests),
                folder(".cursor-plugin", Slot::CollectionManifests),
                file("plugin.json", Slot::Plugin),
                folder("skills", Slot::Skills),
            ];
            if ids.has(Slot::Mcp) {
                entries.push(file("mcp.json", Slot::Mcp));
            }
            tree(entries)
        }
        Slot::ClaudeTree => tree(vec![file("marketplace.json", Slot::ClaudeFile)]),
        Slot::CodexTree => tree(vec![file("marketplace.json", Slot::CodexFile)]),
        Slot::AgentsTree => tree(vec![folder("plugins", Slot::CodexTree)]),
        Slot::CursorTree => tree(vec![file("marketplace.json", Slot::CursorFile)]),
        Slot::Skills => folder_tree(folders, |skill| skill.tree, None),
        Slot::Dist => {
            let name = format!("{name}/");
            let wrapper = (name.as_str(), ids.get(Slot::CollectionWrapper));
            let has_wrapper = ids.has(Slot::CollectionWrapper);
            folder_tree(folders, super::FolderSkill::wrapper_tree, has_wrapper.then_some(wrapper))
        }
        Slot::Root => {
            let mut entries = vec![
                folder(".agents", Slot::AgentsTree),
                folder(".claude-plugin", Slot::ClaudeTree),
                folder(".cursor-plugin", Slot::CursorTree),
                file("README.md", Slot::Readme),
                file("plugin.json", Slot::Plugin),
            ];
            if ids.has(Slot::Mcp) {
                entries.push(file("mcp.json", Slot::Mcp));
            }
            if !folders.is_empty() {
                entries.push(folder("skills", Slot::Skills));
                entries.push(folder("dist", Slot::Dist));
            }
            tree(entries)
        }
    }
}

/// Returns a tree with one entry for each folder, which are in the order of a tree, and for one more.
fn folder_tree(
    folders: &Folders,
    id: impl Fn(&super::FolderSkill) -> ObjectId,
    more: Option<(&str, ObjectId)>,
) -> Vec<u8> {
    let mut bytes = Vec::with_capacity((folders.len() + 1) * 48);
    let mut write = |name: &str, id| {
        let name = name.trim_end_matches('/');
        TreeEntry { mode: EntryMode::Tree, name, id }.write(&mut bytes);
    };
    let mut more = more;
    for (name, skill) in folders {
        if let Some((other, other_id)) = more.take_if(|(other, _)| *other < name.as_str()) {
            write(other, other_id);
        }
        write(name, id(skill));
    }
    if let Some((other, other_id)) = more {
        write(other, other_id);
    }
    bytes
}

/// Object of a plugin wrapper.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(crate) struct WrapperObject {
    pub(crate) kind: ObjectKind,
    pub(crate) id: ObjectId,
    pub(crate) bytes: Vec<u8>,
}

/// Returns the objects of a skill's plugin wrapper, the tree of its folder last. The skill itself is shared.
pub(crate) fn wrapper(info: &PluginInfo, skill: ObjectId) -> [WrapperObject; 5] {
    let object =
        |kind, bytes: Vec<u8>| WrapperObject { kind, id: ObjectId::of(kind, &bytes), bytes };
    let entry = |mode, name, object: &WrapperObject| TreeEntry { mode, name, id: object.id };
    let plugin = object(ObjectKind::Blob, agent_plugin::manifest(info).into());
    let manifest = object(ObjectKind::Blob, codex::manifest(info).into());
    let manifests = tree(vec![entry(EntryMode::File, "plugin.json", &manifest)]);
    let manifests = object(ObjectKind::Tree, manifests);
    let skills = tree(vec![TreeEntry { mode: EntryMode::Tree, name: &info.name, id: skill }]);
    let skills = object(ObjectKind::Tree, skills);
    let root = tree(vec![
        // One tree for both clients, which read the same fields.
        entry(EntryMode::Tree, ".codex-plugin", &manifests),
        entry(EntryMode::Tree, ".cursor-plugin", &manifests),
        entry(EntryMode::File, "plugin.json", &plugin),
        entry(EntryMode::Tree, "skills", &skills),
    ]);
    let root = object(ObjectKind::Tree, root);
    [plugin, manifest, manifests, skills, root]
}
