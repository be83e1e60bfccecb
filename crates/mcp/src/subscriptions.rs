//! Resource subscriptions of one client, indexed by skill id.
//!
//! A change looks up the URIs of its skill alone, so its cost does not grow with the number of subscriptions. The URIs
//! of a session are reserved from the memory that its client may hold beyond requests.

use std::{
    borrow::Cow,
    collections::{HashMap, HashSet},
    sync::Arc,
};

use skills_core::{
    MemoryBudget, Reservation, Tier, VersionSelector, id::INDEX_ID, uri, version::split_version,
};

/// Most subscriptions of one client.
pub(crate) const MAX_SUBSCRIPTIONS: usize = 1_000;
/// Longest URI that a client can subscribe to.
pub(crate) const MAX_URI_BYTES: usize = 2_048;
/// Most bytes of all URIs of one client.
pub(crate) const MAX_SUBSCRIBED_BYTES: usize = 128 << 10;
/// Memory of a subscription besides four times its URI: the URI of a tier is indexed under two ids, for its client and
/// for the dispatcher.
const ENTRY_BYTES: usize = 512;

/// Returns the path of a skill URI, or `None` for any other scheme.
pub(crate) fn skill_path(uri: &str) -> Option<&str> {
    uri.strip_prefix(uri::SCHEME).or_else(|| uri.strip_prefix(uri::SKILL_SCHEME))
}

/// Id that a URI is indexed under.
pub(crate) struct IndexedId<'a> {
    /// Segment of the URI, without a version.
    pub(crate) id: Cow<'a, str>,
    /// Version of the skill that the URI names.
    pub(crate) version: Option<VersionSelector>,
}

impl<'a> IndexedId<'a> {
    fn new(segment: &'a str) -> Self {
        match split_version(segment) {
            Ok((id, version)) => Self { id, version },
            Err(_) => Self { id: segment.into(), version: None },
        }
    }
}

/// Returns the first segment of a changed id. The id of a live skill begins with its client, and so do its URIs.
pub(crate) fn first_segment(id: &str) -> &str {
    id.split_once('/').map_or(id, |(first, _)| first)
}

/// Returns the ids that a URI is indexed under: its first segment, and the segment after a tier.
pub(crate) fn ids(uri: &str) -> impl Iterator<Item = IndexedId<'_>> {
    let mut segments = skill_path(uri).unwrap_or_default().split('/');
    let first = segments.next().unwrap_or_default();
    let in_tier = segments.next().filter(|_| first.parse::<Tier>().is_ok());
    let ids = [Some(first), in_tier].into_iter().flatten();
    ids.filter(|id| !id.is_empty()).map(IndexedId::new)
}

/// Truncates a list of URIs to the limits of one client.
pub(crate) fn truncate(uris: &mut Vec<String>) {
    uris.retain(|uri| uri.len() <= MAX_URI_BYTES);
    uris.truncate(MAX_SUBSCRIPTIONS);
    let mut bytes = 0;
    let fits = |uri: &&String| {
        bytes += uri.len();
        bytes <= MAX_SUBSCRIBED_BYTES
    };
    let fitting = uris.iter().take_while(fits).count();
    uris.truncate(fitting);
}

/// Index of URIs by skill id.
#[derive(Debug, Default)]
pub(crate) struct UriIndex {
    uris: HashSet<Arc<str>>,
    by_id: HashMap<Box<str>, Vec<Arc<str>>>,
    bytes: usize,
}

impl UriIndex {
    fn insert(&mut self, uri: &str) {
        let uri: Arc<str> = uri.into();
        if !self.uris.insert(Arc::clone(&uri)) {
            return;
        }
        self.bytes += uri.len();
        for IndexedId { id, .. } in ids(&uri) {
            self.by_id.entry(id.into()).or_default().push(Arc::clone(&uri));
        }
    }

    fn remove(&mut self, uri: &str) -> bool {
        if !self.uris.remove(uri) {
            return false;
        }
        self.bytes -= uri.len();
        for IndexedId { id, .. } in ids(uri) {
            if let Some(uris) = self.by_id.get_mut(&*id) {
                uris.retain(|indexed| &**indexed != uri);
                if uris.is_empty() {
                    self.by_id.remove(&*id);
                }
            }
        }
        true
    }

    /// Returns all ids that URIs are indexed under.
    pub(crate) fn ids(&self) -> impl Iterator<Item = &str> {
        self.by_id.keys().map(|id| &**id)
    }

    /// Returns whether a URI is indexed under an id.
    pub(crate) fn has_id(&self, id: &str) -> bool {
        self.by_id.contains_key(id)
    }

    /// Returns all skill URIs.
    pub(crate) fn all(&self) -> Vec<String> {
        let of_skills = self.uris.iter().filter(|uri| skill_path(uri).is_some());
        of_skills.map(ToString::to_string).collect()
    }

    /// Returns the URIs of changed skills and of the index that `is_affected` accepts.
    pub(crate) fn affected<'a>(
        &self,
        changed: impl Iterator<Item = &'a str>,
        is_affected: impl Fn(&str) -> bool,
    ) -> Vec<String> {
        let ids: HashSet<&str> = changed.map(first_segment).chain([INDEX_ID]).collect();
        let candidates = ids.into_iter().filter_map(|id| self.by_id.get(id)).flatten();
        let affected: HashSet<&Arc<str>> = candidates.filter(|uri| is_affected(uri)).collect();
        affected.into_iter().map(ToString::to_string).collect()
    }
}

impl<'a> FromIterator<&'a str> for UriIndex {
    fn from_iter<T: IntoIterator<Item = &'a str>>(uris: T) -> Self {
        let mut index = Self::default();
        uris.into_iter().for_each(|uri| index.insert(uri));
        index
    }
}

/// URIs that a client has subscribed to. They need not exist yet.
#[derive(Debug, Default)]
pub(crate) struct SubscribedUris {
    index: UriIndex,
    reservation: Option<Reservation>,
}

/// Reason for refusing a subscription.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(crate) enum SubscribeError {
    /// The request breaks a limit of one client.
    Invalid(&'static str),
    /// The memory budget is exhausted.
    OverBudget,
}

impl SubscribedUris {
    /// Adds a URI within the limits of one client, with memory for it.
    pub(crate) fn add(&mut self, uri: &str, memory: &MemoryBudget) -> Result<(), SubscribeError> {
        let Self { index, reservation } = self;
        if uri.len() > MAX_URI_BYTES {
            return Err(SubscribeError::Invalid("the URI is too long for a subscription"));
        }
        if index.uris.contains(uri) {
            return Ok(());
        }
        let is_full =
            index.uris.len() >= MAX_SUBSCRIPTIONS || index.bytes + uri.len() > MAX_SUBSCRIBED_BYTES;
        if is_full {
            let message = "too many subscriptions; unsubscribe from some first";
            return Err(SubscribeError::Invalid(message));
        }
        let reserved = match reservation {
            Some(reservation) => reservation.try_grow(cost(uri)),
            None => memory.try_reserve(cost(uri)).map(|reserved| *reservation = Some(reserved)),
        };
        reserved.map_err(|_| SubscribeError::OverBudget)?;
        index.insert(uri);
        Ok(())
    }

    pub(crate) fn remove(&mut self, uri: &str) {
        let Self { index, reservation } = self;
        if index.remove(uri)
            && let Some(reservation) = reservation
        {
            let remaining = reservation.bytes().saturating_sub(cost(uri));
            reservation.shrink_to(remaining);
        }
    }

    pub(crate) const fn index(&self) -> &UriIndex {
        &self.index
    }
}

/// URIs whose memory is reserved elsewhere.
impl From<UriIndex> for SubscribedUris {
    fn from(index: UriIndex) -> Self {
        Self { index, reservation: None }
    }
}

/// Returns the memory of a subscription.
pub(crate) const fn cost(uri: &str) -> usize {
    4 * uri.len() + ENTRY_BYTES
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn subscriptions_are_bounded_in_number_and_in_bytes() {
        let memory = MemoryBudget::default();
        let mut uris = SubscribedUris::default();
        for number in 0..MAX_SUBSCRIPTIONS {
            uris.add(&format!("iii://s{number}"), &memory).unwrap();
        }
        assert!(uris.add("iii://one-more", &memory).is_err());
        assert!(uris.add("iii://s1", &memory).is_ok());
        assert!(uris.add(&"x".repeat(MAX_URI_BYTES + 1), &memory).is_err());
        let mut uris = SubscribedUris::default();
        let long = |number: usize| format!("iii://{number:0>2000}");
        let added = (0..).take_while(|number| uris.add(&long(*number), &memory).is_ok());
        assert_eq!(added.count(), MAX_SUBSCRIBED_BYTES / long(0).len());
        let mut uris: Vec<String> = (0..100).map(long).collect();
        truncate(&mut uris);
        assert_eq!(uris.len(), MAX_SUBSCRIBED_BYTES / long(0).len());
    }

    #[test]
    fn subscriptions_are_reserved_and_released() {
        let memory = MemoryBudget::new(2 * cost("iii://a"));
        let mut uris = SubscribedUris::default();
        uris.add("iii://a", &memory).unwrap();
        uris.add("iii://a", &memory).unwrap();
        uris.add("iii://b", &memory).unwrap();
        assert_eq!(uris.add("iii://c", &memory), Err(SubscribeError::OverBudget));
        uris.remove("iii://a");
        uris.remove("iii://a");
        uris.add("iii://c", &memory).unwrap();
        drop(uris);
        assert_eq!(memory.reserved(), 0);
    }

    #[test]
    fn a_change_affects_only_the_uris_of_its_skill() {
        let uris = [
            "iii://a",
            "iii://a%40stable/x",
            "iii://a@3",
            "skill://market/a/x",
            "iii://b/c",
            "iii://skills",
            "other://a",
        ];
        let mut index: UriIndex = uris.into_iter().collect();
        let affected = |id: &str| {
            let mut uris = index.affected([id].into_iter(), |_| true);
            uris.sort();
            uris
        };
        let of_a =
            ["iii://a", "iii://a%40stable/x", "iii://a@3", "iii://skills", "skill://market/a/x"];
        assert_eq!(affected("a"), of_a);
        assert_eq!(affected("b/other"), ["iii://b/c", "iii://skills"]);
        assert_eq!(index.all().len(), 6);
        for uri in of_a {
            assert!(index.remove(uri), "{uri}");
        }
        assert!(index.ids().eq(["b"]), "URIs of other schemes have no id");
    }
}
