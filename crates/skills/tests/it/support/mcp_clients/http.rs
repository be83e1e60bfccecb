//! MCP over HTTP, with exactly the headers of a revision.

use serde_json::{Value, json};
use skills_testkit::{DEADLINE, Request, Response};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{EventStream, STATELESS, initialize, initialized, request, stateless_request};

/// Builds a request with a message as its body.
pub(crate) fn post(message: &Value) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(message.to_string())
}

/// Sends a request on its own connection and reads the whole response.
pub(crate) async fn send(http: &str, request: &Request) -> Response {
    let mut stream = begin(http, request).await;
    let mut output = Vec::new();
    // A server that refuses a large body may break the connection after its response.
    let read = timeout(DEADLINE, stream.read_to_end(&mut output));
    let _ = read.await.unwrap_or_else(|_| panic!("no whole answer to {request:?}"));
    Response::parse(&output).unwrap_or_else(|| panic!("no answer to {request:?}"))
}

/// Sends a request and returns the stream with its response unread.
pub(super) async fn begin(http: &str, request: &Request) -> TcpStream {
    let address = http.strip_prefix("http://").unwrap_or(http);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let bytes = request.bytes(address);
    let _ = timeout(DEADLINE, stream.write_all(&bytes)).await.expect("the request is not taken");
    stream
}

fn message(answer: &Response) -> Value {
    assert_eq!(answer.header("Content-Type").as_deref(), Some("application/json"), "{answer:?}");
    answer.json()
}

/// Session of one of the older revisions.
pub(crate) struct Session {
    http: String,
    version: String,
    credential: Option<String>,
    /// Session id.
    pub(crate) id: String,
    asked: i64,
}

impl Session {
    pub(crate) async fn open(http: &str, version: &str) -> Self {
        Self::open_as(http, version, None).await
    }

    /// Opens a session with a token.
    pub(crate) async fn open_as(http: &str, version: &str, token: Option<&str>) -> Self {
        let mut session = Self {
            http: http.to_owned(),
            version: version.to_owned(),
            credential: token.map(|token| format!("Bearer {token}")),
            id: String::new(),
            asked: 0,
        };
        let answer = send(http, &session.authorized(post(&initialize(version)))).await;
        assert_eq!(answer.status, 200, "{answer:?}");
        assert_eq!(message(&answer)["result"]["protocolVersion"], version);
        session.id = answer.header("Mcp-Session-Id").unwrap();
        let answer = send(http, &session.post(&initialized())).await;
        assert_eq!((answer.status, answer.body.len()), (202, 0));
        session
    }

    fn authorized(&self, request: Request) -> Request {
        match &self.credential {
            Some(credential) => request.header("Authorization", credential),
            None => request,
        }
    }

    /// Adds the headers of the session to a request.
    pub(crate) fn within(&self, request: Request) -> Request {
        self.authorized(request)
            .header("Mcp-Session-Id", &self.id)
            .header("MCP-Protocol-Version", &self.version)
    }

    /// Builds a request for a message in the session.
    pub(crate) fn post(&self, message: &Value) -> Request {
        self.within(post(message))
    }

    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let answer = send(&self.http, &self.post(&request(self.asked, method, params))).await;
        assert_eq!(answer.status, 200, "{method}: {answer:?}");
        let message = message(&answer);
        assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(self.asked)));
        message
    }

    /// Sends a ping and returns the HTTP status.
    pub(crate) async fn ping(&self) -> u16 {
        send(&self.http, &self.post(&request(1, "ping", &json!({})))).await.status
    }

    /// Opens the event stream of the session.
    pub(crate) async fn events(&self) -> EventStream {
        let request = self.within(Request::get("/mcp").header("Accept", "text/event-stream"));
        EventStream::open(&self.http, &request).await
    }

    pub(crate) async fn delete(&self) -> u16 {
        send(&self.http, &self.within(Request::new("DELETE", "/mcp"))).await.status
    }
}

/// Client of the newest revision, which has no state but the address.
pub(crate) struct Stateless {
    http: String,
    asked: i64,
}

impl Stateless {
    pub(crate) fn new(http: &str) -> Self {
        Self { http: http.to_owned(), asked: 0 }
    }

    /// Builds a request with the headers that the method needs.
    pub(crate) fn post(message: &Value) -> Request {
        let method = message["method"].as_str().unwrap();
        let request =
            post(message).header("MCP-Protocol-Version", STATELESS).header("Mcp-Method", method);
        let name = match method {
            "resources/read" | "resources/subscribe" | "resources/unsubscribe" => {
                &message["params"]["uri"]
            }
            "prompts/get" | "tools/call" => &message["params"]["name"],
            _ => &Value::Null,
        };
        match name.as_str() {
            Some(name) => request.header("Mcp-Name", name),
            None => request,
        }
    }

    pub(crate) async fn ask(&mut self, method: &str, params: &Value) -> Value {
        self.asked += 1;
        let request = Self::post(&stateless_request(self.asked, method, params));
        let message = message(&send(&self.http, &request).await);
        assert_eq!((&message["jsonrpc"], &message["id"]), (&json!("2.0"), &json!(self.asked)));
        message
    }

    /// Opens a `subscriptions/listen` stream; the acknowledgement is still unread.
    pub(crate) async fn listen(http: &str, id: i64, filter: &Value) -> EventStream {
        let params = json!({ "notifications": filter });
        let message = stateless_request(id, "subscriptions/listen", &params);
        EventStream::open(http, &Self::post(&message)).await
    }
}
