//! Limits of fetches, with repositories on this disk.

use std::{
    fs,
    io::Read as _,
    net::TcpListener,
    path::Path,
    process::Command,
    sync::{Arc, atomic::AtomicBool},
    thread,
    time::Duration,
};

use skills_bundles::{FetchLimits, GitSource, find_in_repository};
use skills_core::Coded as _;

fn git(dir: &Path, arguments: &[&str]) {
    let mut git = Command::new("git");
    for setting in ["user.name=a", "user.email=a@example.com", "commit.gpgSign=false"] {
        git.args(["-c", setting]);
    }
    let output = git.args(arguments).current_dir(dir).output().unwrap();
    assert!(output.status.success(), "{arguments:?}: {output:?}");
}

/// Creates a repository with one skill and a file that cannot be compressed.
fn repository(dir: &Path, bytes: usize) -> GitSource {
    git(dir, &["init", "--quiet"]);
    fs::write(dir.join("SKILL.md"), "---\nname: a\ndescription: Does a.\n---\n# A\n").unwrap();
    let mut state = 1_u64;
    let noise = (0..bytes).map(|_| {
        state = state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1);
        u8::try_from(state >> 56).unwrap()
    });
    fs::write(dir.join("noise"), noise.collect::<Vec<u8>>()).unwrap();
    git(dir, &["add", "--all"]);
    git(dir, &["commit", "--quiet", "-m", "first"]);
    let url = format!("file://{}", dir.display());
    GitSource::new(url.as_str(), url.as_str()).unwrap()
}

#[test]
fn a_repository_over_the_size_limit_is_refused_with_a_sentence() {
    let dir = tempfile::tempdir().unwrap();
    let source = repository(dir.path(), 3 << 20);
    let limits = |max_bytes| FetchLimits { max_bytes, ..FetchLimits::default() };
    assert!(find_in_repository(&source, None, &limits(64 << 20)).is_ok());
    let error = find_in_repository(&source, None, &limits(1 << 20)).unwrap_err();
    assert_eq!(error.code().as_str(), "too_large");
    let sentence = error.to_string();
    assert!(sentence.contains("is too large: at most 1 MiB"), "{sentence}");
    assert!(error.hint().is_some());
    // The default refuses a repository of 2 GB.
    assert!(FetchLimits::default().max_bytes < 2 << 30);
}

#[test]
fn a_fetch_ends_when_it_is_cancelled_or_too_slow() {
    let dir = tempfile::tempdir().unwrap();
    let source = repository(dir.path(), 1 << 20);
    let cancelled = Arc::new(AtomicBool::new(true));
    let limits = FetchLimits { cancelled, ..FetchLimits::default() };
    let error = find_in_repository(&source, None, &limits).unwrap_err();
    assert_eq!(error.code().as_str(), "interrupted");
    // A server that accepts a connection and never answers.
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let url = format!("http://{}/a.git", listener.local_addr().unwrap());
    let source = GitSource::new(url.as_str(), url.as_str()).unwrap();
    let limits = FetchLimits { timeout: Duration::from_millis(200), ..FetchLimits::default() };
    let error = find_in_repository(&source, None, &limits).unwrap_err();
    assert_eq!(error.code().as_str(), "fetch_failed");
    assert!(error.to_string().contains("it took longer than"), "{error}");
}

#[test]
fn git_connects_to_the_address_that_was_checked_and_looks_no_name_up() {
    let listener = TcpListener::bind("127.0.0.1:0").unwrap();
    let address = listener.local_addr().unwrap();
    let url = format!("https://git.invalid:{}/a.git", address.port());
    let source = GitSource::new(url.as_str(), url.as_str()).unwrap();
    let remote = source.remote().unwrap();
    assert_eq!(remote.host().to_string(), "git.invalid");
    let source = source.pinned_to(remote.pin(vec![address.ip()]).unwrap());
    let server = thread::spawn(move || {
        let mut first = [0; 1];
        listener.accept().unwrap().0.read_exact(&mut first).map(|()| first[0])
    });
    assert!(find_in_repository(&source, None, &FetchLimits::default()).is_err());
    let handshake = 22;
    assert_eq!(server.join().unwrap().unwrap(), handshake);
}
