//! `import FILE` into the store of another process: the function that imports lines, and its client.

use std::sync::Arc;

use axum::http::Extensions;
use serde::{Deserialize, Serialize};
use skills_bus::{Bus, BusClient, CallError, FunctionCall, FunctionSpec, Hub, Json};
use skills_core::{Caller, Code, Coded as _, KeyDirectory, KeyLookup, keyspace::KeyspaceLine};
use skills_http::Guard;
use skills_registry::Registry;
use skills_vault::Vault;

use super::{
    DataDir,
    import::{self, Input},
    lines::RawLine,
    report::Report,
};
use crate::{
    Failure, authentication, blocking::blocking, cli::Target, commands::accounts, config::Config,
    connect,
};

/// Function that imports lines.
const IMPORT: &str = "skills::import";
/// Most bytes of the lines of one call, unless a single line is longer.
const CALL_BYTES: usize = 8 << 20;

/// Input of the function.
#[derive(Serialize, Deserialize)]
struct ImportInput {
    /// Numbers and texts of lines.
    lines: Vec<(usize, String)>,
    /// Name of the user in the change log.
    user: String,
    /// Secret of an administrator; not needed on the socket of the data directory.
    #[serde(default, skip_serializing_if = "Option::is_none")]
    admin_key: Option<String>,
}

/// Offers the function on a hub. Callers are the user of this process, on the socket of the data directory, and
/// administrators.
pub(crate) fn serve_import(
    hub: &Hub,
    bus: &Arc<dyn Bus>,
    registry: &Arc<Registry>,
    vault: &Arc<Vault>,
    keys: &Arc<dyn KeyDirectory>,
    guard: &Guard,
) {
    let spec = FunctionSpec {
        id: IMPORT.to_owned(),
        description:
            "Import lines of a key space export; for the user of the server and for administrators."
                .to_owned(),
        ..FunctionSpec::default()
    };
    let data_dir = Arc::new(DataDir { registry: Arc::clone(registry), vault: Arc::clone(vault) });
    let is_owner = Arc::new(hub.owner_check());
    let (keys, guard) = (Arc::clone(keys), guard.clone());
    let function = move |call: FunctionCall| {
        let (data_dir, keys, is_owner) =
            (Arc::clone(&data_dir), Arc::clone(&keys), Arc::clone(&is_owner));
        let guard = guard.clone();
        async move {
            let input: ImportInput = call.data.parse().map_err(|error: serde_json::Error| {
                CallError::remote(Code::InvalidInput, format!("{IMPORT}: {error}"))
            })?;
            let admin = input.admin_key.as_deref().map(|key| keys.lookup(key));
            let user = match admin {
                Some(KeyLookup::Found(caller @ Caller::Admin(_))) => {
                    caller.actor().unwrap_or(input.user)
                }
                _ if call.caller.worker_id().is_some_and(|id| is_owner(id)) => input.user,
                _ => {
                    if input.admin_key.is_some() {
                        // A call names no address: all workers count as one client.
                        guard.delay_refusal("bus", &Extensions::new()).await;
                    }
                    let message = "only the user of the server and administrators can import";
                    return Err(CallError::remote(Code::Forbidden, message));
                }
            };
            let lines = input.lines.into_iter();
            let lines = lines.map(|(number, text)| (number, RawLine::Text(text))).collect();
            let report = import::import_lines(&data_dir, &user, lines).await;
            let report =
                report.map_err(|failure| CallError::remote(failure.code, failure.message))?;
            Json::from_serialize(&report)
                .map_err(|error| CallError::remote(Code::SerializationError, error.to_string()))
        }
    };
    bus.register_function(spec, Arc::new(function));
}

/// Connects to an explicit bus; `None` if the target is a data directory.
pub(super) async fn connect_explicit(target: &Target) -> Result<Option<BusClient>, Failure> {
    let Some(url) = &target.url else { return Ok(None) };
    let token = target.token.as_deref();
    Ok(Some(BusClient::connect(url, token, connect::CONNECT_TIMEOUT).await?))
}

/// Imports lines through a bus.
pub(super) async fn import(
    client: &BusClient,
    config: &Config,
    mut lines: Input,
) -> Result<Report, Failure> {
    let (admin_key, user) = (authentication::admin_key()?, accounts::user());
    let call = async |lines: Vec<(usize, String)>| -> Result<Report, Failure> {
        let input = ImportInput { lines, user: user.clone(), admin_key: admin_key.clone() };
        let input = Json::from_serialize(&input)
            .map_err(|error| Failure::new(Code::Internal, error.to_string()))?;
        let answer = client.call(IMPORT, input, connect::call_timeout(config)).await;
        let answer = answer.map_err(|error| {
            let hint = match error.code() {
                Code::Forbidden => {
                    "set ADMIN_KEY to the secret of an administrator, or give --data-dir"
                }
                Code::FunctionNotFound => "the process there is no skills server of this version",
                _ => "run the command again: lines that are stored already are skipped",
            };
            Failure::from_coded(&error).hint(hint)
        })?;
        answer.parse().map_err(|error| Failure::new(Code::Internal, format!("{IMPORT}: {error}")))
    };
    let (mut report, mut deferred) = (Report::default(), Vec::new());
    loop {
        let (batch, reader) = blocking(move || import::next_batch(lines)).await??;
        lines = reader;
        if batch.is_empty() {
            break;
        }
        let (mut sent, mut bytes) = (Vec::new(), 0);
        for (number, raw) in batch {
            let text = match raw {
                RawLine::Text(text) => text,
                RawLine::Invalid(reason) => {
                    report.failed.push((number, Code::MalformedLine.into(), reason.to_owned()));
                    continue;
                }
            };
            let parsed = KeyspaceLine::parse(number, &text);
            if matches!(&parsed, Ok(Some(line)) if import::is_deferred(line)) {
                deferred.push((number, text));
                continue;
            }
            if bytes + text.len() > CALL_BYTES && !sent.is_empty() {
                report.merge(call(std::mem::take(&mut sent)).await?);
                bytes = 0;
            }
            bytes += text.len();
            sent.push((number, text));
        }
        if !sent.is_empty() {
            report.merge(call(sent).await?);
        }
    }
    if !deferred.is_empty() {
        report.merge(call(deferred).await?);
    }
    Ok(report)
}
