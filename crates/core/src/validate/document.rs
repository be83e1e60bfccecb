//! From bytes to fields and body: size, encoding, fences, YAML.

use super::{
    Bundle, Options, body, extensions, fields, findings::Findings, links, name, rules, scan,
};
use crate::{
    frontmatter::{self, Fields, Unreadable},
    limits::MAX_SKILL_BYTES,
    markdown::{Opening, opening, without_bom},
    skill::ROOT_PATH,
};

/// A document's fields and where their YAML begins.
pub(super) struct Frontmatter {
    pub(super) fields: Fields,
    start: usize,
}

impl Frontmatter {
    /// A place in the YAML as one in the document.
    pub(super) const fn place(&self, at: usize) -> usize {
        self.start + at
    }

    /// Where something that is missing could be added.
    pub(super) const fn end_of_fence(&self) -> usize {
        self.start
    }
}

/// Looks at everything that can be looked at, and tells the fields.
pub(super) fn check(
    bundle: Bundle<'_>,
    options: Options,
    findings: &mut Findings,
) -> Option<Fields> {
    check_file_name(bundle.files, findings);
    let document = text(bundle.document, findings)?;
    let mut found = None;
    let text = without_bom(document);
    let skipped = document.len() - text.len();
    if skipped > 0 {
        findings.add(&rules::BOM, 0, "the file starts with a byte order mark");
    }
    let body_start = match opening(text) {
        Opening::Missing => {
            missing(text, skipped, findings);
            skipped
        }
        Opening::Open => {
            findings.add(&rules::FRONTMATTER_OPEN, skipped, "the frontmatter is not closed");
            document.len()
        }
        Opening::Closed { opening, yaml, closing } => {
            for fence in [&opening, &closing] {
                if text[fence.clone()].trim_end_matches(['\r', '\n']) != "---" {
                    let at = skipped + fence.start + "---".len();
                    findings.add(&rules::FENCE, at, "there are blanks after ---");
                }
            }
            let start = skipped + yaml.start;
            if let Some(fields) = read(&text[yaml], start, findings) {
                let frontmatter = Frontmatter { fields, start };
                check_fields(&frontmatter, bundle, options, findings);
                found = Some(frontmatter.fields);
            }
            body::check(&text[closing.end..], skipped + closing.end, findings);
            skipped + closing.end
        }
    };
    if let Some(files) = bundle.files {
        links::check(&document[body_start..], body_start, files, findings);
    }
    scan::check(document, findings);
    found
}

fn check_fields(
    frontmatter: &Frontmatter,
    bundle: Bundle<'_>,
    options: Options,
    findings: &mut Findings,
) {
    name::check(frontmatter, bundle.directory, options.names, findings);
    fields::check(frontmatter, bundle.files, findings);
    extensions::check(frontmatter, findings);
}

fn check_file_name(files: Option<&[String]>, findings: &mut Findings) {
    let files = files.unwrap_or_default();
    if files.iter().any(|path| path == ROOT_PATH) {
        return;
    }
    if let Some(path) = files.iter().find(|path| path.eq_ignore_ascii_case(ROOT_PATH)) {
        findings.add(
            &rules::FILE_NAME,
            0,
            format!("the document is called {path}, not {ROOT_PATH}"),
        );
    }
}

fn text<'a>(bytes: &'a [u8], findings: &mut Findings) -> Option<&'a str> {
    if bytes.len() > MAX_SKILL_BYTES {
        let message = format!("the document has more than {MAX_SKILL_BYTES} bytes");
        findings.add(&rules::TOO_LARGE, 0, message);
        return None;
    }
    match std::str::from_utf8(bytes) {
        Ok(text) if without_bom(text).trim().is_empty() => {
            findings.add(&rules::EMPTY, 0, "the file is empty");
            None
        }
        Ok(text) => Some(text),
        Err(error) => {
            let at = error.valid_up_to();
            findings.add(&rules::ENCODING, at, format!("byte {at} is not UTF-8"));
            None
        }
    }
}

fn missing(text: &str, start: usize, findings: &mut Findings) {
    let first = text.trim_start();
    let rule = &rules::FRONTMATTER_MISSING;
    let message = "the file does not start with a line ---";
    if first.len() < text.len() && first.starts_with("---") {
        findings.add_with_hint(rule, start, message, "remove what stands before ---");
    } else if first.starts_with("---") {
        findings.add_with_hint(rule, start, message, "leave nothing but --- on the first line");
    } else {
        findings.add(rule, start, message);
    }
}

fn read(yaml: &str, start: usize, findings: &mut Findings) -> Option<Fields> {
    match frontmatter::read(yaml) {
        Ok(fields) => {
            if let Some(error) = &fields.repaired {
                findings.add(
                    &rules::YAML_COLON,
                    start + error.at,
                    format!("a value holds a colon and is not quoted: {}", error.value),
                );
            }
            Some(fields)
        }
        Err(error) => {
            let (rule, at) = match error {
                Unreadable::Yaml { at, .. } => (&rules::YAML, at),
                Unreadable::DuplicateKey { at, .. } => (&rules::DUPLICATE_KEY, at),
                Unreadable::NotAMapping { at } => (&rules::NOT_A_MAPPING, at),
            };
            findings.add(rule, start + at, error.to_string());
            None
        }
    }
}
