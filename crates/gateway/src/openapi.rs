//! OpenAPI 3.1 description. Routes describe themselves; this module adds what they have in common.

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

use crate::{Gateway, response::ErrorBody};

/// Every error response.
#[derive(ToResponse)]
#[response(description = "Error")]
#[expect(dead_code, reason = "describes the response")]
pub(crate) struct ErrorResponse(ErrorBody);

#[derive(OpenApi)]
#[openapi(
    info(
        title = "skills gateway",
        description = "Skills in three tiers: private, official and market. A name resolves to one of them.",
    ),
    components(schemas(ErrorBody), responses(ErrorResponse)),
    tags(
        (name = "skills", description = "Skills in the caller's view"),
        (name = "versions", description = "Versions and labels of skills"),
        (name = "collections", description = "Named lists of skills"),
        (name = "execution", description = "Execution of tools"),
        (name = "keys", description = "Validity and rate limits of keys"),
        (name = "secrets", description = "Secrets of a user, and grants to skills of the market"),
        (name = "administration", description = "Administration"),
    ),
)]
struct Base;

/// Returns the description without routes.
pub(crate) fn base() -> openapi::OpenApi {
    Base::openapi()
}

/// Error statuses of every route, because the listener can refuse any request.
const COMMON_ERRORS: [&str; 7] = ["400", "401", "403", "413", "500", "503", "504"];
/// Error statuses of every route with a body.
const BODY_ERRORS: [&str; 2] = ["415", "422"];
/// Headers of every response, with descriptions.
const RATE_LIMIT_HEADERS: [(&str, &str); 3] = [
    ("X-RateLimit-Limit", "Calls per minute"),
    ("X-RateLimit-Remaining", "Calls left in this minute"),
    ("X-RateLimit-Reset", "Time of the next full limit, in Unix seconds"),
];
const KEY: &str = "key";
/// Security schemes of administrators; `admin` is accepted wherever `internal` is.
const ADMIN_SCHEMES: [(&str, &str); 2] = [
    ("admin", "ADMIN_KEY of the server's environment"),
    ("internal", "INTERNAL_API_SECRET of the server's environment"),
];

/// Completes the description and adds the routes of the public catalogue, whose responses have no rate limit headers.
pub(crate) fn complete(
    mut api: openapi::OpenApi,
    mut public: openapi::OpenApi,
) -> openapi::OpenApi {
    let components = api.components.get_or_insert_default();
    let scheme = |description: &str| {
        let bearer =
            HttpBuilder::new().scheme(HttpAuthScheme::Bearer).description(Some(description));
        SecurityScheme::Http(bearer.build())
    };
    components.add_security_scheme(KEY, scheme("Key of a user, which begins with us-"));
    for (name, description) in ADMIN_SCHEMES {
        components.add_security_scheme(name, scheme(description));
    }
    if let Some(RefOr::T(response)) = components.responses.get_mut("ErrorResponse") {
        describe_headers(response);
    }
    for operation in operations(&mut api) {
        for response in operation.responses.responses.values_mut() {
            if let RefOr::T(response) = response {
                describe_headers(response);
            }
        }
    }
    operations(&mut public).for_each(add_common_parts);
    operations(&mut api).for_each(add_common_parts);
    api.merge(public);
    api
}

fn operations(api: &mut openapi::OpenApi) -> impl Iterator<Item = &mut Operation> {
    let items = api.paths.paths.values_mut();
    items.flat_map(|item| {
        [&mut item.get, &mut item.put, &mut item.post, &mut item.delete].into_iter().flatten()
    })
}

fn add_common_parts(operation: &mut Operation) {
    let body_errors = operation.request_body.iter().flat_map(|_| BODY_ERRORS);
    for status in COMMON_ERRORS.into_iter().chain(body_errors) {
        let error = RefOr::Ref(openapi::Ref::from_response_name("ErrorResponse"));
        operation.responses.responses.entry(status.to_owned()).or_insert(error);
    }
    // A route without a security requirement accepts requests with and without a key.
    operation.security.get_or_insert_with(|| {
        vec![SecurityRequirement::default(), SecurityRequirement::new(KEY, [""; 0])]
    });
}

fn describe_headers(response: &mut Response) {
    for (name, description) in RATE_LIMIT_HEADERS {
        response.headers.insert(name.to_owned(), RefOr::T(integer_header(description)));
    }
}

fn integer_header(description: &str) -> Header {
    let integer = Object::builder().schema_type(Type::Integer).build();
    HeaderBuilder::new().schema(Some(integer)).description(Some(description)).build()
}

/// Returns the route that serves the description.
pub(crate) fn route(api: &openapi::OpenApi) -> MethodRouter<Gateway> {
    let text = Bytes::from(api.to_json().unwrap_or_default());
    get(async move || ([(header::CONTENT_TYPE, "application/json")], text))
}
