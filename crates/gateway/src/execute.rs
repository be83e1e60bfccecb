//! `POST /v1/execute/{id}` and `POST /v1/execute`: execution of a tool.

use axum::{
    extract::{DefaultBodyLimit, State},
    response::Response,
};
use serde::Serialize;
use serde_json::{Map, Value};
use skills_core::{Caller, User, json_size::JsonSize};
use skills_execution::ToolCall;
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::{AuthenticatedUser, ResponseBudget},
    error::GatewayError,
    extractors::{JsonObjectBody, PathParam},
    openapi::ErrorResponse,
    response::{ResponseMetadata, Success, json_response},
};

/// Body limit in bytes: twice what a tool can be sent, which leaves room for escapes and field names. Parsed JSON takes
/// many times as much memory.
const MAX_BODY_BYTES: usize = 2 << 20;
/// Fields of a body that name the skill.
const NAME_FIELDS: [&str; 2] = ["skill_name", "skill"];
/// Fields of a body that hold the arguments.
const ARGUMENT_FIELDS: [&str; 2] = ["payload", "params"];
/// Field of a body that may repeat the user id; only the key identifies the caller.
const USER_FIELD: &str = "user_uid";

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(execute_named))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}

/// Call of a tool. Without `payload` and `params`, all other fields are the arguments.
#[derive(ToSchema)]
#[expect(dead_code, reason = "describes the request")]
struct ExecuteBody {
    /// Id or name of the skill; optional if the path has it.
    skill_name: Option<String>,
    /// Alias of `skill_name`.
    skill: Option<String>,
    /// Arguments of the tool.
    payload: Option<Map<String, Value>>,
    /// Alias of `payload`.
    params: Option<Map<String, Value>>,
}

/// Result of a tool.
#[derive(Debug, Serialize, ToSchema)]
struct ExecuteResponse {
    success: Success,
    /// Response of the upstream, as the manifest maps it.
    data: Value,
    #[serde(rename = "_uniskill")]
    about: ResponseMetadata,
}

/// Execute a skill
///
/// Executes the skill that the name resolves to, with the caller's secrets. Counts against the rate limit of the key.
#[utoipa::path(
    post,
    path = "/v1/execute/{id}",
    tag = "execution",
    params(("id" = String, Path, description = "Id of the skill, with or without the prefix")),
    request_body(content = ExecuteBody, description = "The arguments"),
    responses(
        (status = 200, description = "The result", body = ExecuteResponse),
        (status = 404, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
        (status = 502, response = ErrorResponse),
    ),
    security(("key" = [])),
)]
async fn execute(
    state: State<Gateway>,
    key: AuthenticatedUser,
    budget: ResponseBudget,
    PathParam(name): PathParam<String>,
    body: JsonObjectBody,
) -> Result<Response, GatewayError> {
    run(&state, key, budget, Some(name), body).await
}

/// Execute a skill that the body names
#[utoipa::path(
    post,
    path = "/v1/execute",
    tag = "execution",
    request_body(content = ExecuteBody, description = "The skill and the arguments"),
    responses(
        (status = 200, description = "The result", body = ExecuteResponse),
        (status = 404, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
        (status = 502, response = ErrorResponse),
    ),
    security(("key" = [])),
)]
async fn execute_named(
    state: State<Gateway>,
    key: AuthenticatedUser,
    budget: ResponseBudget,
    body: JsonObjectBody,
) -> Result<Response, GatewayError> {
    run(&state, key, budget, None, body).await
}

async fn run(
    gateway: &Gateway,
    AuthenticatedUser(user): AuthenticatedUser,
    budget: ResponseBudget,
    path: Option<String>,
    JsonObjectBody(mut body): JsonObjectBody,
) -> Result<Response, GatewayError> {
    check_user(&body, &user)?;
    let name = skill_name(path, &body)?;
    let arguments = take_arguments(&mut body)?;
    let executor = gateway.executor().await?;
    let about = ResponseMetadata::default();
    let request_id = Some(about.request_id.clone());
    budget.reserve(executor.max_response())?;
    let caller = &Caller::User(user);
    let data = executor.execute(ToolCall { caller, name: &name, arguments, request_id }).await?;
    budget.reserve(JsonSize::measure(&data).memory_size())?;
    Ok(json_response(ExecuteResponse { success: Success, data, about }))
}

/// Checks that the user id of a body, if any, is that of the key.
fn check_user(body: &Map<String, Value>, user: &User) -> Result<(), GatewayError> {
    match body.get(USER_FIELD) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(uid)) if uid == user.owner.as_str() => Ok(()),
        Some(_) => Err(GatewayError::OtherUser),
    }
}

/// Returns the name of the skill; path and body must agree.
fn skill_name(path: Option<String>, body: &Map<String, Value>) -> Result<String, GatewayError> {
    let mut name = path;
    for field in NAME_FIELDS {
        let named = match body.get(field) {
            None | Some(Value::Null) => continue,
            Some(Value::String(named)) => named,
            Some(_) => return Err(GatewayError::InvalidField { field, expected: "a string" }),
        };
        match &name {
            Some(name) if name != named => return Err(GatewayError::NamesDiffer),
            _ => name = Some(named.clone()),
        }
    }
    name.filter(|name| !name.is_empty()).ok_or(GatewayError::MissingSkill)
}

/// Takes the arguments from a body: `payload`, or else `params`, or else all remaining fields.
fn take_arguments(body: &mut Map<String, Value>) -> Result<Map<String, Value>, GatewayError> {
    for field in ARGUMENT_FIELDS {
        match body.remove(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(arguments)) => return Ok(arguments),
            Some(_) => return Err(GatewayError::InvalidField { field, expected: "an object" }),
        }
    }
    let is_argument =
        |(name, _): &(String, Value)| !NAME_FIELDS.contains(&&**name) && name != USER_FIELD;
    Ok(std::mem::take(body).into_iter().filter(is_argument).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn path_and_body_must_name_the_same_skill() {
        for (path, body, expected) in [
            (Some("a"), json!({}), Ok("a")),
            (None, json!({"skill_name": "a"}), Ok("a")),
            (None, json!({"skill": "a", "skill_name": null}), Ok("a")),
            (Some("a"), json!({"skill": "a", "skill_name": "a"}), Ok("a")),
            (Some("a"), json!({"skill": "b"}), Err("names_differ")),
            (None, json!({"skill": "b", "skill_name": "a"}), Err("names_differ")),
            (None, json!({"skill": 1}), Err("invalid_body")),
            (None, json!({"skill": ""}), Err("missing_skill")),
            (None, json!({}), Err("missing_skill")),
        ] {
            let found = skill_name(path.map(str::to_owned), &object(body.clone()));
            let found = found.map_err(|error| error.code().as_str().to_owned());
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{path:?} {body}");
        }
    }

    #[test]
    fn arguments_never_contain_the_name_or_the_user() {
        for (body, expected) in [
            (json!({"payload": {"a": 1}, "params": {"b": 2}, "c": 3}), json!({"a": 1})),
            (json!({"payload": null, "params": {"b": 2}}), json!({"b": 2})),
            (json!({"skill": "x", "user_uid": "ann", "c": 3}), json!({"c": 3})),
            (json!({}), json!({})),
        ] {
            let found = take_arguments(&mut object(body.clone())).unwrap();
            assert_eq!(Value::Object(found), expected, "{body}");
        }
        let error = take_arguments(&mut object(json!({"payload": [1]}))).unwrap_err();
        assert_eq!(error.code().as_str(), "invalid_body");
    }
}
