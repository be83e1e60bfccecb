//! Cache of result texts by their source: a row or a snapshot of the catalog.
//!
//! A source is identified by its address. The cached value holds it weakly, so that no other source can have the same
//! address. Rows and snapshots never change, and a caller looks up only those of their own view: a text needs no other
//! check of freshness or of access.

use std::{
    hash::{BuildHasher as _, RandomState},
    sync::{Arc, Weak},
};

use bytes::Bytes;
use skills_registry::{Catalog, SizedLruCache, SkillRow};

use super::results::ResultForm;

/// Most bytes of the texts of single skills.
const DOCUMENT_BYTES: usize = 16 << 20;
/// Most bytes of the texts of listings. Each version of the catalog has its own, so they do not evict documents.
const PAGE_BYTES: usize = 4 << 20;
/// Memory of an entry besides its text and argument, with what its weak source keeps allocated.
const ENTRY_OVERHEAD: usize = 512;

/// Kind of a result.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub(super) enum ResultKind {
    Resource,
    ReadSkill,
    SkillEntry,
    ResourcePage,
    PromptPage,
}

/// Row or snapshot that a text is made from.
#[derive(Debug, Clone, Copy)]
pub(super) enum Source<'a> {
    Row(&'a Arc<SkillRow>),
    Snapshot(&'a Arc<Catalog>),
}

impl Source<'_> {
    fn address(self) -> usize {
        match self {
            Self::Row(row) => Arc::as_ptr(row).addr(),
            Self::Snapshot(catalog) => Arc::as_ptr(catalog).addr(),
        }
    }

    fn downgrade(self) -> WeakSource {
        match self {
            Self::Row(row) => WeakSource::Row { _row: Arc::downgrade(row) },
            Self::Snapshot(catalog) => WeakSource::Snapshot { _catalog: Arc::downgrade(catalog) },
        }
    }
}

/// Keeps the address of a source from being used again.
#[derive(Debug)]
enum WeakSource {
    Row { _row: Weak<SkillRow> },
    Snapshot { _catalog: Weak<Catalog> },
}

/// Identity of a text: its source, what is made of it, and the URI or cursor of the request.
#[derive(Debug, Clone, Copy)]
pub(super) struct ResultId<'a> {
    pub(super) source: Source<'a>,
    pub(super) kind: ResultKind,
    pub(super) form: ResultForm,
    pub(super) argument: &'a str,
}

/// Key without an allocation; the value has the argument itself.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
struct Key {
    address: usize,
    kind: ResultKind,
    form: ResultForm,
    argument_hash: u64,
}

#[derive(Debug)]
struct CachedResult {
    argument: Box<str>,
    text: Bytes,
    _source: WeakSource,
}

/// Cache of result texts, shared by all callers.
#[derive(Debug)]
pub(crate) struct ResultCache {
    hasher: RandomState,
    documents: SizedLruCache<Key, Arc<CachedResult>>,
    pages: SizedLruCache<Key, Arc<CachedResult>>,
}

impl Default for ResultCache {
    fn default() -> Self {
        Self {
            hasher: RandomState::new(),
            documents: SizedLruCache::new(DOCUMENT_BYTES),
            pages: SizedLruCache::new(PAGE_BYTES),
        }
    }
}

impl ResultCache {
    fn table(&self, source: Source<'_>) -> &SizedLruCache<Key, Arc<CachedResult>> {
        match source {
            Source::Row(_) => &self.documents,
            Source::Snapshot(_) => &self.pages,
        }
    }

    fn key(&self, id: &ResultId<'_>) -> Key {
        Key {
            address: id.source.address(),
            kind: id.kind,
            form: id.form,
            argument_hash: self.hasher.hash_one(id.argument),
        }
    }

    pub(super) fn get(&self, id: &ResultId<'_>) -> Option<Bytes> {
        let cached = self.table(id.source).get(&self.key(id))?;
        (*cached.argument == *id.argument).then(|| cached.text.clone())
    }

    pub(super) fn put(&self, id: &ResultId<'_>, text: Bytes) {
        let bytes = ENTRY_OVERHEAD + id.argument.len() + text.len();
        let argument = id.argument.into();
        let cached = CachedResult { argument, text, _source: id.source.downgrade() };
        self.table(id.source).put(self.key(id), Arc::new(cached), bytes);
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn id<'a>(source: Source<'a>, form: ResultForm, argument: &'a str) -> ResultId<'a> {
        ResultId { source, kind: ResultKind::ResourcePage, form, argument }
    }

    #[test]
    fn a_text_is_found_for_its_source_and_argument_alone() {
        let cache = ResultCache::default();
        let snapshot: Arc<Catalog> = Arc::default();
        let source = Source::Snapshot(&snapshot);
        cache.put(&id(source, ResultForm::Public, "a"), Bytes::from_static(b"text"));
        let text = cache.get(&id(source, ResultForm::Public, "a"));
        assert_eq!(text.as_deref(), Some(&b"text"[..]));
        assert!(cache.get(&id(source, ResultForm::Public, "b")).is_none());
        assert!(cache.get(&id(source, ResultForm::Private, "a")).is_none());
        drop(snapshot);
        // The entry keeps the address, so none of these can have it.
        let others: Vec<Arc<Catalog>> = (0..100).map(|_| Arc::default()).collect();
        for other in &others {
            assert!(cache.get(&id(Source::Snapshot(other), ResultForm::Public, "a")).is_none());
        }
    }
}
