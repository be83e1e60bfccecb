//! Object ids, and the bytes of blobs, trees and commits.

use std::{fmt, str::FromStr};

use sha1::{Digest as _, Sha1};

/// Id of an object: SHA-1 over its kind, size and bytes.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash)]
pub struct ObjectId([u8; 20]);

impl ObjectId {
    /// Id that stands for no object.
    pub const ZERO: Self = Self([0; 20]);

    /// Computes the id of an object that consists of several parts.
    #[must_use]
    pub fn of_parts(kind: ObjectKind, parts: &[&[u8]]) -> Self {
        let size: usize = parts.iter().map(|part| part.len()).sum();
        let mut hash = Sha1::new();
        hash.update(format!("{} {size}\0", kind.as_str()));
        for part in parts {
            hash.update(part);
        }
        Self(hash.finalize().into())
    }

    /// Computes the id of an object.
    #[must_use]
    pub fn of(kind: ObjectKind, bytes: &[u8]) -> Self {
        Self::of_parts(kind, &[bytes])
    }

    /// Returns the bytes of the id.
    #[must_use]
    pub const fn as_bytes(&self) -> &[u8; 20] {
        &self.0
    }
}

impl fmt::Display for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        self.0.iter().try_for_each(|byte| write!(f, "{byte:02x}"))
    }
}

impl fmt::Debug for ObjectId {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        fmt::Display::fmt(self, f)
    }
}

/// Text that is not an object id.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("an object id has 40 hexadecimal digits")]
pub struct ObjectIdError;

impl FromStr for ObjectId {
    type Err = ObjectIdError;

    fn from_str(text: &str) -> Result<Self, ObjectIdError> {
        let digit =
            |byte: u8| char::from(byte).to_digit(16).and_then(|digit| u8::try_from(digit).ok());
        let mut id = [0; 20];
        if text.len() != 2 * id.len() {
            return Err(ObjectIdError);
        }
        for (byte, pair) in id.iter_mut().zip(text.as_bytes().chunks_exact(2)) {
            let (high, low) = digit(pair[0]).zip(digit(pair[1])).ok_or(ObjectIdError)?;
            *byte = high << 4 | low;
        }
        Ok(Self(id))
    }
}

/// Kind of an object.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum ObjectKind {
    /// Commit.
    Commit,
    /// Folder.
    Tree,
    /// File.
    Blob,
}

impl ObjectKind {
    /// Returns the name in the header of an object.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::Commit => "commit",
            Self::Tree => "tree",
            Self::Blob => "blob",
        }
    }

    /// Returns the number in a pack.
    pub(crate) const fn pack_type(self) -> u8 {
        match self {
            Self::Commit => 1,
            Self::Tree => 2,
            Self::Blob => 3,
        }
    }
}

/// Mode of an entry of a tree.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
pub enum EntryMode {
    /// Folder.
    Tree,
    /// File.
    File,
    /// Executable file.
    Executable,
}

impl EntryMode {
    const fn as_str(self) -> &'static str {
        match self {
            Self::Tree => "40000",
            Self::File => "100644",
            Self::Executable => "100755",
        }
    }
}

/// Entry of a tree.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct TreeEntry<'a> {
    /// Mode.
    pub mode: EntryMode,
    /// Name without slashes.
    pub name: &'a str,
    /// Object.
    pub id: ObjectId,
}

impl TreeEntry<'_> {
    /// Compares entries in the order of a tree: the name of a folder counts as if it ended with a slash.
    #[must_use]
    pub fn order(&self, other: &Self) -> std::cmp::Ordering {
        let slash = |entry: &Self| (entry.mode == EntryMode::Tree).then_some(b'/');
        let own = self.name.bytes().chain(slash(self));
        own.cmp(other.name.bytes().chain(slash(other)))
    }

    /// Appends the entry to the bytes of a tree. Entries have to be appended in [order](Self::order).
    pub fn write(&self, tree: &mut Vec<u8>) {
        tree.extend_from_slice(self.mode.as_str().as_bytes());
        tree.push(b' ');
        tree.extend_from_slice(self.name.as_bytes());
        tree.push(0);
        tree.extend_from_slice(self.id.as_bytes());
    }
}

/// Builds the bytes of a tree.
#[must_use]
pub fn tree(mut entries: Vec<TreeEntry<'_>>) -> Vec<u8> {
    entries.sort_by(TreeEntry::order);
    let mut tree = Vec::with_capacity(entries.len() * 40);
    entries.iter().for_each(|entry| entry.write(&mut tree));
    tree
}

/// Commit with at most one parent.
#[derive(Debug, Clone, PartialEq, Eq)]
pub struct Commit<'a> {
    /// Root tree.
    pub tree: ObjectId,
    /// Commit before.
    pub parent: Option<ObjectId>,
    /// Name and address of author and committer: `name <address>`.
    pub author: &'a str,
    /// Seconds since 1970.
    pub time: u64,
    /// Message.
    pub message: &'a str,
}

impl Commit<'_> {
    /// Returns the bytes of the commit.
    #[must_use]
    pub fn to_bytes(&self) -> Vec<u8> {
        let Self { tree, parent, author, time, message } = self;
        let parent = parent.map(|parent| format!("parent {parent}\n")).unwrap_or_default();
        // A NUL would end the message for git.
        let message = message.replace('\0', " ");
        format!(
            "tree {tree}\n{parent}author {author} {time} +0000\ncommitter {author} {time} +0000\n\n{message}\n"
        )
        .into_bytes()
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn ids_are_those_of_git() {
        let id = |kind, bytes: &[u8]| ObjectId::of(kind, bytes).to_string();
        assert_eq!(id(ObjectKind::Blob, b"hello\n"), "ce013625030ba8dba906f756967f9e9ca394464a");
        assert_eq!(id(ObjectKind::Tree, b""), "4b825dc642cb6eb9a060e54bf8d69288fbee4904");
        let parts = ObjectId::of_parts(ObjectKind::Blob, &[b"hel", b"lo\n"]);
        assert_eq!(parts, ObjectId::of(ObjectKind::Blob, b"hello\n"));
    }

    #[test]
    fn only_forty_hexadecimal_digits_are_an_id() {
        let text = "ce013625030ba8dba906f756967f9e9ca394464a";
        assert_eq!(text.parse::<ObjectId>().unwrap().to_string(), text);
        for text in ["", "ce01", &text.replace('c', "g"), &format!("{text}0")] {
            assert!(text.parse::<ObjectId>().is_err(), "{text}");
        }
    }

    #[test]
    fn folders_are_sorted_as_if_their_names_ended_with_a_slash() {
        let entry = |mode, name| TreeEntry { mode, name, id: ObjectId::ZERO };
        let entries = vec![
            entry(EntryMode::Tree, "a"),
            entry(EntryMode::File, "a.b"),
            entry(EntryMode::Tree, "a-b"),
            entry(EntryMode::Executable, "a0"),
        ];
        let bytes = tree(entries);
        let names: Vec<&[u8]> = bytes
            .split(|byte| *byte == 0)
            .filter_map(|part| part.rsplit(|byte| *byte == b' ').next())
            .filter(|name| name.first() == Some(&b'a'))
            .collect();
        assert_eq!(names, [b"a-b" as &[u8], b"a.b", b"a", b"a0"]);
    }
}
