//! Why a name leads to what it leads to.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skills_core::{
    Caller, Owner, Tier,
    resolve::{self, Candidates, TIERS},
};

use super::Catalog;

/// A place where an entry may be.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Place {
    /// Which tier; a private one is that of the caller.
    pub tier: Tier,
    /// Under which id.
    pub id: String,
}

/// What a name leads to, and past what.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Where the entry is that answers, if there is one.
    pub answer: Option<Place>,
    /// The entries that would answer if it did not, in order.
    pub shadows: Vec<Place>,
    /// Where was looked, in order, up to the entry that answers.
    pub tried: Vec<Place>,
}

impl Catalog {
    /// Why a skill's name leads where it leads, for whom this view was made.
    #[must_use]
    pub fn explain(&self, caller: &Caller, name: &str) -> Explanation {
        let names = Candidates::new(name, self.prefix());
        let mut places = self.places(&names);
        let answer = places.next();
        let shadows = places.collect();
        // Who has no private entry shares a view with everyone, and was looked for all the same.
        let tiers = TIERS.into_iter().filter(|tier| caller.layer(*tier).is_some());
        let mut tried: Vec<Place> = tiers
            .flat_map(|tier| names.iter().map(move |id| Place { tier, id: id.to_owned() }))
            .collect();
        if let Some(at) = tried.iter().position(|place| answer.as_ref() == Some(place)) {
            tried.truncate(at + 1);
        }
        Explanation { answer, shadows, tried }
    }

    /// Every place where one of the names leads to something, in order.
    fn places(&self, names: &Candidates<'_>) -> impl Iterator<Item = Place> {
        let hits = resolve::hits(&self.layers, names, |shelf, id| shelf.skills.get(id));
        hits.map(|(_, row)| Place { tier: row.tier, id: row.id.to_string() })
    }

    /// Where a name leads for an owner.
    #[must_use]
    pub fn answer_for(self: &Arc<Self>, owner: &Owner, name: &str) -> Option<Place> {
        let view = self.of_owner(Some(owner));
        view.places(&Candidates::new(name, self.prefix())).next()
    }

    /// The entries that answer to an id before the one that a tier has under it, for an owner.
    #[must_use]
    pub fn before(self: &Arc<Self>, owner: &Owner, tier: Tier, id: &str) -> Vec<Place> {
        let view = self.of_owner(Some(owner));
        let is_other = |place: &Place| place.tier != tier || place.id != id;
        view.places(&Candidates::new(id, self.prefix())).take_while(is_other).collect()
    }
}
