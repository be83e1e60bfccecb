//! Built-in tools: `list_skills`, `read_skill` and `search_skills`, for hosts that cannot read resources.

mod listing;
mod read;
mod schemas;

use rmcp::model::{CallToolResult, JsonObject};
use serde::de::DeserializeOwned;
use serde_json::Value;

pub(crate) use self::read::{ReadReservation, read_one};
pub(super) use self::schemas::TOOLS;
use super::failed;
use crate::{budget::ResponseBudget, server::Shared};

/// Calls a built-in tool; `None` for any other name.
pub(super) async fn call(
    shared: &Shared,
    budget: &ResponseBudget,
    name: &str,
    arguments: &JsonObject,
) -> Option<CallToolResult> {
    let result = match name {
        "list_skills" => match parse(arguments) {
            Ok(input) => listing::list(shared, input).await,
            Err(reason) => Err(reason),
        },
        "read_skill" => match parse(arguments) {
            Ok(input) => read::read(shared, budget, input).await,
            Err(reason) => Err(reason),
        },
        "search_skills" => match parse(arguments) {
            Ok(input) => listing::find(shared, input).await,
            Err(reason) => Err(reason),
        },
        _ => return None,
    };
    Some(result.unwrap_or_else(|reason| failed(format!("{name}: {reason}"))))
}

fn parse<T: DeserializeOwned>(arguments: &JsonObject) -> Result<T, String> {
    serde_json::from_value(Value::Object(arguments.clone())).map_err(|error| error.to_string())
}
