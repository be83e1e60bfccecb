//! Query of the first page.

use skills_core::Tier;
use skills_registry::search::{HitKind, KindFilter};

use crate::{HOME, components::with_query};

/// Longest search text.
const MAX_TEXT_CHARS: usize = 200;

/// Kind of entry.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Kind {
    Skill,
    Tool,
    Prompt,
}

impl Kind {
    pub(super) const ALL: [Self; 3] = [Self::Skill, Self::Tool, Self::Prompt];

    pub(super) const fn as_str(self) -> &'static str {
        match self {
            Self::Skill => "skill",
            Self::Tool => "tool",
            Self::Prompt => "prompt",
        }
    }

    /// Returns the filter of the search. Tools are skills too, so skills have none.
    pub(super) const fn filter(self) -> Option<KindFilter> {
        match self {
            Self::Skill => None,
            Self::Tool => Some(KindFilter::Kind(HitKind::Tool)),
            Self::Prompt => Some(KindFilter::Kind(HitKind::Prompt)),
        }
    }

    pub(super) const fn label(self) -> &'static str {
        match self {
            Self::Skill => "Skills",
            Self::Tool => "Tools",
            Self::Prompt => "Prompts",
        }
    }
}

/// Form of the results.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Default)]
pub(super) enum View {
    #[default]
    Cards,
    Table,
}

/// Filter by the place where an entry is.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) enum Place {
    Stored(Tier),
    Live,
}

/// Search text, filters and page.
#[derive(Debug, Clone, PartialEq, Eq, Default)]
pub(super) struct Query {
    pub(super) text: String,
    pub(super) kind: Option<Kind>,
    pub(super) place: Option<Place>,
    pub(super) tag: Option<String>,
    pub(super) source: Option<String>,
    pub(super) view: View,
    pub(super) page: usize,
}

impl Query {
    /// Parses a query string. What it does not know counts as absent, so that every address shows something.
    pub(super) fn parse(query: &str) -> Self {
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            let text = || Some(value.trim().to_owned()).filter(|text| !text.is_empty());
            match &*name {
                "q" => parsed.text = value.chars().take(MAX_TEXT_CHARS).collect(),
                "kind" => parsed.kind = Kind::ALL.into_iter().find(|kind| kind.as_str() == value),
                "tier" if value == "live" => parsed.place = Some(Place::Live),
                "tier" => parsed.place = value.parse().ok().map(Place::Stored),
                "tag" => parsed.tag = text(),
                "source" => parsed.source = text(),
                "view" if value == "table" => parsed.view = View::Table,
                "page" => parsed.page = value.parse::<u16>().map_or(0, usize::from),
                _ => {}
            }
        }
        parsed
    }

    /// Returns the tier that entries must be stored in.
    pub(super) const fn tier(&self) -> Option<Tier> {
        match self.place {
            Some(Place::Stored(tier)) => Some(tier),
            Some(Place::Live) | None => None,
        }
    }

    pub(super) const fn tier_name(&self) -> Option<&'static str> {
        match self.place {
            Some(Place::Stored(tier)) => Some(tier.as_str()),
            Some(Place::Live) => Some("live"),
            None => None,
        }
    }

    pub(super) const fn has_filters(&self) -> bool {
        self.kind.is_some() || self.place.is_some() || self.tag.is_some() || self.source.is_some()
    }

    pub(super) fn with_view(&self, view: View) -> Self {
        Self { view, ..self.clone() }
    }

    pub(super) fn with_text(&self, text: &str) -> Self {
        Self { text: text.to_owned(), page: 0, ..self.clone() }
    }

    pub(super) fn with_page(&self, page: usize) -> Self {
        Self { page, ..self.clone() }
    }

    /// Returns the address of the page with this query.
    pub(super) fn path(&self) -> String {
        let page = if self.page == 0 { String::new() } else { self.page.to_string() };
        with_query(
            HOME,
            &[
                ("q", self.text.as_str()),
                ("kind", self.kind.map_or("", Kind::as_str)),
                ("tier", self.tier_name().unwrap_or_default()),
                ("tag", self.tag.as_deref().unwrap_or_default()),
                ("source", self.source.as_deref().unwrap_or_default()),
                ("view", if self.view == View::Table { "table" } else { "" }),
                ("page", &page),
            ],
        )
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_query_round_trips_through_its_address() {
        let query = Query {
            text: "a&b=c \"<é>".to_owned(),
            kind: Some(Kind::Tool),
            place: Some(Place::Live),
            tag: Some("x y".to_owned()),
            source: Some("https://example.com/?a=b".to_owned()),
            view: View::Table,
            page: 3,
        };
        let path = query.path();
        assert_eq!(Query::parse(path.split_once('?').unwrap().1), query);
        assert_eq!(Query::default().path(), "/ui");
    }

    #[test]
    fn nonsense_counts_as_absent() {
        let query = Query::parse("kind=x&tier=y&page=-1&page=99999999&view=z&%FF=%FF&tag=%20");
        assert_eq!(query, Query::default());
        assert_eq!(Query::parse(&format!("q={}", "x".repeat(999))).text.len(), MAX_TEXT_CHARS);
    }
}
