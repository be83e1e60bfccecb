//! Construction of a request from a manifest, parameters and secrets.

use std::collections::BTreeMap;

use hyper::{
    Method,
    header::{self, HeaderMap},
};
use serde_json::{Map, Value};
use skills_manifest::{
    METHODS,
    template::{Template, body_template, endpoint_template, has_placeholders, secret_requirements},
};
use url::Url;

use crate::{
    Secret, UpstreamError,
    body::{self, Payload},
    endpoint, headers,
    values::{Values, value_text},
};

/// Request to an upstream.
#[derive(Debug)]
pub(crate) struct UpstreamRequest {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Headers; those with secrets are marked as sensitive.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Payload>,
}

impl UpstreamRequest {
    /// Builds a request.
    pub(crate) fn new(
        implementation: &Map<String, Value>,
        params: &Map<String, Value>,
        secrets: &BTreeMap<String, Secret>,
        trace_id: &str,
        max: usize,
    ) -> Result<Self, UpstreamError> {
        let mut missing = secret_requirements(implementation).required;
        missing.retain(|name| !secrets.contains_key(name));
        if !missing.is_empty() {
            return Err(UpstreamError::MissingSecrets(missing));
        }
        let values = Values { params, secrets, max };
        let method = method(implementation)?;
        let endpoint = endpoint_template(implementation)
            .ok_or_else(|| UpstreamError::invalid("it has neither an endpoint nor a url"))?;
        let mut url = endpoint::expand_url(&Template::parse(endpoint), &values)?;
        let mut headers = headers::build_headers(implementation, &values, trace_id)?;
        let declared = headers.get(header::CONTENT_TYPE);
        let may_have_body = method != Method::GET && method != Method::HEAD;
        let body = match body_template(implementation).filter(|_| may_have_body) {
            Some(template) => Some(body::template_payload(template, &values, declared)?),
            // Templates place the parameters themselves.
            None if has_placeholders(implementation) || params.is_empty() => None,
            None if may_have_body && method != Method::DELETE => {
                Some(body::params_payload(params, max, declared)?)
            }
            None => {
                append_query(&mut url, params);
                None
            }
        };
        match &body {
            Some(body) => {
                headers.entry(header::CONTENT_TYPE).or_insert_with(|| body.media_type.clone());
            }
            None => {
                headers.remove(header::CONTENT_TYPE);
            }
        }
        let request = Self { method, url, headers, body };
        if request.size() > max {
            return Err(UpstreamError::RequestTooLarge { max });
        }
        Ok(request)
    }

    fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let body = self.body.as_ref().map_or(0, |body| body.bytes.len());
        self.url.as_str().len() + headers + body
    }
}

/// Returns the method: `method`, or else `request.method`, or else POST.
fn method(implementation: &Map<String, Value>) -> Result<Method, UpstreamError> {
    let nested = || implementation.get("request")?.get("method");
    let is_set = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    let Some(named) =
        implementation.get("method").filter(is_set).or_else(|| nested().filter(is_set))
    else {
        return Ok(Method::POST);
    };
    let named = named.as_str().unwrap_or_default().trim().to_ascii_uppercase();
    let method =
        METHODS.contains(&named.as_str()).then(|| Method::from_bytes(named.as_bytes()).ok());
    method.flatten().ok_or_else(|| {
        UpstreamError::invalid(format!("its method must be one of {}", METHODS.join(", ")))
    })
}

/// Adds the parameters to the query.
fn append_query(url: &mut Url, params: &Map<String, Value>) {
    let mut query = url.query_pairs_mut();
    for (name, value) in params {
        if let Some(text) = value_text(value) {
            query.append_pair(name, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use skills_core::Coded as _;

    use super::*;

    fn build(implementation: Value, params: Value) -> Result<UpstreamRequest, UpstreamError> {
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s3cret"))]);
        let (implementation, params) = (implementation.as_object(), params.as_object());
        UpstreamRequest::new(implementation.unwrap(), params.unwrap(), &secrets, "t", 1000)
    }

    fn body(request: &UpstreamRequest) -> Option<&str> {
        request.body.as_ref().map(|body| std::str::from_utf8(&body.bytes).unwrap())
    }

    #[test]
    fn the_method_is_validated_and_post_by_default() {
        let with = |fields: Value| {
            let mut implementation = json!({"url": "https://a.test"});
            implementation.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            build(implementation, json!({})).map(|request| request.method)
        };
        assert_eq!(with(json!({})), Ok(Method::POST));
        assert_eq!(with(json!({"method": " get "})), Ok(Method::GET));
        assert_eq!(with(json!({"method": "", "request": {"method": "put"}})), Ok(Method::PUT));
        for method in ["CONNECT", "TRACE", "OPTIONS", "G T", "GET\r\nX: y"] {
            assert_eq!(
                with(json!({"method": method})).unwrap_err().code().as_str(),
                "invalid_implementation",
                "{method:?}"
            );
        }
        assert!(with(json!({"method": 7})).is_err());
    }

    #[test]
    fn parameters_are_sent_in_query_or_body_by_method() {
        for method in ["GET", "HEAD", "DELETE"] {
            let built = build(
                json!({"endpoint": "https://a.test/?k=1", "method": method}),
                json!({"q": "a b", "l": [1, 2], "o": {"x": 1}, "n": null}),
            )
            .unwrap();
            let mut pairs: Vec<_> = built.url.query_pairs().collect();
            pairs.sort();
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(pairs, ["k=1", "l=1,2", "o={\"x\":1}", "q=a b"], "{method}");
            assert_eq!(body(&built), None, "{method}");
            assert!(!built.headers.contains_key(header::CONTENT_TYPE), "{method}");
        }
        let built = build(json!({"endpoint": "https://a.test/"}), json!({"q": 1})).unwrap();
        assert_eq!((built.url.query(), body(&built)), (None, Some(r#"{"q":1}"#)));
        assert_eq!(built.headers[header::CONTENT_TYPE], "application/json");
    }

    #[test]
    fn templates_get_only_the_parameters_they_name() {
        let implementation = json!({"endpoint": "https://a.test/{{q}}", "method": "GET"});
        let url = build(implementation, json!({"q": 1, "r": 2})).unwrap().url;
        assert_eq!(url.as_str(), "https://a.test/1");
        let implementation = json!({"endpoint": "https://a.test/", "api_key": "{{SECRETS.K}}"});
        assert_eq!(body(&build(implementation, json!({"q": 1})).unwrap()), None);
        let implementation =
            json!({"endpoint": "https://a.test/", "method": "DELETE", "body": {"id": "{{q}}"}});
        assert_eq!(
            body(&build(implementation, json!({"q": 1, "r": 2})).unwrap()),
            Some(r#"{"id":1}"#)
        );
    }

    #[test]
    fn a_request_without_body_has_no_content_type() {
        let built = build(
            json!({"endpoint": "https://a.test", "headers": {"Content-Type": "text/csv"}}),
            json!({}),
        );
        let built = built.unwrap();
        assert_eq!((body(&built), built.headers.get(header::CONTENT_TYPE)), (None, None));
    }

    #[test]
    fn missing_secrets_are_reported_before_anything_else() {
        let needs = json!({"endpoint": "{{x}}", "headers": {"B": "{{SECRETS.B}} {{SECRETS.K}}"},
            "payload": {"a": ["{{SECRETS.A}}", "{{SECRETS.D|d}}"]}});
        let names = ["A", "B"].map(str::to_owned).to_vec();
        assert_eq!(build(needs, json!({})).unwrap_err(), UpstreamError::MissingSecrets(names));
    }

    #[test]
    fn the_whole_request_is_limited_in_size() {
        let implementation =
            json!({"endpoint": "https://a.test/{{q}}", "headers": {"A": "{{q}}"}, "body": "{{q}}"});
        let error = build(implementation, json!({"q": "x".repeat(400)})).unwrap_err();
        assert_eq!(error, UpstreamError::RequestTooLarge { max: 1000 });
        assert_eq!(
            build(json!({}), json!({})).unwrap_err().code().as_str(),
            "invalid_implementation"
        );
    }
}
