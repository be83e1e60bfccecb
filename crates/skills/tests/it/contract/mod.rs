//! The iii contract over a real socket: inputs, outputs and errors.

mod bodies;
mod prompts;
mod refusals;
mod sections;
mod skills;
