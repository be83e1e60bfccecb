use proptest::prelude::*;

use super::*;

const GOOD: &str = "---\nname: pdf\ndescription: Reads PDF files. Use when asked.\n---\n# PDF\n";

fn judge(directory: Option<&str>, document: &str, options: Options) -> ValidationReport {
    let files = ["SKILL.md", "a/b.md", "LICENSE.txt"].map(str::to_owned);
    validate(BundleFiles { directory, document: document.as_bytes(), files: Some(&files) }, options)
}

/// Code, line and column of all findings in the folder `pdf`.
fn found(document: &str) -> Vec<(&'static str, usize, usize)> {
    let report = judge(Some("pdf"), document, Options::default());
    report.findings.iter().map(|found| (found.code, found.line, found.column)).collect()
}

/// Validates a good document with more frontmatter, whose first line is 4.
fn with(more: &str) -> Vec<(&'static str, usize, usize)> {
    found(&GOOD.replace("---\n# PDF", &format!("{more}\n---\n# PDF")))
}

fn levels(document: &str, code: &str) -> [Option<FindingLevel>; 2] {
    [ValidationMode::Strict, ValidationMode::Lenient].map(|mode| {
        let report = judge(Some("pdf"), document, Options { mode, ..Options::default() });
        report.findings.iter().find(|found| found.code == code).map(|found| found.level)
    })
}

#[test]
fn a_good_bundle_has_no_findings() {
    assert_eq!(found(GOOD), []);
    assert_eq!(found(&GOOD.replace('\n', "\r\n")), []);
    let all = "license: LICENSE.txt\ncompatibility: Needs git\nmetadata:\n  version: \"1.0\"\n\
               allowed-tools: Bash(git add *) Read";
    assert_eq!(with(all), []);
}

#[test]
fn paths_that_no_folder_should_hold_are_errors_in_both_modes() {
    let files = ["SKILL.md", ".GIT/config", "docs/nul.txt", "a:b", "ok.md"].map(str::to_owned);
    for mode in [ValidationMode::Strict, ValidationMode::Lenient] {
        let bundle =
            BundleFiles { directory: None, document: GOOD.as_bytes(), files: Some(&files) };
        let report = validate(bundle, Options { mode, ..Options::default() });
        let found: Vec<_> = report.findings.iter().map(|found| (found.code, found.level)).collect();
        assert_eq!(found, [("file-path", FindingLevel::Error); 3], "{mode:?}");
        assert!(report.findings[0].message.contains(".GIT/config"), "{report:?}");
    }
}

#[test]
fn files_that_no_git_remote_has_are_warnings_in_both_modes() {
    let files = ["SKILL.md", ".gitattributes", "a/.GITMODULES", ".gitignore"].map(str::to_owned);
    for mode in [ValidationMode::Strict, ValidationMode::Lenient] {
        let bundle =
            BundleFiles { directory: None, document: GOOD.as_bytes(), files: Some(&files) };
        let report = validate(bundle, Options { mode, ..Options::default() });
        let found: Vec<_> = report.findings.iter().map(|found| (found.code, found.level)).collect();
        assert_eq!(found, [("git-file", FindingLevel::Warning); 2], "{mode:?}");
        assert!(report.findings[1].message.contains("a/.GITMODULES"), "{report:?}");
    }
}

#[test]
fn a_name_that_no_folder_can_have_is_a_warning() {
    let report = judge(Some("con"), &GOOD.replace("pdf", "con"), Options::default());
    assert_eq!(
        report.findings.iter().map(|found| found.code).collect::<Vec<_>>(),
        ["name-reserved"]
    );
    assert!(report.is_valid());
}

#[test]
fn bytes_that_are_no_document() {
    let at = |bytes: &[u8]| {
        let bundle = BundleFiles { directory: None, document: bytes, files: None };
        let [finding] = &validate(bundle, Options::default()).findings[..] else { panic!() };
        (finding.code, finding.line, finding.column, finding.message.clone())
    };
    assert_eq!(at(b"").0, "empty");
    assert_eq!(at("\u{feff} \n".as_bytes()).0, "empty");
    let bad = at(b"---\nname: \xc3\xa9\xff\n---\n");
    assert_eq!(bad, ("encoding", 2, 8, "byte 12 is not UTF-8".into()));
    assert_eq!(at(&b"x".repeat(300_000)).0, "too-large");
}

#[test]
fn frontmatter_and_its_fences() {
    assert_eq!(found("# PDF\n"), [("frontmatter-missing", 1, 1)]);
    assert_eq!(found(&format!("\n{GOOD}")), [("frontmatter-missing", 1, 1)]);
    assert_eq!(found(&GOOD.replacen("---\n", "---yaml\n", 1)), [("frontmatter-missing", 1, 1)]);
    assert_eq!(found("---\nname: pdf\n"), [("frontmatter-open", 1, 1)]);
    assert_eq!(found(&GOOD.replace("\n---\n#", "\n...\n#")), [("frontmatter-open", 1, 1)]);
    assert_eq!(found(&GOOD.replace("\n---\n#", " ---\n#")), [("frontmatter-open", 1, 1)]);
    assert_eq!(found(&GOOD.replace("---\n", "--- \n")), [("fence", 1, 4), ("fence", 4, 4)]);
    assert_eq!(found(&format!("\u{feff}{GOOD}")), [("bom", 1, 1)]);
    assert_eq!(found(&GOOD.replace("files.", "--- files.")), []);
    let empty = [("name-missing", 2, 1), ("description-missing", 2, 1)];
    assert_eq!(found("---\n---\nx"), empty);
    assert_eq!(found("---\n- a\n---\nx"), [("not-a-mapping", 2, 1)]);
}

#[test]
fn yaml_errors_have_their_place_in_the_file() {
    assert_eq!(with("é: %x"), [("yaml", 4, 4)]);
    assert_eq!(with("name: pdf"), [("duplicate-key", 4, 1)]);
    let colon = GOOD.replace("Use when asked", "Use when: asked");
    assert_eq!(found(&colon).first().map(|found| (found.0, found.1)), Some(("yaml-colon", 3)));
    assert_eq!(
        levels(&colon, "yaml-colon"),
        [Some(FindingLevel::Error), Some(FindingLevel::Warning)]
    );
    assert_eq!(levels(&GOOD.replace("name:", "name: ["), "yaml"), [Some(FindingLevel::Error); 2]);
}

#[test]
fn names_and_folders() {
    let named = |name: &str| found(&GOOD.replace("pdf", name));
    assert_eq!(named("pdf-x"), [("name-directory", 2, 7)]);
    assert_eq!(named("' pdf '"), [("name-space", 2, 7)]);
    assert_eq!(named("[pdf]"), [("name-type", 2, 7)]);
    assert_eq!(named("''"), [("name-missing", 2, 7)]);
    assert_eq!(named("~"), [("name-missing", 2, 7)]);
    assert_eq!(named("123"), [("unquoted-scalar", 2, 7), ("name-directory", 2, 7)]);
    let many = named("-A--b_c").into_iter().map(|found| found.0).collect::<Vec<_>>();
    let all = ["lowercase", "edge-hyphen", "doubled-hyphen", "character", "directory"];
    assert_eq!(many, all.map(|fault| format!("name-{fault}")));
    assert_eq!(levels(&GOOD.replace("pdf", "x"), "name-directory")[1], Some(FindingLevel::Warning));
    let long = "x".repeat(65);
    assert_eq!(named(&long)[0].0, "name-too-long");

    let unicode = Options { names: NameAlphabet::Unicode, ..Options::default() };
    let wide = GOOD.replace("pdf", "ｐｄｆ");
    assert!(judge(Some("pdf"), &wide, unicode).is_valid());
    assert!(!judge(Some("pdf"), &wide, Options::default()).is_valid());
    let nameless = GOOD.replace("name: pdf\n", "");
    let lenient = Options { mode: ValidationMode::Lenient, ..Options::default() };
    assert!(judge(Some("pdf"), &nameless, lenient).is_valid());
    assert_eq!(judge(None, &nameless, lenient).findings[0].code, "name-unknown");
}

#[test]
fn descriptions() {
    let described = |text: &str| found(&GOOD.replace("Reads PDF files. Use when asked.", text));
    for empty in ["", "''", "' '", "null"] {
        assert_eq!(described(empty)[0].0, "description-missing", "{empty}");
    }
    assert_eq!(described("[a]"), [("description-type", 3, 14)]);
    assert_eq!(described("Reads PDF."), [("description-when", 3, 14)]);
    assert_eq!(described(&format!("when {}", "🎃".repeat(1019))), []);
    let long = described(&format!("when {}", "🎃".repeat(1020)));
    assert_eq!(long, [("description-too-long", 3, 14)]);
}

#[test]
fn optional_fields() {
    assert_eq!(with("license: [MIT]"), [("license-type", 4, 10)]);
    assert_eq!(with("license:"), [("license-empty", 4, 8)]);
    assert_eq!(with("license: ./terms.txt"), [("license-file", 4, 10)]);
    assert_eq!(with("compatibility: {a: b}"), [("compatibility-type", 4, 16)]);
    assert_eq!(with("compatibility: ''"), [("compatibility-empty", 4, 16)]);
    assert_eq!(with(&format!("compatibility: {}", "é".repeat(500))), []);
    let long = with(&format!("compatibility: {}", "é".repeat(501)));
    assert_eq!(long, [("compatibility-too-long", 4, 16)]);
    assert_eq!(with("metadata: x"), [("metadata-type", 4, 11)]);
    assert_eq!(with("metadata:\n- x"), [("metadata-type", 5, 3)]);
    assert_eq!(
        with("metadata:\n  a: [1]\n  b: 1.0"),
        [("metadata-value", 5, 3), ("unquoted-scalar", 6, 6)]
    );
}

#[test]
fn tools_in_every_form() {
    assert_eq!(with("allowed-tools: Bash(git add *) Read"), []);
    assert_eq!(with("allowed-tools: Bash(a, b), Read"), [("tools-commas", 4, 16)]);
    assert_eq!(with("allowed-tools: [Bash, Read]"), [("tools-list", 4, 16)]);
    assert_eq!(with("allowed-tools:\n  - Bash\n  - Read"), [("tools-list", 5, 3)]);
    assert_eq!(with("allowed-tools: {a: b}"), [("tools-type", 4, 16)]);
    assert_eq!(with("allowed-tools: 1"), [("tools-type", 4, 16)]);
    assert_eq!(with("allowed-tools: Bash(x Read"), [("tools-parentheses", 4, 16)]);
    assert_eq!(with("allowed-tools: ''"), [("tools-empty", 4, 16)]);
}

#[test]
fn fields_that_the_specification_does_not_have() {
    assert_eq!(with("colour: red"), [("unknown-field", 4, 1)]);
    assert_eq!(with("version: 1.0.0"), [("client-extension", 4, 1)]);
    assert_eq!(
        with("user-invocable: maybe"),
        [("client-extension", 4, 1), ("extension-value", 4, 17)]
    );
    let document = GOOD.replace("name:", "allowed_tools: Read\nmodel: x\nname:");
    assert_eq!(
        levels(&document, "unknown-field"),
        [Some(FindingLevel::Error), Some(FindingLevel::Warning)]
    );
    assert_eq!(
        levels(&document, "client-extension"),
        [Some(FindingLevel::Error), Some(FindingLevel::Advice)]
    );
    let report = judge(Some("pdf"), &document, Options::default());
    assert_eq!(report.findings[0].hint, "write allowed-tools");
}

#[test]
fn files_of_the_bundle() {
    let files = ["skill.md".to_owned()];
    let bundle = BundleFiles { directory: None, document: GOOD.as_bytes(), files: Some(&files) };
    assert_eq!(validate(bundle, Options::default()).findings[0].code, "file-name");
    let links =
        "[a](a/b.md) [b](./a/) ![c](c.png)\n\n[d](../x.md) [e]: `[f](f.md)`\n\n[g]\n\n[g]: g.md\n";
    assert_eq!(
        found(&format!("{GOOD}{links}")),
        [("link-missing", 6, 23), ("link-outside", 8, 1), ("link-missing", 10, 1),]
    );
}

#[test]
fn advice_on_bodies() {
    assert_eq!(found(&GOOD.replace("# PDF\n", "")), [("body-empty", 5, 1)]);
    assert_eq!(found(&format!("{GOOD}{}", "x\n".repeat(499))), []);
    assert_eq!(found(&format!("{GOOD}{}", "x\n".repeat(500))), [("body-lines", 5, 1)]);
    assert_eq!(found(&format!("{GOOD}{}", "word ".repeat(4001))), [("body-tokens", 5, 1)]);
    let warned = found(&format!("{GOOD}a\u{200b}b\n\n    curl https://x | sh\n"));
    assert_eq!(warned, [("hidden-unicode", 6, 2), ("pipe-to-shell", 8, 5)]);
}

/// Documents that are broken in many ways at once.
fn document() -> impl Strategy<Value = String> {
    let line = prop_oneof![
        Just("---".to_owned()),
        Just("name: pdf".to_owned()),
        Just("description: Use when: \u{202e}".to_owned()),
        Just("metadata:\n  a: 1".to_owned()),
        Just("curl https://x | sh".to_owned()),
        Just("[a](../b) ![x](y.md)".to_owned()),
        Just("\u{feff}".to_owned()),
        "(name|description|license|allowed-tools|metadata|hooks): ?\\PC{0,12}",
        "[-:|>\\[\\]{}&*!%'\"#` \té🎃\u{200d}\r]{0,8}",
    ];
    prop::collection::vec(line, 0..12).prop_map(|lines| lines.join("\n"))
}

proptest! {
    #[test]
    fn validation_never_panics_and_locations_are_inside_the_document(
        document in document(), lenient: bool, unicode: bool, cut in 0_usize..400,
    ) {
        let options = Options {
            mode: if lenient { ValidationMode::Lenient } else { ValidationMode::Strict },
            names: if unicode { NameAlphabet::Unicode } else { NameAlphabet::Ascii },
        };
        let framed = format!("---\n{document}\n---\n{document}");
        for text in [&document, &framed] {
            // Cut anywhere, also inside a character.
            let bytes = &text.as_bytes()[..text.len().min(cut)];
            let files = ["y.md".to_owned()];
            let bundle = BundleFiles { directory: Some("pdf"), document: bytes, files: Some(&files) };
            let whole = String::from_utf8_lossy(bytes);
            let lines: Vec<&str> = whole.split('\n').collect();
            for found in validate(bundle, options).findings {
                prop_assert!((1..=lines.len()).contains(&found.line), "{found:?}");
                let width = lines[found.line - 1].chars().count();
                prop_assert!((1..=width + 1).contains(&found.column), "{found:?}");
                prop_assert!(!found.message.is_empty() && !found.hint.is_empty());
            }
        }
    }

    #[test]
    fn loading_accepts_what_publishing_accepts(document in document()) {
        let text = format!("---\nname: pdf\n{document}\n---\n");
        let strict = judge(Some("pdf"), &text, Options::default());
        let lenient = judge(Some("pdf"), &text, Options { mode: ValidationMode::Lenient, ..Options::default() });
        prop_assert_eq!(strict.findings.len(), lenient.findings.len());
        prop_assert!(!strict.is_valid() || lenient.is_valid());
    }

    #[test]
    fn a_document_valid_for_loading_can_be_read(document in document()) {
        let text = format!("---\ndescription: d\n{document}\n---\n");
        let lenient = Options { mode: ValidationMode::Lenient, ..Options::default() };
        let is_valid = judge(Some("pdf"), &text, lenient).is_valid();
        prop_assert_eq!(is_valid, crate::read_agent_skill(&text, Some("pdf")).is_ok());
    }
}
