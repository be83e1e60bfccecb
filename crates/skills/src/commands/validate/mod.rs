//! `validate`: says what the specification of Agent Skills thinks of files on disk.
//!
//! - `find`: which bundles there are
//! - `judge`: reading and judging them, on all cores
//! - `show`: what is printed
//!
//! The rules are in `skills_core::validate`; nothing here knows one.

mod find;
mod judge;
mod show;

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
    let found = find::all(&validate.paths)?;
    let judged = judge::all(&found, options)?;
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
