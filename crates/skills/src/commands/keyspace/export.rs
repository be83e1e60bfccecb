//! `export --kv`: skills first, then what is derived from them, then what belongs to people.

use std::io::{self, Write as _};

use serde_json::json;
use skills_core::{
    SkillId, Timestamp,
    keyspace::{Line, LogicalKey},
    manifest::tool_name,
};
use skills_gateway::REFRESH_TOOLS;
use skills_registry::{Catalog, Registry, RegistryError};

use super::House;
use crate::{Failure, cli::Target, config::Config};

pub(in super::super) async fn export(target: &Target, config: &Config) -> Result<(), Failure> {
    let House { registry, vault } = super::open(target, config).await?;
    let mut out = io::BufWriter::new(io::stdout().lock());
    let (left_out, corrupt) = skills(&registry, &mut out).await?;
    let catalog = registry.catalog();
    let derived = |key, value| Line { key, value, expiry: None };
    writeln!(out, "{}", derived(LogicalKey::ToolsCache, tools(&catalog)))?;
    if let Some(at) = tools_changed(&catalog, vault.last_time(REFRESH_TOOLS)?) {
        let value = (at.as_micros() / 1000).to_string();
        writeln!(out, "{}", derived(LogicalKey::ToolsChanged, value))?;
    }
    for line in vault.export(skills_vault::now()) {
        writeln!(out, "{}", line?)?;
    }
    out.flush()?;
    for what in left_out {
        tracing::warn!("{what}");
    }
    corrupt.map_or(Ok(()), Err)
}

/// Writes the lines of all skills. Says what the key space has no room for, and which could not be read: what is
/// damaged does not keep the rest from being saved.
async fn skills(
    registry: &Registry,
    out: &mut impl io::Write,
) -> Result<(Vec<String>, Option<Failure>), Failure> {
    let catalog = registry.catalog();
    let (mut left_out, mut corrupt) = (Vec::new(), None);
    for (layer, row) in catalog.stored_skills() {
        let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
        let value = match row.meta.tool {
            Some(_) => registry.tool_source(row).await,
            None => registry.document_of(row).await,
        };
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                left_out.push(format!("{id} stays out: {error}"));
                corrupt.get_or_insert(error.into());
                continue;
            }
        };
        let files = row.meta.files.len().saturating_sub(1);
        if files > 0 {
            left_out.push(format!("{id}: a value is one document; {files} more files stay out"));
        }
        let value = String::from_utf8_lossy(&value).into_owned();
        let line =
            Line { key: LogicalKey::Skill { layer: layer.clone(), id }, value, expiry: None };
        writeln!(out, "{line}")?;
    }
    let prompts = catalog.prompts().len();
    if prompts > 0 {
        left_out.push(format!("the key space has no prompts; {prompts} stay out"));
    }
    Ok((left_out, corrupt))
}

/// The tools that everyone sees, as `tools/list` does. It is derived: importing it does nothing.
fn tools(catalog: &Catalog) -> String {
    let tools = catalog.tools_after(None).filter_map(|row| {
        let tool = row.meta.tool.as_ref()?;
        Some(json!({
            "name": tool_name(None, &row.id),
            "description": tool.description.as_deref().unwrap_or_default(),
            "inputSchema": tool.parameters,
        }))
    });
    serde_json::Value::Array(tools.collect()).to_string()
}

/// When clients last had a reason to list them again: when the newest of them came, or an administrator said so.
fn tools_changed(catalog: &Catalog, refreshed: Option<Timestamp>) -> Option<Timestamp> {
    catalog.tools_after(None).map(|row| row.registered_at).chain(refreshed).max()
}
