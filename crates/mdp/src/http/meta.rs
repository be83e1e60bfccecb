//! `/mdp/meta`: what this server is, for clients and for other servers of the protocol that look for one.
//!
//! It is alone: it joins no cluster and proxies for nobody. Servers that form clusters by themselves know each
//! other by the id of the cluster, so this one has an id that no other has.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header, uri::Authority},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::refusal::Refusal;
use crate::{Host, wire::Code};

/// The version of the messages.
const PROTOCOL: &str = "2.0.0";
/// How long a leader leads, which nobody here competes for.
const LEASE_MS: u64 = 4000;

pub(super) async fn answer(State(host): State<Host>, headers: HeaderMap) -> Response {
    let named =
        headers.get(header::HOST).map(|value| value.to_str().ok()?.parse::<Authority>().ok());
    match named {
        None => Json(describe("localhost", host.config().behind_tls)).into_response(),
        Some(Some(name)) => Json(describe(name.as_str(), host.config().behind_tls)).into_response(),
        Some(None) => {
            let message = "the request names a host that is none";
            Refusal::new(StatusCode::BAD_REQUEST, Code::BadRequest, message).into_response()
        }
    }
}

fn describe(name: &str, behind_tls: bool) -> Value {
    let (http, ws) = if behind_tls { ("https", "wss") } else { ("http", "ws") };
    json!({
        "protocol": "mdp",
        "protocolVersion": PROTOCOL,
        "supportedProtocolRanges": ["^2.0.0"],
        "serverId": name,
        "endpoints": {
            "ws": format!("{ws}://{name}"),
            "httpLoop": format!("{http}://{name}/mdp/http-loop"),
            "auth": format!("{http}://{name}/mdp/auth"),
            "meta": format!("{http}://{name}/mdp/meta"),
            "cluster": format!("{ws}://{name}/mdp/cluster"),
        },
        "features": { "upstreamProxy": false, "clusterControl": false },
        "cluster": {
            "id": format!("skills:{name}"),
            "membershipMode": "dynamic",
            "membershipFingerprint": "dynamic",
            "role": "leader",
            "term": 0,
            "leaderId": name,
            "leaderUrl": format!("{ws}://{name}"),
            "leaseDurationMs": LEASE_MS,
            "knownMemberCount": 1,
            "reachableMemberCount": 1,
            "quorumSize": 1,
            "hasQuorum": true,
        },
    })
}
