//! A browser without scripts: cookies, the form token of the last page, and a scanner of its markup.

use skills_testkit::{Request, Response};

pub(crate) struct Browser {
    address: String,
    cookie: Option<String>,
    token: String,
}

impl Browser {
    pub(crate) fn new(address: &str) -> Self {
        Self { address: address.to_owned(), cookie: None, token: String::new() }
    }

    /// Returns the origin of the server's pages.
    pub(crate) fn origin(&self) -> String {
        format!("http://{}", self.address)
    }

    pub(crate) fn cookie(&self) -> Option<&str> {
        self.cookie.as_deref()
    }

    pub(crate) fn token(&self) -> &str {
        &self.token
    }

    /// Sends a request with the cookie, and keeps what the answer sets.
    pub(crate) fn send(&mut self, mut request: Request) -> Response {
        if let Some(cookie) = &self.cookie {
            request = request.header("Cookie", cookie);
        }
        let answer = request.send(&self.address);
        if let Some(cookie) = answer.header("set-cookie") {
            self.cookie = cookie.split(';').next().map(str::to_owned);
        }
        let page = text(&answer);
        if let Some((_, rest)) = page.split_once("name=\"token\" value=\"") {
            self.token = rest.split('"').next().unwrap_or_default().to_owned();
        }
        answer
    }

    pub(crate) fn get(&mut self, path: &str) -> Response {
        self.send(Request::get(path).header("Accept", "text/html"))
    }

    /// Opens a page that must be there, and returns its markup.
    pub(crate) fn open(&mut self, path: &str) -> String {
        let answer = self.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        text(&answer)
    }

    /// Submits a form of the last page.
    pub(crate) fn submit(&mut self, path: &str, fields: &[(&str, &str)]) -> Response {
        let token = self.token.clone();
        let fields: Vec<(&str, &str)> =
            [("token", token.as_str())].into_iter().chain(fields.iter().copied()).collect();
        let request = form_request(path, &fields).header("Origin", &self.origin());
        self.send(request)
    }

    /// Submits a form with files, as a browser encodes it.
    pub(crate) fn upload(
        &mut self,
        path: &str,
        fields: &[(&str, &str)],
        files: &[(&str, &[u8])],
    ) -> Response {
        let boundary = "----boundary";
        let mut body = Vec::new();
        let token = self.token.clone();
        for (name, value) in [("token", token.as_str())].iter().chain(fields) {
            let head =
                format!("--{boundary}\r\nContent-Disposition: form-data; name=\"{name}\"\r\n\r\n");
            body.extend_from_slice(format!("{head}{value}\r\n").as_bytes());
        }
        for (name, bytes) in files {
            let head = format!(
                "--{boundary}\r\nContent-Disposition: form-data; name=\"files\"; filename=\"{name}\"\r\nContent-Type: application/octet-stream\r\n\r\n"
            );
            body.extend_from_slice(head.as_bytes());
            body.extend_from_slice(bytes);
            body.extend_from_slice(b"\r\n");
        }
        body.extend_from_slice(format!("--{boundary}--\r\n").as_bytes());
        let request = Request::new("POST", path)
            .header("Accept", "text/html")
            .header("Content-Type", &format!("multipart/form-data; boundary={boundary}"))
            .header("Origin", &self.origin())
            .body(body);
        self.send(request)
    }
}

/// Builds the request of a form.
pub(crate) fn form_request(path: &str, fields: &[(&str, &str)]) -> Request {
    let mut body = form_urlencoded::Serializer::new(String::new());
    body.extend_pairs(fields);
    Request::new("POST", path)
        .header("Accept", "text/html")
        .header("Content-Type", "application/x-www-form-urlencoded")
        .body(body.finish())
}

/// Returns the body of a response as text.
pub(crate) fn text(answer: &Response) -> String {
    String::from_utf8_lossy(&answer.body).into_owned()
}

/// Tag of a page with its attributes.
#[derive(Debug, PartialEq, Eq)]
pub(crate) struct Tag {
    pub(crate) name: String,
    pub(crate) attributes: Vec<(String, String)>,
}

/// Returns the opening tags of a page, as a browser finds them.
pub(crate) fn tags(page: &str) -> Vec<Tag> {
    let mut tags = Vec::new();
    let mut rest = page;
    while let Some(at) = rest.find('<') {
        rest = &rest[at + 1..];
        if !rest.starts_with(|c: char| c.is_ascii_alphabetic()) {
            continue;
        }
        let end =
            rest.find(|c: char| c.is_whitespace() || c == '>' || c == '/').unwrap_or(rest.len());
        let name = rest[..end].to_lowercase();
        rest = &rest[end..];
        let mut attributes = Vec::new();
        loop {
            rest = rest.trim_start_matches(|c: char| c.is_whitespace() || c == '/');
            if rest.is_empty() || rest.starts_with('>') {
                break;
            }
            let end = rest.find(|c: char| c.is_whitespace() || "=>/".contains(c));
            let (attribute, after) = rest.split_at(end.unwrap_or(rest.len()));
            rest = after;
            let mut value = "";
            if let Some(after) = rest.strip_prefix('=') {
                if let Some(after) = after.strip_prefix('"') {
                    let end = after.find('"').unwrap_or(after.len());
                    value = &after[..end];
                    rest = after.get(end + 1..).unwrap_or_default();
                } else {
                    let end = after.find(|c: char| c.is_whitespace() || c == '>');
                    (value, rest) = after.split_at(end.unwrap_or(after.len()));
                }
            }
            attributes.push((attribute.to_lowercase(), value.to_owned()));
        }
        tags.push(Tag { name, attributes });
    }
    tags
}

/// Checks that nothing on a page could run or load something that is not of this server.
pub(crate) fn assert_harmless(page: &str, about: &str) {
    let forbidden = [
        "iframe", "object", "embed", "style", "base", "math", "template", "video", "audio",
        "dialog",
    ];
    for Tag { name, attributes } in tags(page) {
        assert!(!forbidden.contains(&name.as_str()), "{about}: <{name}>");
        let value = |named: &str| {
            let found = attributes.iter().find(|(name, _)| name == named);
            found.map(|(_, value)| value.as_str())
        };
        if name == "script" {
            assert!(
                value("src").is_some_and(|src| src.starts_with("/ui/assets/")),
                "{about}: {attributes:?}"
            );
        }
        if name == "form" {
            assert!(
                value("action").is_some_and(|it| it.starts_with("/ui")),
                "{about}: {attributes:?}"
            );
        }
        for (attribute, value) in &attributes {
            assert!(!attribute.starts_with("on"), "{about}: <{name} {attribute}>");
            let refused = [
                "style",
                "srcdoc",
                "srcset",
                "formaction",
                "http-equiv",
                "background",
                "xlink:href",
            ];
            assert!(!refused.contains(&attribute.as_str()), "{about}: <{name} {attribute}>");
            if attribute == "href" || attribute == "src" || attribute == "action" {
                let is_own = (value.starts_with("/ui") || value == "/") && !value.starts_with("//");
                let is_link = attribute == "href"
                    && name == "a"
                    && ["#", "http://", "https://", "mailto:"]
                        .iter()
                        .any(|start| value.starts_with(start));
                assert!(is_own || is_link, "{about}: <{name} {attribute}={value:?}>");
            }
        }
    }
}

#[test]
fn the_scanner_sees_what_a_browser_sees() {
    let page = "<p>a < b</p><a href=\"x>y\" onclick=z>t</a><IMG SRC=q/>&lt;script&gt;</a>";
    let names: Vec<String> = tags(page).into_iter().map(|tag| tag.name).collect();
    assert_eq!(names, ["p", "a", "img"]);
    assert_eq!(
        tags(page)[1].attributes,
        [("href".into(), "x>y".into()), ("onclick".into(), "z".into())]
    );
    for harmful in [
        "<img src=x onerror=y>",
        "<script>",
        "<a href=\"javascript:x\">",
        "<b style=\"\">",
        "<iframe>",
    ] {
        let result = std::panic::catch_unwind(|| assert_harmless(harmful, "x"));
        assert!(result.is_err(), "{harmful}");
    }
}
