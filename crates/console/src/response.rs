//! Responses: pages, parts of pages, and redirects after a form.

use axum::{
    body::Body,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use maud::Markup;
use skills_http::OwnPage;

/// Returns HTML that templates made.
pub(crate) fn html(status: StatusCode, markup: Markup) -> Response {
    let content_type = HeaderValue::from_static("text/html; charset=utf-8");
    let headers = [(header::CONTENT_TYPE, content_type)];
    let mut response = (status, headers, Body::from(markup.into_string())).into_response();
    response.extensions_mut().insert(OwnPage);
    response
}

/// Returns the redirect after a form, so that reloading the page does not send the form again.
pub(crate) fn see_other(path: &str) -> Response {
    let location = HeaderValue::try_from(path).unwrap_or(HeaderValue::from_static(crate::HOME));
    (StatusCode::SEE_OTHER, [(header::LOCATION, location)]).into_response()
}
