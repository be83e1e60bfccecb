//! What becomes of a request that is sent elsewhere.

use hyper::{
    Method, Response, StatusCode,
    header::{self, HeaderName},
};

use skills_core::manifest::is_credential_header;

use crate::{ExecuteError, Origin, outgoing::Outgoing};

/// Where an answer leads, if it is a redirect that says so.
pub(crate) fn location<B>(answer: &Response<B>) -> Result<Option<&str>, ExecuteError> {
    let redirects = matches!(
        answer.status(),
        StatusCode::MOVED_PERMANENTLY
            | StatusCode::FOUND
            | StatusCode::SEE_OTHER
            | StatusCode::TEMPORARY_REDIRECT
            | StatusCode::PERMANENT_REDIRECT
    );
    let Some(location) = answer.headers().get(header::LOCATION).filter(|_| redirects) else {
        return Ok(None);
    };
    let text = std::str::from_utf8(location.as_bytes());
    text.map(Some).map_err(|_| bad("its location is not text"))
}

/// The error of a redirect that is not followed.
pub(crate) fn bad(reason: &str) -> ExecuteError {
    ExecuteError::BadRedirect { reason: reason.to_owned() }
}

impl Outgoing {
    /// Makes it the request that the redirect asks for, by the rules that browsers have: 303 is fetched, and
    /// so is what a POST led to with 301 and 302. Another origin gets neither secrets nor credentials.
    pub(crate) fn redirect(
        &mut self,
        status: StatusCode,
        location: &str,
    ) -> Result<(), ExecuteError> {
        let mut url = self.url.join(location).map_err(|_| bad("its location is no URL"))?;
        url.set_fragment(None);
        let is_fetched = match status {
            StatusCode::SEE_OTHER => self.method != Method::HEAD,
            StatusCode::MOVED_PERMANENTLY | StatusCode::FOUND => self.method == Method::POST,
            _ => false,
        };
        if is_fetched {
            self.method = Method::GET;
            self.body = None;
            self.headers.remove(header::CONTENT_TYPE);
        }
        if Origin::of(&url) != Origin::of(&self.url) {
            if self.body.as_ref().is_some_and(|body| body.is_secret) {
                return Err(bad("another origin would get the secrets in the body"));
            }
            // Those that the manifest writes out are nobody else's either.
            let kept = |name: &HeaderName| !is_credential_header(name.as_str());
            self.headers = std::mem::take(&mut self.headers)
                .into_iter()
                .filter_map(|(name, value)| Some((name?, value)))
                .filter(|(name, value)| kept(name) && !value.is_sensitive())
                .collect();
        }
        self.url = url;
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use hyper::header::{HeaderMap, HeaderValue};

    use super::*;
    use crate::body::Payload;

    fn outgoing(method: Method, is_secret: bool) -> Outgoing {
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
        Outgoing {
            method,
            url: "https://a.test/one/two?q=1".parse().unwrap(),
            headers: HeaderMap::from_iter(headers),
            body: Some(Payload { bytes: "{}".into(), media_type: json, is_secret }),
        }
    }

    fn followed(method: Method, status: u16, location: &str) -> Outgoing {
        let mut outgoing = outgoing(method, false);
        outgoing.redirect(StatusCode::from_u16(status).unwrap(), location).unwrap();
        outgoing
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
            let after = followed(method, status, "three");
            assert_eq!(after.method, wanted, "{status}");
            assert_eq!(after.body.is_none(), fetched, "{status}");
            assert_eq!(after.headers.contains_key(header::CONTENT_TYPE), !fetched);
            assert_eq!(after.url.as_str(), "https://a.test/one/three");
            assert!(after.headers.contains_key(header::AUTHORIZATION));
        }
    }

    #[test]
    fn another_origin_gets_no_secrets() {
        for location in ["https://b.test/", "//b.test", "http://a.test/", "https://a.test:8443/"] {
            let after = followed(Method::POST, 307, location);
            let names: Vec<_> = after.headers.keys().map(HeaderName::as_str).collect();
            assert_eq!(names, ["content-type", "accept"], "{location}");
            assert!(after.body.is_some());
            let error =
                outgoing(Method::POST, true).redirect(StatusCode::TEMPORARY_REDIRECT, location);
            assert_eq!(error.unwrap_err().code(), "bad_redirect");
        }
        let same = followed(Method::POST, 307, "https://A.test:443/x#y");
        assert_eq!((same.headers.len(), same.url.as_str()), (6, "https://a.test/x"));
    }

    #[test]
    fn not_every_answer_leads_somewhere() {
        let to = |status: u16, location: &[u8]| {
            let location = HeaderValue::from_bytes(location).unwrap();
            let answer = Response::builder().status(status).header(header::LOCATION, location);
            super::location(&answer.body(()).unwrap()).map(|it| it.map(str::to_owned))
        };
        assert_eq!(to(302, b"/x"), Ok(Some("/x".to_owned())));
        assert_eq!(to(201, b"/x"), Ok(None));
        assert_eq!(to(304, b"/x"), Ok(None));
        assert_eq!(to(302, b"/\xff").unwrap_err().code(), "bad_redirect");
        let error = outgoing(Method::GET, false).redirect(StatusCode::FOUND, "https://[");
        assert_eq!(error.unwrap_err().code(), "bad_redirect");
    }
}
