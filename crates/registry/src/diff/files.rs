//! Files that differ, and their unified diffs.

use std::{
    collections::{BTreeMap, HashMap, VecDeque},
    time::{Duration, Instant},
};

use similar::TextDiff;
use skills_core::{Digest, FileMeta, RunningWork, WorkError};

use super::{ComparedSkill, DiffFile, FileDiff, FileStatus};

/// Longest time of all unified diffs together. Those that are not finished by then are coarser than necessary.
const MAX_TIME: Duration = Duration::from_secs(2);
/// Most bytes of all unified diffs together.
const MAX_TOTAL_BYTES: usize = 1 << 20;
/// Most bytes of one unified diff.
const MAX_DIFF_BYTES: usize = 256 << 10;
/// Most lines of a file that is compared line by line.
const MAX_LINES: usize = 128 << 10;
/// Memory of a line while it is compared.
const LINE_BYTES: usize = 128;
/// Copies of both texts in the unified diff before it is cut off.
const COPIES: usize = 2;
/// Lines around a change.
const CONTEXT_LINES: usize = 3;

/// Returns the differing files, sorted by path, and whether something was left out.
pub(super) fn diff(
    from: &ComparedSkill,
    to: &ComparedSkill,
    work: &mut RunningWork,
) -> Result<(Vec<FileDiff>, bool), WorkError> {
    let deadline = Instant::now() + MAX_TIME;
    let mut unified = UnifiedDiffs { deadline, left: MAX_TOTAL_BYTES, work };
    let files: Result<Vec<FileDiff>, WorkError> = pairs(from, to)
        .into_values()
        .map(|(before, after)| unified.file(from, to, before, after))
        .collect();
    let files = files?;
    let is_cut = files.iter().any(|file| file.truncated);
    Ok((files, is_cut))
}

type Pair<'a> = (Option<&'a FileMeta>, Option<&'a FileMeta>);

/// Pairs the files that differ, by their path on the later side.
fn pairs<'a>(from: &'a ComparedSkill, to: &'a ComparedSkill) -> BTreeMap<&'a str, Pair<'a>> {
    let is_missing = |side: &ComparedSkill, file: &&FileMeta| side.file(&file.path).is_none();
    // A file that is gone and one that came with the same content are one file that was renamed.
    let mut removed: HashMap<Digest, VecDeque<&FileMeta>> = HashMap::new();
    for file in from.files().iter().filter(|file| is_missing(to, file)) {
        removed.entry(file.digest).or_default().push_back(file);
    }
    let mut pairs = BTreeMap::new();
    for after in to.files() {
        let before = match from.file(&after.path) {
            Some(before) if is_same(before, after) => continue,
            Some(before) => Some(before),
            None => removed.get_mut(&after.digest).and_then(VecDeque::pop_front),
        };
        pairs.insert(after.path.as_str(), (before, Some(after)));
    }
    for before in removed.into_values().flatten() {
        pairs.insert(before.path.as_str(), (Some(before), None));
    }
    pairs
}

fn is_same(before: &FileMeta, after: &FileMeta) -> bool {
    // A bit that is unknown on one side is not a difference.
    let bits = before.executable.zip(after.executable);
    before.digest == after.digest && bits.is_none_or(|(before, after)| before == after)
}

impl From<&FileMeta> for DiffFile {
    fn from(file: &FileMeta) -> Self {
        let FileMeta { path, digest, size, executable } = file.clone();
        Self { path, size, digest, executable }
    }
}

/// One side of a file, as far as it can be compared.
enum SideText<'a> {
    Lines(&'a str),
    Binary,
    /// Too large to be compared.
    Unread,
}

fn text<'a>(side: &'a ComparedSkill, file: Option<&FileMeta>) -> SideText<'a> {
    let Some(file) = file else { return SideText::Lines("") };
    let Some(bytes) = side.bytes(&file.path) else { return SideText::Unread };
    match std::str::from_utf8(bytes) {
        Ok(text) if !text.contains('\0') => SideText::Lines(text),
        _ => SideText::Binary,
    }
}

struct UnifiedDiffs<'a> {
    deadline: Instant,
    left: usize,
    work: &'a mut RunningWork,
}

impl UnifiedDiffs<'_> {
    fn file(
        &mut self,
        from: &ComparedSkill,
        to: &ComparedSkill,
        before: Option<&FileMeta>,
        after: Option<&FileMeta>,
    ) -> Result<FileDiff, WorkError> {
        self.work.check()?;
        let is_same = before.zip(after).is_some_and(|(one, other)| one.digest == other.digest);
        let status = match (before, after) {
            (None, _) => FileStatus::Added,
            (_, None) => FileStatus::Removed,
            (Some(before), Some(after)) if before.path != after.path => FileStatus::Renamed,
            _ => FileStatus::Changed,
        };
        let path = after.or(before).map(|file| file.path.clone()).unwrap_or_default();
        let mut file = FileDiff {
            path,
            status,
            before: before.map(DiffFile::from),
            after: after.map(DiffFile::from),
            diff: None,
            binary: false,
            truncated: false,
        };
        if is_same {
            return Ok(file);
        }
        match (text(from, before), text(to, after)) {
            (SideText::Unread, _) | (_, SideText::Unread) => file.truncated = true,
            (SideText::Binary, _) | (_, SideText::Binary) => file.binary = true,
            (SideText::Lines(one), SideText::Lines(other)) => {
                let (text, is_cut) = self.unified(one, other, before, after)?;
                file.diff = Some(text).filter(|text| !text.is_empty());
                file.truncated = is_cut;
            }
        }
        Ok(file)
    }

    /// Returns a unified diff, and whether it is cut off.
    fn unified(
        &mut self,
        one: &str,
        other: &str,
        before: Option<&FileMeta>,
        after: Option<&FileMeta>,
    ) -> Result<(String, bool), WorkError> {
        let max = MAX_DIFF_BYTES.min(self.left);
        let lines = [count_lines(one), count_lines(other)];
        if max == 0 || lines.iter().any(|lines| *lines > MAX_LINES) {
            return Ok((String::new(), true));
        }
        let reserved = self.work.reserved();
        let lines = lines.iter().sum::<usize>() * LINE_BYTES;
        self.work.try_grow(lines + COPIES * (one.len() + other.len()))?;
        let diff = TextDiff::configure().deadline(self.deadline).diff_lines(one, other);
        let name = |prefix: char, file: Option<&FileMeta>| match file {
            Some(file) => format!("{prefix}/{}", file.path),
            None => "/dev/null".to_owned(),
        };
        let mut text = format!("--- {}\n+++ {}\n", name('a', before), name('b', after));
        let mut is_cut = false;
        for hunk in diff.unified_diff().context_radius(CONTEXT_LINES).iter_hunks() {
            text.push_str(&hunk.to_string());
            if text.len() > max {
                is_cut = true;
                break;
            }
            self.work.check()?;
        }
        drop(diff);
        if is_cut {
            let end = text.floor_char_boundary(max);
            // At the end of a line, unless the first line alone is too long.
            let end = text[..end].rfind('\n').map_or(end, |at| at + 1);
            text.truncate(end);
        }
        self.left -= text.len().min(self.left);
        text.shrink_to_fit();
        self.work.shrink_to(reserved);
        self.work.try_grow(text.len())?;
        Ok((text, is_cut))
    }
}

/// Returns the lines of a text as the comparison counts them.
fn count_lines(text: &str) -> usize {
    text.bytes().filter(|byte| matches!(byte, b'\n' | b'\r')).count() + 1
}
