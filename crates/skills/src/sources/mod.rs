//! Sources of the configuration: places that a server keeps its skills in step with.
//!
//! - `import`: one import of a source
//! - `state`: result of the last imports
//! - `state_file`, `shared_state_store`: the places of states: a data directory, or the database that servers share
//! - `schedule`: the imports of a server

mod import;
mod schedule;
mod shared_state_store;
mod state;
mod state_file;
#[cfg(test)]
mod test_records;

pub(crate) use self::{
    import::{import_source, open_state},
    schedule::import_periodically,
    state::{SourceState, SourceStates},
};
