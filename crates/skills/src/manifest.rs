//! `--manifest`: the worker manifest, which installers read.

use serde_json::{Value, json};

use crate::config::Config;

pub(crate) fn manifest() -> Value {
    let Config { scopes, state_timeout_ms, .. } = Config::default();
    json!({
        "name": env!("CARGO_PKG_NAME"),
        "version": env!("CARGO_PKG_VERSION"),
        "description": env!("CARGO_PKG_DESCRIPTION"),
        "default_config": {
            "scopes": { "skills": scopes.skills, "prompts": scopes.prompts },
            "state_timeout_ms": state_timeout_ms,
        },
        "supported_targets": [env!("SKILLS_TARGET")],
    })
}
