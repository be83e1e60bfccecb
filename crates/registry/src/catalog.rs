//! The catalog: all metadata, no bodies, as an immutable snapshot.
//!
//! Snapshots share structure, so that a commit costs O(log n) and a reader keeps the one it took for
//! as long as it likes.

use std::{
    iter::Peekable,
    ops::Bound,
    sync::{Arc, OnceLock},
};

use imbl::OrdMap;
use serde_json::value::RawValue;
use skills_core::{
    EntryKey, Kind, Layer, PromptDefinition, SkillMeta, Timestamp, id::INDEX_ID, uri::SCHEME,
};
use skills_store::{Change, Entry, EntryContent};

/// Where a caller without a credential looks, in order of priority.
const PUBLIC_LAYERS: [Layer; 2] = [Layer::Official, Layer::Market];

/// How many JSON texts may be kept with a row.
const KEPT: usize = 2;

/// A skill as a listing shows it.
///
/// Rows are shared between snapshots, so what has been made of one is kept with it: after a change only
/// the rows that changed are rendered again.
#[derive(Debug)]
pub struct SkillRow {
    /// Its id.
    pub id: Arc<str>,
    /// What is known of it.
    pub meta: SkillMeta,
    /// When this version was registered.
    pub registered_at: Timestamp,
    bytes: u64,
    index_line: OnceLock<Box<str>>,
    search_text: OnceLock<Box<str>>,
    kept: [OnceLock<Box<RawValue>>; KEPT],
}

impl SkillRow {
    fn new(id: Arc<str>, meta: SkillMeta, bytes: u64, registered_at: Timestamp) -> Self {
        Self {
            id,
            meta,
            registered_at,
            bytes,
            index_line: OnceLock::new(),
            search_text: OnceLock::new(),
            kept: Default::default(),
        }
    }

    /// What a surface has made of this row, which is made once. Each kind of text has a slot of its own.
    ///
    /// # Errors
    /// What `render` says.
    pub fn keep<E>(
        &self,
        slot: usize,
        render: impl FnOnce(&Self) -> Result<Box<RawValue>, E>,
    ) -> Result<&RawValue, E> {
        let slot = &self.kept[slot % KEPT];
        if let Some(kept) = slot.get() {
            return Ok(kept);
        }
        let rendered = render(self)?;
        Ok(slot.get_or_init(|| rendered))
    }

    /// The line of this skill in the index.
    fn index_line(&self) -> &str {
        self.index_line.get_or_init(|| {
            // A bracket in a title would end the link's text early.
            let title = self.title().replace(['[', ']'], "");
            let link = format!("- [{title}]({SCHEME}{})", self.id);
            match &self.meta.description {
                Some(description) => format!("{link}: {description}\n").into(),
                None => format!("{link}\n").into(),
            }
        })
    }

    /// Id, title and description, a line each, in lower case.
    pub(crate) fn search_text(&self) -> &str {
        self.search_text.get_or_init(|| {
            let description = self.meta.description.as_deref().unwrap_or_default();
            format!("{}\n{}\n{description}", self.id, self.title()).to_lowercase().into()
        })
    }

    /// Size of the root document in bytes.
    #[must_use]
    pub const fn bytes(&self) -> u64 {
        self.bytes
    }

    /// What a person calls it.
    #[must_use]
    pub fn title(&self) -> &str {
        self.meta.title.as_deref().unwrap_or(&self.id)
    }
}

/// A prompt as a listing shows it.
#[derive(Debug, PartialEq, Eq)]
pub struct PromptRow {
    /// Its name.
    pub name: Arc<str>,
    /// The whole definition.
    pub definition: PromptDefinition,
    /// When this version was registered.
    pub registered_at: Timestamp,
}

#[derive(Debug, Clone, Default)]
struct Shelf {
    skills: OrdMap<Arc<str>, Arc<SkillRow>>,
    prompts: OrdMap<Arc<str>, Arc<PromptRow>>,
}

/// A snapshot of everything that is registered.
#[derive(Debug, Default)]
pub struct Catalog {
    revision: u64,
    shelves: OrdMap<Layer, Shelf>,
    index: OnceLock<Arc<str>>,
    skill_count: OnceLock<usize>,
}

impl Catalog {
    /// The catalog of what a store holds after a revision. No entry need have that revision: the
    /// change may have been a removal.
    #[must_use]
    pub fn of_entries(entries: Vec<Entry>, revision: u64) -> Self {
        let mut catalog = Self { revision, ..Self::default() };
        for Entry { key, registered_at, content, .. } in entries {
            catalog.put(&key, &content, registered_at);
        }
        catalog
    }

    /// The next snapshot.
    #[must_use]
    pub fn with<'a>(&self, changes: impl IntoIterator<Item = &'a Change>) -> Self {
        let mut next = self.successor();
        for change in changes {
            next.revision = change.revision;
            match &change.content {
                Some(content) => next.put(&change.key, content, change.at),
                None => next.remove(&change.key),
            }
        }
        next
    }

    /// The same, to be changed.
    pub(crate) fn successor(&self) -> Self {
        Self { revision: self.revision, shelves: self.shelves.clone(), ..Self::default() }
    }

    /// Takes out a skill that a listing told of.
    pub(crate) fn forget_skill(&mut self, id: &str) {
        if let Some(shelf) = self.shelves.get_mut(&Layer::Official) {
            shelf.skills.remove(id);
        }
    }

    /// Takes out the prompts that a listing told of.
    pub(crate) fn forget_prompts(&mut self) {
        if let Some(shelf) = self.shelves.get_mut(&Layer::Official) {
            shelf.prompts = OrdMap::new();
        }
    }

    fn put(&mut self, key: &EntryKey, content: &EntryContent, registered_at: Timestamp) {
        let shelf = self.shelves.entry(key.layer.clone()).or_default();
        match content.clone() {
            EntryContent::Skill(meta) => {
                let bytes = meta.root().map_or(0, |root| root.size);
                let row = SkillRow::new(key.id.clone(), meta, bytes, registered_at);
                shelf.skills.insert(key.id.clone(), Arc::new(row));
            }
            EntryContent::Prompt(definition) => {
                let row = PromptRow { name: key.id.clone(), definition, registered_at };
                shelf.prompts.insert(key.id.clone(), Arc::new(row));
            }
        }
    }

    /// Adds a skill of which a listing told.
    pub(crate) fn list_skill(
        &mut self,
        id: Arc<str>,
        meta: SkillMeta,
        bytes: u64,
        registered_at: Timestamp,
    ) {
        let row = SkillRow::new(Arc::clone(&id), meta, bytes, registered_at);
        self.shelves.entry(Layer::Official).or_default().skills.insert(id, Arc::new(row));
    }

    /// Adds a prompt of which a listing told.
    pub(crate) fn list_prompt(
        &mut self,
        name: Arc<str>,
        definition: PromptDefinition,
        registered_at: Timestamp,
    ) {
        let row = PromptRow { name: Arc::clone(&name), definition, registered_at };
        self.shelves.entry(Layer::Official).or_default().prompts.insert(name, Arc::new(row));
    }

    fn remove(&mut self, key: &EntryKey) {
        if let Some(shelf) = self.shelves.get_mut(&key.layer) {
            match key.kind {
                Kind::Skill => drop(shelf.skills.remove(&key.id)),
                Kind::Prompt => drop(shelf.prompts.remove(&key.id)),
            }
        }
    }

    /// The change this snapshot includes last.
    #[must_use]
    pub const fn revision(&self) -> u64 {
        self.revision
    }

    fn visible(&self) -> impl Iterator<Item = &Shelf> {
        PUBLIC_LAYERS.iter().filter_map(|layer| self.shelves.get(layer))
    }

    /// The skill that answers to an id.
    #[must_use]
    pub fn skill(&self, id: &str) -> Option<&Arc<SkillRow>> {
        self.visible().find_map(|shelf| shelf.skills.get(id))
    }

    /// The prompt that answers to a name.
    #[must_use]
    pub fn prompt(&self, name: &str) -> Option<&Arc<PromptRow>> {
        self.visible().find_map(|shelf| shelf.prompts.get(name))
    }

    /// All skills, sorted by id.
    #[must_use]
    pub fn skills(&self) -> Vec<&Arc<SkillRow>> {
        self.skills_after(None).collect()
    }

    /// The skills whose ids come after one, sorted by id. To begin costs O(log n), and so does a step.
    pub fn skills_after(&self, id: Option<&str>) -> impl Iterator<Item = &Arc<SkillRow>> {
        FirstOfEach::new(self.visible().map(|shelf| shelf.skills.range::<_, str>(after(id))))
    }

    /// How many skills there are.
    pub fn skill_count(&self) -> usize {
        *self.skill_count.get_or_init(|| match self.visible().collect::<Vec<_>>().as_slice() {
            [] => 0,
            [only] => only.skills.len(),
            _ => self.skills_after(None).count(),
        })
    }

    /// All prompts, sorted by name.
    #[must_use]
    pub fn prompts(&self) -> Vec<&Arc<PromptRow>> {
        self.prompts_after(None).collect()
    }

    /// The prompts whose names come after one, sorted by name.
    pub fn prompts_after(&self, name: Option<&str>) -> impl Iterator<Item = &Arc<PromptRow>> {
        FirstOfEach::new(self.visible().map(|shelf| shelf.prompts.range::<_, str>(after(name))))
    }

    /// The Markdown index that `iii://skills` serves. It is rendered once for each snapshot.
    pub fn index(&self) -> Arc<str> {
        Arc::clone(self.index.get_or_init(|| render_index(&self.skills()).into()))
    }
}

fn after(key: Option<&str>) -> (Bound<&str>, Bound<&str>) {
    (key.map_or(Bound::Unbounded, Bound::Excluded), Bound::Unbounded)
}

/// Merges sorted layers; of equal keys only the one of the earliest layer is given.
struct FirstOfEach<I: Iterator>(Vec<Peekable<I>>);

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> FirstOfEach<I> {
    fn new(layers: impl Iterator<Item = I>) -> Self {
        Self(layers.map(Iterator::peekable).collect())
    }
}

impl<'a, T: 'a, I: Iterator<Item = (&'a Arc<str>, &'a Arc<T>)>> Iterator for FirstOfEach<I> {
    type Item = &'a Arc<T>;

    fn next(&mut self) -> Option<Self::Item> {
        let least =
            self.0.iter_mut().filter_map(|layer| layer.peek().map(|(key, _)| *key)).min()?;
        let mut first = None;
        for layer in &mut self.0 {
            if let Some((_, row)) = layer.next_if(|(key, _)| *key == least) {
                first = first.or(Some(row));
            }
        }
        first
    }
}

fn render_index(skills: &[&Arc<SkillRow>]) -> String {
    let mut text = String::from("# Skills\n\n");
    if skills.is_empty() {
        text.push_str("No skills are registered yet.\n");
    }
    text.extend(skills.iter().map(|skill| skill.index_line()));
    text
}

/// Title and description of the index itself, for listings that include it.
pub const INDEX_TITLE: &str = "Skills index";
/// See [`INDEX_TITLE`].
pub const INDEX_DESCRIPTION: &str = "Every registered skill, one line each, with a link to it.";

/// The name of the index in listings.
pub const INDEX_NAME: &str = INDEX_ID;

#[cfg(test)]
pub(crate) mod tests {
    use super::*;

    /// A catalog of skills of one document.
    pub(crate) fn of_documents<B: AsRef<str>>(skills: &[(&str, B)]) -> Catalog {
        let skills = skills.iter().zip(1..);
        let changes = skills.map(|((id, body), revision)| {
            change(revision, Layer::Official, id, Some(body.as_ref()))
        });
        Catalog::default().with(&changes.collect::<Vec<_>>())
    }

    fn change(revision: u64, layer: Layer, id: &str, body: Option<&str>) -> Change {
        Change {
            revision,
            at: Timestamp::from_micros(i64::try_from(revision).unwrap()),
            actor: "t".into(),
            key: EntryKey { kind: Kind::Skill, layer, id: id.into() },
            before: None,
            content: body
                .map(|body| Arc::new(EntryContent::Skill(SkillMeta::of_document(body).unwrap()))),
        }
    }

    fn titles(catalog: &Catalog) -> Vec<&str> {
        catalog.skills().iter().map(|skill| skill.title()).collect()
    }

    #[test]
    fn a_snapshot_does_not_see_later_changes() {
        let empty = Catalog::default();
        let one = empty.with(&[change(1, Layer::Official, "a", Some("# A"))]);
        let none = one.with(&[change(2, Layer::Official, "a", None)]);
        assert!(empty.skill("a").is_none());
        assert_eq!(one.skill("a").unwrap().title(), "A");
        assert!(none.skill("a").is_none());
        assert_eq!((one.revision(), none.revision()), (1, 2));
    }

    #[test]
    fn official_comes_before_market_and_private_is_not_public() {
        let ann = Layer::from_parts(skills_core::Tier::Private, "ann").unwrap();
        let catalog = Catalog::default().with(&[
            change(1, Layer::Market, "b", Some("# market b")),
            change(2, Layer::Market, "a", Some("# market a")),
            change(3, Layer::Official, "b", Some("# official b")),
            change(4, ann, "c", Some("# private c")),
        ]);
        assert_eq!(titles(&catalog), ["market a", "official b"]);
        assert_eq!(catalog.skill("b").unwrap().title(), "official b");
        assert!(catalog.skill("c").is_none());
    }

    #[test]
    fn the_index_lists_title_and_description() {
        let catalog = Catalog::default().with(&[
            change(1, Layer::Official, "b", Some("# The [B]\n\nDoes b.")),
            change(2, Layer::Official, "a", Some("text only")),
            change(3, Layer::Official, "c", Some("# C")),
        ]);
        assert_eq!(
            &*catalog.index(),
            "# Skills\n\n- [a](iii://a): text only\n- [The B](iii://b): Does b.\n- [C](iii://c)\n"
        );
        assert!(Catalog::default().index().contains("No skills are registered"));
    }
}
