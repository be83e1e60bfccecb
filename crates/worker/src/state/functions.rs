//! The functions `state::*`.

use std::sync::{Arc, Mutex, PoisonError};

use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use skills_bus::{Bus, FunctionSpec};
use skills_registry::{BusState, RegistryError, state::Swap};
use skills_store::{Refusal, StateChange, StateEntry};

use super::update::{self, Op, OpError};
use crate::offer::offer;

/// What one listing may weigh; half of what a message may, to leave room for what is around it.
const MAX_LISTING_BYTES: usize = 32 << 20;
/// The largest page of `state::list_entries`.
const MAX_PAGE_BYTES: usize = 8_000_000;
const MAX_PAGE_ENTRIES: usize = 1000;

#[derive(Deserialize)]
struct SetInput {
    scope: String,
    key: String,
    #[serde(alias = "data")]
    value: Box<RawValue>,
}

#[derive(Deserialize)]
struct KeyInput {
    scope: String,
    key: String,
}

#[derive(Deserialize)]
struct ScopeInput {
    scope: String,
}

#[derive(Deserialize)]
struct PageInput {
    scope: String,
    limit: Option<usize>,
    max_bytes: Option<usize>,
    cursor: Option<String>,
}

#[derive(Deserialize)]
struct UpdateInput {
    scope: String,
    key: String,
    ops: Vec<Op>,
}

#[derive(Deserialize)]
struct SwapInput {
    scope: String,
    key: String,
    #[serde(default)]
    expected: Value,
    value: Value,
}

#[derive(Serialize)]
struct Changed {
    old_value: Option<Box<RawValue>>,
    new_value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<OpError>,
}

#[derive(Serialize)]
struct Page {
    entries: Vec<(String, Box<RawValue>)>,
    next_cursor: Option<String>,
    done: bool,
    total: u64,
}

#[derive(Serialize)]
struct Groups {
    groups: Vec<String>,
}

#[derive(Serialize)]
struct Swapped {
    swapped: bool,
    value: Option<Box<RawValue>>,
}

impl From<StateChange> for Changed {
    fn from(change: StateChange) -> Self {
        let StateChange { old, new, .. } = change;
        Self { old_value: old.map(raw), new_value: new.map(raw), errors: vec![] }
    }
}

/// Stored text as JSON. It was JSON when it was stored; should it no longer be, it is shown as null.
fn raw(text: String) -> Box<RawValue> {
    RawValue::from_string(text).unwrap_or_else(|_| RawValue::NULL.to_owned())
}

fn spec(id: &str, description: &str) -> FunctionSpec {
    FunctionSpec {
        id: id.to_owned(),
        description: description.to_owned(),
        ..FunctionSpec::default()
    }
}

pub(super) fn register(bus: &dyn Bus, state: &BusState) {
    register_writes(bus, state);
    register_reads(bus, state);
}

fn register_writes(bus: &dyn Bus, state: &BusState) {
    let store = state.clone();
    offer(
        bus,
        spec("state::set", "Store a value under a key of a scope."),
        move |actor, SetInput { scope, key, value }: SetInput| {
            let write = store.set(&actor, scope, key, Box::<str>::from(value).into_string());
            async move { Ok(Changed::from(write.await?)) }
        },
    );
    let store = state.clone();
    offer(
        bus,
        spec("state::delete", "Remove a key of a scope and return what it held."),
        move |actor, KeyInput { scope, key }: KeyInput| {
            let write = store.delete(&actor, scope, key);
            async move { Ok(write.await?.old.map(raw)) }
        },
    );
    let store = state.clone();
    offer(
        bus,
        spec("state::update", "Change parts of a value in one step."),
        move |actor, input: UpdateInput| update_value(&store, &actor, input),
    );
    let store = state.clone();
    offer(
        bus,
        spec(
            "state::compare_and_set",
            "Store a value only if the key holds the expected one (null: nothing).",
        ),
        move |actor, input: SwapInput| swap_value(&store, &actor, input),
    );
}

fn register_reads(bus: &dyn Bus, state: &BusState) {
    let store = state.clone();
    offer(
        bus,
        spec("state::get", "Read the value under a key of a scope."),
        move |_, KeyInput { scope, key }: KeyInput| {
            let store = store.clone();
            async move { Ok(store.get(scope, key).await?.map(raw)) }
        },
    );
    let store = state.clone();
    offer(
        bus,
        spec("state::list", "Read all values of a scope."),
        move |_, ScopeInput { scope }: ScopeInput| list(store.clone(), scope),
    );
    let store = state.clone();
    offer(
        bus,
        spec("state::list_entries", "Read the keys and values of a scope page by page."),
        move |_, input: PageInput| page(store.clone(), input),
    );
    let store = state.clone();
    offer(
        bus,
        spec("state::list_groups", "List the scopes that hold something."),
        move |_, _: IgnoredAny| {
            let store = store.clone();
            async move { Ok(Groups { groups: store.scopes().await? }) }
        },
    );
}

async fn list(store: BusState, scope: String) -> Result<Vec<Box<RawValue>>, RegistryError> {
    let (count, bytes) = store.size(scope.clone()).await?;
    if bytes > MAX_LISTING_BYTES as u64 {
        return Err(RegistryError::Remote {
            code: "payload_too_large".to_owned(),
            message: format!(
                "scope {scope:?} has {count} values of {bytes} bytes; read it with state::list_entries"
            ),
        });
    }
    let entries = store.page(scope, 0, i64::MAX as usize, MAX_LISTING_BYTES).await?;
    Ok(entries.into_iter().map(|entry| raw(entry.value)).collect())
}

/// Where a page begins, and how many entries there were when the first was read.
fn parse_cursor(cursor: &str) -> Option<(i64, u64)> {
    let (position, total) = cursor.split_once('.')?;
    Some((position.parse().ok()?, total.parse().ok()?))
}

async fn page(store: BusState, input: PageInput) -> Result<Page, RegistryError> {
    let PageInput { scope, limit, max_bytes, cursor } = input;
    let (after, total) = match cursor.as_deref().map(parse_cursor) {
        // Counted once for all pages: that takes as long as there are entries.
        None => (0, store.size(scope.clone()).await?.0),
        Some(Some(place)) => place,
        Some(None) => {
            return Err(RegistryError::Remote {
                code: "invalid_input".to_owned(),
                message: "cursor is not one that state::list_entries gave".to_owned(),
            });
        }
    };
    let limit = limit.unwrap_or(100).clamp(1, MAX_PAGE_ENTRIES);
    let max_bytes = max_bytes.unwrap_or(MAX_PAGE_BYTES).min(MAX_PAGE_BYTES);
    let mut entries = store.page(scope.clone(), after, limit + 1, max_bytes).await?;
    let mut fits = 0;
    let mut bytes = 0;
    for StateEntry { value, .. } in entries.iter().take(limit) {
        bytes += value.len();
        // One value is always sent, or a large one could never be read.
        if bytes > max_bytes && fits > 0 {
            break;
        }
        fits += 1;
    }
    let mut done = fits == entries.len();
    if let Some(last) = entries.last().filter(|_| done && bytes > max_bytes) {
        // The store stopped at a value that is larger than the page; more may be behind it.
        done = store.page(scope, last.position, 1, 0).await?.is_empty();
    }
    entries.truncate(fits);
    let cursor = |entry: &StateEntry| format!("{}.{total}", entry.position);
    let next_cursor = entries.last().filter(|_| !done).map(cursor);
    let entries = entries.into_iter().map(|entry| (entry.key, raw(entry.value))).collect();
    Ok(Page { entries, next_cursor, done, total })
}

fn update_value(
    store: &BusState,
    actor: &str,
    UpdateInput { scope, key, ops }: UpdateInput,
) -> impl Future<Output = Result<Changed, RegistryError>> + Send + use<> {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let noted = Arc::clone(&errors);
    let compute = move |present: Option<&str>| {
        let mut value = parse(present)?;
        *noted.lock().unwrap_or_else(PoisonError::into_inner) = update::apply(&mut value, &ops);
        Ok(value.to_string())
    };
    let write = store.compute(actor, scope, key, Arc::new(compute));
    async move {
        match write.await? {
            Swap::Done(change) => {
                let errors =
                    std::mem::take(&mut *errors.lock().unwrap_or_else(PoisonError::into_inner));
                Ok(Changed { errors, ..Changed::from(change) })
            }
            Swap::Conflict(_) => Err(RegistryError::Unexpected("an update")),
        }
    }
}

fn swap_value(
    store: &BusState,
    actor: &str,
    SwapInput { scope, key, expected, value }: SwapInput,
) -> impl Future<Output = Result<Swapped, RegistryError>> + Send + use<> {
    let new = value.to_string();
    // The same value may be written in more than one way, so values are compared, not texts.
    let compute = move |present: Option<&str>| {
        if parse(present)? == expected { Ok(new.clone()) } else { Err(Refusal::Conflict) }
    };
    let write = store.compute(actor, scope, key, Arc::new(compute));
    async move {
        Ok(match write.await? {
            Swap::Done(change) => Swapped { swapped: true, value: change.new.map(raw) },
            Swap::Conflict(current) => Swapped { swapped: false, value: current.map(raw) },
        })
    }
}

/// A stored value; nothing is null.
fn parse(present: Option<&str>) -> Result<Value, Refusal> {
    present.map_or(Ok(Value::Null), |text| {
        serde_json::from_str(text).map_err(|error| Refusal::Unreadable(error.to_string()))
    })
}
