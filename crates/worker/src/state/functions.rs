//! The functions `state::*`.

use std::sync::Arc;

use parking_lot::Mutex;
use serde::{Deserialize, Serialize, de::IgnoredAny};
use serde_json::{Value, value::RawValue};
use skills_bus::{Bus, FunctionSpec};
use skills_core::Code;
use skills_registry::{BusState, Refusal, RegistryError, StateChange, StateEntry, state::Swap};

use super::update::{self, Op, OpError};
use crate::register::Registrar;

/// Most bytes of a listing: half of the largest message, to leave room for its envelope.
const MAX_LISTING_BYTES: usize = 32 << 20;
/// Most bytes of a page of `state::list_entries`.
const MAX_PAGE_BYTES: usize = 8_000_000;
/// Most entries of a page of `state::list_entries`.
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
struct ChangeOutput {
    old_value: Option<Box<RawValue>>,
    new_value: Option<Box<RawValue>>,
    #[serde(skip_serializing_if = "Vec::is_empty")]
    errors: Vec<OpError>,
}

#[derive(Serialize)]
struct PageOutput {
    entries: Vec<(String, Box<RawValue>)>,
    next_cursor: Option<String>,
    done: bool,
    total: u64,
}

#[derive(Serialize)]
struct GroupsOutput {
    groups: Vec<String>,
}

#[derive(Serialize)]
struct SwapOutput {
    swapped: bool,
    value: Option<Box<RawValue>>,
}

impl From<StateChange> for ChangeOutput {
    fn from(change: StateChange) -> Self {
        let StateChange { old, new, .. } = change;
        Self { old_value: old.map(raw), new_value: new.map(raw), errors: vec![] }
    }
}

/// Returns stored text as JSON. Text that is corrupt becomes null.
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
    let functions = Registrar { bus, context: state.clone() };
    register_writes(&functions);
    register_reads(&functions);
}

fn register_writes(functions: &Registrar<'_, BusState>) {
    functions.typed(
        spec("state::set", "Store a value under a key of a scope."),
        |store, actor, SetInput { scope, key, value }: SetInput| {
            let write = store.set(&actor, scope, key, Box::<str>::from(value).into_string());
            async move { Ok(ChangeOutput::from(write.await?)) }
        },
    );
    functions.typed(
        spec("state::delete", "Remove a key of a scope and return its value."),
        |store, actor, KeyInput { scope, key }: KeyInput| {
            let write = store.delete(&actor, scope, key);
            async move { Ok(write.await?.old.map(raw)) }
        },
    );
    functions.typed(
        spec("state::update", "Change parts of a value in one step."),
        |store, actor, input: UpdateInput| update_value(store, &actor, input),
    );
    functions.typed(
        spec(
            "state::compare_and_set",
            "Store a value only if the key holds the expected one (null: nothing).",
        ),
        |store, actor, input: SwapInput| swap_value(store, &actor, input),
    );
}

fn register_reads(functions: &Registrar<'_, BusState>) {
    functions.typed(
        spec("state::get", "Read the value under a key of a scope."),
        |store, _, KeyInput { scope, key }: KeyInput| {
            let store = store.clone();
            async move { Ok(store.get(scope, key).await?.map(raw)) }
        },
    );
    functions.typed(
        spec("state::list", "Read all values of a scope."),
        |store, _, ScopeInput { scope }: ScopeInput| list(store.clone(), scope),
    );
    functions.typed(
        spec("state::list_entries", "Read the keys and values of a scope page by page."),
        |store, _, input: PageInput| page(store.clone(), input),
    );
    functions.typed(
        spec("state::list_groups", "List the scopes that have values."),
        |store, _, _: IgnoredAny| {
            let store = store.clone();
            async move { Ok(GroupsOutput { groups: store.scopes().await? }) }
        },
    );
}

async fn list(store: BusState, scope: String) -> Result<Vec<Box<RawValue>>, RegistryError> {
    let (count, bytes) = store.size(scope.clone()).await?;
    if bytes > MAX_LISTING_BYTES as u64 {
        return Err(RegistryError::Remote {
            code: Code::PayloadTooLarge.into(),
            message: format!(
                "scope {scope:?} has {count} values of {bytes} bytes; read it with state::list_entries"
            ),
        });
    }
    let entries = store.page(scope, 0, i64::MAX as usize, MAX_LISTING_BYTES).await?;
    Ok(entries.into_iter().map(|entry| raw(entry.value)).collect())
}

/// Parses a cursor: the position of the last entry, and the number of entries at the time of the first page.
fn parse_cursor(cursor: &str) -> Option<(i64, u64)> {
    let (position, total) = cursor.split_once('.')?;
    Some((position.parse().ok()?, total.parse().ok()?))
}

async fn page(store: BusState, input: PageInput) -> Result<PageOutput, RegistryError> {
    let PageInput { scope, limit, max_bytes, cursor } = input;
    let (after, total) = match cursor.as_deref().map(parse_cursor) {
        // Counted once for all pages: counting takes linear time.
        None => (0, store.size(scope.clone()).await?.0),
        Some(Some(cursor)) => cursor,
        Some(None) => {
            return Err(RegistryError::Remote {
                code: Code::InvalidInput.into(),
                message: "invalid cursor: it is not one of state::list_entries".to_owned(),
            });
        }
    };
    let limit = limit.unwrap_or(100).clamp(1, MAX_PAGE_ENTRIES);
    let max_bytes = max_bytes.unwrap_or(MAX_PAGE_BYTES).min(MAX_PAGE_BYTES);
    let mut entries = store.page(scope.clone(), after, limit + 1, max_bytes).await?;
    let mut count = 0;
    let mut bytes = 0;
    for StateEntry { value, .. } in entries.iter().take(limit) {
        bytes += value.len();
        // A page has at least one value, or a large one could never be read.
        if bytes > max_bytes && count > 0 {
            break;
        }
        count += 1;
    }
    let mut done = count == entries.len();
    if let Some(last) = entries.last().filter(|_| done && bytes > max_bytes) {
        // The store stopped at a value that is larger than the page; more entries may follow.
        done = store.page(scope, last.position, 1, 0).await?.is_empty();
    }
    entries.truncate(count);
    let cursor = |entry: &StateEntry| format!("{}.{total}", entry.position);
    let next_cursor = entries.last().filter(|_| !done).map(cursor);
    let entries = entries.into_iter().map(|entry| (entry.key, raw(entry.value))).collect();
    Ok(PageOutput { entries, next_cursor, done, total })
}

fn update_value(
    store: &BusState,
    actor: &str,
    UpdateInput { scope, key, ops }: UpdateInput,
) -> impl Future<Output = Result<ChangeOutput, RegistryError>> + Send + use<> {
    let errors = Arc::new(Mutex::new(Vec::new()));
    let op_errors = Arc::clone(&errors);
    let compute = move |current: Option<&str>| {
        let mut value = parse(current)?;
        *op_errors.lock() = update::apply(&mut value, &ops);
        Ok(value.to_string())
    };
    let write = store.compute(actor, scope, key, Arc::new(compute));
    async move {
        match write.await? {
            Swap::Done(change) => {
                let errors = std::mem::take(&mut *errors.lock());
                Ok(ChangeOutput { errors, ..ChangeOutput::from(change) })
            }
            Swap::Conflict(_) => Err(RegistryError::Unexpected("an update")),
        }
    }
}

fn swap_value(
    store: &BusState,
    actor: &str,
    SwapInput { scope, key, expected, value }: SwapInput,
) -> impl Future<Output = Result<SwapOutput, RegistryError>> + Send + use<> {
    let new = value.to_string();
    // Values are compared, not texts: one value has several spellings.
    let compute = move |current: Option<&str>| {
        if parse(current)? == expected { Ok(new.clone()) } else { Err(Refusal::Conflict) }
    };
    let write = store.compute(actor, scope, key, Arc::new(compute));
    async move {
        Ok(match write.await? {
            Swap::Done(change) => SwapOutput { swapped: true, value: change.new.map(raw) },
            Swap::Conflict(current) => SwapOutput { swapped: false, value: current.map(raw) },
        })
    }
}

/// Parses a stored value; a missing one is null.
fn parse(stored: Option<&str>) -> Result<Value, Refusal> {
    stored.map_or(Ok(Value::Null), |text| {
        serde_json::from_str(text).map_err(|error| Refusal::Unreadable(error.to_string()))
    })
}
