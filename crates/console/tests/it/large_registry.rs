//! The first page of a large registry: bounded pages, and filters on search results.

use crate::{browser::Browser, test_console::TestConsole};

/// Document that a search for `report` ranks low, with two tags.
const WEAK: &str = "---\nname: weak\ndescription: Last.\nmetadata:\n  tags: late paper\n---\n# Last\n\n\
    Many other words are here, and one of them is report, at the end.\n";

/// Starts a console with a number of skills that a search for `report` ranks high, and one that it ranks low.
fn console(count: usize) -> TestConsole {
    let console = TestConsole::open();
    for number in 0..count {
        let document = "# Report\n\nA report.";
        console.register_from(&format!("/many/{number}"), &format!("s{number:05}"), document);
    }
    console.register_from("/other/weak", "weak", WEAK);
    console
}

fn entries(browser: &mut Browser, path: &str) -> (String, usize) {
    let page = browser.open(path);
    let count = page.matches("class=\"entry\"").count();
    (page, count)
}

#[test]
fn pages_of_a_large_registry_are_bounded() {
    let console = TestConsole::open();
    for number in 0..120 {
        console.register(&format!("s{number:03}"), "# S\n\nText.");
    }
    let mut browser = console.browser();
    let page = browser.open("/ui");
    assert_eq!(page.matches("class=\"entry\"").count(), 48);
    assert!(page.contains("1–48 of 120") && page.contains("href=\"/ui?page=1\""), "{page}");
    let last = browser.open("/ui?page=2");
    assert_eq!(last.matches("class=\"entry\"").count(), 24);
    assert!(browser.open("/ui?page=9").contains("of 120"));
}

#[test]
fn filters_apply_to_all_results_of_a_search() {
    let console = console(250);
    let mut browser = console.browser();
    for filter in ["source=/other", "tag=paper", "tag=late&source=/other&view=table"] {
        let (page, count) = entries(&mut browser, &format!("/ui?q=report&{filter}"));
        assert_eq!(count, 1, "{filter}: {page}");
        assert!(page.contains("href=\"/ui/skills/weak\""), "{filter}: {page}");
        assert!(page.contains(">1 entry<") && !page.contains("were looked at"), "{filter}: {page}");
    }
    let (page, count) = entries(&mut browser, "/ui?q=report&source=/many&page=5");
    assert_eq!(count, 10, "{page}");
    assert!(page.contains("241–250 of 250<") && !page.contains("rel=\"next\""), "{page}");
}

#[test]
fn browsing_ten_thousand_skills_sends_one_page_of_them() {
    let console = console(9_999);
    let mut browser = console.browser();
    for path in ["/ui", "/ui?view=table", "/ui?source=/many", "/ui?q=report", "/ui?q=report&page=3"]
    {
        let (page, count) = entries(&mut browser, path);
        assert_eq!(count, 48, "{path}");
        assert!(page.contains("rel=\"next\"") && !page.contains("were looked at"), "{path}");
        assert!(page.len() < 100_000, "{path}: {} bytes", page.len());
    }
    assert!(browser.open("/ui").contains("1–48 of 10\u{202f}000"));
    let (page, count) = entries(&mut browser, "/ui?q=report&source=/other");
    assert_eq!(count, 0, "{page}");
    assert!(
        page.contains("Only the best 1\u{202f}000 results of this search were looked at."),
        "{page}"
    );
}
