use super::*;

const FILES: &[&str] = &["SKILL.md", "docs/guide.md", "img/a.png", "img/b.svg", "docs/c d.md"];

fn html_at(path: &str, document: &str) -> String {
    let files = FILES.iter().map(|&file| file.to_owned()).collect();
    let (id, path) = ("pdf".to_owned(), path.to_owned());
    render(
        document,
        &Arc::new(LinkTargets {
            id,
            tier: "",
            version: String::new(),
            path,
            files,
            title: Some("Title".to_owned()),
        }),
    )
    .html
    .into_string()
}

fn html(document: &str) -> String {
    html_at("SKILL.md", document)
}

#[test]
fn markdown_is_rendered() {
    let page =
        html("# One two\n\n**b** ~~d~~ `c`\n\n| a | b |\n|---|--:|\n| 1 | 2 |\n\n- [x] done\n");
    for part in [
        "<h2 id=\"doc-one-two\">One two</h2>",
        "<strong>b</strong>",
        "<del>d</del>",
        "<table>",
        "☑ done",
    ] {
        assert!(page.contains(part), "{part} is not in {page}");
    }
    let code = html("```sh\necho \"a\" # b\n```\n");
    assert!(code.contains("<span class=\"hl-c\"># b</span>"), "{code}");
    assert_eq!(html("# A\n\n# A\n").matches("id=\"doc-a").count(), 2);
}

#[test]
fn the_title_of_the_page_is_not_repeated() {
    let page = html("# Title\n\n# Title\n\n###### Deep\n");
    assert_eq!(page.matches("Title").count(), 1, "{page}");
    assert!(
        page.contains("<h2 id=\"doc-title-1\">") && page.contains("<h6 id=\"doc-deep\">"),
        "{page}"
    );
}

#[test]
fn links_of_the_bundle_lead_to_the_console() {
    for (target, expected) in [
        ("docs/guide.md", "/ui/skills/pdf?tab=files&amp;path=docs%2Fguide.md"),
        ("./docs/c%20d.md", "/ui/skills/pdf?tab=files&amp;path=docs%2Fc+d.md"),
        ("#Part", "#doc-Part"),
        ("iii://weather", "/ui/skills/weather"),
        ("iii://skills", "/ui"),
        ("iii://phone/docs/a%20b", "/ui/skills/phone/docs/a%20b"),
        ("https://example.com/", "https://example.com/"),
    ] {
        let page = html(&format!("[x]({target})"));
        assert!(page.contains(&format!("href=\"{expected}\"")), "{target}: {page}");
    }
    let up = html_at("docs/guide.md", "[x](../img/a.png) [y](../SKILL.md)");
    assert!(up.contains("path=img%2Fa.png") && up.contains("/ui/skills/pdf#doc-"), "{up}");
    for target in [
        "../../etc/passwd",
        "/v1/skills",
        "//evil.example",
        "missing.md",
        "javascript:alert(1)",
        "data:text/html,x",
        "vbscript:x",
        "/ui/../v1/skills",
        "/ui/%2e%2E/v1/skills",
        "/ui/a/./b",
        "/ui/\\\\evil.example",
    ] {
        let page = html(&format!("[x]({target})"));
        assert!(!page.contains("href=\""), "{target}: {page}");
    }
}

#[test]
fn only_raster_images_of_the_bundle_are_loaded() {
    let page = html("![a](img/a.png)");
    assert!(page.contains("src=\"/ui/raw/pdf/img/a.png\""), "{page}");
    for target in [
        "https://evil.example/x.png",
        "img/b.svg",
        "data:image/png;base64,x",
        "//evil.example/x.png",
        "/ui/raw/pdf/../../../v1/skills",
        "/ui/raw/pdf/%2e%2e/%2E%2e/sign-out",
        "/ui/raw/pdf/.%2e/x.png",
        "/ui/raw/pdf/%2e%2e/%zz/x.png",
        "/ui/raw/other/x.png",
        "/ui/raw/../x.png",
    ] {
        for document in [format!("![alt]({target})"), format!("<img src=\"{target}\" alt=x>")] {
            let page = html(&document);
            assert!(!page.contains("src="), "{document}: {page}");
        }
        let page = html(&format!("![alt]({target})"));
        assert!(page.contains("image not loaded"), "{page}");
    }
}

#[test]
fn hidden_characters_are_visible() {
    let page = html("a\u{202e}b `c\u{200b}`");
    assert!(page.contains("a⟨U+202E⟩b") && page.contains("c⟨U+200B⟩"), "{page}");
}

#[test]
fn documents_that_explode_are_bounded() {
    let deep = [
        ">".repeat(200_000),
        "- ".repeat(60_000),
        "*a ".repeat(60_000),
        "[".repeat(200_000),
        "<div>".repeat(50_000),
        format!("|{}\n|{}\n{}", "a|".repeat(20_000), "-|".repeat(20_000), "x|\n".repeat(20_000)),
        "![".repeat(60_000),
        "`".repeat(200_000),
        "<b><i>".repeat(20_000),
    ];
    for document in &deep {
        let page = html(document);
        assert!(page.len() < 64 << 20, "{} bytes", page.len());
    }
    let page = html(&">".repeat(200));
    assert!(page.matches("<blockquote>").count() <= 48);
}
