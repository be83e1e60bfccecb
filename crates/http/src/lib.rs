//! HTTP server on which the surfaces that speak HTTP are mounted.
//!
//! A surface brings routes. This crate enforces the rules that hold for all of them, so that none can forget one:
//! access ([`Guard`]), limits ([`HttpLimits`]), security headers, health and readiness, graceful shutdown ([`serve`]).
//! Routes that need other rules declare them in a [`RouteGroup`]. This crate knows no surface, and no surface knows
//! another.

mod app;
mod body;
mod client_shares;
mod error;
mod front_page;
mod guard;
mod health;
mod key_lifetime;
mod limits;
mod linger;
mod local_request;
mod middleware;
mod min_rate;
mod poll_once;
mod proxy_headers;
mod request_span;
mod route_group;
mod security_headers;
mod server;
mod server_info;
mod tagged_body;
mod yank_warning;

pub use app::App;
pub use error::{ErrorBody, ErrorFormat, ErrorResponse, is_unavailable, server_error_status};
pub use guard::{Access, AccessRuleError, AuthBypass, Guard};
pub use health::Readiness;
pub use limits::HttpLimits;
pub use local_request::{LocalPeer, is_local_request};
pub use proxy_headers::is_proxy_header;
pub use request_span::ErrorCode;
pub use route_group::{BodyLimit, ResponseDecorator, RouteGroup, RoutePolicy, SessionLookup};
pub use security_headers::OwnPage;
pub use server::serve;
pub use server_info::{Connection, ImportedSource, ServerInfo, ServerProblem, ServerStatus};
pub use tagged_body::TaggedBody;
pub use yank_warning::with_yank_warning;
