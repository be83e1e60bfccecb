//! One person who takes all that they can get leaves the console to others.

use std::{
    io::{BufRead as _, BufReader, Write as _},
    net::TcpStream,
    thread,
};

use skills_agent_skills::Bundle;
use skills_core::Layer;
use skills_testkit::{DEADLINE, Request};

use crate::{
    browser::{Browser, text},
    test_console::{ADMIN_KEY, Credentials, TestConsole},
};

const MIB: usize = 1 << 20;
const DOCUMENT: &str =
    "---\nname: notes\ndescription: Write notes. Use before a release.\n---\n# Notes\n";

fn console() -> TestConsole {
    TestConsole::with(Credentials { admin_key: true, ..Credentials::default() })
}

/// Reviews a document with a file of some bytes; returns the status, and the draft.
fn review(browser: &mut Browser, bytes: usize) -> (u16, Option<String>) {
    browser.open("/ui/publish");
    let file = vec![b'x'; bytes];
    let files: [(&str, &[u8]); 2] =
        [("notes/SKILL.md", DOCUMENT.as_bytes()), ("notes/a.bin", &file)];
    let answer = browser.upload("/ui/publish/review", &[("tier", "private")], &files);
    let page = text(&answer);
    let draft = page.split_once("name=\"draft\" value=\"").map(|(_, rest)| rest);
    let draft = draft.and_then(|rest| rest.split('"').next()).map(str::to_owned);
    (answer.status, draft)
}

fn confirm(browser: &mut Browser, draft: &str) -> u16 {
    browser.submit("/ui/publish/confirm", &[("draft", draft)]).status
}

#[test]
fn sign_ins_with_one_key_sign_out_nobody_else() {
    let console = console();
    let (ann, bob) = (console.key("ann"), console.key("bob"));
    let mut administrator = console.signed_in(ADMIN_KEY);
    let mut bob = console.signed_in(&bob);
    let mut first = console.signed_in(&ann);
    for _ in 0..150 {
        console.signed_in(&ann);
    }
    administrator.open("/ui/people");
    assert!(bob.open("/ui").contains("<bdi>bob</bdi>"));
    assert!(!first.open("/ui").contains("<bdi>ann</bdi>"), "their own oldest session has ended");
}

/// Opens a stream of changes; returns its lines after the first, which says that it is open.
fn open_stream(browser: &Browser, address: &str) -> impl Iterator<Item = String> + use<> {
    let request = Request::get("/ui/events").header("Cookie", browser.cookie().unwrap());
    let mut stream = TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(DEADLINE)).unwrap();
    stream.write_all(&request.bytes(address)).unwrap();
    let mut lines = BufReader::new(stream).lines().map(|line| line.unwrap());
    let status = lines.next().unwrap();
    assert!(status.contains(" 200 "), "{status}");
    lines.find(|line| line == ": open").expect("the stream is open");
    lines
}

#[test]
fn streams_of_one_person_leave_streams_to_others() {
    let console = console();
    let (ann, bob) = (console.key("ann"), console.key("bob"));
    let (ann, bob) = (console.signed_in(&ann), console.signed_in(&bob));
    let mut of_bob = open_stream(&bob, &console.address);
    let mut of_ann: Vec<_> = (0..40).map(|_| open_stream(&ann, &console.address)).collect();
    let replaced = of_ann[0].find(|line| line.starts_with("event: "));
    assert_eq!(replaced.as_deref(), Some("event: replaced"));
    assert_eq!(of_ann[0].by_ref().last().as_deref(), Some(""), "the stream has ended");
    // The others get what happens.
    console.register("notes", DOCUMENT);
    for stream in [&mut of_bob, of_ann.last_mut().unwrap()] {
        let change = stream.find(|line| line.starts_with("event: "));
        assert_eq!(change.as_deref(), Some("event: change"));
    }
}

#[test]
fn reviews_of_one_person_replace_none_of_others() {
    let console = console();
    let (ann, bob) = (console.key("ann"), console.key("bob"));
    let (mut ann, mut bob) = (console.signed_in(&ann), console.signed_in(&bob));
    let of_bob = review(&mut bob, 1).1.unwrap();
    let first_of_ann = review(&mut ann, 1).1.unwrap();
    for _ in 0..70 {
        assert_eq!(review(&mut ann, 1).0, 200);
    }
    assert_eq!(confirm(&mut ann, &first_of_ann), 403, "their own oldest draft is gone");
    assert_eq!(confirm(&mut bob, &of_bob), 303);
}

#[test]
fn drafts_of_one_person_leave_memory_to_larger_requests_of_another() {
    let console = console();
    let (ann, bob) = (console.key("ann"), console.key("bob"));
    let (mut ann, mut bob) = (console.signed_in(&ann), console.signed_in(&bob));
    for mib in [12, 12, 12, 6, 3, 1, 1, 12, 12] {
        assert_eq!(review(&mut ann, mib * MIB).0, 200, "{mib} MiB");
    }
    let (status, draft) = review(&mut bob, 8 * MIB);
    assert_eq!(status, 200);
    assert_eq!(confirm(&mut bob, &draft.unwrap()), 303);
}

#[test]
fn the_largest_bundle_is_published_and_downloaded_by_several_at_once() {
    let console = console();
    let ann = console.key("ann");
    let mut ann = console.signed_in(&ann);
    let (status, draft) = review(&mut ann, 32 * MIB - DOCUMENT.len());
    assert_eq!(status, 200);
    assert_eq!(confirm(&mut ann, &draft.unwrap()), 303);
    let file = bytes::Bytes::from(vec![b'x'; 8 * MIB - 1000]);
    let files = ["a", "b", "c", "d"].map(|path| (path.parse().unwrap(), file.clone()));
    let bundle = Bundle::new(DOCUMENT.to_owned(), files.into()).unwrap();
    console.register_bundle(&Layer::Official, "large", bundle);
    let download = |path: &'static str, mut browser: Browser| {
        thread::spawn(move || {
            let answer = browser.get(path);
            (answer.status, answer.unchunked().starts_with(b"PK"))
        })
    };
    let downloads: Vec<_> =
        (0..4).map(|_| download("/ui/zip/large.zip", console.browser())).collect();
    for download in downloads.into_iter().chain([download("/ui/zip/notes.zip", ann)]) {
        assert_eq!(download.join().unwrap(), (200, true));
    }
}

#[test]
fn large_files_of_markdown_are_cut_and_lead_to_their_bytes() {
    let console = console();
    let document = format!("# A\n\n{}", "[a](b) ".repeat(4 * MIB / 7));
    let files = vec![("docs/large.md".parse().unwrap(), bytes::Bytes::from(document))];
    let bundle = Bundle::new(DOCUMENT.to_owned(), files).unwrap();
    console.register_bundle(&Layer::Official, "large", bundle);
    let request = |mut browser: Browser| {
        thread::spawn(move || browser.get("/ui/skills/large?tab=files&path=docs/large.md"))
    };
    let requests: Vec<_> = (0..12).map(|_| request(console.browser())).collect();
    let answers: Vec<_> = requests.into_iter().map(|request| request.join().unwrap()).collect();
    assert!(answers.iter().all(|answer| matches!(answer.status, 200 | 503)));
    let again = request(console.browser()).join().unwrap();
    for answer in answers.iter().filter(|answer| answer.status == 200).chain([&again]) {
        let page = text(answer);
        assert!(page.len() < 4 * MIB, "{} bytes", page.len());
        let raw = "<a href=\"/ui/raw/large/docs/large.md\">Raw</a> has all of it.";
        assert!(page.contains("too large or too deep to be shown whole") && page.contains(raw));
    }
    assert_eq!(again.status, 200);
}
