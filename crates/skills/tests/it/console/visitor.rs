//! [`Visitor`]: a browser without scripts on a test server.

use skills_testkit::{Request, Response};

use crate::support::TestServer;

pub(super) struct Visitor {
    http: String,
    cookie: String,
    token: String,
}

impl Visitor {
    /// Opens a page and keeps its cookie and form token.
    pub(super) fn new(server: &TestServer) -> Self {
        let mut visitor =
            Self { http: server.process.http.clone(), cookie: String::new(), token: String::new() };
        visitor.get("/ui/sign-in");
        visitor
    }

    /// Opens a session with a credential.
    pub(super) fn signed_in(server: &TestServer, credential: &str) -> Self {
        let mut visitor = Self::new(server);
        assert_eq!(visitor.submit("/ui/sign-in", &[("credential", credential)]).status, 303);
        visitor
    }

    /// Returns the cookie header of the session.
    pub(super) fn cookie(&self) -> &str {
        &self.cookie
    }

    pub(super) fn get(&mut self, path: &str) -> Response {
        self.send(Request::get(path).header("Accept", "text/html"))
    }

    /// Opens a page that must be there, and returns its markup.
    pub(super) fn open(&mut self, path: &str) -> String {
        let answer = self.get(path);
        let page = String::from_utf8_lossy(&answer.body).into_owned();
        assert_eq!(answer.status, 200, "{path}: {page}");
        page
    }

    /// Submits a form, and returns the answer.
    pub(super) fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let mut body = url::form_urlencoded::Serializer::new(String::new());
        body.append_pair("token", &self.token).extend_pairs(fields);
        let origin = self.http.clone();
        let request = Request::new("POST", path)
            .header("Accept", "text/html")
            .header("Origin", &origin)
            .header("Content-Type", "application/x-www-form-urlencoded");
        self.send(request.body(body.finish()))
    }

    fn send(&mut self, request: Request) -> Response {
        let answer = request.header("Cookie", &self.cookie).send(&self.http);
        if let Some(cookie) = answer.header("set-cookie") {
            self.cookie = cookie.split(';').next().unwrap_or_default().to_owned();
        }
        let page = String::from_utf8_lossy(&answer.body);
        if let Some((_, rest)) = page.split_once("name=\"token\" value=\"") {
            self.token = rest.split('"').next().unwrap_or_default().to_owned();
        }
        answer
    }
}
