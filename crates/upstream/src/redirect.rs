//! Rules for following redirects.

use hyper::{
    Method, Response, StatusCode,
    header::{self, HeaderName},
};

use skills_manifest::is_credential_header;

use crate::{UpstreamError, UpstreamOrigin, request::UpstreamRequest};

/// Returns the location of a redirect; `None` if the response is none.
pub(crate) fn location<B>(response: &Response<B>) -> Result<Option<&str>, UpstreamError> {
    let is_redirect = matches!(
        response.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = response.headers().get(header::LOCATION).filter(|_| is_redirect) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(location.as_bytes());
    text.map(Some).map_err(|_| refuse("its location is not text"))
}

/// Creates the error of a redirect that is not followed.
pub(crate) fn refuse(reason: &str) -> UpstreamError {
    UpstreamError::BadRedirect { reason: reason.to_owned() }
}

impl UpstreamRequest {
    /// Changes the request to follow a redirect, by the rules of browsers: 303, and 301 or 302 after POST, continue with
    /// GET. Another origin gets neither secrets nor credentials.
    pub(crate) fn redirect(
        &mut self,
        status: StatusCode,
        location: &str,
    ) -> Result<(), UpstreamError> {
        let mut url = self.url.join(location).map_err(|_| refuse("its location is no URL"))?;
        url.set_fragment(None);
        let becomes_get = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if becomes_get {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(header::CONTENT_TYPE);
        }
        if UpstreamOrigin::from_url(&url) != UpstreamOrigin::from_url(&self.url) {
            if self.body.as_ref().is_some_and(|body| body.is_secret) {
                return Err(refuse("another origin would get the secrets in the body"));
            }
            // Literal credentials of the manifest must not reach another origin either.
            let is_harmless = |name: &HeaderName| !is_credential_header(name.as_str());
            self.headers = std::mem::take(&mut self.headers)
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value)))
                .filter(|(name, value)| is_harmless(name) && !value.is_sensitive())
                .collect();
        }
        self.url = url;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderMap, HeaderValue};

    use skills_core::Coded as _;

    use super::*;
    use crate::body::Payload;

    fn request(method: Method, is_secret: bool) -> UpstreamRequest {
        let mut key = HeaderValue::from_static("s3cret");
        key.set_sensitive(true);
        let json = HeaderValue::from_static("application/json");
        let headers = [
            (header::AUTHORIZATION, json.clone()),
            (header::COOKIE, json.clone()),
            (header::CONTENT_TYPE, json.clone()),
            (HeaderName::from_static("x-some-header"), key),
            (HeaderName::from_static("x-api-key"), json.clone()),
            (header::ACCEPT, json.clone()),
        ];
        UpstreamRequest {
            method,
            url: "https://a.test/one/two?q=1".parse().unwrap(),
            headers: HeaderMap::from_iter(headers),
            body: Some(Payload { bytes: "{}".into(), media_type: json, is_secret }),
        }
    }

    fn follow(method: Method, status: u16, location: &str) -> UpstreamRequest {
        let mut request = request(method, false);
        request.redirect(StatusCode::from_u16(status).unwrap(), location).unwrap();
        request
    }

    #[test]
    fn methods_change_as_in_browsers() {
        for (status, method, wanted) in [
            (301, Method::POST, Method::GET),
            (302, Method::POST, Method::GET),
            (302, Method::PUT, Method::PUT),
            (303, Method::PUT, Method::GET),
            (303, Method::HEAD, Method::HEAD),
            (307, Method::POST, Method::POST),
            (308, Method::DELETE, Method::DELETE),
        ] {
            let fetched = method != wanted;
            let after = follow(method, status, "three");
            assert_eq!(after.method, wanted, "{status}");
            assert_eq!(after.body.is_none(), fetched, "{status}");
            assert_eq!(after.headers.contains_key(header::CONTENT_TYPE), !fetched, "{status}");
            assert_eq!(after.url.as_str(), "https://a.test/one/three", "{status}");
            assert!(after.headers.contains_key(header::AUTHORIZATION), "{status}");
        }
    }

    #[test]
    fn another_origin_gets_no_secrets() {
        for location in ["https://b.test/", "//b.test", "http://a.test/", "https://a.test:8443/"] {
            let after = follow(Method::POST, 307, location);
            let names: Vec<_> = after.headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["content-type", "accept"], "{location}");
            assert!(after.body.is_some(), "{location}");
            let error =
                request(Method::POST, true).redirect(StatusCode::TEMPORARY_REDIRECT, location);
            assert_eq!(error.unwrap_err().code().as_str(), "upstream_bad_redirect", "{location}");
        }
        let same = follow(Method::POST, 307, "https://A.test:443/x#y");
        assert_eq!((same.headers.len(), same.url.as_str()), (6, "https://a.test/x"));
    }

    #[test]
    fn only_redirects_with_a_location_are_followed() {
        let to = |status: u16, location: &[u8]| {
            let location = HeaderValue::from_bytes(location).unwrap();
            let response = Response::builder().status(status).header(header::LOCATION, location);
            super::location(&response.body(()).unwrap()).map(|it| it.map(str::to_owned))
        };
        assert_eq!(to(302, b"/x"), Ok(Some("/x".to_owned())));
        assert_eq!(to(201, b"/x"), Ok(None));
        assert_eq!(to(304, b"/x"), Ok(None));
        assert_eq!(to(302, b"/\xff").unwrap_err().code().as_str(), "upstream_bad_redirect");
        let error = request(Method::GET, false).redirect(StatusCode::FOUND, "https://[");
        assert_eq!(error.unwrap_err().code().as_str(), "upstream_bad_redirect");
    }
}
