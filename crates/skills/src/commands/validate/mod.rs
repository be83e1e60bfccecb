//! `validate`: validates files on disk against the Agent Skills specification.
//!
//! - `validate_files`: reads and validates documents in parallel
//! - `routing`: reports skills that a search would not find
//! - `print`: text and JSON output
//!
//! The rules are in `skills_agent_skills::validate`; `skills_bundles` finds the documents.

mod print;
mod routing;
mod validate_files;

use std::path::PathBuf;

use skills_agent_skills::{
    frontmatter::NameAlphabet,
    validate::{Options, ValidationMode},
};
use skills_bundles::FoundDocuments;
use skills_core::Code;

use self::routing::PlacedFinding;
use super::doctor_search::print_finding;
use crate::{Failure, cli::ValidateArgs};

pub(super) fn run(args: &ValidateArgs) -> Result<(), Failure> {
    let options = Options {
        mode: if args.lenient { ValidationMode::Lenient } else { ValidationMode::Strict },
        names: if args.unicode { NameAlphabet::Unicode } else { NameAlphabet::Ascii },
    };
    let found = find_documents(&args.paths)?;
    let routing = args.routing.then(|| routing::diagnose(&found.documents));
    let reports = validate_files::validate_all(found, options)?;
    let summary = print::Summary::new(&reports);
    if args.format.json {
        print::json(&reports, &summary, routing.as_deref())?;
    } else {
        print::text(&reports)?;
        for PlacedFinding { path, finding } in routing.iter().flatten() {
            print_finding(&path.to_string_lossy(), finding)?;
        }
    }
    match summary.verdict() {
        Ok(_) if args.format.json => Ok(()),
        Ok(sentence) => Ok(crate::output::line(&sentence)?),
        Err(sentence) => Err(Failure::new(Code::InvalidSkills, sentence)
            .hint("see `skills help validate` for the codes")),
    }
}

/// Finds the documents at all paths, each once.
fn find_documents(paths: &[PathBuf]) -> Result<FoundDocuments, Failure> {
    let mut found = FoundDocuments::default();
    for path in paths {
        let FoundDocuments { documents, faults } = skills_bundles::find_documents(path)?;
        found.documents.extend(documents);
        found.faults.extend(faults);
    }
    found.documents.sort_by(|a, b| a.document.cmp(&b.document));
    found.documents.dedup_by(|a, b| a.document == b.document);
    Ok(found)
}
