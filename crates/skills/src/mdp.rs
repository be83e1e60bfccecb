//! The Model Drive Protocol on this server: its routes, and live clients as part of the registry.

use std::sync::Arc;

use skills_bus::Bus;
use skills_core::KeyDirectory;
use skills_http::{App, AuthBypass, RouteGroup, RoutePolicy};
use skills_mdp::{MdpHost, http};
use skills_registry::{Registry, live::LiveHost};
use tokio_util::task::AbortOnDropHandle;

/// Mounts the routes of a host: its transports, and skills and WebSockets as the fallback of all other routes.
///
/// A browser cannot send `Authorization` with a WebSocket. With a token of its own the protocol therefore authenticates
/// connecting clients itself; without one they need the token of HTTP. Reading skills always needs the token of HTTP.
pub(crate) fn mount(mut app: App, host: &MdpHost) -> App {
    let has_token = host.config().token.is_some();
    let always: AuthBypass = |_, _| true;
    let always = has_token.then_some(always);
    let upgrades = has_token.then_some(http::is_upgrade as AuthBypass);
    let transports = RoutePolicy {
        body_limit: Some(http::body_limit(host)),
        auth_bypass: always,
        surface: Some("mdp"),
        ..RoutePolicy::default()
    };
    let polls = RoutePolicy { long_poll: true, auth_bypass: always, ..RoutePolicy::default() };
    let fallback = RoutePolicy { long_poll: true, auth_bypass: upgrades, ..RoutePolicy::default() };
    app.route_groups.push(RouteGroup::new(http::routes(host), transports));
    app.route_groups.push(RouteGroup::new(http::polls(host), polls));
    app.fallback = Some(RouteGroup::new(http::fallback(host), fallback));
    app
}

/// Connection of live clients with a registry and a bus. Ends on drop.
pub(crate) struct LiveClients {
    /// The registry only has a weak reference to it.
    _source: Arc<dyn LiveHost>,
    _follower: AbortOnDropHandle<()>,
}

/// Adds the content of live clients to a registry, and the `mdp::*` functions to a bus, until the result is dropped.
#[must_use]
pub(crate) fn join(
    host: &MdpHost,
    bus: &dyn Bus,
    registry: &Arc<Registry>,
    keys: &Arc<dyn KeyDirectory>,
) -> LiveClients {
    let source: Arc<dyn LiveHost> = Arc::new(host.clone());
    registry.attach_live_host(Arc::downgrade(&source));
    skills_worker::mdp::serve(bus, registry, keys);
    let follow = skills_mdp::live::follow(host.clone(), Arc::clone(registry));
    LiveClients { _source: source, _follower: AbortOnDropHandle::new(tokio::spawn(follow)) }
}
