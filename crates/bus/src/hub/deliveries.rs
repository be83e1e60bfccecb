//! Calls that must be brought once and in turn, also when their caller has to send them again
//! because its connection broke before the answer came.
//!
//! Such a call says so in its metadata: `{"delivery": {"lane", "number", "answered"}}`, where the
//! caller numbers the calls of a lane from 1 and says up to which of them it needs no answer any
//! more. A number that was brought before is answered and not brought again; one whose turn it is
//! not is refused, and the caller sends it again after those that are missing.

use std::{
    collections::HashMap,
    sync::{Arc, Mutex, PoisonError},
};

use serde::Deserialize;
use serde_json::value::RawValue;
use uuid::Uuid;

use crate::{CallError, OUT_OF_TURN};

/// How many lanes are remembered. Of those that were used longest ago, half are forgotten, which
/// only matters to a call that is sent again just then.
const LANES: usize = 8192;

/// What a call says of its delivery.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    lane: Uuid,
    number: u64,
    answered: u64,
}

impl Delivery {
    /// Reads a call's metadata; what is not of this shape is somebody else's.
    pub(super) fn of(metadata: Option<&RawValue>) -> Option<Self> {
        #[derive(Deserialize)]
        struct Metadata<'a> {
            #[serde(borrow)]
            delivery: Parts<'a>,
        }
        #[derive(Deserialize)]
        struct Parts<'a> {
            lane: &'a str,
            number: u64,
            #[serde(default)]
            answered: u64,
        }
        let text = metadata?.get();
        if !text.contains("\"delivery\"") {
            return None;
        }
        let Parts { lane, number, answered } =
            serde_json::from_str::<Metadata<'_>>(text).ok()?.delivery;
        Some(Self { lane: Uuid::try_parse(lane).ok()?, number, answered })
    }
}

/// Whether a call was brought now, or had been before.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum Brought {
    Now,
    Before,
}

#[derive(Debug, Default)]
struct Lane {
    /// The last number that was brought. Locked while the next is.
    last: Arc<Mutex<u64>>,
    used: u64,
}

#[derive(Debug, Default)]
struct Table {
    lanes: HashMap<Uuid, Lane>,
    uses: u64,
}

#[derive(Debug, Default)]
pub(super) struct Deliveries(Mutex<Table>);

impl Deliveries {
    /// Brings a call, if it is its turn.
    ///
    /// # Errors
    /// That of `bring`, or that it is not.
    pub(super) fn once(
        &self,
        delivery: Delivery,
        bring: impl FnOnce() -> Result<(), CallError>,
    ) -> Result<Brought, CallError> {
        let lane = self.lane(delivery.lane);
        let mut last = lane.lock().unwrap_or_else(PoisonError::into_inner);
        *last = (*last).max(delivery.answered);
        if delivery.number <= *last {
            return Ok(Brought::Before);
        }
        let missing = last.saturating_add(1);
        if delivery.number > missing {
            return Err(CallError::remote(
                OUT_OF_TURN,
                format!("call {missing} of this lane has not come; send it first"),
            ));
        }
        bring()?;
        *last = delivery.number;
        Ok(Brought::Now)
    }

    fn lane(&self, id: Uuid) -> Arc<Mutex<u64>> {
        let mut table = self.0.lock().unwrap_or_else(PoisonError::into_inner);
        table.uses += 1;
        let now = table.uses;
        if table.lanes.len() >= LANES && !table.lanes.contains_key(&id) {
            let mut used: Vec<u64> = table.lanes.values().map(|lane| lane.used).collect();
            let (_, median, _) = used.select_nth_unstable(LANES / 2);
            let oldest = *median;
            table.lanes.retain(|_, lane| lane.used > oldest);
        }
        let lane = table.lanes.entry(id).or_default();
        lane.used = now;
        Arc::clone(&lane.last)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use super::*;

    fn delivery(number: u64, answered: u64) -> Delivery {
        Delivery { lane: Uuid::from_u128(7), number, answered }
    }

    #[test]
    fn each_number_is_brought_once_and_in_turn() {
        let deliveries = Deliveries::default();
        let brought = |number, answered| deliveries.once(delivery(number, answered), || Ok(()));
        assert_eq!(brought(1, 0), Ok(Brought::Now));
        assert_eq!(brought(1, 0), Ok(Brought::Before));
        assert_eq!(brought(3, 0).unwrap_err().code(), OUT_OF_TURN);
        assert_eq!(brought(2, 0), Ok(Brought::Now));
        assert_eq!(brought(3, 0), Ok(Brought::Now));
        // A hub that has forgotten, or that has just started, goes on where its caller is.
        assert_eq!(brought(9, 8), Ok(Brought::Now));
        assert_eq!(brought(8, 7), Ok(Brought::Before));
    }

    #[test]
    fn what_was_refused_may_come_again() {
        let deliveries = Deliveries::default();
        let refuse = || Err(CallError::NotFound("f".into()));
        assert!(deliveries.once(delivery(1, 0), refuse).is_err());
        assert_eq!(deliveries.once(delivery(1, 0), || Ok(())), Ok(Brought::Now));
    }

    #[test]
    fn the_number_of_lanes_is_bounded() {
        let deliveries = Deliveries::default();
        for lane in 0..3 * LANES as u128 {
            let delivery = Delivery { lane: Uuid::from_u128(lane), number: 1, answered: 0 };
            assert_eq!(deliveries.once(delivery, || Ok(())), Ok(Brought::Now));
            // One that is used is not forgotten.
            let used = Delivery { lane: Uuid::from_u128(0), number: 1, answered: 0 };
            assert_eq!(deliveries.once(used, || Ok(())), Ok(Brought::Before));
        }
        assert!(deliveries.0.lock().unwrap().lanes.len() <= LANES);
    }

    #[test]
    fn metadata_of_others_is_left_alone() {
        let of = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            Delivery::of(Some(&raw))
        };
        let lane = Uuid::from_u128(7).to_string();
        let ours = format!(r#"{{"x":1,"delivery":{{"lane":"{lane}","number":2,"answered":1}}}}"#);
        assert_eq!(of(&ours), Some(delivery(2, 1)));
        for other in [
            "null",
            "7",
            r#"{"delivery":7}"#,
            r#"{"delivery":{"lane":"x","number":1}}"#,
            r#"{"delivery":{"lane":"00000000-0000-0000-0000-000000000007","number":-1}}"#,
        ] {
            assert_eq!(of(other), None, "{other}");
        }
        assert_eq!(Delivery::of(None), None);
    }
}
