//! The HTTP listener: one guarded door on which the surfaces that speak HTTP are mounted.
//!
//! A surface brings routes; everything that must hold for all of them is here, so that none can forget it:
//! who may ask ([`Guard`]), how much ([`Limits`]), health and readiness, and how it ends ([`serve`]). Routes that
//! cannot live with that declare in what they differ ([`Wing`]). Nothing here knows a surface, and no surface
//! knows another.

mod app;
mod entrance;
mod guard;
mod health;
mod limits;
mod linger;
mod refusal;
mod server;
mod wing;

pub use app::App;
pub use guard::{Access, BadRule, Credential, Guard, OwnCheck};
pub use health::Readiness;
pub use limits::Limits;
pub use refusal::Wording;
pub use server::serve;
pub use wing::{Mark, Terms, Wing};
