use super::*;

const FILES: &[&str] = &["SKILL.md", "docs/guide.md", "img/a.png", "img/b.svg", "docs/c d.md"];

fn render_at(path: &str, document: &str) -> Rendered {
    let targets = LinkTargets {
        id: "pdf".to_owned(),
        tier: "",
        version: String::new(),
        path: path.to_owned(),
        files: FILES.iter().map(|&file| file.to_owned()).collect(),
        title: Some("Title".to_owned()),
    };
    render(document, &Arc::new(targets), &StopFlag::new()).unwrap()
}

fn html_at(path: &str, document: &str) -> String {
    render_at(path, document).html.into_string()
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
fn raw_html_of_several_blocks_is_one_element() {
    let page = html("<details open>\n<summary>More</summary>\n\n**b**\n\n</details>\n\nafter\n");
    let whole = "<details open=\"\">\n<summary>More</summary>\n<p><strong>b</strong></p>\n</details>\n<p>after</p>";
    assert!(page.contains(whole), "{page}");
    let page =
        html("Press <kbd>Ctrl</kbd> <!-- x --> <script>alert(1)</script> 1 <2 &amp; <br/> 3\n");
    assert_eq!(page, "<p>Press <kbd>Ctrl</kbd>   1 &lt;2 &amp; <br> 3</p>\n");
    let page = html("<ul><li>a<li><b>b</ul>\n\nafter\n");
    assert!(page.starts_with("<ul><li>a</li><li><b>b</b></li></ul>"), "{page}");
    assert!(page.trim_end().ends_with("<p>after</p>"), "{page}");
}

#[test]
fn raw_html_ends_with_the_element_that_it_is_in() {
    let page = html("- <b>a\n- c\n\n> <i title=\"x\">d\n\n</b></i> e\n");
    assert!(page.contains("<li><b>a</b></li>") && page.contains("<li>c</li>"), "{page}");
    assert!(page.contains("<p><i title=\"x\">d</i></p>") && page.contains("<p> e</p>"), "{page}");
}

#[test]
fn a_document_that_is_cut_says_so() {
    let whole = format!("{}\n", "word ".repeat(15)).repeat(MAX_BYTES / 76);
    assert!(!render_at("a.md", &whole).is_truncated);
    let cut = render_at("a.md", &format!("{whole}{}last", "word ".repeat(20)));
    assert!(cut.is_truncated && !cut.html.into_string().contains("last"));
}

#[test]
fn a_rendering_stops_when_its_caller_is_gone() {
    let stop = StopFlag::new();
    stop.raise();
    let targets = LinkTargets {
        id: "pdf".to_owned(),
        tier: "",
        version: String::new(),
        path: "a.md".to_owned(),
        files: HashSet::new(),
        title: None,
    };
    assert_eq!(render("# A", &Arc::new(targets), &stop).err(), Some(Stopped));
}

/// Documents that would expand to many times their size.
fn explosions() -> Vec<(&'static str, String)> {
    const BYTES: usize = 4 << 20;
    let fill = |text: &str| text.repeat(BYTES / text.len());
    let row = |cell: &str, columns| format!("|{}\n", cell.repeat(columns));
    let table = |columns| format!("{}{}{}", row("a|", columns), row("-|", columns), fill("x|\n"));
    let formatting: String = (0..1000).map(|number| format!("<b title={number}>")).collect();
    vec![
        ("quotes", fill(">")),
        ("a list", fill("- ")),
        ("a long list", fill("- a\n")),
        ("numbers", fill("1. ")),
        ("emphasis", fill("*a ")),
        ("brackets", fill("[")),
        ("links", fill("[a](b) ")),
        ("links of the bundle", fill("[a](docs/guide.md)")),
        ("images", fill("![")),
        ("backticks", fill("`")),
        ("code", fill("`a` ")),
        ("code blocks", fill("```\n1\n```\n")),
        ("words of code", format!("```json\n{}", fill("1\"\""))),
        ("headings", fill("# a\n")),
        ("references", format!("[a]: /{}\n\n{}", "x".repeat(2000), fill("[a]"))),
        ("footnotes", format!("{}\n\n[^1]: x\n", fill("[^1]\n\n"))),
        ("character references", fill("&")),
        ("hidden characters", fill("\u{ad}")),
        ("a wide table", table(2000)),
        ("a table", table(200)),
        ("a short wide table", table(2000)[..20_000].to_owned()),
        ("raw elements", fill("<div>")),
        ("raw formatting", fill("<b><i>")),
        ("raw formatting before paragraphs", format!("{formatting}\n\n{}", fill("x\n\n"))),
        (
            "raw formatting in raw blocks",
            format!("<div>{formatting}\n\n{}", fill("</div>\n\n<div>\n\nx\n\n")),
        ),
        ("attributes", format!("<b {}>", fill("title=x "))),
    ]
}

#[test]
fn documents_that_explode_are_bounded() {
    for (name, document) in explosions() {
        let page = html(&document);
        let tags = page.matches('<').count();
        // The last part of a document may exceed the bounds: one paragraph or block of code.
        assert!(page.len() <= 4 << 20, "{name}: {} bytes", page.len());
        assert!(tags <= 80_000, "{name}: {tags} tags");
        assert!(page.len() <= 2 * memory(document.len()), "{name}: {} bytes", page.len());
    }
    let page = html(&">".repeat(200));
    assert!(page.matches("<blockquote>").count() <= 48);
}
