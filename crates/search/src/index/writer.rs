//! The writer of a partition. One thread owns it; readers take [`Partition`]s from it.

use std::{
    collections::HashMap,
    sync::{
        Arc,
        atomic::{AtomicU64, Ordering},
    },
};

use super::{MergeTask, MergedSegment, Partition, Segment, SegmentView, partition::DocumentSet};
use crate::{analysis::AnalyzedDocument, document::DocumentKey};

/// Segments of one size class that are merged together.
const MERGE_FACTOR: usize = 8;
/// Documents above which a segment that is mostly deleted is merged alone.
const MIN_REWRITE: usize = 64;

/// Number of the writer that was created last.
static LAST_WRITER: AtomicU64 = AtomicU64::new(0);

/// Writer of a partition.
#[derive(Debug)]
pub struct PartitionWriter {
    /// Number of this writer among all of the process, which its merges carry.
    number: u64,
    partition: Partition,
    locations: HashMap<DocumentKey, (u64, u32)>,
    last_id: u64,
    /// Ids of the segments that a task merges meanwhile.
    merging: Vec<u64>,
    /// Segments whose deleted documents must leave the memory.
    erasing: Vec<u64>,
    /// Whether this also concerns the result of the merge that runs.
    erases_merged: bool,
}

impl Default for PartitionWriter {
    fn default() -> Self {
        Self {
            number: LAST_WRITER.fetch_add(1, Ordering::Relaxed) + 1,
            partition: Partition::default(),
            locations: HashMap::new(),
            last_id: 0,
            merging: vec![],
            erasing: vec![],
            erases_merged: false,
        }
    }
}

impl PartitionWriter {
    /// Returns the current documents.
    #[must_use]
    pub fn snapshot(&self) -> Partition {
        self.partition.clone()
    }

    /// Returns whether there are no documents.
    #[must_use]
    pub fn is_empty(&self) -> bool {
        self.locations.is_empty()
    }

    /// Adds documents, which replace those with the same keys. Of several with one key the last counts.
    pub fn add(&mut self, documents: Vec<AnalyzedDocument>) {
        let mut last: HashMap<DocumentKey, usize> = HashMap::with_capacity(documents.len());
        for (at, document) in documents.iter().enumerate() {
            last.insert(document.key().clone(), at);
        }
        let documents = documents.into_iter().enumerate();
        let documents = documents.filter(|(at, document)| last.get(document.key()) == Some(at));
        let documents: Vec<_> = documents.map(|(_, document)| document).collect();
        for document in &documents {
            self.remove(document.key());
        }
        if documents.is_empty() {
            return;
        }
        self.last_id += 1;
        let id = self.last_id;
        for (document, number) in documents.iter().zip(0..) {
            self.locations.insert(document.key().clone(), (id, number));
        }
        let segment = Arc::new(Segment::from_documents(documents));
        self.partition.segments.push(SegmentView { id, segment, deleted: Arc::default() });
    }

    /// Removes a document. Returns whether it existed.
    pub fn remove(&mut self, key: &DocumentKey) -> bool {
        let Some((id, number)) = self.locations.remove(key) else { return false };
        let segments = &mut self.partition.segments;
        let Some(at) = segments.iter().position(|view| view.id == id) else { return false };
        let view = &mut segments[at];
        Arc::make_mut(&mut view.deleted).insert(number);
        if view.len() == 0 && !self.merging.contains(&id) {
            segments.remove(at);
        }
        true
    }

    /// Returns the merge that should be carried out next. There is one at a time.
    pub fn plan_merge(&mut self) -> Option<MergeTask> {
        if !self.merging.is_empty() {
            return None;
        }
        let inputs =
            self.erased().or_else(|| self.size_class()).or_else(|| self.mostly_deleted())?;
        Some(self.task(inputs))
    }

    fn task(&mut self, inputs: Vec<SegmentView>) -> MergeTask {
        self.merging = inputs.iter().map(|view| view.id).collect();
        MergeTask { writer: self.number, inputs }
    }

    /// Makes the next merges drop the documents that are deleted now, so that no text of them stays in memory.
    pub fn erase_deleted(&mut self) {
        let views = self.partition.segments.iter();
        let with_deleted = views.filter(|view| view.len() < view.segment.len());
        self.erasing = with_deleted.map(|view| view.id).collect();
        self.erases_merged = !self.merging.is_empty();
    }

    /// Returns the first segment with documents to be erased.
    fn erased(&self) -> Option<Vec<SegmentView>> {
        let mut views = self.partition.segments.iter();
        views.find(|view| self.erasing.contains(&view.id)).map(|view| vec![view.clone()])
    }

    /// Returns the segments of the smallest size class that has enough of them, and of all classes below.
    fn size_class(&self) -> Option<Vec<SegmentView>> {
        let class = |view: &SegmentView| view.len().max(1).ilog(MERGE_FACTOR);
        let mut counts: HashMap<u32, usize> = HashMap::new();
        for view in &self.partition.segments {
            *counts.entry(class(view)).or_default() += 1;
        }
        let full = counts.iter().filter(|(_, count)| **count >= MERGE_FACTOR);
        let largest = full.map(|(class, _)| *class).min()?;
        let inputs = self.partition.segments.iter().filter(|view| class(view) <= largest);
        Some(inputs.cloned().collect())
    }

    fn mostly_deleted(&self) -> Option<Vec<SegmentView>> {
        let is_sparse = |view: &&SegmentView| {
            view.segment.len() > MIN_REWRITE && view.len() * 2 < view.segment.len()
        };
        self.partition.segments.iter().find(is_sparse).map(|view| vec![view.clone()])
    }

    /// Replaces merged segments. Documents that were deleted or replaced meanwhile are deleted in the result. A merge that
    /// another writer planned is dropped.
    pub fn apply_merge(&mut self, merged: MergedSegment) {
        let MergedSegment { writer, segment, inputs, origins } = merged;
        if writer != self.number {
            return;
        }
        self.merging.clear();
        self.partition.segments.retain(|view| !inputs.contains(&view.id));
        self.last_id += 1;
        let id = self.last_id;
        let mut deleted = DocumentSet::default();
        for ((record, origin), number) in segment.records().iter().zip(origins).zip(0..) {
            match self.locations.get_mut(&record.key) {
                Some(location) if *location == origin => *location = (id, number),
                _ => deleted.insert(number),
            }
        }
        let view = SegmentView { id, segment: Arc::new(segment), deleted: Arc::new(deleted) };
        self.erasing.retain(|erased| !inputs.contains(erased));
        if std::mem::take(&mut self.erases_merged) && view.len() < view.segment.len() {
            self.erasing.push(id);
        }
        if view.len() > 0 {
            self.partition.segments.push(view);
        }
    }

    /// Carries out all merges at once, for batch work and tests.
    pub fn merge_all(&mut self) {
        while let Some(task) = self.plan_merge() {
            self.apply_merge(task.run());
        }
    }

    /// Merges everything into one segment, for batch work and measurements.
    pub fn compact(&mut self) {
        if self.merging.is_empty() && self.partition.segments.len() > 1 {
            let task = self.task(self.partition.segments.clone());
            self.apply_merge(task.run());
        }
    }
}

#[cfg(test)]
mod tests {
    use std::collections::BTreeSet;

    use proptest::prelude::*;

    use super::*;
    use crate::{Analyzer, HitKind, SearchDocument};

    fn document(id: u8, word: &str) -> AnalyzedDocument {
        let mut document = SearchDocument::new(HitKind::Skill, format!("d{id}").into());
        document.body = format!("{word} common");
        Analyzer::default().analyze(&document)
    }

    /// Returns the ids that have a term.
    fn with_term(partition: &Partition, term: &str) -> BTreeSet<String> {
        let mut found = BTreeSet::new();
        for view in partition.segments() {
            let Some(list) = view.segment.postings(term) else { continue };
            list.for_each(|number, _| {
                if !view.is_deleted(number) {
                    found.insert(view.segment.record(number).key.id.to_string());
                }
            });
        }
        found
    }

    #[test]
    fn a_merge_keeps_changes_that_were_made_meanwhile() {
        let mut writer = PartitionWriter::default();
        for id in 0..8 {
            writer.add(vec![document(id, "old")]);
        }
        let before = writer.snapshot();
        let task = writer.plan_merge().expect("eight segments");
        assert!(writer.plan_merge().is_none(), "one at a time");
        writer.add(vec![document(3, "new")]);
        writer.remove(document(4, "").key());
        writer.apply_merge(task.run());
        let after = writer.snapshot();
        assert_eq!(with_term(&before, "old").len(), 8);
        assert_eq!(with_term(&after, "old").len(), 6);
        assert_eq!(with_term(&after, "new"), BTreeSet::from(["d3".to_owned()]));
        assert_eq!(after.len(), 7);
    }

    #[test]
    fn a_merge_of_another_writer_is_dropped() {
        let mut old = PartitionWriter::default();
        let mut new = PartitionWriter::default();
        for id in 0..8 {
            old.add(vec![document(id, "old")]);
            new.add(vec![document(id, "new")]);
        }
        let stale = old.plan_merge().expect("eight segments").run();
        let task = new.plan_merge().expect("eight segments");
        new.apply_merge(stale);
        assert_eq!(with_term(&new.snapshot(), "new").len(), 8);
        new.apply_merge(task.run());
        assert_eq!(with_term(&new.snapshot(), "new").len(), 8);
        assert_eq!(new.snapshot().segments.len(), 1);
    }

    #[test]
    fn erased_documents_leave_the_memory() {
        let has_text = |partition: &Partition, term: &str| {
            partition.segments.iter().any(|view| view.segment.postings(term).is_some())
        };
        let mut writer = PartitionWriter::default();
        writer
            .add((0..9).map(|id| document(id, if id == 3 { "secret" } else { "plain" })).collect());
        writer.remove(document(3, "").key());
        assert!(writer.plan_merge().is_none(), "too few are deleted");
        assert!(has_text(&writer.snapshot(), "secret"));
        writer.erase_deleted();
        writer.merge_all();
        assert!(!has_text(&writer.snapshot(), "secret"));
        writer.remove(document(4, "").key());
        assert!(writer.plan_merge().is_none(), "deleted later");

        for id in 10..18 {
            writer.add(vec![document(id, if id == 12 { "hidden" } else { "plain" })]);
        }
        let task = writer.plan_merge().expect("eight segments");
        writer.remove(document(12, "").key());
        writer.erase_deleted();
        writer.apply_merge(task.run());
        assert!(has_text(&writer.snapshot(), "hidden"), "merged before it was deleted");
        writer.merge_all();
        assert!(!has_text(&writer.snapshot(), "hidden"));
        assert_eq!(writer.snapshot().len(), 14);
    }

    proptest! {
        #[test]
        fn the_partition_has_the_last_version_of_every_document(
            steps in prop::collection::vec((0_u8..12, 0_u8..4, any::<bool>()), 0..120),
        ) {
            let words = ["alpha", "beta", "gamma"];
            let mut writer = PartitionWriter::default();
            let mut expected = std::collections::BTreeMap::new();
            let mut task = None;
            for (id, step, merges) in steps {
                match words.get(usize::from(step)) {
                    Some(word) => {
                        writer.add(vec![document(id, "zero"), document(id, word)]);
                        expected.insert(format!("d{id}"), *word);
                    }
                    None => {
                        let existed = expected.remove(&format!("d{id}")).is_some();
                        prop_assert_eq!(writer.remove(document(id, "").key()), existed);
                    }
                }
                if merges {
                    match task.take() {
                        Some(planned) => writer.apply_merge(MergeTask::run(planned)),
                        None => task = writer.plan_merge(),
                    }
                }
            }
            let check = |partition: &Partition| {
                for word in words {
                    let ids = expected.iter().filter(|(_, found)| **found == word);
                    let ids: BTreeSet<String> = ids.map(|(id, _)| id.clone()).collect();
                    assert_eq!(with_term(partition, word), ids);
                }
                assert!(with_term(partition, "zero").is_empty());
                assert_eq!(with_term(partition, "common").len(), expected.len());
                assert_eq!(partition.len(), expected.len());
                assert_eq!(partition.keys().count(), expected.len());
            };
            check(&writer.snapshot());
            if let Some(planned) = task {
                writer.apply_merge(planned.run());
            }
            writer.compact();
            check(&writer.snapshot());
        }
    }
}
