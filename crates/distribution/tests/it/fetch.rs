//! What a client gets that has some commits already.

use skills_core::{Caller, Layer};

use crate::support::{Objects, Site, lines, pack_of, read_pack};

const ANYONE: Caller = Caller::Anonymous;

async fn site_with(count: usize) -> Site {
    let site = Site::new();
    for number in 0..count {
        site.put(&Layer::Official, &format!("skill-{number}"), "Text.").await;
    }
    site
}

#[tokio::test]
async fn a_fetch_after_a_change_gets_only_what_is_new() {
    let site = site_with(30).await;
    let (old, mut objects) = site.clone_view(&ANYONE, "all").await;
    site.put(&Layer::Official, "skill-7", "Changed.").await;
    let new = site.main(&ANYONE, "all").await;
    let (want, have) = (format!("want {new}"), format!("have {old}"));
    let unknown = format!("have {}", "1".repeat(40));
    let fetched = site.fetch(&ANYONE, "all", &[&want, &unknown, &have], &mut objects).await;
    assert_eq!(fetched.head, ["acknowledgments", &format!("ACK {old}"), "ready"]);
    // Commit, skill (2), wrapper (5), marketplace and its folder, root manifest, skills, dist, root.
    assert_eq!(fetched.objects, 14);
    assert!(fetched.bytes < 3000, "{fetched:?}");
    assert_eq!(objects.log(&new).len(), 31);
    assert!(objects.files(&new)["skills/skill-7/SKILL.md"].1.ends_with(b"Changed.\n"));
}

#[tokio::test]
async fn content_that_comes_back_is_complete_for_a_shallow_client() {
    let site = site_with(3).await;
    site.put(&Layer::Official, "skill-1", "Other.").await;
    let main = site.main(&ANYONE, "all").await;
    let mut objects = Objects::default();
    let want = format!("want {main}");
    let shallow = site.fetch(&ANYONE, "all", &[&want, "deepen 1", "done"], &mut objects).await;
    assert_eq!(shallow.head, ["shallow-info", &format!("shallow {main}")]);
    assert_eq!(objects.log(&main), [main.as_str()]);
    // The first version again: its objects are in commits that the client lacks.
    site.put(&Layer::Official, "skill-1", "Text.").await;
    let new = site.main(&ANYONE, "all").await;
    let (want, have) = (format!("want {new}"), format!("have {main}"));
    let known = format!("shallow {main}");
    site.fetch(&ANYONE, "all", &[&want, &known, &have, "done"], &mut objects).await;
    assert_eq!(objects.log(&new).len(), 2);
    assert!(objects.files(&new)["skills/skill-1/SKILL.md"].1.ends_with(b"Text.\n"));
}

#[tokio::test]
async fn a_shallow_client_can_get_the_rest_of_the_history() {
    let site = site_with(5).await;
    let main = site.main(&ANYONE, "all").await;
    let mut objects = Objects::default();
    let want = format!("want {main}");
    site.fetch(&ANYONE, "all", &[&want, "deepen 2", "done"], &mut objects).await;
    let oldest = objects.log(&main).pop().unwrap();
    let (have, known) = (format!("have {main}"), format!("shallow {oldest}"));
    let more = [&*want, &known, &have, "deepen-relative", "deepen 1", "done"];
    let deeper = site.fetch(&ANYONE, "all", &more, &mut objects).await;
    assert_eq!(objects.log(&main).len(), 3);
    assert!(deeper.head.contains(&format!("unshallow {oldest}")));
    let oldest = objects.log(&main).pop().unwrap();
    let known = format!("shallow {oldest}");
    let all = [&*want, &known, &have, "deepen 2147483647", "done"];
    let whole = site.fetch(&ANYONE, "all", &all, &mut objects).await;
    assert_eq!(whole.head, ["shallow-info", &format!("unshallow {oldest}")]);
    let log = objects.log(&main);
    assert_eq!(log.len(), 5);
    for commit in &log {
        objects.files(commit);
    }
}

#[tokio::test]
async fn any_commit_of_the_view_can_be_fetched_by_its_id() {
    let site = site_with(3).await;
    let (main, objects) = site.clone_view(&ANYONE, "all").await;
    let middle = objects.log(&main)[1].clone();
    let mut own = Objects::default();
    let want = format!("want {middle}");
    site.fetch(&ANYONE, "all", &[&want, "deepen 1", "done"], &mut own).await;
    assert_eq!(own.files(&middle).keys().filter(|path| path.starts_with("skills/")).count(), 2);
}

#[tokio::test]
async fn nothing_is_sent_before_a_common_commit_is_known_or_the_client_is_done() {
    let site = site_with(2).await;
    let main = site.main(&ANYONE, "all").await;
    let (want, unknown) = (format!("want {main}"), format!("have {}", "2".repeat(40)));
    let command = ["command=fetch", "0001", &want, &unknown, "0000"];
    let answer = site.post(&ANYONE, "all", 2, &command).await;
    assert_eq!(lines(&answer.body), ["acknowledgments", "NAK"]);
    let first = format!("want {main} multi_ack_detailed side-band-64k");
    let answer = site.post(&ANYONE, "all", 0, &[&first, "0000", &unknown, "0000"]).await;
    assert_eq!(lines(&answer.body), ["NAK"]);
    let have = format!("have {main}");
    let answer = site.post(&ANYONE, "all", 0, &[&first, "0000", &have, "0000"]).await;
    let expected = [format!("ACK {main} common"), format!("ACK {main} ready"), "NAK".to_owned()];
    assert_eq!(lines(&answer.body), expected);
}

#[tokio::test]
async fn an_empty_view_is_an_empty_repository() {
    let site = Site::new();
    let listed = ["command=ls-refs", "0001", "symrefs", "unborn", "0000"];
    let answer = site.post(&ANYONE, "all", 2, &listed).await;
    assert_eq!(lines(&answer.body), ["unborn HEAD symref-target:refs/heads/main"]);
    let refs = site.get(&ANYONE, "/git/all.git/info/refs?service=git-upload-pack").await;
    let text = String::from_utf8_lossy(&refs.body).into_owned();
    assert!(text.contains(&format!("{} capabilities^{{}}\0", "0".repeat(40))), "{text}");
}

#[tokio::test]
async fn a_pack_that_is_not_thin_has_the_bases_of_its_deltas() {
    let site = site_with(30).await;
    let old = site.main(&ANYONE, "all").await;
    // The second change alters lists that the first one leaves as the client has them.
    site.put(&Layer::Official, "skill-7", "Changed.").await;
    site.put(&Layer::Official, "skill-99", "New.").await;
    let new = site.main(&ANYONE, "all").await;
    let (want, have) = (format!("want {new}"), format!("have {old}"));
    let lines = ["command=fetch", "0001", &want, &have, "done", "0000"];
    let body = site.open(&ANYONE, "all", 2, &lines).await;
    // Without the objects of the client: a delta against one of them could not be read.
    let mut objects = Objects::default();
    assert!(read_pack(&pack_of(body).await, &mut objects) > 14);
}
