//! Explanation of how a name was resolved.

use std::sync::Arc;

use serde::{Deserialize, Serialize};
use skills_core::{
    Caller, Owner, Tier,
    resolve::{self, Candidates},
};

use super::Catalog;

/// An id in a tier: a step of the resolution.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct ExplainedLayer {
    /// Tier; the private one is that of the caller.
    pub tier: Tier,
    /// Entry id.
    pub id: String,
}

/// Result and steps of the resolution of a name.
#[derive(Debug, Clone, PartialEq, Eq, Serialize, Deserialize)]
pub struct Explanation {
    /// Entry that the name resolves to. If its versions are all yanked, it serves nothing.
    pub answer: Option<ExplainedLayer>,
    /// Entries that it shadows, in order.
    pub shadows: Vec<ExplainedLayer>,
    /// Steps of the resolution, in order, up to that entry.
    pub tried: Vec<ExplainedLayer>,
}

impl Catalog {
    /// Explains the resolution of a skill's name for the caller of this view.
    #[must_use]
    pub fn explain(&self, caller: &Caller, name: &str) -> Explanation {
        let names = Candidates::new(name, self.prefix());
        let mut hits = self.hits(&names);
        let answer = hits.next();
        let shadows = hits.collect();
        // A caller without private entries shares the public view, but the private tier was tried first.
        let tiers = Tier::ALL.into_iter().filter(|tier| caller.layer(*tier).is_some());
        let mut tried: Vec<ExplainedLayer> = tiers
            .flat_map(|tier| names.iter().map(move |id| ExplainedLayer { tier, id: id.to_owned() }))
            .collect();
        if let Some(at) = tried.iter().position(|step| answer.as_ref() == Some(step)) {
            tried.truncate(at + 1);
        }
        Explanation { answer, shadows, tried }
    }

    /// Iterates over the entries that the names lead to, in the order of resolution.
    fn hits(&self, names: &Candidates<'_>) -> impl Iterator<Item = ExplainedLayer> {
        let slots = resolve::hits(&self.layers, names, |layer, id| layer.skills.slot(id));
        slots.map(|(layer, slot)| {
            let (tier, id) = (layer.layer.tier(), slot.id(|row| &row.id).to_string());
            ExplainedLayer { tier, id }
        })
    }

    /// Resolves the name of a skill for an owner.
    #[must_use]
    pub fn resolve_for(self: &Arc<Self>, owner: &Owner, name: &str) -> Option<ExplainedLayer> {
        let view = self.view_for_owner(Some(owner));
        view.hits(&Candidates::new(name, self.prefix())).next()
    }

    /// Returns the entries that shadow the skill of a tier for an owner.
    #[must_use]
    pub fn shadowed_by(
        self: &Arc<Self>,
        owner: &Owner,
        tier: Tier,
        id: &str,
    ) -> Vec<ExplainedLayer> {
        let view = self.view_for_owner(Some(owner));
        let is_other = |hit: &ExplainedLayer| hit.tier != tier || hit.id != id;
        view.hits(&Candidates::new(id, self.prefix())).take_while(is_other).collect()
    }
}
