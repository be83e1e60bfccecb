//! `/mdp/meta`: description of this server, for clients and for other MDP servers that search for one.
//!
//! This server joins no cluster and is no proxy. Servers that form clusters find each other by the cluster id, so its id
//! is unique.

use axum::{
    Json,
    extract::State,
    http::{HeaderMap, StatusCode, header, uri::Authority},
    response::{IntoResponse as _, Response},
};
use serde_json::{Value, json};

use super::error_response::MdpErrorResponse;
use crate::{MdpHost, wire::MdpErrorCode};

/// Version of the protocol.
const PROTOCOL_VERSION: &str = "2.0.0";
/// Lease of the cluster leader. It has no effect without a cluster.
const LEASE_MS: u64 = 4000;

pub(super) async fn handle(State(host): State<MdpHost>, headers: HeaderMap) -> Response {
    let named =
        headers.get(header::HOST).map(|value| value.to_str().ok()?.parse::<Authority>().ok());
    match named {
        None => Json(describe("localhost", host.config().behind_tls)).into_response(),
        Some(Some(name)) => Json(describe(name.as_str(), host.config().behind_tls)).into_response(),
        Some(None) => {
            let message = "the Host header is invalid";
            MdpErrorResponse::new(StatusCode::BAD_REQUEST, MdpErrorCode::BadRequest, message)
                .into_response()
        }
    }
}

fn describe(name: &str, behind_tls: bool) -> Value {
    let (http, ws) = if behind_tls { ("https", "wss") } else { ("http", "ws") };
    json!({
        "protocol": "mdp",
        "protocolVersion": PROTOCOL_VERSION,
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
