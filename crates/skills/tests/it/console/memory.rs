//! Pages of documents that would expand to many times their size.
#![cfg(target_os = "linux")]

use std::{fs, thread};

use skills_testkit::{ProcessMemory, Request, program, run};

use crate::support::{BINARY, TestServer};

const MIB: usize = 1 << 20;
/// Peak memory above idle that one client may cause with pages: its share, and as much for what the allocator keeps.
const BUDGET: u64 = 192 << 20;

/// Stores skills with a document that is large, and with one that has a wide table.
fn add_skills(server: &TestServer) {
    let root = |name: &str, body: &str| {
        format!("---\nname: {name}\ndescription: Is large. Use when asked to.\n---\n{body}\n")
    };
    let row = |cell: &str| format!("|{}\n", cell.repeat(2000));
    let table = format!("{}{}{}", row("a|"), row("-|"), "x|\n".repeat(500));
    let large = "[a](b) ".repeat(4 * MIB / 7);
    for (name, body, files) in
        [("large", "# A", vec![("large.md", large)]), ("wide", table.as_str(), vec![])]
    {
        let dir = server.dir().join("added").join(name);
        fs::create_dir_all(&dir).unwrap();
        fs::write(dir.join("SKILL.md"), root(name, body)).unwrap();
        for (file, text) in files {
            fs::write(dir.join(file), text).unwrap();
        }
    }
    let dir = server.dir().join("added");
    let added =
        run(program(BINARY).args(["add", dir.to_str().unwrap(), "--url", &server.process.url]));
    assert_eq!(added.code, Some(0), "{added:?}");
}

#[test]
fn pages_of_documents_that_explode_stay_within_the_share_of_one_client() {
    let server = TestServer::new();
    add_skills(&server);
    let get = |path: &str| {
        let (http, path) = (server.process.http.clone(), path.to_owned());
        move || Request::get(&path).header("Accept", "text/html").send(&http).status
    };
    assert_eq!(get("/ui")(), 200);
    let memory = ProcessMemory::measure(server.process.pid());
    for (path, times) in [("/ui/skills/large?tab=files&path=large.md", 24), ("/ui/skills/wide", 40)]
    {
        let pages: Vec<_> = (0..times).map(|_| thread::spawn(get(path))).collect();
        let statuses: Vec<u16> = pages.into_iter().map(|page| page.join().unwrap()).collect();
        assert!(statuses.iter().all(|status| matches!(status, 200 | 503)), "{path}: {statuses:?}");
        assert!(statuses.contains(&200), "{path}: {statuses:?}");
        assert_eq!(get(path)(), 200, "{path}");
    }
    memory.assert_peak_below(BUDGET);
}
