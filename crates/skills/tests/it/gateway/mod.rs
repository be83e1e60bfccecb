//! The gateway of the real binary, with an upstream behind the tools.

mod damaged_tools;
mod errors;
mod execute;
mod fixture;
mod limits;
mod notifications;
mod secrets;
mod tools;
