//! Deduplication of calls that must be delivered once and in order, also if the caller sends them again because its
//! connection broke before the answer.
//!
//! Such a call has the metadata `{"delivery": {"lane", "number", "answered"}}`: the caller numbers the calls of a lane
//! from 1, and `answered` is the number up to which it has all answers. A duplicate is answered and not delivered; a call
//! out of order is rejected, and the caller sends it again after the missing ones.

use std::{collections::HashMap, sync::Arc};

use parking_lot::Mutex;
use serde::Deserialize;
use serde_json::value::RawValue;
use skills_core::Code;
use uuid::Uuid;

use crate::CallError;

/// Capacity of the table. When it is full, the least recently used half is evicted, which only matters to a call that is
/// sent again just then.
const MAX_LANES: usize = 8192;

/// Delivery metadata of a call.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub(super) struct Delivery {
    lane: Uuid,
    number: u64,
    answered: u64,
}

impl Delivery {
    /// Parses the metadata of a call; `None` for metadata of another shape.
    pub(super) fn from_metadata(metadata: Option<&RawValue>) -> Option<Self> {
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

/// Result of a delivery.
#[derive(Debug, PartialEq, Eq)]
pub(super) enum DeliveryOutcome {
    Delivered,
    Duplicate,
}

#[derive(Debug, Default)]
struct Lane {
    /// Last delivered number. Locked during the next delivery.
    last: Arc<Mutex<u64>>,
    last_used: u64,
}

#[derive(Debug, Default)]
struct Table {
    lanes: HashMap<Uuid, Lane>,
    uses: u64,
}

#[derive(Debug, Default)]
pub(super) struct Deliveries(Mutex<Table>);

impl Deliveries {
    /// Delivers a call if it is the next of its lane.
    ///
    /// # Errors
    /// The error of `deliver`, or [`Code::DeliveryOutOfTurn`].
    pub(super) fn deliver_once(
        &self,
        delivery: Delivery,
        deliver: impl FnOnce() -> Result<(), CallError>,
    ) -> Result<DeliveryOutcome, CallError> {
        let lane = self.lane(delivery.lane);
        let mut last = lane.lock();
        *last = (*last).max(delivery.answered);
        if delivery.number <= *last {
            return Ok(DeliveryOutcome::Duplicate);
        }
        let missing = last.saturating_add(1);
        if delivery.number > missing {
            return Err(CallError::remote(
                Code::DeliveryOutOfTurn,
                format!("call {missing} of this lane is missing; send it first"),
            ));
        }
        deliver()?;
        *last = delivery.number;
        Ok(DeliveryOutcome::Delivered)
    }

    fn lane(&self, id: Uuid) -> Arc<Mutex<u64>> {
        let mut table = self.0.lock();
        table.uses += 1;
        let now = table.uses;
        if table.lanes.len() >= MAX_LANES && !table.lanes.contains_key(&id) {
            let mut used: Vec<u64> = table.lanes.values().map(|lane| lane.last_used).collect();
            let (_, median, _) = used.select_nth_unstable(MAX_LANES / 2);
            let oldest = *median;
            table.lanes.retain(|_, lane| lane.last_used > oldest);
        }
        let lane = table.lanes.entry(id).or_default();
        lane.last_used = now;
        Arc::clone(&lane.last)
    }
}

#[cfg(test)]
mod tests {
    #![allow(clippy::unwrap_used)]

    use skills_core::Coded as _;

    use super::*;

    fn delivery(number: u64, answered: u64) -> Delivery {
        Delivery { lane: Uuid::from_u128(7), number, answered }
    }

    #[test]
    fn each_number_is_delivered_once_and_in_order() {
        let deliveries = Deliveries::default();
        let deliver =
            |number, answered| deliveries.deliver_once(delivery(number, answered), || Ok(()));
        assert_eq!(deliver(1, 0), Ok(DeliveryOutcome::Delivered));
        assert_eq!(deliver(1, 0), Ok(DeliveryOutcome::Duplicate));
        assert_eq!(deliver(3, 0).unwrap_err().code(), Code::DeliveryOutOfTurn);
        assert_eq!(deliver(2, 0), Ok(DeliveryOutcome::Delivered));
        assert_eq!(deliver(3, 0), Ok(DeliveryOutcome::Delivered));
        // A hub that has evicted the lane, or has just started, continues where its caller is.
        assert_eq!(deliver(9, 8), Ok(DeliveryOutcome::Delivered));
        assert_eq!(deliver(8, 7), Ok(DeliveryOutcome::Duplicate));
    }

    #[test]
    fn a_failed_call_may_be_delivered_again() {
        let deliveries = Deliveries::default();
        let fail = || Err(CallError::NotFound("f".into()));
        assert!(deliveries.deliver_once(delivery(1, 0), fail).is_err());
        assert_eq!(
            deliveries.deliver_once(delivery(1, 0), || Ok(())),
            Ok(DeliveryOutcome::Delivered)
        );
    }

    #[test]
    fn the_number_of_lanes_is_bounded() {
        let deliveries = Deliveries::default();
        for lane in 0..3 * MAX_LANES as u128 {
            let delivery = Delivery { lane: Uuid::from_u128(lane), number: 1, answered: 0 };
            assert_eq!(
                deliveries.deliver_once(delivery, || Ok(())),
                Ok(DeliveryOutcome::Delivered)
            );
            // A lane in use is not evicted.
            let used = Delivery { lane: Uuid::from_u128(0), number: 1, answered: 0 };
            assert_eq!(deliveries.deliver_once(used, || Ok(())), Ok(DeliveryOutcome::Duplicate));
        }
        assert!(deliveries.0.lock().lanes.len() <= MAX_LANES);
    }

    #[test]
    fn other_metadata_is_ignored() {
        let of = |text: &str| {
            let raw = RawValue::from_string(text.to_owned()).unwrap();
            Delivery::from_metadata(Some(&raw))
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
        assert_eq!(Delivery::from_metadata(None), None);
    }
}
