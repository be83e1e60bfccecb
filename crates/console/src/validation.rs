//! Validation of documents on a blocking thread.

use skills_agent_skills::validate::{BundleFiles, Options, ValidationReport, validate as check};
use skills_core::{WorkAccount, WorkKind, limits::MAX_SKILL_BYTES};

use crate::{error::ConsoleError, visit::Visit};

const VALIDATION: WorkKind = WorkKind::compute("validation of a document in the console");
/// Memory for each byte of a document: the tree of its YAML, or that of its Markdown.
const DOCUMENT_FACTOR: usize = 160;
/// Memory of the findings: a bounded number of each rule.
const FINDINGS_MEMORY: usize = 1 << 20;

/// Validates the root document of a bundle.
pub(crate) async fn validate(
    visit: &Visit,
    directory: Option<String>,
    document: String,
    files: Option<Vec<String>>,
) -> Result<ValidationReport, ConsoleError> {
    // The report is in memory until the page is sent.
    visit.reserve(FINDINGS_MEMORY)?;
    let mut permit = WorkAccount::current().permit(VALIDATION, 0).await?;
    // Nothing of a longer document is read.
    permit.try_grow(document.len().min(MAX_SKILL_BYTES) * DOCUMENT_FACTOR)?;
    let report = permit.run(move |_| {
        let directory = directory.as_deref();
        let bundle =
            BundleFiles { directory, document: document.as_bytes(), files: files.as_deref() };
        check(bundle, Options::default())
    });
    Ok(report.await?)
}
