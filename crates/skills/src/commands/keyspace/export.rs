//! `export --kv`: lines of skills, then derived lines, then lines of the vault.

use std::io::{self, IsTerminal as _, Write as _};

use serde_json::json;
use skills_core::{
    SkillId, Timestamp,
    keyspace::{KeyspaceLine, LogicalKey},
};
use skills_gateway::REFRESH_TOOLS;
use skills_manifest::tool_name;
use skills_registry::{Catalog, Registry, RegistryError};
use skills_vault::VaultError;

use super::DataDir;
use crate::{Failure, cli::Target, config::Config, terminal};

/// Error that ends an export early.
enum ExportError {
    /// The reader closed the pipe, as `head` does.
    Closed,
    Failed(Failure),
}

impl From<io::Error> for ExportError {
    fn from(error: io::Error) -> Self {
        match error.kind() {
            io::ErrorKind::BrokenPipe => Self::Closed,
            _ => Self::Failed(error.into()),
        }
    }
}

impl From<RegistryError> for ExportError {
    fn from(error: RegistryError) -> Self {
        Self::Failed(error.into())
    }
}

impl From<VaultError> for ExportError {
    fn from(error: VaultError) -> Self {
        Self::Failed(error.into())
    }
}

/// Destination of the lines.
struct Output<W: io::Write> {
    out: io::BufWriter<W>,
    is_terminal: bool,
}

impl<W: io::Write> Output<W> {
    /// Writes a line. On a terminal, control characters that JSON allows are escaped.
    fn line(&mut self, line: &KeyspaceLine) -> io::Result<()> {
        let line = line.to_string();
        let line = if self.is_terminal { terminal::sanitize_json(&line) } else { line.into() };
        writeln!(self.out, "{line}")
    }
}

pub(in super::super) async fn export(target: &Target, config: &Config) -> Result<(), Failure> {
    let data_dir = super::open(target, config).await?;
    let stdout = io::stdout();
    let is_terminal = stdout.is_terminal();
    let mut out = Output { out: io::BufWriter::new(stdout.lock()), is_terminal };
    match write_lines(&data_dir, &mut out).await {
        Ok(()) => Ok(()),
        Err(ExportError::Closed) => {
            // Drops the buffer without flushing: it has no reader either.
            let (_, _) = out.out.into_parts();
            Ok(())
        }
        Err(ExportError::Failed(failure)) => Err(failure),
    }
}

async fn write_lines<W: io::Write>(
    data_dir: &DataDir,
    out: &mut Output<W>,
) -> Result<(), ExportError> {
    let DataDir { registry, vault } = data_dir;
    let (skipped, corrupt) = write_skills(registry, out).await?;
    let catalog = registry.catalog();
    let derived = |key, value| KeyspaceLine { key, value, expiry: None };
    out.line(&derived(LogicalKey::ToolsCache, public_tools(&catalog)))?;
    if let Some(at) = tools_changed(&catalog, vault.last_recorded(REFRESH_TOOLS)?) {
        let value = (at.as_micros() / 1000).to_string();
        out.line(&derived(LogicalKey::ToolsChanged, value))?;
    }
    for line in vault.export(skills_vault::now()) {
        out.line(&line?)?;
    }
    out.out.flush()?;
    for warning in skipped {
        tracing::warn!("{warning}");
    }
    corrupt.map_or(Ok(()), |failure| Err(ExportError::Failed(failure)))
}

/// Writes the lines of all skills. Returns warnings about what cannot be exported, and the first error of a corrupt skill,
/// which does not stop the export of the rest.
async fn write_skills<W: io::Write>(
    registry: &Registry,
    out: &mut Output<W>,
) -> Result<(Vec<String>, Option<Failure>), ExportError> {
    let catalog = registry.catalog();
    let (mut skipped, mut corrupt) = (Vec::new(), None);
    for (layer, row) in catalog.stored_skills() {
        let id: SkillId = row.id.parse().map_err(RegistryError::from)?;
        let value = match row.meta.tool {
            Some(_) => registry.manifest_text(row).await,
            None => registry.root_document(row).await,
        };
        let value = match value {
            Ok(value) => value,
            Err(error) => {
                skipped.push(format!("{id} is not exported: {error}"));
                corrupt.get_or_insert(error.into());
                continue;
            }
        };
        let files = row.meta.files.len().saturating_sub(1);
        if files > 0 {
            skipped
                .push(format!("{id}: only its document is exported, not its {files} other files"));
        }
        let value = String::from_utf8_lossy(&value).into_owned();
        let line = KeyspaceLine {
            key: LogicalKey::Skill { layer: layer.clone(), id },
            value,
            expiry: None,
        };
        out.line(&line)?;
    }
    let prompts = catalog.prompts().len();
    if prompts > 0 {
        skipped.push(format!("{prompts} prompts are not exported"));
    }
    Ok((skipped, corrupt))
}

/// Returns the public tools as `tools/list` does. An import ignores this derived line.
fn public_tools(catalog: &Catalog) -> String {
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

/// Returns the time of the last change of the public tools: a registration or a refresh by an administrator.
fn tools_changed(catalog: &Catalog, refreshed: Option<Timestamp>) -> Option<Timestamp> {
    catalog.tools_after(None).map(|row| row.registered_at).chain(refreshed).max()
}
