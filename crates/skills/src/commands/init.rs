//! `init`: creates a skill that passes strict validation.

use std::{
    fmt, fs, io,
    os::unix::fs::PermissionsExt as _,
    path::{Path, PathBuf},
};

use serde_json::json;
use skills_agent_skills::{
    frontmatter::NameAlphabet,
    validate::{self, BundleFiles, FindingLevel, Options, ValidationMode},
};
use skills_core::{Code, bundle_path::check_name};

use crate::{
    Failure,
    cli::{InitArgs, SkillPart},
    output,
};

const SCRIPT: &str = "#!/bin/sh\n# Describe what the script does and what it prints.\nset -eu\n\necho \"Hello from $(basename \"$0\")\"\n";

pub(super) fn run(args: &InitArgs) -> Result<(), Failure> {
    let InitArgs { name, dir, description, with, format } = args;
    let root = dir.join(name);
    let description = description.clone().unwrap_or_else(|| {
        "Describe what this skill does and when to use it, in words that a request would contain."
            .to_owned()
    });
    let files = files(name, &description, with);
    check(name, &files)?;
    match fs::symlink_metadata(&root) {
        Ok(_) => {
            let message = format!("{} exists", output::path(&root));
            return Err(Failure::new(Code::Exists, message)
                .hint("choose another name, or another folder with --dir"));
        }
        Err(error) if error.kind() == io::ErrorKind::NotFound => {}
        Err(error) => return Err(error.into()),
    }
    for file in &files {
        write(&root.join(&file.path), file)?;
    }
    if format.json {
        let paths: Vec<&PathBuf> = files.iter().map(|file| &file.path).collect();
        return Ok(output::json(&json!({ "name": name, "dir": root, "files": paths }))?);
    }
    for file in &files {
        output::line(&format!("created {}", output::path(&root.join(&file.path))))?;
    }
    Ok(output::line(&format!(
        "\nEdit {}, then register it: skills add {}",
        output::path(&root.join("SKILL.md")),
        output::path(&root)
    ))?)
}

struct NewFile {
    path: PathBuf,
    text: String,
    is_executable: bool,
}

fn files(name: &str, description: &str, with: &[SkillPart]) -> Vec<NewFile> {
    let mut body = format!(
        "---\nname: {name}\ndescription: {}\n---\n\n# {}\n\nWrite the instructions for the agent here: steps, examples and edge cases.\n",
        serde_json::Value::from(description),
        title(name)
    );
    let mut files = Vec::new();
    let mut add = |path: &str, text: &str, is_executable: bool| {
        files.push(NewFile { path: path.into(), text: text.to_owned(), is_executable });
    };
    if with.contains(&SkillPart::Scripts) {
        body.push_str("\nRun [the script](scripts/run.sh) for the mechanical part.\n");
        add("scripts/run.sh", SCRIPT, true);
    }
    if with.contains(&SkillPart::References) {
        body.push_str("\nRead [the reference](references/REFERENCE.md) for details.\n");
        add("references/REFERENCE.md", "# Reference\n\nDetails that are needed rarely.\n", false);
    }
    if with.contains(&SkillPart::Assets) {
        body.push_str("\nStart from [the template](assets/template.md).\n");
        add("assets/template.md", "# Template\n", false);
    }
    files.insert(0, NewFile { path: "SKILL.md".into(), text: body, is_executable: false });
    files
}

/// Returns a heading for a name.
fn title(name: &str) -> String {
    let words = name.replace('-', " ");
    let mut characters = words.chars();
    characters
        .next()
        .map_or_else(String::new, |first| first.to_uppercase().chain(characters).collect())
}

/// Validates the files before anything is written. The name is the only input that can be invalid.
fn check(name: &str, files: &[NewFile]) -> Result<(), Failure> {
    let options = Options { mode: ValidationMode::Strict, names: NameAlphabet::Ascii };
    let paths: Vec<String> = files.iter().map(|file| file.path.display().to_string()).collect();
    let document = files.first().map_or("", |file| &file.text).as_bytes();
    let bundle = BundleFiles { directory: Some(name), document, files: Some(&paths) };
    let report = validate::validate(bundle, options);
    let refused = |reason: &dyn fmt::Display, hint: String| {
        let message = format!("{name:?} cannot be the name of a skill: {reason}");
        Err(Failure::new(Code::InvalidInput, message).hint(hint))
    };
    if let Some(finding) = report.findings.iter().find(|it| it.level == FindingLevel::Error) {
        return refused(&finding.message, finding.hint.clone());
    }
    // A legal name, for which sync and export write no folder.
    match check_name(name) {
        Ok(()) => Ok(()),
        Err(error) => refused(&error, "choose another name".to_owned()),
    }
}

fn write(path: &Path, file: &NewFile) -> Result<(), Failure> {
    let failed = |error: io::Error| {
        Failure::new(Code::Io, format!("cannot create {}: {error}", output::path(path)))
            .hint("check the permissions of the folder, or choose another with --dir")
    };
    fs::create_dir_all(path.parent().unwrap_or(Path::new("."))).map_err(failed)?;
    fs::write(path, &file.text).map_err(failed)?;
    if file.is_executable {
        fs::set_permissions(path, fs::Permissions::from_mode(0o755)).map_err(failed)?;
    }
    Ok(())
}
