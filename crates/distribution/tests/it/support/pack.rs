//! Reader of packs for tests.

use std::collections::{BTreeMap, HashMap};

use flate2::{Decompress, FlushDecompress, Status};
use skills_git::{ObjectId, ObjectKind};

/// Objects that a client has, by id.
#[derive(Debug, Default, Clone)]
pub(crate) struct Objects(pub(crate) HashMap<String, (ObjectKind, Vec<u8>)>);

impl Objects {
    fn add(&mut self, kind: ObjectKind, bytes: Vec<u8>) {
        self.0.insert(ObjectId::of(kind, &bytes).to_string(), (kind, bytes));
    }

    fn text(&self, id: &str) -> String {
        String::from_utf8_lossy(&self.0[id].1).into_owned()
    }

    /// Returns the ids of a commit and all its ancestors that are here, newest first.
    pub(crate) fn log(&self, commit: &str) -> Vec<String> {
        let (mut log, mut next) = (vec![], Some(commit.to_owned()));
        while let Some(id) = next.filter(|id| self.0.contains_key(id)) {
            let text = self.text(&id);
            next = text.lines().find_map(|line| line.strip_prefix("parent ")).map(str::to_owned);
            log.push(id);
        }
        log
    }

    pub(crate) fn message(&self, commit: &str) -> String {
        self.text(commit).split_once("\n\n").unwrap().1.trim_end().to_owned()
    }

    /// Returns all files of a commit with their modes and contents. Panics if an object is missing.
    pub(crate) fn files(&self, commit: &str) -> BTreeMap<String, (String, Vec<u8>)> {
        let text = self.text(commit);
        let tree = text.lines().next().unwrap().strip_prefix("tree ").unwrap();
        let mut files = BTreeMap::new();
        self.walk(tree, "", &mut files);
        files
    }

    fn walk(&self, tree: &str, prefix: &str, files: &mut BTreeMap<String, (String, Vec<u8>)>) {
        let (_, mut bytes) = self.0.get(tree).map(|(kind, bytes)| (kind, &bytes[..])).unwrap();
        while let Some(nul) = bytes.iter().position(|byte| *byte == 0) {
            let entry = std::str::from_utf8(&bytes[..nul]).unwrap();
            let (mode, name) = entry.split_once(' ').unwrap();
            let id: String =
                bytes[nul + 1..nul + 21].iter().map(|byte| format!("{byte:02x}")).collect();
            bytes = &bytes[nul + 21..];
            let path = format!("{prefix}{name}");
            if mode == "40000" {
                self.walk(&id, &format!("{path}/"), files);
            } else {
                let blob = self.0.get(&id).unwrap_or_else(|| panic!("{path} is missing"));
                files.insert(path, (mode.to_owned(), blob.1.clone()));
            }
        }
    }
}

/// Reads a pack, and returns the number of its objects.
pub(crate) fn read_pack(pack: &[u8], objects: &mut Objects) -> usize {
    assert_eq!(&pack[..8], b"PACK\0\0\0\x02");
    let count = u32::from_be_bytes(pack[8..12].try_into().unwrap()) as usize;
    let mut at = 12;
    for _ in 0..count {
        let kind = pack[at] >> 4 & 7;
        let (mut size, mut shift) = (usize::from(pack[at] & 15), 4);
        while pack[at] & 0x80 != 0 {
            at += 1;
            size |= usize::from(pack[at] & 0x7f) << shift;
            shift += 7;
        }
        at += 1;
        let base = (kind == 7).then(|| {
            let id: String = pack[at..at + 20].iter().map(|byte| format!("{byte:02x}")).collect();
            at += 20;
            objects.0.get(&id).unwrap_or_else(|| panic!("delta base {id} is missing")).clone()
        });
        let mut inflate = Decompress::new(true);
        let mut bytes = Vec::with_capacity(size + 16);
        let status = inflate.decompress_vec(&pack[at..], &mut bytes, FlushDecompress::Finish);
        assert_eq!(status.unwrap(), Status::StreamEnd);
        assert_eq!(bytes.len(), size);
        at += usize::try_from(inflate.total_in()).unwrap();
        match (kind, base) {
            (1, _) => objects.add(ObjectKind::Commit, bytes),
            (2, _) => objects.add(ObjectKind::Tree, bytes),
            (3, _) => objects.add(ObjectKind::Blob, bytes),
            (7, Some((kind, base))) => objects.add(kind, apply(&base, &bytes)),
            other => panic!("unknown kind {other:?}"),
        }
    }
    assert_eq!(pack.len() - at, 20, "the trailer is a digest");
    count
}

fn apply(base: &[u8], delta: &[u8]) -> Vec<u8> {
    let mut bytes = delta.iter().copied();
    let mut size = || {
        let (mut size, mut shift) = (0_usize, 0);
        loop {
            let byte = bytes.next().unwrap();
            size |= usize::from(byte & 0x7f) << shift;
            shift += 7;
            if byte & 0x80 == 0 {
                return size;
            }
        }
    };
    assert_eq!(size(), base.len());
    let length = size();
    let mut target = Vec::new();
    while let Some(op) = bytes.next() {
        if op & 0x80 == 0 {
            target.extend(bytes.by_ref().take(usize::from(op)));
            continue;
        }
        let mut field = |count: u32, first: u32| {
            (0..count)
                .filter(|index| op & (1 << (first + index)) != 0)
                .collect::<Vec<_>>()
                .iter()
                .fold(0_usize, |value, index| {
                    value | usize::from(bytes.next().unwrap()) << (8 * index)
                })
        };
        let offset = field(4, 0);
        let size = Some(field(3, 4)).filter(|size| *size > 0).unwrap_or(0x1_0000);
        target.extend_from_slice(&base[offset..offset + size]);
    }
    assert_eq!(target.len(), length);
    target
}
