//! Over HTTP, with exactly the headers that a revision asks for.

use serde_json::{Value, json};
use skills_testkit::{Answer, DEADLINE, Request};
use tokio::{
    io::{AsyncReadExt as _, AsyncWriteExt as _},
    net::TcpStream,
    time::timeout,
};

use super::{Events, STATELESS, initialize, initialized, request, stateless_request};

/// A request with a message as its body.
pub(crate) fn post(message: &Value) -> Request {
    Request::new("POST", "/mcp")
        .header("Content-Type", "application/json")
        .header("Accept", "application/json, text/event-stream")
        .body(message.to_string())
}

/// Sends a request on a connection of its own and waits for the whole answer.
pub(crate) async fn send(http: &str, request: &Request) -> Answer {
    let mut stream = begin(http, request).await;
    let mut said = Vec::new();
    // A server that has refused a large body may break the connection after its answer.
    let read = timeout(DEADLINE, stream.read_to_end(&mut said));
    let _ = read.await.unwrap_or_else(|_| panic!("no whole answer to {request:?}"));
    Answer::parse(&said).unwrap_or_else(|| panic!("no answer to {request:?}"))
}

/// Sends a request and leaves the answer to whoever reads it.
pub(super) async fn begin(http: &str, request: &Request) -> TcpStream {
    let address = http.strip_prefix("http://").unwrap_or(http);
    let mut stream = TcpStream::connect(address).await.unwrap();
    stream.set_nodelay(true).unwrap();
    let bytes = request.bytes(address);
    let _ = timeout(DEADLINE, stream.write_all(&bytes)).await.expect("the request is not taken");
    stream
}

fn message(answer: &Answer) -> Value {
    assert_eq!(answer.header("Content-Type").as_deref(), Some("application/json"), "{answer:?}");
    answer.json()
}

/// A session of one of the older revisions.
pub(crate) struct Session {
    http: String,
    version: String,
    credential: Option<String>,
    /// What the server calls it.
    pub(crate) id: String,
    asked: i64,
}

impl Session {
    pub(crate) async fn open(http: &str, version: &str) -> Self {
        Self::open_as(http, version, None).await
    }

    /// Opens one with a token.
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

    /// A request with the headers of the session.
    pub(crate) fn within(&self, request: Request) -> Request {
        self.authorized(request)
            .header("Mcp-Session-Id", &self.id)
            .header("MCP-Protocol-Version", &self.version)
    }

    /// A message with the headers of the session.
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

    /// The status of a ping.
    pub(crate) async fn ping(&self) -> u16 {
        send(&self.http, &self.post(&request(1, "ping", &json!({})))).await.status
    }

    /// Opens the stream of what the server has to say.
    pub(crate) async fn events(&self) -> Events {
        let request = self.within(Request::get("/mcp").header("Accept", "text/event-stream"));
        Events::open(&self.http, &request).await
    }

    pub(crate) async fn delete(&self) -> u16 {
        send(&self.http, &self.within(Request::new("DELETE", "/mcp"))).await.status
    }
}

/// A client of the newest revision: there is nothing to remember but an address.
pub(crate) struct Stateless {
    http: String,
    asked: i64,
}

impl Stateless {
    pub(crate) fn new(http: &str) -> Self {
        Self { http: http.to_owned(), asked: 0 }
    }

    /// A request with the headers that its method needs.
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

    /// Listens to what a filter says; the acknowledgement is still to be read.
    pub(crate) async fn listen(http: &str, id: i64, filter: &Value) -> Events {
        let params = json!({ "notifications": filter });
        let message = stateless_request(id, "subscriptions/listen", &params);
        Events::open(http, &Self::post(&message)).await
    }
}
