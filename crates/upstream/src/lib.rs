//! The one client for requests that go out on somebody's behalf.
//!
//! A manifest says where to and how, a caller gives parameters, and neither is trusted: the address is
//! checked and pinned, redirects are followed by hand, time and bytes are bounded, and secrets go to the
//! origin that the manifest names and nowhere else, least of all into an error or a log.
//!
//! - [`Upstream`]: the client, made of [`Settings`]; [`Upstream::execute`] is all it does, in one step or in two
//! - [`Origin`]: what is exempt from the rules on addresses
//! - [`Resolve`]: who turns names into addresses; tests bring their own
//! - [`Secret`]: a value that is not shown
//!
//! Nothing here knows where manifests and secrets are kept, who may call, or what a tier is.

mod address;
mod answer;
mod body;
mod connect;
mod endpoint;
mod error;
mod guard;
mod headers;
mod mapping;
mod origin;
mod outgoing;
mod redirect;
mod resolve;
mod secret;
mod size;
mod upstream;
mod values;

pub use endpoint::origin_of;
pub use error::ExecuteError;
pub use origin::{BadOrigin, Origin};
pub use resolve::{Resolve, SystemResolver};
pub use secret::Secret;
pub use upstream::{Call, Prepared, Settings, Upstream};
