//! `validate`: says what the specification of Agent Skills thinks of files on disk.
//!
//! - `judge`: reading and judging them, on all cores
//! - `show`: what is printed
//!
//! The rules are in `skills_core::validate`; nothing here knows one. Which documents there are is for `skills_bundles`.

mod judge;
mod show;

use std::path::PathBuf;

use skills_bundles::{Survey, survey};

use skills_core::{
    frontmatter::Alphabet,
    validate::{Mode, Options},
};

use crate::{Failure, cli::Validate};

pub(super) fn run(validate: &Validate) -> Result<(), Failure> {
    let options = Options {
        mode: if validate.lenient { Mode::Lenient } else { Mode::Strict },
        names: if validate.unicode { Alphabet::Unicode } else { Alphabet::Ascii },
    };
    let judged = judge::all(look(&validate.paths)?, options)?;
    let summary = show::Summary::of(&judged);
    match validate.format.json {
        true => show::json(&judged, &summary)?,
        false => show::text(&judged)?,
    }
    match summary.verdict() {
        Ok(_) if validate.format.json => Ok(()),
        Ok(sentence) => Ok(crate::output::line(&sentence)?),
        Err(sentence) => Err(Failure::new("invalid_skills", sentence)
            .hint("every code is explained in docs/validate.md")),
    }
}

/// What is at all paths, each document once.
fn look(paths: &[PathBuf]) -> Result<Survey, Failure> {
    let mut found = Survey::default();
    for path in paths {
        let Survey { documents, faults } = survey(path)?;
        found.documents.extend(documents);
        found.faults.extend(faults);
    }
    found.documents.sort_by(|a, b| a.document.cmp(&b.document));
    found.documents.dedup_by(|a, b| a.document == b.document);
    Ok(found)
}
