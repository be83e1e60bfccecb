use std::time::Duration;

use super::{super::ScopeSettings, settings::SETTINGS, *};

type Loaded = Result<(Config, Vec<String>), String>;

fn load(text: &str) -> Loaded {
    let dir = tempfile::tempdir().unwrap();
    let path = dir.path().join("c.yaml");
    fs::write(&path, text).unwrap();
    read(&path, true).map_err(|error| format!("{error} hint: {}", error.hint().unwrap_or_default()))
}

/// Returns a file with one setting in its sections.
fn file_with(setting: &str, value: &str) -> String {
    let names: Vec<&str> = setting.split('.').collect();
    let (last, sections) = names.split_last().unwrap();
    let opened: String = sections.iter().map(|section| format!("{{{section}: ")).collect();
    format!("{opened}{{{last}: {value}}}{}", "}".repeat(sections.len()))
}

#[test]
fn the_documented_file_is_read() {
    let (config, warnings) =
        load("# c\nscopes:\n  skills: a\n  prompts: b\nstate_timeout_ms: 250\n").unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.scopes, ScopeSettings { skills: "a".into(), prompts: "b".into() });
    assert_eq!(config.handler_timeout(), Duration::from_millis(250));
    let (config, warnings) = load(
        "http: 127.0.0.1:0\nhttp_token: '5555555555555555'\nallow_origin: ['*', 'https://a.example', 'null']\nmdp:\n  token: token-of-16-bytes\n  \
         forward_credentials: true\n  behind_tls: yes\n  limits: {clients: 5}\n  timeouts: {answer_ms: 250}\ntiers:\n",
    )
    .unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    assert_eq!(config.http_token.as_deref(), Some("5555555555555555"));
    assert_eq!(config.allow_origin, ["*", "https://a.example", "null"]);
    assert_eq!(config.mdp.token.as_deref(), Some("token-of-16-bytes"));
    assert!(config.mdp.forward_credentials && config.mdp.behind_tls);
    assert_eq!(config.mdp.limits.clients, 5);
    assert_eq!(config.mdp.times.answer_within, Duration::from_millis(250));
}

#[test]
fn the_documentation_and_the_table_have_the_same_settings() {
    let page = include_str!("../../../../docs/cli.md");
    let (_, rest) = page.split_once("```yaml\n").unwrap();
    let (example, _) = rest.split_once("```").unwrap();
    let (_, warnings) = load(example).unwrap();
    assert!(warnings.is_empty(), "{warnings:?}");
    for setting in SETTINGS {
        let name = setting.path.rsplit('.').next().unwrap();
        assert!(example.contains(&format!("{name}:")), "{} is not documented", setting.path);
    }
    let (_, rest) = page.split_once("\nSecurity settings are ").unwrap();
    let (sentence, _) = rest.split_once(". ").unwrap();
    let documented: Vec<&str> = sentence.split('`').skip(1).step_by(2).collect();
    let strict = SETTINGS.iter().filter(|setting| setting.class == Class::Security);
    assert_eq!(documented, strict.map(|setting| setting.path).collect::<Vec<_>>());
}

#[test]
fn an_empty_file_gives_defaults_without_warnings() {
    for text in ["", "# only a comment\n", "---\n", "mdp:\n", "{}"] {
        assert_eq!(load(text), Ok((Config::default(), vec![])), "{text:?}");
    }
    let absent = Path::new("/nonexistent/config.yaml");
    assert_eq!(read(absent, false).unwrap(), (Config::default(), vec![]));
    let error = read(absent, true).unwrap_err();
    assert!(error.to_string().starts_with("/nonexistent/config.yaml: "), "{error}");
}

#[test]
fn an_unusable_security_setting_is_an_error_and_any_other_a_warning() {
    for setting in SETTINGS {
        for value in ["", "-7", "1.5", "{s3cret: s3cret}", "[[s3cret]]"] {
            let loaded = load(&file_with(setting.path, value));
            let message = match (setting.class, &loaded) {
                (Class::Security, Err(error)) => error,
                (Class::Plain, Ok((config, warnings))) => {
                    assert_eq!((config, warnings.len()), (&Config::default(), 1), "{warnings:?}");
                    &warnings[0]
                }
                _ => panic!("{} {value}: {loaded:?}", setting.path),
            };
            assert!(message.contains(&format!(": {} ", setting.path)), "{message}");
            assert!(!message.contains("s3cret"), "{message}");
            assert!(message.contains("c.yaml:1:"), "{message}");
        }
    }
}

#[test]
fn the_error_of_a_security_setting_has_reason_position_and_hint() {
    for (text, expected) in [
        ("\nhttp_token: 12345", "c.yaml:2:13: http_token must be text, not a number hint: put"),
        ("http_token: 0x1f", "must be text, not a number"),
        ("http_token: true", "must be text, not true or false hint: put"),
        ("http_token: ''", "http_token is set but empty"),
        ("http_token: fifteen-letters", "http_token has fewer than 16 bytes"),
        ("http_token: 'a '", "white space"),
        ("http_token: |\n  abc\n", "white space"),
        ("mdp:\n  token: 5\n", "c.yaml:2:10: mdp.token must be text"),
        ("mdp: on", "mdp must be a mapping of settings"),
        ("http: 80", "http must be text, not a number"),
        ("http: here", "http must be an address"),
        ("store: cloud", "store must be auto, state or embedded"),
        ("store: {mode: cloud}", "c.yaml:1:15: store.mode must be auto"),
        (
            "store: {max_stale: 30}",
            "c.yaml:1:20: store.max_stale is not a time with a unit hint: write a time such as 30s",
        ),
        ("store: {max_stale: 30d}", "store.max_stale is not a time"),
        (
            "store: {max_stale: [30s]}",
            "store.max_stale must be text, not a list hint: correct or remove store.max_stale",
        ),
        (
            "store: {max_stal: 30s}",
            "c.yaml:1:9: store.max_stal is not a setting hint: write it as max_stale",
        ),
        ("store: {postgres://me@h/x: }", "store has only mode, url and max_stale"),
        (
            "store: {url: mysql://h/x}",
            "store.url is unusable: the database URL must begin with postgres://",
        ),
        ("store: {url: 5}", "store.url must be text"),
        ("sections: all", "sections must be linked or any"),
        ("allow_host: here", "allow_host must be a list, not text"),
        ("allow_host: [b, 'a b']", "c.yaml:1:17: allow_host has an unusable entry"),
        ("allow_origin: [https://a.example/path]", "is not an origin"),
        ("tiers: {prefix: 'a b'}", "tiers.prefix is unusable"),
        ("execution: {allow_upstream: ['a b']}", "is no origin"),
        ("execution: {https_only: 'yes'}", "execution.https_only must be true or false"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected), "{text}: {error}");
        assert!(error.contains("hint: "), "{error}");
    }
}

#[test]
fn the_error_of_a_malformed_file_does_not_contain_its_content() {
    for (text, expected) in [
        ("http_token: s3cret\nhttp_token: s3cret2\n", "c.yaml:2:1: a setting is given twice"),
        ("http: x\n\thttp_token: s3cret\n", "spaces, not with tabs"),
        ("mdp:\n\ttoken: s3cret\n", "spaces, not with tabs"),
        ("http_token: 's3cret\n", "not valid YAML"),
        ("http_token: [s3cret\n", "not valid YAML"),
        ("http_token: s3cret: s3cret\n", "c.yaml:1:"),
        ("http_token: !!binary s3cret-\n", "c.yaml:1:"),
        ("http_token: *s3cret\n", "c.yaml:1:"),
        ("http_token: .inf\n", "c.yaml:1:"),
        ("- http_token: s3cret\n", "c.yaml:1:1: not a mapping of settings"),
        ("s3cret", "not a mapping"),
        ("a: 1\n---\nhttp_token: s3cret\n", "more than one YAML document"),
        ("? [s3cret]\n: 1\n", "c.yaml:1:"),
    ] {
        let error = load(text).unwrap_err();
        assert!(error.contains(expected) && error.contains("hint: "), "{text}: {error}");
        assert!(!error.contains("s3cret"), "{text}: {error}");
    }
}

#[test]
fn other_unusable_and_unknown_settings_are_warnings() {
    for (text, words) in [
        ("state_timeout_ms: soon", "state_timeout_ms must be a whole number"),
        ("state_timeout_ms: 0", "at least 1"),
        ("scopes: 7", "scopes must be a mapping"),
        ("scopes: {skills: [1]}", "scopes.skills must be text"),
        ("limits: {FREE: many}", "limits.FREE must be a whole number"),
        ("limits: {GOLD: 1}", "limits.GOLD is not a setting"),
        ("execution: {fast: true}", "execution.fast is not a setting"),
        ("colour: red", "c.yaml:1:1: colour is not a setting"),
        ("mdp: {limits: {clients: 0}}", "mdp.limits.clients must be at least 1"),
        ("mdp: {timeouts: {answer_ms: 0}}", "mdp.timeouts.answer_ms must be at least 1"),
        ("mdp: {timeouts: {answer_ms: 18446744073709551615}}", "not be more than a day"),
        ("mdp: {timeouts: {ping_ms: 90000}}", "mdp.timeouts.silence_ms must be more"),
    ] {
        let (config, warnings) = load(text).unwrap();
        assert_eq!(config, Config::default(), "{text}");
        assert!(warnings.len() == 1 && warnings[0].contains(words), "{text}: {warnings:?}");
    }
}

#[test]
fn the_default_file_of_another_program_does_not_stop_a_command() {
    // Named files stop both; the default file is looked for in the working directory, so it is tested end to end.
    let absent = Some(Path::new("/nonexistent/config.yaml"));
    for purpose in [Purpose::Server, Purpose::Command] {
        assert!(Config::load(absent, purpose).is_err(), "{purpose:?}");
    }
}
