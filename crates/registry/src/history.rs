//! History of entries: pages of versions, and the change log.

use std::sync::Arc;

use skills_core::{Caller, EntryKey, Layer, RuleError, Timestamp, VersionSelector};
use skills_store::{LogFilter, Removal, Store};

use crate::{
    HistoryPage, HistoryRequest, LogPage, LogRequest, Registry, RegistryError, VersionInfo,
    version_lookup::{PAGE_BYTES, visible_layers},
    versions::{page_limit, parse_cursor},
};

impl Registry {
    /// Describes one version of an entry, also one that was purged.
    ///
    /// # Errors
    /// When there is no such version, or retention took it.
    pub async fn version_info(
        &self,
        key: &EntryKey,
        version: &VersionSelector,
    ) -> Result<VersionInfo, RegistryError> {
        let found = self.select_version(key, version).await?;
        if found.version.removal == Some(Removal::Collected) {
            return Err(self.collected_error(key, found.version.number).await?);
        }
        let entry = key.clone();
        let page =
            self.read_store(PAGE_BYTES, move |store| store.versions(&entry, None, 0)).await?;
        let info = VersionInfo::new(found.version.clone(), &page.labels, page.served);
        Ok(VersionInfo { source: found.content.provenance(), ..info })
    }

    /// Returns a page of the versions of an entry, newest first.
    ///
    /// # Errors
    /// When the entry never existed, or the cursor is invalid.
    pub async fn history(
        &self,
        key: &EntryKey,
        request: &HistoryRequest,
    ) -> Result<HistoryPage, RegistryError> {
        let before = parse_cursor(request.after.as_deref())?;
        let (limit, entry) = (page_limit(request.limit), key.clone());
        let read = move |store: &dyn Store| store.versions(&entry, before, limit + 1);
        let mut page = self.read_store(PAGE_BYTES, read).await?;
        if page.count == 0 {
            return Err(RegistryError::NotFound { kind: key.kind, id: key.id.to_string() });
        }
        let has_more = page.versions.len() > limit;
        page.versions.truncate(limit);
        let last = page.versions.last().map(|version| version.number.to_string());
        let info = |version| VersionInfo::new(version, &page.labels, page.served);
        let mut data: Vec<VersionInfo> = page.versions.into_iter().map(info).collect();
        for version in &mut data {
            // The source is part of the content, which the page does not have; lookups are cached.
            let selector = VersionSelector::Number(version.version);
            let found = self.select_version(key, &selector).await.ok();
            version.source = found.and_then(|found| found.content.provenance());
        }
        Ok(HistoryPage { data, next: last.filter(|_| has_more) })
    }

    /// Reads the change log, newest first: that of some layers, or of all.
    ///
    /// # Errors
    /// When the cursor or the time is invalid, or the store keeps no log.
    pub async fn log_of(
        &self,
        layers: Option<Vec<Layer>>,
        request: &LogRequest,
    ) -> Result<LogPage, RegistryError> {
        let since = request.since.as_deref().map(|text| {
            let refused = || RuleError::Since(text.chars().take(40).collect());
            text.parse::<Timestamp>().map_err(|_| refused())
        });
        let filter = LogFilter {
            kind: request.kind.map(Into::into),
            layers,
            id: request.id.as_deref().map(Arc::from),
            since: since.transpose()?,
            actor: request.by.clone(),
        };
        let before = parse_cursor(request.after.as_deref())?;
        let limit = page_limit(request.limit);
        let read = move |store: &dyn Store| store.log(&filter, before, limit + 1);
        let mut records = self.read_store(PAGE_BYTES, read).await?;
        let has_more = records.len() > limit;
        records.truncate(limit);
        let last = records.last().map(|record| record.revision.to_string());
        let data = records.into_iter().map(Into::into).collect();
        Ok(LogPage { data, next: last.filter(|_| has_more) })
    }

    /// Reads the change log of the entries that a caller sees.
    ///
    /// # Errors
    /// Those of [`log_of`](Self::log_of), and when private entries are requested without a key.
    pub async fn log_as(
        &self,
        caller: &Caller,
        request: &LogRequest,
    ) -> Result<LogPage, RegistryError> {
        let layers = match request.tier {
            Some(tier) => vec![caller.layer(tier).ok_or(RegistryError::KeyNeeded)?],
            None => visible_layers(caller),
        };
        self.log_of(Some(layers), request).await
    }
}
