//! From a manifest, parameters and secrets to a request, before anything is sent.

use std::collections::BTreeMap;

use hyper::{
    Method,
    header::{self, HeaderMap},
};
use serde_json::{Map, Value};
use skills_core::{
    manifest::METHODS,
    template::{Template, body_of, endpoint_of, is_templated, needed_secrets},
};
use url::Url;

use crate::{
    ExecuteError, Secret,
    body::{self, Payload},
    endpoint, headers,
    values::{Values, text_of},
};

/// A request that is ready to be sent.
#[derive(Debug)]
pub(crate) struct Outgoing {
    pub(crate) method: Method,
    pub(crate) url: Url,
    /// Sensitive where they hold secrets.
    pub(crate) headers: HeaderMap,
    pub(crate) body: Option<Payload>,
}

impl Outgoing {
    /// Puts a request together.
    pub(crate) fn new(
        implementation: &Map<String, Value>,
        params: &Map<String, Value>,
        secrets: &BTreeMap<String, Secret>,
        trace_id: &str,
        max: usize,
    ) -> Result<Self, ExecuteError> {
        let mut missing = needed_secrets(implementation).required;
        missing.retain(|name| !secrets.contains_key(name));
        if !missing.is_empty() {
            return Err(ExecuteError::MissingSecrets(missing));
        }
        let values = Values { params, secrets, max };
        let method = method(implementation)?;
        let endpoint = endpoint_of(implementation)
            .ok_or_else(|| ExecuteError::invalid("it has neither an endpoint nor a url"))?;
        let mut url = endpoint::url(&Template::parse(endpoint), &values)?;
        let mut headers = headers::headers(implementation, &values, trace_id)?;
        let declared = headers.get(header::CONTENT_TYPE);
        let may_have_body = method != Method::GET && method != Method::HEAD;
        let body = match body_of(implementation).filter(|_| may_have_body) {
            Some(template) => Some(body::payload(template, &values, declared)?),
            // What is templated says itself where parameters go.
            None if is_templated(implementation) || params.is_empty() => None,
            None if may_have_body && method != Method::DELETE => {
                Some(body::of_params(params, max, declared)?)
            }
            None => {
                append(&mut url, params);
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
        let outgoing = Self { method, url, headers, body };
        if outgoing.size() > max {
            return Err(ExecuteError::RequestTooLarge { max });
        }
        Ok(outgoing)
    }

    fn size(&self) -> usize {
        let headers: usize =
            self.headers.iter().map(|(name, value)| name.as_str().len() + value.len()).sum();
        let body = self.body.as_ref().map_or(0, |body| body.bytes.len());
        self.url.as_str().len() + headers + body
    }
}

/// `method`, or else `request.method`, or else POST.
fn method(implementation: &Map<String, Value>) -> Result<Method, ExecuteError> {
    let nested = || implementation.get("request")?.get("method");
    let says = |value: &&Value| !value.is_null() && value.as_str() != Some("");
    let Some(named) = implementation.get("method").filter(says).or_else(|| nested().filter(says))
    else {
        return Ok(Method::POST);
    };
    let named = named.as_str().unwrap_or_default().trim().to_ascii_uppercase();
    let known =
        METHODS.contains(&named.as_str()).then(|| Method::from_bytes(named.as_bytes()).ok());
    known.flatten().ok_or_else(|| {
        ExecuteError::invalid(format!("its method must be one of {}", METHODS.join(", ")))
    })
}

/// Adds the parameters to the query.
fn append(url: &mut Url, params: &Map<String, Value>) {
    let mut query = url.query_pairs_mut();
    for (name, value) in params {
        if let Some(text) = text_of(value) {
            query.append_pair(name, &text);
        }
    }
}

#[cfg(test)]
mod tests {
    use serde_json::json;

    use super::*;

    fn made(implementation: Value, params: Value) -> Result<Outgoing, ExecuteError> {
        let secrets = BTreeMap::from([("K".to_owned(), Secret::new("s3cret"))]);
        let (implementation, params) = (implementation.as_object(), params.as_object());
        Outgoing::new(implementation.unwrap(), params.unwrap(), &secrets, "t", 1000)
    }

    fn body(made: &Outgoing) -> Option<&str> {
        made.body.as_ref().map(|body| std::str::from_utf8(&body.bytes).unwrap())
    }

    #[test]
    fn methods() {
        let with = |fields: Value| {
            let mut implementation = json!({"url": "https://a.test"});
            implementation.as_object_mut().unwrap().extend(fields.as_object().unwrap().clone());
            made(implementation, json!({})).map(|made| made.method)
        };
        assert_eq!(with(json!({})), Ok(Method::POST));
        assert_eq!(with(json!({"method": " get "})), Ok(Method::GET));
        assert_eq!(with(json!({"method": "", "request": {"method": "put"}})), Ok(Method::PUT));
        for method in ["CONNECT", "TRACE", "OPTIONS", "G T", "GET\r\nX: y"] {
            assert_eq!(
                with(json!({"method": method})).unwrap_err().code(),
                "invalid_implementation"
            );
        }
        assert!(with(json!({"method": 7})).is_err());
    }

    #[test]
    fn parameters_go_where_the_method_has_room() {
        for method in ["GET", "HEAD", "DELETE"] {
            let made = made(
                json!({"endpoint": "https://a.test/?k=1", "method": method}),
                json!({"q": "a b", "l": [1, 2], "o": {"x": 1}, "n": null}),
            )
            .unwrap();
            let mut pairs: Vec<_> = made.url.query_pairs().collect();
            pairs.sort();
            let pairs: Vec<_> =
                pairs.iter().map(|(name, value)| format!("{name}={value}")).collect();
            assert_eq!(pairs, ["k=1", "l=1,2", "o={\"x\":1}", "q=a b"]);
            assert_eq!(body(&made), None);
            assert!(!made.headers.contains_key(header::CONTENT_TYPE));
        }
        let made = made(json!({"endpoint": "https://a.test/"}), json!({"q": 1})).unwrap();
        assert_eq!((made.url.query(), body(&made)), (None, Some(r#"{"q":1}"#)));
        assert_eq!(made.headers[header::CONTENT_TYPE], "application/json");
    }

    #[test]
    fn what_is_templated_gets_only_what_it_asks_for() {
        let asks = json!({"endpoint": "https://a.test/{{q}}", "method": "GET"});
        let url = made(asks, json!({"q": 1, "r": 2})).unwrap().url;
        assert_eq!(url.as_str(), "https://a.test/1");
        let asks = json!({"endpoint": "https://a.test/", "api_key": "{{SECRETS.K}}"});
        assert_eq!(body(&made(asks, json!({"q": 1})).unwrap()), None);
        let asks =
            json!({"endpoint": "https://a.test/", "method": "DELETE", "body": {"id": "{{q}}"}});
        assert_eq!(body(&made(asks, json!({"q": 1, "r": 2})).unwrap()), Some(r#"{"id":1}"#));
    }

    #[test]
    fn without_a_body_there_is_no_type_of_one() {
        let made = made(
            json!({"endpoint": "https://a.test", "headers": {"Content-Type": "text/csv"}}),
            json!({}),
        );
        let made = made.unwrap();
        assert_eq!((body(&made), made.headers.get(header::CONTENT_TYPE)), (None, None));
    }

    #[test]
    fn missing_secrets_are_named_before_anything_else() {
        let needs = json!({"endpoint": "{{x}}", "headers": {"B": "{{SECRETS.B}} {{SECRETS.K}}"},
            "payload": {"a": ["{{SECRETS.A}}", "{{SECRETS.D|d}}"]}});
        let names = ["A", "B"].map(str::to_owned).to_vec();
        assert_eq!(made(needs, json!({})).unwrap_err(), ExecuteError::MissingSecrets(names));
    }

    #[test]
    fn everything_together_is_bounded() {
        let implementation =
            json!({"endpoint": "https://a.test/{{q}}", "headers": {"A": "{{q}}"}, "body": "{{q}}"});
        let error = made(implementation, json!({"q": "x".repeat(400)})).unwrap_err();
        assert_eq!(error, ExecuteError::RequestTooLarge { max: 1000 });
        assert_eq!(made(json!({}), json!({})).unwrap_err().code(), "invalid_implementation");
    }
}
