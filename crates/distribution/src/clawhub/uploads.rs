//! Files that a client has announced or sent, and that wait for the publish that names them.
//!
//! They are in memory, bounded in number and bytes for each caller and for all, and expire. Only the caller who announced
//! a file can send or publish it, once. Servers that share a database do not share them.

use std::{
    collections::HashMap,
    sync::{Arc, Weak},
    time::{Duration, Instant},
};

use bytes::Bytes;
use parking_lot::Mutex;
use skills_core::{
    BundlePath, Caller, Digest, MemoryBudget, OverBudget, Reservation,
    limits::{ByteLimit, MAX_BUNDLE_BYTES, MAX_BUNDLE_FILES},
};

/// Largest file.
pub(super) const MAX_FILE_BYTES: usize = 10 << 20;
/// Time in which an announced file has to be published.
const LIFETIME: Duration = Duration::from_secs(15 * 60);
/// Time between two checks for expired files.
const SWEEP: Duration = Duration::from_secs(60);
/// Publishes of the largest size that a caller may have under way.
const PUBLISHES: usize = 2;
/// Most bytes of all files that were sent.
const MAX_BYTES: usize = 96 << 20;
/// Most files of all callers.
const MAX_FILES: usize = 20_000;

/// Refusal of a file.
#[derive(Debug, PartialEq, Eq, thiserror::Error)]
pub(super) enum UploadError {
    #[error("a file has at most {}", ByteLimit(MAX_FILE_BYTES))]
    FileTooLarge,
    #[error(
        "too many files wait to be published with this key: publish them, or wait {} minutes",
        LIFETIME.as_secs() / 60
    )]
    TooMany,
    #[error("too many files wait to be published; try again in a moment")]
    Full,
    #[error("no such upload: it has expired, was published already, or belongs to another key")]
    Unknown,
    #[error("the file does not have the announced size")]
    Size,
    #[error("the file does not have the announced SHA-256")]
    Digest,
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
    expires: Instant,
    content: Option<(Bytes, Reservation)>,
}

/// Table of files by id.
#[derive(Debug, Default)]
pub(super) struct Uploads(Mutex<Table>);

#[derive(Debug, Default)]
struct Table {
    files: HashMap<String, Upload>,
    is_swept: bool,
}

impl Uploads {
    /// Announces a file. Expired files are removed in the background while there are any.
    pub(super) fn announce(
        self: &Arc<Self>,
        caller: &Caller,
        file: Announcement,
        now: Instant,
    ) -> Result<Ticket, UploadError> {
        if file.size > MAX_FILE_BYTES as u64 {
            return Err(UploadError::FileTooLarge);
        }
        let mut table = self.0.lock();
        table.remove_expired(now);
        let own = || table.files.values().filter(|upload| upload.caller == *caller);
        let bytes = own().map(|upload| upload.file.size).sum::<u64>() + file.size;
        if own().count() >= PUBLISHES * MAX_BUNDLE_FILES
            || bytes > (PUBLISHES * MAX_BUNDLE_BYTES) as u64
        {
            return Err(UploadError::TooMany);
        }
        if table.files.len() >= MAX_FILES {
            return Err(UploadError::Full);
        }
        let ticket = Ticket { id: random(), secret: random() };
        let (caller, secret) = (caller.clone(), ticket.secret.clone());
        let upload = Upload { caller, secret, file, expires: now + LIFETIME, content: None };
        table.files.insert(ticket.id.clone(), upload);
        if !std::mem::replace(&mut table.is_swept, true) {
            tokio::spawn(sweep(Arc::downgrade(self)));
        }
        Ok(ticket)
    }

    /// Stores the content of an announced file. The same content may be sent again.
    pub(super) fn receive(
        &self,
        caller: &Caller,
        id: &str,
        bytes: &[u8],
        budget: &MemoryBudget,
        now: Instant,
    ) -> Result<(), ReceiveError> {
        let announced = {
            let mut table = self.0.lock();
            table.remove_expired(now);
            let upload = table.files.get(id).filter(|upload| upload.caller == *caller);
            let file = &upload.ok_or(UploadError::Unknown)?.file;
            (file.size, file.sha256)
        };
        if announced.0 != bytes.len() as u64 {
            return Err(UploadError::Size.into());
        }
        if announced.1 != Digest::of(bytes) {
            return Err(UploadError::Digest.into());
        }
        let reservation = budget.try_reserve(bytes.len())?;
        let mut table = self.0.lock();
        let stored = table.files.values().filter_map(|upload| upload.content.as_ref());
        let stored: usize = stored.map(|(bytes, _)| bytes.len()).sum();
        if stored + bytes.len() > MAX_BYTES {
            return Err(UploadError::Full.into());
        }
        let upload = table.files.get_mut(id).ok_or(UploadError::Unknown)?;
        // A copy, because received bytes may be part of a larger buffer.
        upload.content = Some((Bytes::copy_from_slice(bytes), reservation));
        Ok(())
    }

    /// Returns the content of files that a caller has sent.
    pub(super) fn contents(
        &self,
        caller: &Caller,
        references: &[UploadReference],
        now: Instant,
    ) -> Result<Vec<(BundlePath, Bytes)>, UploadError> {
        let mut table = self.0.lock();
        table.remove_expired(now);
        let content = |reference: &UploadReference| {
            let upload = table.files.get(&reference.storage_id)?;
            let is_own = upload.caller == *caller && upload.secret == reference.upload_ticket;
            let file = &upload.file;
            let is_same = file.path.as_str() == reference.path
                && file.size == reference.size
                && file.sha256 == reference.sha256;
            let (bytes, _) = upload.content.as_ref().filter(|_| is_own && is_same)?;
            Some((file.path.clone(), bytes.clone()))
        };
        let contents = references.iter().map(content);
        contents.collect::<Option<_>>().ok_or(UploadError::Unknown)
    }

    /// Removes files whose publish has ended.
    pub(super) fn remove(&self, caller: &Caller, references: &[UploadReference]) {
        let mut table = self.0.lock();
        for reference in references {
            let is_own = |upload: &Upload| upload.caller == *caller;
            if table.files.get(&reference.storage_id).is_some_and(is_own) {
                table.files.remove(&reference.storage_id);
            }
        }
    }
}

/// Refusal to store the content of a file.
#[derive(Debug, thiserror::Error)]
pub(super) enum ReceiveError {
    #[error(transparent)]
    Upload(#[from] UploadError),
    #[error(transparent)]
    OverBudget(#[from] OverBudget),
}

impl Table {
    fn remove_expired(&mut self, now: Instant) {
        self.files.retain(|_, upload| upload.expires > now);
    }
}

/// Removes expired files until there are none left.
async fn sweep(uploads: Weak<Uploads>) {
    loop {
        tokio::time::sleep(SWEEP).await;
        let Some(uploads) = uploads.upgrade() else { return };
        let mut table = uploads.0.lock();
        table.remove_expired(Instant::now());
        if table.files.is_empty() {
            table.is_swept = false;
            return;
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

    fn user(uid: &str) -> Caller {
        Caller::User(User { owner: uid.parse().unwrap(), key: Digest::of(uid.as_bytes()) })
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
    async fn a_file_belongs_to_its_caller_and_expires() {
        let (uploads, ann, bob) = (Arc::<Uploads>::default(), user("ann"), user("bob"));
        let (budget, now) = (MemoryBudget::new(1 << 20), Instant::now());
        let ticket = uploads.announce(&ann, announcement("a.md", b"text"), now).unwrap();
        let receive = |caller, bytes| uploads.receive(caller, &ticket.id, bytes, &budget, now);
        assert!(matches!(receive(&bob, b"text"), Err(ReceiveError::Upload(UploadError::Unknown))));
        assert!(matches!(receive(&ann, b"texts"), Err(ReceiveError::Upload(UploadError::Size))));
        assert!(matches!(receive(&ann, b"Text"), Err(ReceiveError::Upload(UploadError::Digest))));
        let named = reference(&ticket, "a.md", b"text");
        let contents = |caller, named: &UploadReference, now| {
            uploads.contents(caller, std::slice::from_ref(named), now)
        };
        assert_eq!(contents(&ann, &named, now), Err(UploadError::Unknown), "not sent yet");
        receive(&ann, b"text").unwrap();
        receive(&ann, b"text").unwrap();
        assert_eq!(budget.reserved(), 4);
        assert_eq!(contents(&ann, &named, now).unwrap().len(), 1);
        for wrong in [
            UploadReference { path: "b.md".to_owned(), ..named.clone() },
            UploadReference { upload_ticket: "x".to_owned(), ..named.clone() },
            UploadReference { size: 5, ..named.clone() },
            UploadReference { sha256: Digest::of(b"x"), ..named.clone() },
        ] {
            assert_eq!(contents(&ann, &wrong, now), Err(UploadError::Unknown), "{wrong:?}");
        }
        assert_eq!(contents(&bob, &named, now), Err(UploadError::Unknown));
        uploads.remove(&bob, std::slice::from_ref(&named));
        assert!(contents(&ann, &named, now).is_ok());
        let later = now + LIFETIME;
        assert_eq!(contents(&ann, &named, later), Err(UploadError::Unknown));
        assert_eq!(budget.reserved(), 0, "memory of an expired file is free");
    }

    #[tokio::test]
    async fn files_of_a_caller_are_bounded() {
        let (uploads, ann, now) = (Arc::<Uploads>::default(), user("ann"), Instant::now());
        let sized = |size: usize| Announcement { size: size as u64, ..announcement("a", b"") };
        let announce =
            |caller: &Caller, size| uploads.announce(caller, sized(size), now).map(|_| ());
        assert_eq!(announce(&ann, MAX_FILE_BYTES + 1), Err(UploadError::FileTooLarge));
        for _ in 0..6 {
            announce(&ann, MAX_FILE_BYTES).unwrap();
        }
        assert_eq!(announce(&ann, MAX_FILE_BYTES), Err(UploadError::TooMany));
        announce(&user("bob"), MAX_FILE_BYTES).unwrap();
        for _ in 0..PUBLISHES * MAX_BUNDLE_FILES - 6 {
            announce(&ann, 0).unwrap();
        }
        assert_eq!(announce(&ann, 0), Err(UploadError::TooMany));
    }
}
