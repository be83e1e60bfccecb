//! The console on the real binary: its switches, the change stream, prompts, tools, and the limits of its cookie.

mod changes;
mod local_link;
mod memory;
mod switches;
mod visitor;
mod workers;
