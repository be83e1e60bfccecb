//! `POST /v1/execute/{id}` and `POST /v1/execute`: calling a tool.

use axum::{
    extract::{DefaultBodyLimit, State},
    response::Response,
};
use serde::Serialize;
use serde_json::{Map, Value};
use skills_core::{Caller, User};
use utoipa::ToSchema;
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::WithKey,
    envelope::{About, Success, answer},
    error::GatewayError,
    input::{Named, SentObject},
    openapi::Refused,
};

/// Most bytes of a body. A tool is sent half of it at most; what is more is escapes and the names around it. As a
/// tree it takes many times the memory.
const MAX_BODY_BYTES: usize = 2 << 20;
/// Which skill, in a body.
const NAMES: [&str; 2] = ["skill_name", "skill"];
/// What it is called with, in a body.
const ARGUMENTS: [&str; 2] = ["payload", "params"];
/// Who calls, in a body; only the key says that.
const UID: &str = "user_uid";

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new()
        .routes(routes!(execute))
        .routes(routes!(execute_named))
        .layer(DefaultBodyLimit::max(MAX_BODY_BYTES))
}

/// A call. Without `payload` and `params`, all other fields are what the tool is called with.
#[derive(ToSchema)]
#[expect(dead_code, reason = "it describes")]
struct ExecuteBody {
    /// The skill; in the path it need not be repeated.
    skill_name: Option<String>,
    /// Another name of `skill_name`.
    skill: Option<String>,
    /// What the tool is called with.
    payload: Option<Map<String, Value>>,
    /// Another name of `payload`.
    params: Option<Map<String, Value>>,
}

/// What a tool answered.
#[derive(Debug, Serialize, ToSchema)]
struct Executed {
    success: Success,
    /// The answer, as the manifest maps it.
    data: Value,
    #[serde(rename = "_uniskill")]
    about: About,
}

/// Execute a skill
///
/// The one that answers to the name, with the secrets of the caller. Counts as a use of the key.
#[utoipa::path(
    post,
    path = "/v1/execute/{id}",
    tag = "execution",
    params(("id" = String, Path, description = "Its id, with or without the prefix")),
    request_body(content = ExecuteBody, description = "What it is called with"),
    responses(
        (status = 200, description = "What it answered", body = Executed),
        (status = 404, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
        (status = 429, response = Refused),
        (status = 502, response = Refused),
    ),
    security(("key" = [])),
)]
async fn execute(
    state: State<Gateway>,
    key: WithKey,
    Named(name): Named<String>,
    body: SentObject,
) -> Result<Response, GatewayError> {
    run(&state, key, Some(name), body).await
}

/// Execute a skill that the body names
#[utoipa::path(
    post,
    path = "/v1/execute",
    tag = "execution",
    request_body(content = ExecuteBody, description = "Which skill, and what it is called with"),
    responses(
        (status = 200, description = "What it answered", body = Executed),
        (status = 404, response = Refused),
        (status = 415, response = Refused),
        (status = 422, response = Refused),
        (status = 429, response = Refused),
        (status = 502, response = Refused),
    ),
    security(("key" = [])),
)]
async fn execute_named(
    state: State<Gateway>,
    key: WithKey,
    body: SentObject,
) -> Result<Response, GatewayError> {
    run(&state, key, None, body).await
}

async fn run(
    gateway: &Gateway,
    WithKey(user): WithKey,
    path: Option<String>,
    SentObject(mut body): SentObject,
) -> Result<Response, GatewayError> {
    is_of_caller(&body, &user)?;
    let name = name(path, &body)?;
    let arguments = arguments(&mut body)?;
    let registry = gateway.registry().await?;
    let about = About::default();
    let request_id = Some(about.request_id.clone());
    let caller = Caller::User(user);
    let called = registry.call_tool_as(&caller, &name, arguments, request_id);
    let data = called.await?;
    Ok(answer(Executed { success: Success, data, about }))
}

/// A body may repeat whose key it is, and say nothing else about it.
fn is_of_caller(body: &Map<String, Value>, user: &User) -> Result<(), GatewayError> {
    match body.get(UID) {
        None | Some(Value::Null) => Ok(()),
        Some(Value::String(uid)) if uid == user.owner.as_str() => Ok(()),
        Some(_) => Err(GatewayError::OtherUser),
    }
}

/// What is to be executed; where several places name it, they agree.
fn name(path: Option<String>, body: &Map<String, Value>) -> Result<String, GatewayError> {
    let mut name = path;
    for field in NAMES {
        let named = match body.get(field) {
            None | Some(Value::Null) => continue,
            Some(Value::String(named)) => named,
            Some(_) => return Err(GatewayError::Field { field, expected: "a string" }),
        };
        match &name {
            Some(name) if name != named => return Err(GatewayError::NamesDiffer),
            _ => name = Some(named.clone()),
        }
    }
    name.filter(|name| !name.is_empty()).ok_or(GatewayError::NoName)
}

/// What it is called with: `payload`, or else `params`, or else what else the body has.
fn arguments(body: &mut Map<String, Value>) -> Result<Map<String, Value>, GatewayError> {
    for field in ARGUMENTS {
        match body.remove(field) {
            None | Some(Value::Null) => {}
            Some(Value::Object(arguments)) => return Ok(arguments),
            Some(_) => return Err(GatewayError::Field { field, expected: "an object" }),
        }
    }
    let is_argument = |(name, _): &(String, Value)| !NAMES.contains(&&**name) && name != UID;
    Ok(std::mem::take(body).into_iter().filter(is_argument).collect())
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn object(value: Value) -> Map<String, Value> {
        value.as_object().unwrap().clone()
    }

    #[test]
    fn names_agree_or_there_is_none() {
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
            let found = name(path.map(str::to_owned), &object(body.clone()));
            let found = found.map_err(|error| error.code().into_owned());
            let expected = expected.map(str::to_owned).map_err(str::to_owned);
            assert_eq!(found, expected, "{path:?} {body}");
        }
    }

    #[test]
    fn what_is_called_with_is_never_what_says_what_is_called() {
        for (body, expected) in [
            (json!({"payload": {"a": 1}, "params": {"b": 2}, "c": 3}), json!({"a": 1})),
            (json!({"payload": null, "params": {"b": 2}}), json!({"b": 2})),
            (json!({"skill": "x", "user_uid": "ann", "c": 3}), json!({"c": 3})),
            (json!({}), json!({})),
        ] {
            let found = arguments(&mut object(body.clone())).unwrap();
            assert_eq!(Value::Object(found), expected, "{body}");
        }
        let error = arguments(&mut object(json!({"payload": [1]}))).unwrap_err();
        assert_eq!(error.code(), "invalid_body");
    }
}
