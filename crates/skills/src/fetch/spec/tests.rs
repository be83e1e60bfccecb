//! Parsing of sources.

use super::*;

fn parse(text: &str) -> SourceSpec {
    SourceSpec::parse(Path::new(text), SourceRules::default()).unwrap()
}

fn git(text: &str) -> (String, Option<String>, String) {
    match parse(text) {
        SourceSpec::Git(git) => {
            let reference = git.reference().map(str::to_owned);
            (git.url().to_owned(), reference, git.path().to_owned())
        }
        other => panic!("{text}: {other:?}"),
    }
}

#[test]
fn repositories_are_written_in_many_ways() {
    for (text, url, reference, path) in [
        ("acme/skills", "https://github.com/acme/skills", None, ""),
        ("acme/skills/", "https://github.com/acme/skills", None, ""),
        ("acme/skills@v1", "https://github.com/acme/skills", Some("v1"), ""),
        ("acme/skills/a/b@x/y", "https://github.com/acme/skills", Some("x/y"), "a/b"),
        ("acme/skills/@scope/b", "https://github.com/acme/skills", None, "@scope/b"),
        ("https://github.com/acme/skills", "https://github.com/acme/skills", None, ""),
        ("https://github.com/a/b.git@v1", "https://github.com/a/b.git", Some("v1"), ""),
        ("https://github.com/a/b#v1", "https://github.com/a/b", Some("v1"), ""),
        ("https://github.com/a/b/tree/main/c/d", "https://github.com/a/b", Some("main"), "c/d"),
        ("https://github.com/a/b/c@v2", "https://github.com/a/b", Some("v2"), "c"),
        ("https://git.example.com/x/y/z", "https://git.example.com/x/y/z", None, ""),
        ("git@github.com:acme/skills.git", "git@github.com:acme/skills.git", None, ""),
        ("git@github.com:acme/skills@v1", "git@github.com:acme/skills", Some("v1"), ""),
        ("ssh://git@host/x@v1", "ssh://git@host/x", Some("v1"), ""),
        ("file:///srv/git/x", "file:///srv/git/x", None, ""),
    ] {
        let expected = (url.to_owned(), reference.map(str::to_owned), path.to_owned());
        assert_eq!(git(text), expected, "{text}");
    }
    let other = {
        let rules = SourceRules { host: "git.example.com", insecure: false };
        SourceSpec::parse(Path::new("a/b"), rules).unwrap()
    };
    assert!(matches!(other, SourceSpec::Git(git) if git.url() == "https://git.example.com/a/b"));
}

#[test]
fn everything_else_is_a_path_or_an_archive() {
    for text in ["absent", "./a/b", "../a/b", "/a/b", "a/../b", "-x/y", "a b/c", "a/.."] {
        assert_eq!(parse(text), SourceSpec::Path(text.into()), "{text}");
    }
    assert_eq!(parse("-"), SourceSpec::Stdin);
    let archive = "https://example.com/a/pdf.skill?x=1";
    let url = Url::parse(archive).unwrap();
    let expected = SourceSpec::Archive(ArchiveSource { url, may_be_local: true, sha256: None });
    assert_eq!(parse(archive), expected);
    for text in ["http://example.com/a.zip", "ext::sh -c x://", "git://h/x", "ftp://h/a.zip"] {
        assert!(SourceSpec::parse(Path::new(text), SourceRules::default()).is_err(), "{text}");
    }
    assert!(matches!(parse("http://127.0.0.1:1/a.zip"), SourceSpec::Archive(_)));
}

#[test]
fn sites_servers_and_marketplaces_are_told_from_repositories() {
    for (text, url) in [
        ("https://example.com", "https://example.com/"),
        ("https://example.com/", "https://example.com/"),
        ("skills+https://example.com", "https://example.com/"),
        (
            "https://example.com/market/.well-known/agent-skills/index.json",
            "https://example.com/market/",
        ),
        ("http://127.0.0.1:1/.well-known/skills/index.json", "http://127.0.0.1:1/"),
    ] {
        let SourceSpec::Site(site) = parse(text) else { panic!("{text}") };
        assert_eq!(site.url.as_str(), url, "{text}");
    }
    for (text, id, version) in [
        ("skills+https://example.com/pdf", "pdf", None),
        ("skills+https://example.com/pdf@stable", "pdf", Some("stable")),
        ("skills+http://127.0.0.1:1/pdf@3", "pdf", Some("3")),
    ] {
        let SourceSpec::Server(server) = parse(text) else { panic!("{text}") };
        assert_eq!((server.id.as_str(), server.version.as_deref()), (id, version), "{text}");
        assert_eq!(server.site.url.path(), "/", "{text}");
    }
    let stored = Provenance::new(SourceKind::Url, "https://example.com/official/");
    let again = SourceSpec::from_provenance(&stored, ChosenBy::Registry).unwrap();
    let SourceSpec::Site(site) = again else { panic!("{again:?}") };
    assert_eq!((site.url.path(), site.may_be_local), ("/official/", false));
    let market = "https://example.com/.claude-plugin/marketplace.json";
    assert!(matches!(parse(market), SourceSpec::Marketplace(_)));
    for text in [
        "skills+https://example.com/a/b",
        "skills+https://example.com/UPPER",
        "skills+https://example.com/pdf@",
        "skills+http://example.com/pdf",
        "skills+ftp://example.com/pdf",
        "skills+file:///etc/passwd",
        "http://example.com",
    ] {
        assert!(SourceSpec::parse(Path::new(text), SourceRules::default()).is_err(), "{text}");
    }
    let rules = SourceRules { insecure: true, ..SourceRules::default() };
    let allowed = SourceSpec::parse(Path::new("http://example.com/a/b.git"), rules);
    assert!(matches!(allowed, Ok(SourceSpec::Git(_))));
}

#[test]
fn a_stored_location_passes_the_parser_of_arguments() {
    for (kind, location) in [
        (SourceKind::Git, "ext::sh -c touch% /tmp/x x://y"),
        (SourceKind::Git, "ssh://-oProxyCommand=x/a"),
        (SourceKind::Git, "git://example.com/a"),
        (SourceKind::Git, "http://example.com/a"),
        (SourceKind::Git, "/srv/git"),
        (SourceKind::Git, "https://example.com/a.zip"),
        (SourceKind::Git, "https://example.com/a@--upload-pack=x"),
        (SourceKind::Url, "https://example.com/a"),
        (SourceKind::Url, "file:///etc/a.zip"),
        (SourceKind::Worker, "w"),
    ] {
        for chosen_by in [ChosenBy::User, ChosenBy::Registry] {
            let provenance = Provenance::new(kind, location);
            let parsed = SourceSpec::from_provenance(&provenance, chosen_by);
            assert!(parsed.is_err(), "{location}: {parsed:?}");
        }
    }
}

#[test]
fn a_registry_cannot_choose_files_and_local_networks() {
    for (kind, location) in [
        (SourceKind::Path, "/home/me/.ssh/id_ed25519"),
        (SourceKind::Git, "file:///home/me/notes"),
        (SourceKind::Git, "http://127.0.0.1:1/a"),
        (SourceKind::Git, "https://10.0.0.1/a"),
        (SourceKind::Git, "https://localhost/a"),
        (SourceKind::Git, "ssh://git@192.168.0.1/a"),
        (SourceKind::Git, "git@192.168.0.1:a"),
        (SourceKind::Git, "git@router:a"),
        (SourceKind::Git, "git@127.1:a"),
        (SourceKind::Git, "git@2130706433:a"),
        (SourceKind::Git, "ssh://127.1/a"),
        (SourceKind::Git, "ssh://git@0x7f.1/a"),
        (SourceKind::Git, "ssh://git@0177.0.0.1/a"),
        (SourceKind::Git, "ssh://git@%31%32%37.0.0.1/a"),
        (SourceKind::Git, "ssh://git@[::ffff:127.0.0.1]/a"),
        (SourceKind::Git, "ssh://git@127.0.0.1./a"),
        (SourceKind::Git, "https://0x7f.1/a"),
        (SourceKind::Url, "https://[::1]/a.zip"),
        (SourceKind::Url, "https://169.254.169.254/a.zip"),
        (SourceKind::Url, "http://127.0.0.1:1/a.zip"),
    ] {
        let provenance = Provenance::new(kind, location);
        let refused = SourceSpec::from_provenance(&provenance, ChosenBy::Registry);
        let code = refused.err().map(|failure| failure.code);
        assert_eq!(code, Some(Code::UntrustedSource), "{location}");
        let allowed = SourceSpec::from_provenance(&provenance, ChosenBy::User);
        assert!(allowed.is_ok(), "{location}: {allowed:?}");
    }
    for (kind, location) in [
        (SourceKind::Git, "https://example.com/a"),
        (SourceKind::Git, "ssh://git@example.com/a"),
        (SourceKind::Git, "git@example.com:a"),
        (SourceKind::Url, "https://example.com/a.zip"),
    ] {
        let provenance = Provenance::new(kind, location);
        let spec = SourceSpec::from_provenance(&provenance, ChosenBy::Registry).unwrap();
        let is_exempt = matches!(spec, SourceSpec::Archive(it) if it.may_be_local);
        assert!(!is_exempt, "{location}");
    }
}

#[test]
fn credentials_are_not_shown() {
    for (url, shown) in [
        ("https://me:s3cret@host/x", "https://host/x"),
        ("https://t0ken@host/x", "https://host/x"),
        ("https://host/a.zip?sig=s3cret", "https://host/a.zip"),
        ("ssh://git:s3cret@host/x", "ssh://git@host/x"),
        ("git@host:x", "git@host:x"),
    ] {
        assert_eq!(public_url(url), shown, "{url:?}");
    }
    let SourceSpec::Git(source) = parse("https://me:s3cret@host/x") else { panic!() };
    assert_eq!(source.url(), "https://me:s3cret@host/x");
    assert_eq!(source.public_url(), "https://host/x");
}
