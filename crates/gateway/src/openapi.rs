//! The description of the API, in OpenAPI 3.1. Routes describe themselves; what all of them share is added here.

use axum::{
    http::header,
    routing::{MethodRouter, get},
};
use bytes::Bytes;
use utoipa::{
    OpenApi, ToResponse,
    openapi::{
        self, RefOr, Response,
        header::{Header, HeaderBuilder},
        path::Operation,
        schema::{Object, Type},
        security::{HttpAuthScheme, HttpBuilder, SecurityRequirement, SecurityScheme},
    },
};

use crate::{Gateway, envelope::Failure};

/// Every answer that is an error.
#[derive(ToResponse)]
#[response(description = "Why there is no other answer")]
#[expect(dead_code, reason = "it describes")]
pub(crate) struct Refused(Failure);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "skills gateway",
        description = "Skills in three tiers: private, official and market. One name leads to one of them.",
    ),
    components(schemas(Failure), responses(Refused)),
    tags(
        (name = "skills", description = "What there is, as the caller sees it"),
        (name = "execution", description = "Calling what can be called"),
        (name = "keys", description = "Who has a key, and how often it may be used"),
        (name = "secrets", description = "What the skills of somebody with a key are called with"),
        (name = "administration", description = "What only administrators may do"),
    ),
)]
struct Head;

/// What a description begins with.
pub(crate) fn head() -> openapi::OpenApi {
    Head::openapi()
}

/// What any route may answer, because of what stands before all of them.
const ANYWHERE: [&str; 7] = ["400", "401", "403", "413", "500", "503", "504"];
/// What every answer to somebody with a key says.
const ON_EVERY_ANSWER: [(&str, &str); 3] = [
    ("X-RateLimit-Limit", "How often the key may be used in a minute"),
    ("X-RateLimit-Remaining", "What is left of that"),
    ("X-RateLimit-Reset", "When all of it is there again, in seconds since 1970"),
];
const KEY: &str = "key";
/// The secrets of administrators: both open what the second opens.
const SECRETS: [(&str, &str); 2] = [
    ("admin", "The secret of administrators, ADMIN_KEY of the server's environment"),
    ("internal", "INTERNAL_API_SECRET of the server's environment"),
];

/// The whole description.
pub(crate) fn finished(mut api: openapi::OpenApi) -> openapi::OpenApi {
    let components = api.components.get_or_insert_default();
    let scheme = |words: &str| {
        let bearer = HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(words));
        SecurityScheme::Http(bearer.build())
    };
    components.add_security_scheme(KEY, scheme("A key of a user, which begins with us-"));
    for (name, words) in SECRETS {
        components.add_security_scheme(name, scheme(words));
    }
    if let Some(RefOr::T(refused)) = components.responses.get_mut("Refused") {
        describe_headers(refused);
    }
    for item in api.paths.paths.values_mut() {
        let operations = [&mut item.get, &mut item.put, &mut item.post, &mut item.delete];
        operations.into_iter().flatten().for_each(finish);
    }
    api
}

fn finish(operation: &mut Operation) {
    for status in ANYWHERE {
        let refused = RefOr::Ref(openapi::Ref::from_response_name("Refused"));
        operation.responses.responses.entry(status.to_owned()).or_insert(refused);
    }
    for response in operation.responses.responses.values_mut() {
        if let RefOr::T(response) = response {
            describe_headers(response);
        }
    }
    // A route that says nothing of keys can be asked with one and without.
    operation.security.get_or_insert_with(|| {
        vec![SecurityRequirement::default(), SecurityRequirement::new(KEY, [""; 0])]
    });
}

fn describe_headers(response: &mut Response) {
    for (name, words) in ON_EVERY_ANSWER {
        response.headers.insert(name.to_owned(), RefOr::T(number(words)));
    }
}

fn number(words: &str) -> Header {
    let integer = Object::builder().schema_type(Type::Integer).build();
    HeaderBuilder::new().schema(Some(integer)).description(Some(words)).build()
}

/// The route that serves it.
pub(crate) fn route(api: &openapi::OpenApi) -> MethodRouter<Gateway> {
    let text = Bytes::from(api.to_json().unwrap_or_default());
    get(async move || ([(header::CONTENT_TYPE, "application/json")], text))
}
