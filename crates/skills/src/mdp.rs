//! The Model Drive Protocol on this server: its section of the configuration, and where its routes are.

use std::{sync::Arc, time::Duration};

use serde_json::{Map, Value};
use skills_bus::Bus;
use skills_core::Identify;
use skills_http::{App, OwnCheck, Terms, Wing};
use skills_mdp::{Config, Host, Limits, Times, http};
use skills_registry::{Registry, live::LiveSource};
use tokio_util::task::AbortOnDropHandle;

use crate::config::Reader;

/// The longest time that can be set; a longer one is a slip.
const LONGEST: Duration = Duration::from_secs(24 * 60 * 60);

/// Mounts the routes of a host: what its transports need, and behind all other routes skills and WebSockets.
///
/// A browser cannot send `Authorization` with a WebSocket. So with a token of its own the protocol checks it
/// itself, wherever clients connect; without one they need what everybody needs. Who reads skills always does.
pub(crate) fn mount(app: App, host: &Host) -> App {
    let has_token = host.config().token.is_some();
    let always: OwnCheck = |_, _| true;
    let (always, upgrades) = match has_token {
        true => (Some(always), Some(http::is_upgrade as OwnCheck)),
        false => (None, None),
    };
    let transports =
        Terms { body_bytes: Some(http::max_body(host)), own_check: always, ..Terms::default() };
    let polls = Terms { waits: true, own_check: always, ..Terms::default() };
    let rest = Terms { waits: true, own_check: upgrades, ..Terms::default() };
    let mut app = app;
    app.wings.push(Wing::new(http::routes(host), transports));
    app.wings.push(Wing::new(http::polls(host), polls));
    app.rest = Some(Wing::new(http::rest(host), rest));
    app
}

/// What makes the clients of a host part of a registry and a bus.
pub(crate) struct Joined {
    /// The host as the registry knows it, which holds it weakly.
    _source: Arc<dyn LiveSource>,
    _follower: AbortOnDropHandle<()>,
}

/// Makes what clients have part of a registry, and what hosts ask about them part of a bus, for as long as what is
/// returned is kept.
#[must_use]
pub(crate) fn join(
    host: &Host,
    bus: &dyn Bus,
    registry: &Arc<Registry>,
    keys: &Arc<dyn Identify>,
) -> Joined {
    let source: Arc<dyn LiveSource> = Arc::new(host.clone());
    registry.set_live_source(Arc::downgrade(&source));
    skills_worker::paths::serve(bus, registry, keys);
    let follow = skills_mdp::live::follow(host.clone(), Arc::clone(registry));
    Joined { _source: source, _follower: AbortOnDropHandle::new(tokio::spawn(follow)) }
}

/// Reads the section `mdp` of the configuration.
pub(crate) fn read(reader: &mut Reader<'_>, fields: &mut Map<String, Value>) -> Config {
    let mut config = Config::default();
    let [mut section, mut limits, mut timeouts] = [(); 3].map(|()| Map::new());
    reader.take(fields, "", "mdp", &mut section);
    reader.take(&mut section, "mdp.", "token", &mut config.token);
    config.token = config.token.filter(|token| !token.is_empty());
    reader.take(&mut section, "mdp.", "forward_credentials", &mut config.forward_credentials);
    reader.take(&mut section, "mdp.", "behind_tls", &mut config.behind_tls);
    reader.take(&mut section, "mdp.", "limits", &mut limits);
    reader.take(&mut section, "mdp.", "timeouts", &mut timeouts);
    for (name, slot) in numbers(&mut config.limits) {
        let mut number = *slot;
        reader.take(&mut limits, "mdp.limits.", name, &mut number);
        match number {
            0 => reader.warn(format!("mdp.limits.{name} must be at least 1; its default is used")),
            number => *slot = number,
        }
    }
    for (name, slot) in durations(&mut config.times) {
        let mut ms = u64::try_from(slot.as_millis()).unwrap_or(u64::MAX);
        reader.take(&mut timeouts, "mdp.timeouts.", name, &mut ms);
        match Duration::from_millis(ms) {
            Duration::ZERO => {
                reader.warn(format!("mdp.timeouts.{name} must be at least 1; its default is used"));
            }
            time if time > LONGEST => reader.warn(format!(
                "mdp.timeouts.{name} must not be more than a day; its default is used"
            )),
            time => *slot = time,
        }
    }
    if config.times.silence <= config.times.ping_every {
        reader.warn(
            "mdp.timeouts.silence_ms must be more than ping_ms; the defaults of both are used"
                .to_owned(),
        );
        let Times { silence, ping_every, .. } = Times::default();
        config.times = Times { silence, ping_every, ..config.times };
    }
    reader.unknown(&section, "mdp.");
    reader.unknown(&limits, "mdp.limits.");
    reader.unknown(&timeouts, "mdp.timeouts.");
    config
}

fn numbers(limits: &mut Limits) -> [(&'static str, &mut usize); 11] {
    [
        ("clients", &mut limits.clients),
        ("unregistered", &mut limits.unregistered),
        ("catalog_entries", &mut limits.catalog_entries),
        ("catalog_bytes", &mut limits.catalog_bytes),
        ("path_bytes", &mut limits.path_bytes),
        ("path_depth", &mut limits.path_depth),
        ("message_bytes", &mut limits.message_bytes),
        ("result_bytes", &mut limits.result_bytes),
        ("gathered_bytes", &mut limits.gathered_bytes),
        ("calls_per_client", &mut limits.calls_per_client),
        ("queue_bytes", &mut limits.queue_bytes),
    ]
}

fn durations(times: &mut Times) -> [(&'static str, &mut Duration); 8] {
    [
        ("ping_ms", &mut times.ping_every),
        ("silence_ms", &mut times.silence),
        ("answer_ms", &mut times.answer_within),
        ("register_ms", &mut times.register_within),
        ("poll_ms", &mut times.poll),
        ("longest_poll_ms", &mut times.longest_poll),
        ("stall_ms", &mut times.stall),
        ("cookie_ms", &mut times.cookie),
    ]
}

#[cfg(test)]
mod tests {
    use std::path::Path;

    use serde_json::json;

    use super::*;

    fn config(section: Value) -> (Config, Vec<String>) {
        let mut reader = Reader::new(Path::new("c.yaml"));
        let mut fields = Map::from_iter([("mdp".to_owned(), section)]);
        let config = read(&mut reader, &mut fields);
        (config, reader.warnings)
    }

    #[test]
    fn every_setting_is_taken_and_every_other_named() {
        let (config, warnings) = config(json!({
            "token": "t",
            "forward_credentials": true,
            "behind_tls": true,
            "limits": {"clients": 5, "path_depth": 3, "colour": 1},
            "timeouts": {"answer_ms": 250},
            "enabled": true,
        }));
        assert_eq!(config.token.as_deref(), Some("t"));
        assert!(config.forward_credentials && config.behind_tls);
        assert_eq!((config.limits.clients, config.limits.path_depth), (5, 3));
        assert_eq!(config.limits.result_bytes, Limits::default().result_bytes);
        assert_eq!(config.times.answer_within, Duration::from_millis(250));
        assert_eq!(warnings.len(), 2, "{warnings:?}");
    }

    #[test]
    fn what_cannot_be_used_leaves_the_default() {
        for (section, named) in [
            (json!("on"), "mdp cannot"),
            (json!({"token": 5}), "mdp.token"),
            (json!({"limits": {"clients": 0}}), "mdp.limits.clients"),
            (json!({"limits": {"clients": -1}}), "mdp.limits.clients"),
            (json!({"timeouts": {"answer_ms": 0}}), "mdp.timeouts.answer_ms"),
            (json!({"timeouts": {"answer_ms": u64::MAX}}), "mdp.timeouts.answer_ms"),
            (json!({"timeouts": {"ping_ms": 90_000}}), "mdp.timeouts.silence_ms"),
        ] {
            let (config, warnings) = config(section);
            assert_eq!(config, Config::default());
            assert!(warnings.len() == 1 && warnings[0].contains(named), "{warnings:?}");
        }
        assert_eq!(
            config(json!({"token": ""})),
            (Config::default(), vec![]),
            "as if it were not there"
        );
    }
}
