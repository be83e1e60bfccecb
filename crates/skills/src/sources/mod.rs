//! Sources of the configuration: places that a server keeps its skills in step with.
//!
//! - `import`: one import of a source
//! - `state`: result of the last imports, in the data directory
//! - `schedule`: the imports of a server

mod import;
mod schedule;
mod state;

pub(crate) use self::{
    import::{import_source, open_state},
    schedule::import_periodically,
    state::{SourceState, load_all},
};
