//! Generated files and trees of one commit.

use skills_git::{EntryMode, ObjectId, ObjectKind, TreeEntry, object::tree};

use super::Folders;
use crate::formats::{PluginInfo, agent_plugin, claude, codex, cursor, readme};

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
    Dist,
    Root,
}

impl Slot {
    /// All slots, each after those that it is made of.
    pub(crate) const ALL: [Self; 12] = [
        Self::ClaudeFile,
        Self::ClaudeTree,
        Self::CodexFile,
        Self::CodexTree,
        Self::AgentsTree,
        Self::CursorFile,
        Self::CursorTree,
        Self::Readme,
        Self::Plugin,
        Self::Skills,
        Self::Dist,
        Self::Root,
    ];

    pub(crate) const fn kind(self) -> ObjectKind {
        match self {
            Self::ClaudeFile | Self::CodexFile | Self::CursorFile | Self::Readme | Self::Plugin => {
                ObjectKind::Blob
            }
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

/// Ids of the slots of a commit.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) struct SlotIds([ObjectId; Slot::ALL.len()]);

impl SlotIds {
    pub(crate) const fn get(&self, slot: Slot) -> ObjectId {
        self.0[slot as usize]
    }

    pub(super) const fn root(&self) -> ObjectId {
        self.get(Slot::Root)
    }
}

/// Computes the ids of all slots. `reused` has those of a commit with the same names and descriptions.
pub(super) fn slots(
    name: &str,
    folders: &Folders,
    revision: u64,
    reused: Option<SlotIds>,
) -> SlotIds {
    let mut ids = reused.unwrap_or(SlotIds([ObjectId::ZERO; Slot::ALL.len()]));
    for slot in Slot::ALL {
        if reused.is_none() || !slot.is_listing() {
            let bytes = render(slot, name, folders, revision, &ids);
            ids.0[slot as usize] = ObjectId::of(slot.kind(), &bytes);
        }
    }
    ids
}

/// Returns the bytes of a slot. `ids` has the slots that it is made of.
pub(crate) fn render(
    slot: Slot,
    name: &str,
    folders: &Folders,
    revision: u64,
    ids: &SlotIds,
) -> Vec<u8> {
    let plugins = || folders.values().map(|skill| &skill.info);
    let file = |name, slot| TreeEntry { mode: EntryMode::File, name, id: ids.get(slot) };
    let folder = |name, slot| TreeEntry { mode: EntryMode::Tree, name, id: ids.get(slot) };
    match slot {
        Slot::ClaudeFile => {
            let entries = folders.values().map(|skill| skill.entry.as_str());
            claude::marketplace(name, entries).into()
        }
        Slot::CodexFile => codex::marketplace(name, plugins()).into(),
        Slot::CursorFile => cursor::marketplace(name, plugins()).into(),
        Slot::Readme => readme::readme(name, plugins()).into(),
        Slot::Plugin => agent_plugin::repository_manifest(name, revision).into(),
        Slot::ClaudeTree => tree(vec![file("marketplace.json", Slot::ClaudeFile)]),
        Slot::CodexTree => tree(vec![file("marketplace.json", Slot::CodexFile)]),
        Slot::AgentsTree => tree(vec![folder("plugins", Slot::CodexTree)]),
        Slot::CursorTree => tree(vec![file("marketplace.json", Slot::CursorFile)]),
        Slot::Skills => folder_tree(folders, |skill| skill.tree),
        Slot::Dist => folder_tree(folders, |skill| skill.wrapper),
        Slot::Root => {
            let mut entries = vec![
                folder(".agents", Slot::AgentsTree),
                folder(".claude-plugin", Slot::ClaudeTree),
                folder(".cursor-plugin", Slot::CursorTree),
                file("README.md", Slot::Readme),
                file("plugin.json", Slot::Plugin),
            ];
            if !folders.is_empty() {
                entries.push(folder("skills", Slot::Skills));
                entries.push(folder("dist", Slot::Dist));
            }
            tree(entries)
        }
    }
}

/// Returns a tree with one entry for each folder, which are in the order of a tree.
fn folder_tree(folders: &Folders, id: impl Fn(&super::FolderSkill) -> ObjectId) -> Vec<u8> {
    let mut bytes = Vec::with_capacity(folders.len() * 48);
    for (name, skill) in folders {
        let name = name.trim_end_matches('/');
        TreeEntry { mode: EntryMode::Tree, name, id: id(skill) }.write(&mut bytes);
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
