//! Who sees what: the person at this machine, and people with a token, a key or the administrator's.

use std::io::{Read as _, Write as _};

use skills_core::Layer;
use skills_http::Access;
use skills_testkit::Request;

use crate::{
    browser::text,
    test_console::{ADMIN_KEY, Credentials, TOKEN, TestConsole},
};

const ALL: Credentials = Credentials { token: true, admin_key: true };

#[test]
fn the_person_at_this_machine_needs_no_credential_where_there_is_no_token() {
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let mut browser = console.browser();
    assert!(browser.open("/ui/skills/weather").contains("Change"));
    assert!(browser.open("/ui/people").contains("New key"));
    let with_admin = TestConsole::with(Credentials { admin_key: true, ..Credentials::default() });
    let mut browser = with_admin.browser();
    assert!(!browser.open("/ui").contains("/ui/people"), "the administrator has a key");
    assert_eq!(browser.get("/ui/people").status, 403);
    assert!(browser.open("/ui/publish").contains("Document"));
}

/// Opens a page as another user of this machine and returns the answer; `None` unless the tests run as root.
#[cfg(target_os = "linux")]
fn get_as_other_user(address: &str, path: &str) -> Option<String> {
    const SCRIPT: &str = r#"exec 3<>"/dev/tcp/${1%:*}/${1#*:}"
        printf 'GET %s HTTP/1.1\r\nHost: %s\r\nAccept: text/html\r\nConnection: close\r\n\r\n' "$2" "$1" >&3
        cat <&3"#;
    let root = std::process::Command::new("id").arg("-u").output().unwrap();
    if root.stdout != b"0\n" {
        return None;
    }
    let mut other = std::process::Command::new("setpriv");
    other.args(["--reuid=1234", "--regid=1234", "--clear-groups", "bash", "-c", SCRIPT, "bash"]);
    let ran = other.args([address, path]).output().unwrap();
    assert!(ran.status.success(), "{ran:?}");
    Some(String::from_utf8_lossy(&ran.stdout).into_owned())
}

#[cfg(target_os = "linux")]
#[test]
fn another_user_of_the_machine_is_not_the_person_at_it() {
    let console = TestConsole::open();
    console.register("weather", "# Secret plans");
    assert!(console.browser().open("/ui/people").contains("New key"), "the user of the server");
    for path in ["/ui", "/ui/people", "/ui/skills/weather", "/ui/publish"] {
        let Some(answer) = get_as_other_user(&console.address, path) else { return };
        assert!(answer.starts_with("HTTP/1.1 303 ") && !answer.contains("plans"), "{answer}");
    }
    let page = get_as_other_user(&console.address, "/ui/sign-in").unwrap();
    assert!(page.contains("another user of the machine"), "{page}");
}

#[test]
fn the_one_time_link_signs_one_browser_in() {
    let console = TestConsole::open();
    let send = |method: &str, path: &str, cookie: Option<&str>| {
        // The server cannot tell whose browser this is.
        let request = Request::new(method, path).header("Accept", "text/html");
        let request = request.header("X-Forwarded-For", "127.0.0.1");
        let request = cookie.into_iter().fold(request, |request, it| request.header("Cookie", it));
        request.send(&console.address)
    };
    let page = text(&send("GET", "/ui/sign-in", None));
    assert!(page.contains("skills status") && page.contains("without a proxy"), "{page}");
    let link = console.link();
    assert_ne!(send("HEAD", &link, None).status, 303);
    let opened = send("GET", &link, None);
    assert_eq!((opened.status, opened.header("location").as_deref()), (303, Some("/ui")));
    let cookie = opened.header("set-cookie").unwrap();
    let cookie = cookie.split(';').next().unwrap();
    let people = text(&send("GET", "/ui/people", Some(cookie)));
    assert!(people.contains("New key") && people.contains("Sign out"), "{people}");
    let again = send("GET", &link, None);
    assert_eq!((again.status, again.header("set-cookie").is_some()), (401, true));
    let secret = link.rsplit('/').next().unwrap();
    assert!(text(&again).contains("was used") && !text(&again).contains(secret));
    assert_eq!(send("GET", &link, Some(cookie)).header("location").as_deref(), Some("/ui"));
    // The code at the end of the next link can be pasted too.
    let next = console.link();
    assert_ne!(next, link);
    let mut browser = console.browser();
    browser.open("/ui/sign-in");
    let code = next.rsplit('/').next().unwrap();
    assert_eq!(browser.submit("/ui/sign-in", &[("credential", code)]).status, 303);
    browser.open("/ui/sign-in");
    assert_eq!(browser.submit("/ui/sign-in", &[("credential", code)]).status, 401);
}

#[test]
fn the_one_time_link_makes_no_administrator_where_one_has_a_key() {
    let console = TestConsole::with(Credentials { admin_key: true, ..Credentials::default() });
    let mut browser = console.browser();
    assert_eq!(browser.get(&console.link()).status, 303);
    assert_eq!(browser.get("/ui/people").status, 403);
    let with_token = TestConsole::with(ALL);
    assert_eq!(with_token.browser().get(&console.link()).status, 401);
}

#[test]
fn a_person_behind_a_proxy_or_another_name_is_not_at_this_machine() {
    let console = TestConsole::open();
    for header in [
        ("X-Forwarded-For", "10.0.0.1"),
        ("Forwarded", "for=10.0.0.1"),
        ("Via", "1.1 proxy"),
        ("X-Real-IP", "10.0.0.1"),
        ("X-Forwarded-Host", "skills.example"),
        ("X-Forwarded-Proto", "https"),
        ("X-Forwarded-Port", "443"),
        ("X-Forwarded-Server", "proxy"),
        ("CF-Connecting-IP", "10.0.0.1"),
        ("True-Client-IP", "10.0.0.1"),
        ("X-Client-IP", "10.0.0.1"),
        ("X-Forwarded-Prefix", "/skills"),
        ("X-Forwarded-Ssl", "on"),
        ("X-Original-URL", "/ui"),
        ("CF-Ray", "1"),
        ("Fly-Client-IP", "10.0.0.1"),
    ] {
        let request = Request::get("/ui").header("Accept", "text/html").header(header.0, header.1);
        let answer = request.send(&console.address);
        assert_eq!(
            (answer.status, answer.header("location").as_deref()),
            (303, Some("/ui/sign-in?next=%2Fui")),
            "{header:?}"
        );
    }
}

#[test]
fn a_proxy_with_default_settings_gives_nobody_the_rights_of_this_machine() {
    // nginx sends HTTP/1.0, its own address as the host, and no header about the client.
    let console = TestConsole::open();
    console.register("weather", "# Weather");
    let head =
        format!("GET /ui HTTP/1.0\r\nHost: {}\r\nAccept: text/html\r\n\r\n", console.address);
    let answer = raw_exchange(&console.address, &head);
    assert!(answer.contains(" 303 ") && answer.contains("/ui/sign-in"), "{answer}");
    let head =
        head.replace("HTTP/1.0", "HTTP/1.1").replace("Accept", "Connection: close\r\nAccept");
    assert!(raw_exchange(&console.address, &head).contains(" 200 "), "a browser");
}

#[test]
fn a_server_for_other_machines_has_no_person_at_this_machine() {
    let (host, origin) =
        (vec!["skills.example".to_owned()], vec!["https://app.example".to_owned()]);
    for access in [
        Access { hosts: host, ..Access::default() },
        Access { origins: origin, ..Access::default() },
    ] {
        let console = TestConsole::with_access(Credentials::default(), access);
        let mut browser = console.browser();
        assert_eq!(
            browser.get("/ui").header("location").as_deref(),
            Some("/ui/sign-in?next=%2Fui")
        );
        let key = console.key("ann");
        assert!(console.signed_in(&key).open("/ui").contains("ann"));
    }
}

/// Sends bytes and returns all that the server answers until it closes the connection.
fn raw_exchange(address: &str, request: &str) -> String {
    let mut stream = std::net::TcpStream::connect(address).unwrap();
    stream.set_read_timeout(Some(skills_testkit::DEADLINE)).unwrap();
    stream.write_all(request.as_bytes()).unwrap();
    let mut answer = String::new();
    stream.read_to_string(&mut answer).unwrap();
    answer
}

#[test]
fn only_an_administrator_sees_the_state_of_the_server() {
    let console = TestConsole::with(ALL);
    let key = console.key("ann");
    for (credential, is_admin) in [(TOKEN, false), (key.as_str(), false), (ADMIN_KEY, true)] {
        let mut browser = console.signed_in(credential);
        let overview = browser.open("/ui/overview");
        for words in ["By surface", "memory of the process", "in the data directory", "/data/"] {
            assert_eq!(overview.contains(words), is_admin, "{words}");
        }
        assert!(
            overview.contains("skills that you see") && overview.contains("versions published")
        );
        let live = browser.open("/ui/live");
        for words in ["id=\"workers\"", "id=\"sessions\"", "script&gt;client"] {
            assert_eq!(live.contains(words), is_admin, "{words}");
        }
        assert!(live.contains("id=\"clients\"") && live.contains("id=\"sources\""), "{live}");
    }
    let with_admin = TestConsole::with(Credentials { admin_key: true, ..Credentials::default() });
    assert!(!with_admin.browser().open("/ui/overview").contains("By surface"));
    assert!(TestConsole::open().browser().open("/ui/overview").contains("By surface"));
}

#[test]
fn a_form_of_an_ended_session_says_how_to_go_on() {
    let console = TestConsole::with(ALL);
    let key = console.key("ann");
    let mut browser = console.signed_in(&key);
    browser.open("/ui/publish");
    console.revoke(&key);
    let fields = [("id", "x"), ("tier", "private"), ("text", "# X")];
    let answer = browser.upload("/ui/publish/review", &fields, &[]);
    assert_eq!((answer.status, answer.header("location")), (401, None), "{}", text(&answer));
    assert!(text(&answer).contains("sign in in another tab"), "{}", text(&answer));
}

#[test]
fn with_a_token_nothing_is_shown_before_signing_in() {
    let console = TestConsole::with(ALL);
    console.register("weather", "# Secret plans");
    let mut browser = console.browser();
    for path in [
        "/ui",
        "/ui/skills/weather",
        "/ui/raw/weather/SKILL.md",
        "/ui/zip/weather.zip",
        "/ui/publish",
        "/ui/live",
        "/ui/overview",
        "/ui/people",
    ] {
        let answer = browser.get(path);
        assert_eq!(answer.status, 303, "{path}");
        assert!(!text(&answer).contains("plans"), "{path}");
    }
    assert_eq!(browser.get("/ui/events").status, 204);
    let page = browser.open("/ui/sign-in?next=%2Fui%2Fskills%2Fweather");
    assert!(page.contains("value=\"/ui/skills/weather\""), "{page}");
    let refused = browser.submit("/ui/sign-in", &[("credential", "wrong")]);
    assert_eq!(refused.status, 401);
    assert!(
        text(&refused).contains("unknown") && !text(&refused).contains("wrong"),
        "the credential is not repeated"
    );
    let answer =
        browser.submit("/ui/sign-in", &[("credential", TOKEN), ("next", "/ui/skills/weather")]);
    assert_eq!(answer.header("location").as_deref(), Some("/ui/skills/weather"));
    assert!(browser.open("/ui/skills/weather").contains("Secret plans"));
}

#[test]
fn each_credential_has_its_own_view_and_rights() {
    let console = TestConsole::with(ALL);
    let (ann, bob) = (console.key("ann"), console.key("bob"));
    console.register("weather", "# Official");
    console.register_in(&Layer::Private("ann".parse().unwrap()), "weather", "# Of Ann");
    let title =
        |page: &str| page.split_once("<h1>").unwrap().1.split_once("</h1>").unwrap().0.to_owned();
    for (credential, expected, tiers, is_admin) in [
        (TOKEN, "Official", vec![], false),
        (ann.as_str(), "Of Ann", vec!["private"], false),
        (bob.as_str(), "Official", vec!["private"], false),
        (ADMIN_KEY, "Official", vec!["official", "market"], true),
    ] {
        let mut browser = console.signed_in(credential);
        let page = browser.open("/ui/skills/weather");
        assert!(title(&page).contains(expected), "{expected}: {}", title(&page));
        let publish = browser.open("/ui/publish");
        for tier in ["private", "official", "market"] {
            let is_offered = publish.contains(&format!("<option value=\"{tier}\""));
            assert_eq!(is_offered, tiers.contains(&tier), "{tier}");
            browser.open("/ui/sign-in");
            let review = browser.upload(
                "/ui/publish/review",
                &[("id", "x"), ("tier", tier), ("text", "# X")],
                &[],
            );
            assert_eq!(review.status, if tiers.contains(&tier) { 200 } else { 403 }, "{tier}");
        }
        assert_eq!(browser.get("/ui/people").status, if is_admin { 200 } else { 403 });
    }
    let mut ann_page = console.signed_in(&ann);
    let explain = ann_page.open("/ui/skills/weather?tab=explain");
    assert!(explain.contains("private") && explain.contains("?tier=official"), "{explain}");
    assert!(title(&ann_page.open("/ui/skills/weather?tier=official")).contains("Official"));
}

#[test]
fn signing_out_and_revoking_a_key_end_the_session() {
    let console = TestConsole::with(ALL);
    let key = console.key("ann");
    let mut browser = console.signed_in(&key);
    assert!(browser.open("/ui").contains("ann"));
    let before = browser.cookie().unwrap().to_owned();
    assert_eq!(browser.submit("/ui/sign-out", &[]).status, 303);
    assert_eq!(browser.get("/ui").status, 303);
    let stolen = Request::get("/ui").header("Accept", "text/html").header("Cookie", &before);
    assert_eq!(stolen.send(&console.address).status, 303, "the cookie is worth nothing any more");
    let mut browser = console.signed_in(&key);
    assert!(browser.open("/ui").contains("ann"));
    console.revoke(&key);
    assert_eq!(browser.get("/ui").status, 303);
    assert_eq!(browser.get("/ui/sign-in").status, 200);
    assert_eq!(browser.submit("/ui/sign-in", &[("credential", &key)]).status, 401);
}
