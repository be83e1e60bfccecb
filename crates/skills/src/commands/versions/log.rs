//! `log`: who changed what. Content comes from the change log of the registry, keys and secrets from the audit log of the
//! data directory.

use serde::Serialize;
use skills_core::Timestamp;
use skills_registry::{LogInfo, LogRequest, SkillRegistry};
use skills_vault::AuditEntry;

use super::parse_address;
use crate::{
    Failure,
    blocking::blocking,
    cli::{LogArgs, Target},
    config::Config,
    connect::{self, RegistrySource},
    data_dir, output,
    vault_location::VaultLocation,
};

/// Records of the audit log that are read at once.
const AUDIT_PAGE: usize = 500;

/// Record of either log, as `GET /v1/admin/log` has it too. The number counts within its log.
#[derive(Debug, Serialize)]
#[serde(tag = "about", rename_all = "lowercase")]
enum Record {
    /// Skills and prompts.
    Content(ContentRecord),
    /// Keys, profiles, secrets and grants.
    People(PeopleRecord),
}

#[derive(Debug, Serialize)]
struct ContentRecord {
    subject: String,
    #[serde(flatten)]
    info: LogInfo,
}

impl From<LogInfo> for ContentRecord {
    fn from(info: LogInfo) -> Self {
        Self { subject: info.subject(), info }
    }
}

#[derive(Debug, Serialize)]
struct PeopleRecord {
    number: u64,
    at: String,
    by: String,
    action: String,
    subject: String,
}

impl From<AuditEntry> for PeopleRecord {
    fn from(AuditEntry { number, at, actor, action, subject }: AuditEntry) -> Self {
        Self { number, at, by: actor, action, subject }
    }
}

impl Record {
    fn at(&self) -> &str {
        match self {
            Self::Content(record) => &record.info.at,
            Self::People(record) => &record.at,
        }
    }
}

pub(in super::super) async fn run(
    args: LogArgs,
    target: &Target,
    config: &Config,
) -> Result<(), Failure> {
    let LogArgs { id, since, by, limit, format } = args;
    let id = id.map(|address| parse_address(&address)).transpose()?.map(|(id, _)| id);
    let (skills, source) = connect::open_with_source(target, config, false).await?;
    let location = match source {
        RegistrySource::Opened(dir) | RegistrySource::Served(dir) => {
            Some(VaultLocation::new(&dir, config))
        }
        RegistrySource::Database(_) => Some(VaultLocation::new(&data_dir::locate(target)?, config)),
        RegistrySource::Bus(_) | RegistrySource::DefaultBus { .. } => None,
    };
    let people = match location.filter(|location| id.is_none() && location.exists()) {
        Some(location) => {
            let by = by.clone();
            blocking(move || people_records(&location, since, by.as_deref(), limit)).await??
        }
        None => vec![],
    };
    let since = since.map(|since| since.to_string());
    let request = LogRequest { id, since, by, ..LogRequest::default() };
    let mut records = content_records(&*skills, request, limit).await?;
    records.extend(people);
    // Timestamps have a fixed width, so they sort as text. The sort is stable: each log stays in its order.
    records.sort_by(|one, other| other.at().cmp(one.at()));
    records.truncate(limit);
    if format.json {
        return Ok(output::json(&serde_json::json!({ "data": records }))?);
    }
    if records.is_empty() {
        return Ok(output::line("No records.")?);
    }
    let rows: Vec<_> = records.iter().map(cells).collect();
    Ok(output::table(&["TIME", "BY", "ACTION", "SUBJECT", "NOTE"], &rows)?)
}

/// Reads up to `limit` records of the change log, newest first.
async fn content_records(
    skills: &dyn SkillRegistry,
    mut request: LogRequest,
    limit: usize,
) -> Result<Vec<Record>, Failure> {
    let mut records = Vec::new();
    while records.len() < limit {
        request.limit = Some(limit - records.len());
        let page = skills.log(&request).await?;
        records.extend(page.data.into_iter().map(|info| Record::Content(info.into())));
        match page.next {
            Some(next) => request.after = Some(next),
            None => break,
        }
    }
    Ok(records)
}

/// Reads up to `limit` records of the audit log, newest first.
fn people_records(
    location: &VaultLocation,
    since: Option<Timestamp>,
    by: Option<&str>,
    limit: usize,
) -> Result<Vec<Record>, Failure> {
    let vault = location.open(None)?;
    let since = since.map(|since| since.to_string()).unwrap_or_default();
    let (mut records, mut before) = (Vec::new(), None);
    loop {
        let page = vault.recent_audit(before, AUDIT_PAGE)?;
        let Some(last) = page.last() else { return Ok(records) };
        before = Some(last.number);
        let is_done = last.at < since;
        let is_wanted =
            |entry: &AuditEntry| entry.at >= since && by.is_none_or(|by| entry.actor.contains(by));
        let wanted = page.into_iter().filter(is_wanted).map(|entry| Record::People(entry.into()));
        records.extend(wanted.take(limit.saturating_sub(records.len())));
        if is_done || records.len() >= limit {
            return Ok(records);
        }
    }
}

fn cells(record: &Record) -> Vec<String> {
    let (by, action, subject, note) = match record {
        Record::Content(ContentRecord { subject, info }) => {
            let LogInfo { by, action, version, label, message, .. } = info;
            let version = version.map(|version| format!("@{version}")).unwrap_or_default();
            let note: Vec<&str> =
                [label, message].into_iter().flatten().map(String::as_str).collect();
            (by, action, format!("{subject}{version}"), note.join(": "))
        }
        Record::People(PeopleRecord { by, action, subject, .. }) => {
            (by, action, subject.clone(), String::new())
        }
    };
    vec![
        output::format_time(record.at()),
        output::plain(by),
        action.clone(),
        output::plain(&subject),
        output::plain(&note),
    ]
}
