//! A registry behind the routes, and a git client that knows just enough.

mod pack;

use std::{collections::BTreeMap, sync::Arc};

use axum::{Router, body::Body, extract::DefaultBodyLimit, http::Request};
use bytes::Bytes;
use futures_util::StreamExt as _;
use skills_agent_skills::Bundle;
use skills_core::{Caller, Digest, Layer, MemoryBudget, Owner, RequestBudget, caller::User};
use skills_distribution::{Settings, routes};
use skills_git::{Packet, pkt_line};
use skills_registry::{Registry, RegistryConfig, SkillRegistry};
use skills_store::{MemoryStore, Store};
use tower::ServiceExt as _;

pub(crate) use pack::{Objects, read_pack};

/// Registry and its remotes.
pub(crate) struct Site {
    pub(crate) registry: Arc<Registry>,
    routes: Router,
}

pub(crate) struct Answer {
    pub(crate) status: u16,
    pub(crate) headers: axum::http::HeaderMap,
    pub(crate) body: Bytes,
}

pub(crate) fn skill(name: &str, text: &str) -> String {
    format!("---\nname: {name}\ndescription: Does {name}.\n---\n\n# {name}\n\n{text}\n")
}

pub(crate) fn user(uid: &str) -> Caller {
    let owner: Owner = uid.parse().unwrap();
    Caller::User(User { owner, key: Digest::of(uid.as_bytes()) })
}

impl Site {
    pub(crate) fn new() -> Self {
        Self::on(Arc::new(MemoryStore::new()))
    }

    pub(crate) fn on(store: Arc<dyn Store>) -> Self {
        let registry = Registry::open(store, None, RegistryConfig::default()).unwrap();
        Self::of(registry)
    }

    /// Creates remotes that know nothing yet of a registry.
    pub(crate) fn of(registry: Arc<Registry>) -> Self {
        Self::with(registry, Settings::default())
    }

    pub(crate) fn with(registry: Arc<Registry>, settings: Settings) -> Self {
        let skills: Arc<dyn SkillRegistry> = Arc::clone(&registry) as _;
        let groups = routes(skills, settings).into_iter();
        let routes = groups.fold(Router::new(), |all, (_, group)| all.merge(group.routes));
        // As the server does, which bounds bodies itself.
        let routes = routes.layer(DefaultBodyLimit::disable());
        Self { registry, routes }
    }

    pub(crate) async fn put(&self, layer: &Layer, id: &str, text: &str) {
        self.registry.register_skill("t", layer, id, skill(id, text)).await.unwrap();
    }

    pub(crate) async fn put_bundle(
        &self,
        id: &str,
        root: String,
        files: &[(&str, &[u8], Option<bool>)],
    ) {
        let others = files.iter();
        let others =
            others.map(|(path, bytes, _)| (path.parse().unwrap(), Bytes::copy_from_slice(bytes)));
        let bits: BTreeMap<&str, Option<bool>> =
            files.iter().map(|(path, _, bit)| (*path, *bit)).collect();
        let bundle = Bundle::new(root, others.collect()).unwrap();
        let bundle = bundle.with_executable(|path| bits.get(path).copied().flatten());
        self.registry.register_bundle("t", &Layer::Official, id, bundle).await.unwrap();
    }

    pub(crate) async fn send(&self, caller: &Caller, request: Request<Body>) -> Answer {
        let response = self.respond(caller, request).await;
        let (head, body) = response.into_parts();
        let body = read_whole(body).await.into();
        Answer { status: head.status.as_u16(), headers: head.headers, body }
    }

    async fn respond(
        &self,
        caller: &Caller,
        mut request: Request<Body>,
    ) -> axum::response::Response {
        request.extensions_mut().insert(caller.clone());
        self.routes.clone().oneshot(request).await.unwrap()
    }

    /// Posts lines and returns the body of the response unread.
    pub(crate) async fn open(
        &self,
        caller: &Caller,
        view: &str,
        version: u8,
        lines: &[&str],
    ) -> Body {
        self.respond(caller, upload_pack(view, version, lines)).await.into_body()
    }

    /// Posts lines of protocol 2 as a request within a memory budget. Returns status and body, unread, and what the request
    /// holds of the budget.
    pub(crate) async fn open_within(
        &self,
        budget: &MemoryBudget,
        view: &str,
        lines: &[&str],
    ) -> (u16, Body, RequestBudget) {
        let held = RequestBudget::with_memory(budget);
        let mut request = upload_pack(view, 2, lines);
        request.extensions_mut().insert(held.clone());
        let account = held.account().clone();
        let response = account.scope(self.respond(&Caller::Anonymous, request)).await;
        (response.status().as_u16(), response.into_body(), held)
    }

    pub(crate) async fn get(&self, caller: &Caller, target: &str) -> Answer {
        self.send(caller, Request::get(target).body(Body::empty()).unwrap()).await
    }

    /// Posts lines in a version of the protocol; `0000` and `0001` stand for themselves.
    pub(crate) async fn post(
        &self,
        caller: &Caller,
        view: &str,
        version: u8,
        lines: &[&str],
    ) -> Answer {
        self.send(caller, upload_pack(view, version, lines)).await
    }

    /// Lists the refs of a view.
    pub(crate) async fn refs(&self, caller: &Caller, view: &str) -> BTreeMap<String, String> {
        let answer = self.post(caller, view, 2, &["command=ls-refs", "0001", "0000"]).await;
        assert_eq!(answer.status, 200);
        let lines = lines(&answer.body);
        let pairs = lines.iter().filter_map(|line| line.split_once(' '));
        pairs.map(|(id, name)| (name.to_owned(), id.to_owned())).collect()
    }

    pub(crate) async fn main(&self, caller: &Caller, view: &str) -> String {
        self.refs(caller, view).await["refs/heads/main"].clone()
    }

    /// Fetches a commit with protocol 2, adding the objects to those that the client has.
    pub(crate) async fn fetch(
        &self,
        caller: &Caller,
        view: &str,
        arguments: &[&str],
        objects: &mut Objects,
    ) -> Fetched {
        let mut lines = vec!["command=fetch", "0001", "thin-pack", "ofs-delta"];
        lines.extend_from_slice(arguments);
        lines.push("0000");
        let answer = self.post(caller, view, 2, &lines).await;
        assert_eq!(answer.status, 200);
        let at = find(&answer.body, b"packfile\n");
        let at = at.unwrap_or_else(|| panic!("{}", String::from_utf8_lossy(&answer.body)));
        let head = self::lines(&answer.body[..at - 4]);
        let count = read_pack(&unframe(&answer.body[at + 9..]), objects);
        Fetched { head, objects: count, bytes: answer.body.len() }
    }

    /// Clones a view. Returns the commit of the main branch and all objects.
    pub(crate) async fn clone_view(&self, caller: &Caller, view: &str) -> (String, Objects) {
        let main = self.main(caller, view).await;
        let mut objects = Objects::default();
        self.fetch(caller, view, &[&format!("want {main}"), "done"], &mut objects).await;
        (main, objects)
    }
}

/// Builds a request of lines in a version of the protocol; `0000` and `0001` stand for themselves.
fn upload_pack(view: &str, version: u8, lines: &[&str]) -> Request<Body> {
    let mut body = Vec::new();
    for line in lines {
        match *line {
            "0000" => pkt_line::write_flush(&mut body),
            "0001" => pkt_line::write_delimiter(&mut body),
            line => pkt_line::write_line(&mut body, line),
        }
    }
    let request = Request::post(format!("/git/{view}.git/git-upload-pack"))
        .header("git-protocol", format!("version={version}"));
    request.body(Body::from(body)).unwrap()
}

/// Result of a fetch.
#[derive(Debug)]
pub(crate) struct Fetched {
    /// Lines before the pack.
    pub(crate) head: Vec<String>,
    /// Number of objects in the pack.
    pub(crate) objects: usize,
    pub(crate) bytes: usize,
}

/// Returns the text lines of a response.
pub(crate) fn lines(body: &[u8]) -> Vec<String> {
    let packets = pkt_line::Packets::new(body).map_while(Result::ok);
    let texts = packets.filter_map(|packet| match packet {
        Packet::Line(line) => Some(line.to_owned()),
        _ => None,
    });
    texts.collect()
}

/// Reads a body as a socket does, which keeps no part that it has taken: a pack waits for that.
async fn read_whole(body: Body) -> Vec<u8> {
    let (mut parts, mut whole) = (body.into_data_stream(), Vec::new());
    while let Some(part) = parts.next().await {
        whole.extend_from_slice(&part.unwrap());
    }
    whole
}

/// Reads a response of protocol 2 and returns its pack.
pub(crate) async fn pack_of(body: Body) -> Vec<u8> {
    let body = read_whole(body).await;
    let at = find(&body, b"packfile\n").unwrap();
    unframe(&body[at + 9..])
}

/// Returns the data of the first band.
pub(crate) fn unframe(mut body: &[u8]) -> Vec<u8> {
    let mut data = Vec::new();
    while let Some((head, rest)) = body.split_at_checked(4) {
        let length = usize::from_str_radix(std::str::from_utf8(head).unwrap(), 16).unwrap();
        if length == 0 {
            break;
        }
        let frame = &rest[..length - 4];
        assert_eq!(frame[0], 1, "{}", String::from_utf8_lossy(frame));
        data.extend_from_slice(&frame[1..]);
        body = &rest[length - 4..];
    }
    data
}

fn find(text: &[u8], wanted: &[u8]) -> Option<usize> {
    text.windows(wanted.len()).position(|window| window == wanted)
}
