//! Name of the skill, and the name of its folder.

use super::{
    document::Frontmatter,
    fields::check_scalar,
    findings::{Findings, quoted},
    rules,
};
use crate::frontmatter::{MAX_NAME_CHARS, NameAlphabet, NameFault, name_faults, normalise_name};
use skills_core::bundle_path::check_name;

pub(super) fn check(
    frontmatter: &Frontmatter,
    directory: Option<&str>,
    alphabet: NameAlphabet,
    findings: &mut Findings,
) {
    let Some(found) = frontmatter.fields.get("name") else {
        return missing(frontmatter.end_of_fence(), directory, "there is no name", findings);
    };
    let at = frontmatter.place(found.at);
    let Some(text) = found.value.text().filter(|text| !text.trim().is_empty()) else {
        let is_empty = found.value.is_null() || found.value.text().is_some();
        return if is_empty {
            missing(at, directory, "the name is empty", findings)
        } else {
            findings.add(&rules::NAME_TYPE, at, "the name is not a text")
        };
    };
    check_scalar("name", &found.value, at, findings);
    let name = text.trim();
    if name != text {
        let message = format!("the name {} has white space around it", quoted(text));
        findings.add(&rules::NAME_SPACE, at, message);
    }
    let faults = name_faults(name, alphabet);
    if faults.is_empty() && check_name(name).is_err() {
        let message =
            format!("the name {} cannot be that of a folder on every system", quoted(name));
        findings.add(&rules::NAME_RESERVED, at, message);
    }
    for fault in faults {
        report_fault(fault, name, at, alphabet, findings);
    }
    if let Some(directory) = directory
        && normalise_name(directory, alphabet) != normalise_name(name, alphabet)
    {
        let message =
            format!("the name {} is not that of the folder, {}", quoted(name), quoted(directory));
        findings.add(&rules::NAME_DIRECTORY, at, message);
    }
}

/// Reports a missing name, which the folder's name replaces if there is a folder.
fn missing(at: usize, directory: Option<&str>, message: &str, findings: &mut Findings) {
    match directory {
        Some(_) => findings.add(&rules::NAME_MISSING, at, message),
        None => findings.add(&rules::NAME_UNKNOWN, at, message),
    }
}

fn report_fault(
    fault: NameFault,
    name: &str,
    at: usize,
    alphabet: NameAlphabet,
    findings: &mut Findings,
) {
    let name = quoted(name);
    match fault {
        // A name without characters was reported as missing.
        NameFault::Empty => {}
        NameFault::TooLong { chars } => {
            let message =
                format!("the name has {chars} characters, at most {MAX_NAME_CHARS} are allowed");
            findings.add(&rules::NAME_TOO_LONG, at, message);
        }
        NameFault::NotLowercase => {
            findings.add(
                &rules::NAME_LOWERCASE,
                at,
                format!("the name {name} is not in lower case"),
            );
        }
        NameFault::EdgeHyphen => {
            let message = format!("the name {name} starts or ends with a hyphen");
            findings.add(&rules::NAME_EDGE_HYPHEN, at, message);
        }
        NameFault::DoubledHyphen => {
            let message = format!("the name {name} has two hyphens in a row");
            findings.add(&rules::NAME_DOUBLED_HYPHEN, at, message);
        }
        NameFault::Character(found) => {
            let rule = &rules::NAME_CHARACTER;
            let message = format!("the name {name} must not hold {found:?}");
            match alphabet {
                NameAlphabet::Ascii => findings.add(rule, at, message),
                NameAlphabet::Unicode => {
                    findings.add_with_hint(rule, at, message, "use only letters, digits and -");
                }
            }
        }
    }
}
