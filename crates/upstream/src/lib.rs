//! HTTP client for requests on behalf of callers, guarded against SSRF and leaks of secrets.
//!
//! Neither the manifest nor the caller's parameters are trusted. The address is checked and pinned, redirects are
//! followed by hand, time and bytes are limited, and secrets go only to the origin that the manifest names, never into
//! an error or a log.
//!
//! - [`UpstreamClient`]: the client; [`UpstreamClient::execute`] prepares and sends an [`UpstreamCall`]
//! - [`UpstreamOrigin`]: scheme, host and port of an upstream
//! - [`DnsResolver`]: lookup of names; tests provide their own. [`resolve_public`] is the rule on their addresses, for other
//!   programs that connect to them
//! - [`Secret`]: value that is never printed
//!
//! This crate does not know where manifests and secrets are stored, who may call, or what a tier is.

mod address_guard;
mod body;
mod client;
mod connector;
mod dns_resolver;
mod download;
mod endpoint;
mod error;
mod headers;
mod json_size;
mod origin;
mod public_address;
mod redirect;
mod request;
mod response;
mod response_mapping;
mod secret;
mod values;

pub use address_guard::resolve_public;
pub use client::{PreparedRequest, Settings, UpstreamCall, UpstreamClient};
pub use dns_resolver::{DnsResolver, SystemResolver};
pub use endpoint::origin_of;
pub use error::UpstreamError;
pub use origin::{ParseOriginError, UpstreamOrigin};
pub use public_address::is_public;
pub use secret::Secret;
