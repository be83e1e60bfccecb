//! A search as one caller sees it.

use std::{borrow::Cow, sync::Arc};

use skills_core::{
    EntryKind, RuleError, Tier,
    uri::{SCHEME, SKILL_SCHEME},
};
use skills_search::{
    DocumentKey, EmbeddingModel, HitKind, Partition, Query, SearchHit, Searcher, SynonymTable,
    Visibility,
};

use super::{SearchPage, SearchRequest, SearchResult};
use crate::{Catalog, PromptRow, SkillRow};

/// Entries that a partition holds.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Scope {
    /// Entries of a tier that the caller sees.
    Tier(Tier),
    /// Entries of live clients.
    Live,
    /// All entries of the view.
    View,
}

impl Scope {
    /// Returns whether the filters of a query leave anything of the partition.
    fn may_match(self, query: &Query) -> bool {
        let (wanted, excluded) = (query.filters(), query.excluded_filters());
        match self {
            Self::Tier(tier) => {
                !wanted.live
                    && (wanted.tiers.is_empty() || wanted.tiers.contains(&tier))
                    && !excluded.tiers.contains(&tier)
            }
            Self::Live => wanted.tiers.is_empty() && !excluded.live,
            Self::View => true,
        }
    }
}

/// Page of a search, with what the log of queries without a result must know.
#[derive(Debug)]
pub(crate) struct Evaluated {
    pub(super) page: SearchPage,
    /// Whether nothing matches, not even an entry that is left out.
    pub(super) is_miss: bool,
}

/// Partitions of a search with the view that decides what is shown.
#[derive(Debug, Clone, Copy)]
pub(super) struct Evaluation<'a> {
    pub(super) catalog: &'a Catalog,
    /// Contents of the partitions, in the order of resolution.
    pub(super) scopes: &'a [Scope],
    pub(super) partitions: &'a [&'a Partition],
    pub(super) synonyms: &'a SynonymTable,
    pub(super) model: Option<&'a EmbeddingModel>,
}

/// Row of an entry.
enum Row<'a> {
    Skill(&'a Arc<SkillRow>),
    Prompt(&'a Arc<PromptRow>),
}

impl Evaluation<'_> {
    /// Searches and returns a page.
    pub(super) fn run(&self, request: &SearchRequest) -> Result<Evaluated, RuleError> {
        let offset = request.offset()?;
        let query = request.parse();
        let parts = self.scopes.iter().copied().zip(self.partitions.iter().copied());
        let (scopes, partitions): (Vec<Scope>, Vec<&Partition>) =
            parts.filter(|(scope, _)| scope.may_match(&query)).unzip();
        let restricted = Evaluation { scopes: &scopes, partitions: &partitions, ..*self };
        Ok(restricted.search(request, &query, offset))
    }

    fn search(&self, request: &SearchRequest, query: &Query, offset: usize) -> Evaluated {
        let limit = request.page_limit();
        let visible =
            |partition: usize, key: &DocumentKey| self.visibility(query, request, partition, key);
        let live = self.scopes.iter().position(|scope| *scope == Scope::Live);
        let searcher = Searcher::new(self.partitions, self.synonyms);
        let searcher = searcher.with_last(live).with_model(self.model);
        let found = searcher.search(query, offset, limit, &visible);
        let is_miss = found.hits.is_empty() && !found.has_omitted;
        let results = found.hits.into_iter().filter_map(|hit| self.result(query, hit)).collect();
        let next = found.has_more.then(|| request.cursor_at(offset + limit));
        let page = SearchPage { results, did_you_mean: found.did_you_mean, next, indexing: false };
        Evaluated { page, is_miss }
    }

    /// Returns the row of an entry if the view shows it: the one that its name resolves to, or that of a tier if the
    /// query names tiers.
    fn row(&self, query: &Query, scope: Scope, key: &DocumentKey) -> Option<Row<'_>> {
        let tiers = &query.filters().tiers;
        let is_in_scope = |tier: Tier, is_live: bool| match scope {
            Scope::Tier(own) => tier == own && !is_live,
            Scope::Live => is_live,
            Scope::View => true,
        };
        let excluded = query.excluded_filters();
        let is_excluded = |tier: Tier, is_live: bool| {
            if is_live { excluded.live } else { excluded.tiers.contains(&tier) }
        };
        let fits = |tier: Tier, is_live: bool| {
            is_in_scope(tier, is_live)
                && (tiers.is_empty() || (tiers.contains(&tier) && !is_live))
                && !is_excluded(tier, is_live)
        };
        match (key.kind, scope) {
            (EntryKind::Skill, Scope::Tier(tier)) if !tiers.is_empty() => {
                let row = self.catalog.exact_skill(tier, &key.id)?;
                fits(row.tier, row.is_live()).then_some(Row::Skill(row))
            }
            (EntryKind::Skill, _) => {
                let row = self.catalog.skill(&key.id).filter(|row| row.id == key.id)?;
                fits(row.tier, row.is_live()).then_some(Row::Skill(row))
            }
            (EntryKind::Prompt, Scope::Tier(tier)) if !tiers.is_empty() => {
                let row = self.catalog.exact_prompt(tier, &key.id)?;
                fits(row.tier, row.is_live()).then_some(Row::Prompt(row))
            }
            (EntryKind::Prompt, _) => {
                let row = self.catalog.prompt(&key.id).filter(|row| row.name == key.id)?;
                fits(row.tier, row.is_live()).then_some(Row::Prompt(row))
            }
            // Collections are not indexed.
            (EntryKind::Collection, _) => None,
        }
    }

    fn visibility(
        &self,
        query: &Query,
        request: &SearchRequest,
        partition: usize,
        key: &DocumentKey,
    ) -> Visibility {
        let scope = self.scopes.get(partition).copied();
        let Some(row) = scope.and_then(|scope| self.row(query, scope, key)) else {
            return Visibility::Hidden;
        };
        let is_live = match &row {
            Row::Skill(row) => row.is_live(),
            Row::Prompt(row) => row.is_live(),
        };
        if query.filters().live && !is_live {
            return Visibility::Hidden;
        }
        match row {
            Row::Skill(row) if request.for_model && !row.is_model_invocable() => {
                Visibility::Omitted
            }
            _ => Visibility::Shown,
        }
    }

    fn result(&self, query: &Query, hit: SearchHit) -> Option<SearchResult> {
        let scope = self.scopes.get(hit.partition).copied()?;
        let mut result = match self.row(query, scope, &hit.key)? {
            Row::Skill(row) => self.skill_result(row),
            Row::Prompt(row) => prompt_result(row),
        };
        result.score = (hit.score * 1000.0).round() / 1000.0;
        result.matched = hit.matched;
        result.snippet = hit.snippet;
        Some(result)
    }

    fn skill_result(&self, row: &Arc<SkillRow>) -> SearchResult {
        let uri = if self.catalog.is_effective(row) {
            format!("{SCHEME}{}", row.id)
        } else {
            format!("{SKILL_SCHEME}{}/{}", row.tier, row.id)
        };
        let kind = if row.meta.tool.is_some() { HitKind::Tool } else { HitKind::Skill };
        SearchResult {
            id: row.id.to_string(),
            uri: Some(uri),
            kind,
            title: row.title().to_owned(),
            description: row.description().map(Cow::into_owned),
            score: 0.0,
            matched: vec![],
            snippet: String::new(),
            tier: row.stored_tier(),
            live: row.origin().map(|(client, _)| client.to_owned()),
        }
    }
}

fn prompt_result(row: &PromptRow) -> SearchResult {
    SearchResult {
        id: row.name.to_string(),
        uri: None,
        kind: HitKind::Prompt,
        title: row.name.to_string(),
        description: Some(row.definition.description.clone()),
        score: 0.0,
        matched: vec![],
        snippet: String::new(),
        tier: (!row.is_live()).then_some(row.tier),
        live: row.origin.as_ref().map(|origin| origin.client.to_string()),
    }
}
