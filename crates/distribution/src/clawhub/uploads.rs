//! Files that a client has announced or sent, and that wait for the publish that names them.
//!
//! They are in memory and expire. Each owner has a share of their number and of the memory for what outlives requests,
//! whatever the number of its keys: the owner's oldest files make room for new ones. Only the caller who announced a file can
//! send or publish it, once. Servers that share a database do not share them.

use std::{sync::Arc, time::Duration};

use bytes::Bytes;
use skills_core::{
    BundlePath, Caller, Digest, MemoryBudget, OverBudget, OwnedTable, Owner, Reservation,
    TableFull, TableLimits,
    limits::{ByteLimit, MAX_BUNDLE_FILES},
};

/// Largest file.
pub(super) const MAX_FILE_BYTES: usize = 10 << 20;
/// Publishes of the most files that an owner may have under way.
const PUBLISHES: usize = 2;
/// Owners whose shares fill the table.
const OWNERS: usize = 16;
/// Limits of all files. An announced file has to be published within their lifetime.
const LIMITS: TableLimits = TableLimits {
    per_owner: PUBLISHES * MAX_BUNDLE_FILES,
    total: OWNERS * PUBLISHES * MAX_BUNDLE_FILES,
    idle: Duration::MAX,
    lifetime: Duration::from_secs(15 * 60),
};
/// Memory of an announced file besides its path and its content.
const ENTRY_BYTES: usize = 512;

/// Refusal of a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UploadError {
    #[error("a file has at most {}", ByteLimit(MAX_FILE_BYTES))]
    FileTooLarge,
    #[error("too many files wait to be published; try again in a moment")]
    Full,
    #[error(
        "no such upload: it has expired, was published already, made room for newer ones, or belongs to another key"
    )]
    Unknown,
    #[error("the file does not have the announced size")]
    Size,
    #[error("the file does not have the announced SHA-256")]
    Digest,
}

impl From<OverBudget> for UploadError {
    fn from(_: OverBudget) -> Self {
        Self::Full
    }
}

impl From<TableFull> for UploadError {
    fn from(_: TableFull) -> Self {
        Self::Full
    }
}

/// File as a publish names it.
#[derive(Debug, Clone, PartialEq, Eq, serde::Deserialize)]
#[serde(rename_all = "camelCase")]
pub(super) struct UploadReference {
    pub(super) path: String,
    storage_id: String,
    upload_ticket: String,
    size: u64,
    sha256: Digest,
}

/// Announced file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Announcement {
    pub(super) path: BundlePath,
    pub(super) size: u64,
    pub(super) sha256: Digest,
}

/// Address and secret of an announced file.
#[derive(Debug, Clone, PartialEq, Eq)]
pub(super) struct Ticket {
    pub(super) id: String,
    pub(super) secret: String,
}

#[derive(Debug)]
struct Upload {
    caller: Caller,
    secret: String,
    file: Announcement,
    content: Option<Arc<Content>>,
    _reservation: Reservation,
}

/// Content of a file. A publish holds it, and with it its memory, also if the file makes room for others meanwhile.
#[derive(Debug)]
pub(super) struct Content {
    pub(super) bytes: Bytes,
    _reservation: Reservation,
}

/// Table of files by id. Administrators are one owner.
#[derive(Debug)]
pub(super) struct Uploads(OwnedTable<String, Upload, Option<Owner>>);

impl Default for Uploads {
    fn default() -> Self {
        Self(OwnedTable::new(LIMITS))
    }
}

impl Uploads {
    /// Announces a file.
    pub(super) fn announce(
        &self,
        caller: &Caller,
        file: Announcement,
        memory: &MemoryBudget,
    ) -> Result<Ticket, UploadError> {
        if file.size > MAX_FILE_BYTES as u64 {
            return Err(UploadError::FileTooLarge);
        }
        let owner = caller.owner().cloned();
        let bytes = ENTRY_BYTES + file.path.as_str().len();
        let reservation = self.0.reserve(&owner, memory, bytes)?;
        let ticket = Ticket { id: random(), secret: random() };
        let (caller, secret) = (caller.clone(), ticket.secret.clone());
        let upload = Upload { caller, secret, file, content: None, _reservation: reservation };
        self.0.insert(owner, ticket.id.clone(), upload)?;
        Ok(ticket)
    }

    /// Stores the content of an announced file. The same content may be sent again.
    pub(super) fn receive(
        &self,
        caller: &Caller,
        id: &str,
        bytes: &[u8],
        memory: &MemoryBudget,
    ) -> Result<(), UploadError> {
        let announced = self.0.update(id, |_, upload| {
            let is_own = upload.caller == *caller;
            is_own.then_some((upload.file.size, upload.file.sha256))
        });
        let (size, sha256) = announced.flatten().ok_or(UploadError::Unknown)?;
        if size != bytes.len() as u64 {
            return Err(UploadError::Size);
        }
        if sha256 != Digest::of(bytes) {
            return Err(UploadError::Digest);
        }
        let reservation = self.0.reserve(&caller.owner().cloned(), memory, bytes.len())?;
        // A copy, because received bytes may be part of a larger buffer.
        let bytes = Bytes::copy_from_slice(bytes);
        let content = Arc::new(Content { bytes, _reservation: reservation });
        // It is gone if the memory was free only without it.
        let stored = self.0.update(id, |_, upload| upload.content = Some(content));
        stored.ok_or(UploadError::Unknown)
    }

    /// Returns the content of files that a caller has sent.
    pub(super) fn contents(
        &self,
        caller: &Caller,
        references: &[UploadReference],
    ) -> Result<Vec<(BundlePath, Arc<Content>)>, UploadError> {
        let content = |reference: &UploadReference| {
            let found = self.0.update(&reference.storage_id, |_, upload| {
                let is_own = upload.caller == *caller && upload.secret == reference.upload_ticket;
                let file = &upload.file;
                let is_same = file.path.as_str() == reference.path
                    && file.size == reference.size
                    && file.sha256 == reference.sha256;
                let content = upload.content.clone().filter(|_| is_own && is_same)?;
                Some((file.path.clone(), content))
            });
            found.flatten()
        };
        let contents = references.iter().map(content);
        contents.collect::<Option<_>>().ok_or(UploadError::Unknown)
    }

    /// Removes files whose publish has ended.
    pub(super) fn remove(&self, caller: &Caller, references: &[UploadReference]) {
        for reference in references {
            self.0.remove_if(&reference.storage_id, |_, upload| upload.caller == *caller);
        }
    }
}

/// Returns a text that nobody can guess.
fn random() -> String {
    uuid::Uuid::new_v4().simple().to_string()
}

#[cfg(test)]
mod tests {
    use skills_core::caller::User;

    use super::*;

    /// Returns the caller with one of a user's keys.
    fn key(uid: &str, number: u8) -> Caller {
        Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(&[number]) })
    }

    fn user(uid: &str) -> Caller {
        key(uid, 0)
    }

    fn announcement(path: &str, bytes: &[u8]) -> Announcement {
        let (size, sha256) = (bytes.len() as u64, Digest::of(bytes));
        Announcement { path: path.parse().unwrap(), size, sha256 }
    }

    fn reference(ticket: &Ticket, path: &str, bytes: &[u8]) -> UploadReference {
        UploadReference {
            path: path.to_owned(),
            storage_id: ticket.id.clone(),
            upload_ticket: ticket.secret.clone(),
            size: bytes.len() as u64,
            sha256: Digest::of(bytes),
        }
    }

    #[tokio::test]
    async fn a_file_belongs_to_its_caller_and_to_one_publish() {
        let (uploads, ann, bob) = (Uploads::default(), user("ann"), user("bob"));
        let memory = MemoryBudget::new(1 << 20);
        let ticket = uploads.announce(&ann, announcement("a.md", b"text"), &memory).unwrap();
        let receive =
            |caller: &Caller, bytes: &[u8]| uploads.receive(caller, &ticket.id, bytes, &memory);
        assert_eq!(receive(&bob, b"text"), Err(UploadError::Unknown));
        assert_eq!(receive(&key("ann", 1), b"text"), Err(UploadError::Unknown), "another key");
        assert_eq!(receive(&ann, b"texts"), Err(UploadError::Size));
        assert_eq!(receive(&ann, b"Text"), Err(UploadError::Digest));
        let named = reference(&ticket, "a.md", b"text");
        let contents = |caller: &Caller, named: &UploadReference| {
            let contents = uploads.contents(caller, std::slice::from_ref(named));
            contents.map(|contents| contents.len())
        };
        assert_eq!(contents(&ann, &named), Err(UploadError::Unknown), "not sent yet");
        receive(&ann, b"text").unwrap();
        receive(&ann, b"text").unwrap();
        assert_eq!(memory.reserved(), ENTRY_BYTES + "a.md".len() + 4);
        assert_eq!(contents(&ann, &named), Ok(1));
        for wrong in [
            UploadReference { path: "b.md".to_owned(), ..named.clone() },
            UploadReference { upload_ticket: "x".to_owned(), ..named.clone() },
            UploadReference { size: 5, ..named.clone() },
            UploadReference { sha256: Digest::of(b"x"), ..named.clone() },
        ] {
            assert_eq!(contents(&ann, &wrong), Err(UploadError::Unknown), "{wrong:?}");
        }
        for other in [bob, key("ann", 1)] {
            assert_eq!(contents(&other, &named), Err(UploadError::Unknown));
            uploads.remove(&other, std::slice::from_ref(&named));
        }
        let publishing = uploads.contents(&ann, std::slice::from_ref(&named)).unwrap();
        uploads.remove(&ann, std::slice::from_ref(&named));
        assert_eq!(contents(&ann, &named), Err(UploadError::Unknown));
        assert_eq!(memory.reserved(), 4, "held by the publish");
        drop(publishing);
        assert_eq!(memory.reserved(), 0);
    }

    #[tokio::test]
    async fn announced_files_of_all_keys_of_one_user_do_not_block_others() {
        let (uploads, memory) = (Uploads::default(), MemoryBudget::new(64 << 20));
        let announce = |caller: &Caller| uploads.announce(caller, announcement("a", b""), &memory);
        let of_bob = announce(&user("bob")).unwrap();
        let first = announce(&key("ann", 0)).unwrap();
        for number in 0..6 {
            for _ in 0..LIMITS.per_owner {
                announce(&key("ann", number)).unwrap();
            }
        }
        assert_eq!(uploads.0.len(), LIMITS.per_owner + 1, "one share, whatever the number of keys");
        let receive =
            |caller: &Caller, ticket: &Ticket| uploads.receive(caller, &ticket.id, b"", &memory);
        assert_eq!(
            receive(&key("ann", 0), &first),
            Err(UploadError::Unknown),
            "her oldest is gone"
        );
        assert_eq!(receive(&user("bob"), &of_bob), Ok(()));
        announce(&user("cleo")).unwrap();
        const { assert!(OWNERS >= 16, "one share is a small part of the table") };
    }

    #[tokio::test]
    async fn old_files_of_an_owner_make_room_for_the_content_of_new_ones() {
        let memory = MemoryBudget::new(3 << 20);
        let (uploads, ann, content) = (Uploads::default(), user("ann"), vec![0; 1 << 20]);
        let send = |path: &str| {
            let ticket = uploads.announce(&ann, announcement(path, &content), &memory)?;
            uploads.receive(&ann, &ticket.id, &content, &memory)?;
            Ok::<_, UploadError>(reference(&ticket, path, &content))
        };
        let sent: Vec<_> = ["a", "b", "c"].map(|path| send(path).unwrap()).into();
        assert_eq!(uploads.contents(&ann, &sent[..1]).unwrap_err(), UploadError::Unknown);
        assert_eq!(uploads.contents(&ann, &sent[1..]).unwrap().len(), 2);
        let large = vec![0; 4 << 20];
        let ticket = uploads.announce(&ann, announcement("d", &large), &memory).unwrap();
        let refused = uploads.receive(&ann, &ticket.id, &large, &memory);
        assert_eq!(refused, Err(UploadError::Full), "more than the memory of its client");
        assert_eq!(uploads.contents(&ann, &sent[1..]).unwrap().len(), 2, "nothing ends in vain");
        let too_large = Announcement { size: MAX_FILE_BYTES as u64 + 1, ..announcement("e", b"") };
        assert_eq!(uploads.announce(&ann, too_large, &memory), Err(UploadError::FileTooLarge));
    }
}
