//! `history`: the versions of an entry.

use skills_core::EntryKind;
use skills_registry::{HistoryPage, HistoryRequest, SkillRegistry, VersionInfo};

use super::parse_address;
use crate::{Failure, cli::HistoryArgs, output};

/// Hexadecimal digits of a digest in the table: as many as an address needs.
const DIGEST_DIGITS: usize = 12;

pub(super) async fn history(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    args: HistoryArgs,
) -> Result<(), Failure> {
    let HistoryArgs { address, tier, limit, format } = args;
    let (id, version) = parse_address(&address)?;
    let tier = tier.map(Into::into);
    let page = match version {
        Some(version) => {
            let found = skills.version(kind, tier, &id, &version).await?;
            HistoryPage { data: vec![found], next: None }
        }
        None => {
            collect(skills, kind, HistoryRequest { id, tier, limit: None, after: None }, limit)
                .await?
        }
    };
    if format.json {
        return Ok(output::json(&page)?);
    }
    let mut header =
        vec!["VERSION", "STATE", "LABELS", "CREATED", "BY", "FILES", "SIZE", "DIGEST", "MESSAGE"];
    let mut rows: Vec<Vec<String>> = page.data.iter().map(cells).collect();
    if page.data.iter().any(|version| version.source.is_some()) {
        header.push("SOURCE");
        for (row, version) in rows.iter_mut().zip(&page.data) {
            let source = version.source.as_ref().map(|source| output::plain(&source.to_string()));
            row.push(source.unwrap_or_else(|| "-".to_owned()));
        }
    }
    output::table(&header, &rows)?;
    if page.next.is_some() {
        output::notice("note", "there are older versions; see more with --limit");
    }
    Ok(())
}

/// Reads up to `limit` versions, page by page.
async fn collect(
    skills: &dyn SkillRegistry,
    kind: EntryKind,
    mut request: HistoryRequest,
    limit: usize,
) -> Result<HistoryPage, Failure> {
    let mut all = HistoryPage { data: vec![], next: None };
    loop {
        request.limit = Some(limit.saturating_sub(all.data.len()).max(1));
        let page = skills.history(kind, &request).await?;
        let is_empty = page.data.is_empty();
        all.data.extend(page.data);
        all.next = page.next;
        if all.next.is_none() || all.data.len() >= limit || is_empty {
            return Ok(all);
        }
        request.after.clone_from(&all.next);
    }
}

fn cells(version: &VersionInfo) -> Vec<String> {
    let number = match &version.author_version {
        Some(author) => format!("{} ({})", version.version, output::plain(author)),
        None => version.version.to_string(),
    };
    let state = match version {
        VersionInfo { purged: true, .. } => "purged",
        VersionInfo { yanked: Some(_), .. } => "yanked",
        VersionInfo { served: true, .. } => "served",
        _ => "-",
    };
    let or_dash = |text: String| if text.is_empty() { "-".to_owned() } else { text };
    let note = version.yanked.as_ref().or(version.message.as_ref());
    let digest: String = version.digest.to_string().chars().take(DIGEST_DIGITS).collect();
    vec![
        number,
        state.to_owned(),
        or_dash(version.labels.join(",")),
        output::format_time(&version.created_at),
        output::plain(&version.by),
        version.files.to_string(),
        output::size(version.bytes),
        digest,
        or_dash(note.map(|note| output::plain(note)).unwrap_or_default()),
    ]
}
