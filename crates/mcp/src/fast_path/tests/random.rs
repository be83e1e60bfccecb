//! Random requests.

use proptest::{
    prelude::*,
    sample::select,
    test_runner::{Config, TestRunner},
};

use super::servers::{Sent, Servers, both, calls, owner};

/// Change of a plain request.
#[derive(Debug, Clone)]
enum Mutation {
    None,
    Id(&'static str),
    Replace(&'static str, &'static str),
    DropHeader(&'static str),
    Char(prop::sample::Index, char),
}

fn mutation() -> impl Strategy<Value = Mutation> {
    let ids = vec![
        "0",
        "-1",
        "1.5",
        "\"x\"",
        "\"\"",
        "\"é\"",
        "\"a\\n\"",
        "12345678901234567890",
        "null",
        "{}",
    ];
    let replacements = vec![
        ("\"params\"", "\"Params\""),
        ("\"id\"", "\"id\":2,\"id\""),
        ("\"jsonrpc\":\"2.0\",", ""),
        ("2.0", "2.1"),
        ("{}", "[]"),
        ("{}", "null"),
        ("{}", "{\"roots\":{}}"),
        ("_meta", "_Meta"),
        ("\"uri\"", "\"cursor\":null,\"uri\""),
        ("2026-07-28", "2025-06-18"),
        ("{\"jsonrpc\"", " {\n\t\"jsonrpc\""),
        ("\"arguments\"", "\"arguments\":null,\"arguments\""),
        ("clientInfo\":{", "clientInfo\":{\"x\":1e999,"),
        ("\"params\":{", "\"params\":{\"x\":1,"),
        ("\"params\":{", "\"params\":{\"cursor\":null,"),
    ];
    let headers = vec!["mcp-method", "mcp-name", "mcp-protocol-version"];
    prop_oneof![
        6 => Just(Mutation::None),
        1 => select(ids).prop_map(Mutation::Id),
        2 => select(replacements).prop_map(|(from, to)| Mutation::Replace(from, to)),
        1 => select(headers).prop_map(Mutation::DropHeader),
        2 => (any::<prop::sample::Index>(), any::<char>()).prop_map(|(at, to)| Mutation::Char(at, to)),
    ]
}

impl Mutation {
    fn apply(self, mut sent: Sent) -> Sent {
        match self {
            Self::None => {}
            Self::Id(id) => {
                sent.body = sent.body.replacen("\"id\":1", &format!("\"id\":{id}"), 1);
            }
            Self::Replace(from, to) => sent.body = sent.body.replacen(from, to, 1),
            Self::DropHeader(name) => return sent.without(name),
            Self::Char(at, to) => {
                let at = at.index(sent.body.chars().count());
                let chars = sent.body.chars().enumerate();
                sent.body =
                    chars.map(|(index, from)| if index == at { to } else { from }).collect();
            }
        }
        sent
    }
}

fn random_request() -> impl Strategy<Value = Sent> {
    let uris = select(vec![
        "iii://odd",
        "iii://s-001",
        "iii://s-1",
        "iii://skills",
        "iii://named/docs/a b.md",
        "iii://named/docs/a%20b.md",
        "iii://named/SKILL.md",
        "iii://named/image.png",
        "iii://named/large.txt",
        "iii://mine",
        "iii://",
        "",
        "odd",
        "skill://odd/SKILL.md",
        "skill://named/other/SKILL.md",
        "skill://named/other",
        "skill://official/odd",
    ]);
    let cursors = select(vec![None, Some("cnMtMTAw"), Some("cHAtMTAw"), Some(""), Some("!")]);
    let caller = prop::option::weighted(0.3, Just(owner()));
    (0..5_usize, uris, cursors, mutation(), any::<bool>(), caller).prop_map(
        |(method, uri, cursor, mutation, is_in_session, caller)| {
            let page = cursor.map_or_else(String::new, |cursor| format!(r#""cursor":"{cursor}""#));
            let (method, name, params) = match method {
                0..3 => calls(uri).swap_remove(method),
                3 => ("resources/list", String::new(), page),
                _ => ("prompts/list", String::new(), page),
            };
            let [session, stateless] = both(method, &name, &params);
            let sent = if is_in_session { session } else { Sent { caller, ..stateless } };
            mutation.apply(sent)
        },
    )
}

#[test]
fn random_requests_get_the_same_responses_on_both_paths() {
    let runtime = tokio::runtime::Builder::new_multi_thread().enable_all().build().unwrap();
    let servers = runtime.block_on(Servers::start());
    let fast = std::cell::Cell::new(0);
    let config = Config { cases: 600, failure_persistence: None, ..Config::default() };
    TestRunner::new(config)
        .run(&random_request(), |sent| {
            let received = runtime.block_on(servers.compare(&sent));
            fast.set(fast.get() + u32::from(received.is_fast));
            Ok(())
        })
        .unwrap();
    assert!(fast.get() > 50, "{} of the fast path", fast.get());
}
