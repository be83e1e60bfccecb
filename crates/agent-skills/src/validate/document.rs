//! Checks of the document: size, encoding, fences, YAML.

use super::{
    BundleFiles, Options, body, extensions, fields,
    findings::{Findings, quoted},
    links, name, rules, scan,
};
use crate::{
    frontmatter::{self, FrontmatterError, FrontmatterFields},
    markdown::{FrontmatterBlock, find_frontmatter, strip_bom},
};
use skills_core::{
    BundlePath, bundle_path::is_read_by_git, limits::MAX_SKILL_BYTES, skill::ROOT_PATH,
};

/// Fields of a document and the offset of their YAML.
pub(super) struct Frontmatter {
    pub(super) fields: FrontmatterFields,
    start: usize,
}

impl Frontmatter {
    /// Converts an offset in the YAML to one in the document.
    pub(super) const fn place(&self, at: usize) -> usize {
        self.start + at
    }

    /// Returns the offset at which a missing field could be added.
    pub(super) const fn end_of_fence(&self) -> usize {
        self.start
    }
}

/// Runs all checks, and returns the fields.
pub(super) fn check(
    bundle: BundleFiles<'_>,
    options: Options,
    findings: &mut Findings,
) -> Option<FrontmatterFields> {
    check_file_name(bundle.files, findings);
    check_file_paths(bundle.files, findings);
    let document = text(bundle.document, findings)?;
    let mut found = None;
    let text = strip_bom(document);
    let skipped = document.len() - text.len();
    if skipped > 0 {
        findings.add(&rules::BOM, 0, "the file starts with a byte order mark");
    }
    let body_start = match find_frontmatter(text) {
        FrontmatterBlock::Missing => {
            missing(text, skipped, findings);
            skipped
        }
        FrontmatterBlock::Unclosed => {
            findings.add(&rules::FRONTMATTER_OPEN, skipped, "the frontmatter is not closed");
            document.len()
        }
        FrontmatterBlock::Closed { opening_fence, yaml, closing_fence } => {
            for fence in [&opening_fence, &closing_fence] {
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
            body::check(&text[closing_fence.end..], skipped + closing_fence.end, findings);
            skipped + closing_fence.end
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
    bundle: BundleFiles<'_>,
    options: Options,
    findings: &mut Findings,
) {
    name::check(frontmatter, bundle.directory, options.names, findings);
    fields::check(frontmatter, bundle.files, findings);
    extensions::check(frontmatter, findings);
}

/// Reports file paths that no registry accepts, and those that no repository made of the bundle has.
fn check_file_paths(files: Option<&[String]>, findings: &mut Findings) {
    for path in files.unwrap_or_default() {
        if let Err(error) = path.parse::<BundlePath>() {
            findings.add(&rules::FILE_PATH, 0, error.to_string());
        } else if is_read_by_git(path) {
            let path = quoted(path);
            findings.add(&rules::GIT_FILE, 0, format!("git reads {path} in every repository"));
        }
    }
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
        Ok(text) if strip_bom(text).trim().is_empty() => {
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

fn read(yaml: &str, start: usize, findings: &mut Findings) -> Option<FrontmatterFields> {
    match frontmatter::parse(yaml) {
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
                FrontmatterError::Yaml { at, .. } => (&rules::YAML, at),
                FrontmatterError::DuplicateKey { at, .. } => (&rules::DUPLICATE_KEY, at),
                FrontmatterError::NotAMapping { at } => (&rules::NOT_A_MAPPING, at),
            };
            findings.add(rule, start + at, error.to_string());
            None
        }
    }
}
