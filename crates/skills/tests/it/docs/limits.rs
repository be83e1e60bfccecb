//! Limits that pages repeat are those of the code.

use skills_bus::HubConfig;
use skills_http::HttpLimits;
use skills_mdp::{MAX_UNAUTHENTICATED_MESSAGE_BYTES, MdpLimits, MdpTimeouts};

use super::read;

const KIB: usize = 1 << 10;
const MIB: usize = 1 << 20;

/// Checks that a page has every text.
fn assert_has(page: &str, texts: &[String]) {
    // Lines of a paragraph are wrapped anywhere.
    let text = read(page).split_whitespace().collect::<Vec<_>>().join(" ");
    for wanted in texts {
        assert!(text.contains(wanted.as_str()), "{page} has no {wanted:?}");
    }
}

#[test]
fn the_limits_of_http_are_documented() {
    let HttpLimits {
        connections,
        head_bytes,
        head_timeout,
        body_bytes,
        body_timeout,
        body_rate,
        requests,
        response_timeout,
        unread_timeout,
        unread_rate,
        ..
    } = HttpLimits::default();
    let MdpLimits { unregistered, .. } = MdpLimits::default();
    let seconds = |time: std::time::Duration| time.as_secs();
    assert_has(
        "docs/http.md",
        &[
            format!("| open connections | {connections} |"),
            format!("| connections from one address | {} |", connections / 4 * 3),
            format!("| request head | {} KiB,", head_bytes / KIB),
            format!("and for an idle connection | {} s |", seconds(head_timeout)),
            format!("| request body | {} MiB,", body_bytes / MIB),
            format!(
                "body to arrive | {} s, plus 1 s for each {} KiB",
                seconds(body_timeout),
                body_rate / KIB
            ),
            format!("| requests in progress | {requests}, of one client {} |", requests / 8 * 3),
            format!("| time until the response head | {} s |", seconds(response_timeout)),
            format!(
                "to read a response | {} s, plus 1 s for each {} KiB",
                seconds(unread_timeout),
                unread_rate / KIB
            ),
            format!("at most {unregistered} unregistered ones"),
            format!("at most {} of them may be without it", unregistered / 2),
            format!("{} of one address or key", unregistered / 8),
        ],
    );
}

#[test]
fn the_limits_of_live_clients_are_documented() {
    let MdpTimeouts { silence, answer_within, .. } = MdpTimeouts::default();
    let before_token = MAX_UNAUTHENTICATED_MESSAGE_BYTES / KIB;
    assert_has(
        "docs/mdp.md",
        &[
            format!("limited to {before_token} KiB until the token is verified"),
            format!("{before_token} KiB of all messages before the token is verified"),
            format!("sent nothing for {} seconds", silence.as_secs()),
            format!("not complete within {} seconds", answer_within.as_secs()),
        ],
    );
}

#[test]
fn the_limits_of_the_bus_are_documented() {
    let HubConfig {
        max_connections,
        max_connections_per_address,
        max_request_head,
        handshake_timeout,
        max_message,
        max_read,
        ..
    } = HubConfig::default();
    assert_has(
        "docs/bus.md",
        &[
            format!("| {max_connections}; {max_connections_per_address} from one address"),
            format!("| {} KiB, {} s |", max_request_head / KIB, handshake_timeout.as_secs()),
            format!("| message | {} MiB |", max_message / MIB),
            format!("above {} MiB the connection ends", max_read / MIB),
        ],
    );
}
