//! Live entries on every surface of the real binary, beside stored entries.
//!
//! - `fixture`: a live client with every kind of descriptor
//! - `registry`: listing, reading and rendering over the bus and on the command line
//! - `tools`: the four client tools, with all kinds of MCP clients
//! - `stored_only`: surfaces that show stored entries only
//! - `content`: resources, prompts and the skills extension of MCP, and notifications

mod content;
mod fixture;
mod registry;
mod stored_only;
mod tools;
