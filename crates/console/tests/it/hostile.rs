//! The corpus of hostile content. `interop/console` shows the same corpus in a real browser.

use serde_json::Value;
use skills_agent_skills::Bundle;
use skills_core::{
    BundlePath, Layer, PromptDefinition, ToolMeta, limits::MAX_SKILL_BYTES, tool::ManifestSource,
};

use crate::{
    browser::{Browser, assert_harmless, text},
    test_console::TestConsole,
};

/// Files of the corpus whose names no bundle may have.
const REFUSED_NAMES: [&str; 3] = ["file-quotes", "file-markup", "file-ampersand"];

/// Returns the corpus.
fn corpus() -> Value {
    serde_json::from_str(include_str!("../fixtures/hostile.json")).unwrap()
}

/// Expands a text of the corpus, which may be a repetition.
fn expand(text: &Value) -> String {
    let field = |name: &str| text[name].as_str().unwrap_or_default();
    match text.as_str() {
        Some(text) => text.to_owned(),
        None => {
            let times = usize::try_from(text["times"].as_u64().unwrap()).unwrap();
            format!("{}{}{}", field("prefix"), field("repeat").repeat(times), field("suffix"))
        }
    }
}

#[test]
fn the_corpus_is_large() {
    let corpus = corpus();
    let count = |kind: &str| corpus[kind].as_array().unwrap().len();
    assert!(count("documents") + count("files") + count("manifests") + count("prompts") >= 60);
}

#[test]
fn documents_are_harmless_on_every_page() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for (number, entry) in corpus()["documents"].as_array().unwrap().iter().enumerate() {
        let (name, id) = (entry["name"].as_str().unwrap(), format!("hostile-{number}"));
        let document = expand(&entry["text"]);
        let document = &document[..document.floor_char_boundary(MAX_SKILL_BYTES)];
        console.register(&id, document);
        for tab in ["", "?tab=trust", "?tab=files", "?tab=explain", "?tab=install"] {
            let page = browser.open(&format!("/ui/skills/{id}{tab}"));
            assert_harmless(&page, &format!("{name}{tab}"));
            assert!(
                !page.contains('\u{202e}') && !page.contains('\u{200b}'),
                "{name}: hidden characters"
            );
        }
        let edit = browser.open(&format!("/ui/publish?id={id}"));
        assert_harmless(&edit, name);
    }
    for path in ["/ui", "/ui?page=1", "/ui?view=table", "/ui?q=script"] {
        assert_harmless(&browser.open(path), path);
    }
}

#[test]
fn files_are_harmless_and_never_run() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    let mut refused = Vec::new();
    for (number, entry) in corpus()["files"].as_array().unwrap().iter().enumerate() {
        let (name, id) = (entry["name"].as_str().unwrap(), format!("file-{number}"));
        let path = expand(&entry["path"]);
        let Ok(path) = path.parse::<BundlePath>() else {
            // No store holds it, so no page shows it; the page about the upload does.
            upload_refused(&mut browser, &path.replace('"', "%22"), name);
            refused.push(name.to_owned());
            continue;
        };
        let query = form_urlencoded::Serializer::new(String::new())
            .append_pair("path", path.as_str())
            .finish();
        let encoded = skills_core::uri::percent_encode_path(path.as_str());
        let body = bytes::Bytes::from(expand(&entry["text"]));
        let bundle = Bundle::new("# A\n\n[x](page.html)".to_owned(), vec![(path, body)]).unwrap();
        console.register_bundle(&Layer::Official, &id, bundle);
        for tab in ["files", "trust"] {
            let page = browser.open(&format!("/ui/skills/{id}?tab={tab}&{query}"));
            assert_harmless(&page, name);
        }
        let raw = browser.get(&format!("/ui/raw/{id}/{encoded}"));
        let content_type = raw.header("content-type").unwrap();
        let is_inert = ["text/plain; charset=utf-8", "application/octet-stream", "image/png"];
        assert!(is_inert.contains(&content_type.as_str()), "{name}: {content_type}");
        assert!(raw.header("content-security-policy").unwrap().contains("sandbox"), "{name}");
        assert_eq!(raw.header("x-content-type-options").as_deref(), Some("nosniff"), "{name}");
        if content_type == "application/octet-stream" {
            assert!(raw.header("content-disposition").unwrap().starts_with("attachment"), "{name}");
        }
    }
    assert_eq!(refused, REFUSED_NAMES);
}

/// Uploads a file whose name no bundle may have, and checks the page that answers. Browsers encode quotes in a name.
fn upload_refused(browser: &mut Browser, path: &str, name: &str) {
    browser.open("/ui/publish");
    let path = format!("x/{path}");
    let files: [(&str, &[u8]); 2] = [("x/SKILL.md", b"# X"), (&path, b"x")];
    let answer = browser.upload("/ui/publish/review", &[("id", "x"), ("tier", "official")], &files);
    assert!(answer.status == 422 || path.contains("%22"), "{name}: {}", answer.status);
    assert_harmless(&text(&answer), name);
}

#[test]
fn manifests_are_harmless() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for (number, entry) in corpus()["manifests"].as_array().unwrap().iter().enumerate() {
        let (name, id) = (entry["name"].as_str().unwrap(), format!("tool-{number}"));
        let manifest = &entry["manifest"];
        let text_of = |field: &str| manifest[field].as_str().map(str::to_owned);
        let tags = manifest["tags"].as_array().into_iter().flatten();
        let tool = ToolMeta {
            name: text_of("name"),
            description: text_of("description"),
            parameters: manifest["parameters"].clone(),
            tags: tags.filter_map(|tag| tag.as_str().map(str::to_owned)).collect(),
            source: ManifestSource::new("{}", "application/json").unwrap(),
            emoji: None,
            credits_per_call: None,
        };
        console.register_tool(&id, tool);
        for tab in ["", "?tab=tools", "?tab=trust"] {
            let page = browser.open(&format!("/ui/skills/{id}{tab}"));
            assert_harmless(&page, &format!("{name}{tab}"));
            assert!(!page.contains('\u{202e}'), "{name}{tab}");
        }
        let page = browser.open(&format!("/ui/skills/{id}?tab=tools"));
        let digest = page.split_once("name=\"digest\" value=\"").unwrap().1.split('"').next();
        let fields = [("digest", digest.unwrap()), ("argument.<b>", "<script>alert(1)</script>")];
        let answer = browser.submit(&format!("/ui/run/{id}"), &fields);
        assert_harmless(&text(&answer), name);
    }
    assert_harmless(&browser.open("/ui"), "list");
}

#[test]
fn prompts_are_harmless() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for entry in corpus()["prompts"].as_array().unwrap() {
        let name = entry["name"].as_str().unwrap();
        let definition = PromptDefinition {
            description: entry["description"].as_str().unwrap().to_owned(),
            arguments: serde_json::from_value(entry["arguments"].clone()).unwrap(),
            function_id: "worker::prompt".to_owned(),
        };
        console.register_prompt(name, definition);
        assert_harmless(&browser.open(&format!("/ui/prompts/{name}")), name);
        let answer = browser.submit(
            &format!("/ui/prompts/{name}"),
            &[("argument.<b>", "<script>alert(1)</script>")],
        );
        assert_harmless(&text(&answer), name);
        assert!(text(&answer).contains("no_bus"), "{}", text(&answer));
    }
    assert_harmless(&browser.open("/ui?kind=prompt"), "list");
}

#[test]
fn other_texts_of_pages_are_harmless() {
    let console = TestConsole::open();
    let mut browser = console.browser();
    for path in ["/ui/live", "/ui/overview", "/ui/people"] {
        assert_harmless(&browser.open(path), path);
    }
    let injected = "%22%3E%3Cimg%20src=x%20onerror=alert(1)%3E";
    for path in [
        format!("/ui?q={injected}&tag={injected}&source={injected}"),
        format!("/ui/sign-in?next={injected}"),
        format!("/ui/publish?id={injected}"),
        format!("/ui/people/log?q={injected}"),
        format!("/ui/skills/{injected}"),
        format!("/ui/prompts/{injected}"),
        format!("/ui/{injected}"),
    ] {
        assert_harmless(&text(&browser.get(&path)), &path);
    }
}
