//! Texts that are made to hurt: no panic, and time in proportion to their length.

use std::time::Duration;

use proptest::prelude::*;
use skills_core::Coded as _;
use skills_testkit::thread_cpu_time;

use super::*;

/// Ten times the text may take this many times as long; a quadratic reader takes a hundred times as long.
const MAX_GROWTH: u32 = 30;
/// Other work on the machine makes runs longer, never shorter, because it takes the caches: so the shortest counts,
/// and one that is too long is tried again.
const MAX_RUNS: usize = 40;

/// Returns the processor time of a run.
fn time(text: &str) -> Duration {
    let start = thread_cpu_time();
    let _ = std::hint::black_box(lenient(text));
    thread_cpu_time() - start
}

fn assert_linear(name: &str, make: &dyn Fn(usize) -> String) {
    let (short, long) = (make(20_000), make(200_000));
    let (mut fast, mut slow) = (Duration::MAX, Duration::MAX);
    for _ in 0..MAX_RUNS {
        fast = fast.min(time(&short));
        slow = slow.min(time(&long));
        if slow < fast.max(Duration::from_millis(1)) * MAX_GROWTH {
            return;
        }
    }
    panic!("{name}: {fast:?} for {} bytes, {slow:?} for {}", short.len(), long.len());
}

fn assert_under(limit: Duration, text: &str) {
    let shortest = (0..MAX_RUNS).map(|_| time(text)).find(|&taken| taken < limit);
    assert!(shortest.is_some(), "never under {limit:?}: {:?}", time(text));
}

fn repeated(unit: &str, bytes: usize) -> String {
    unit.repeat(bytes / unit.len())
}

/// Makes a text of about a length.
type Maker = Box<dyn Fn(usize) -> String>;

fn hostile() -> Vec<(&'static str, Maker)> {
    let all = |unit: &'static str| -> Maker { Box::new(move |n| repeated(unit, n)) };
    let after = |start: &'static str, unit: &'static str| -> Maker {
        Box::new(move |n| format!("{start}{}", repeated(unit, n)))
    };
    vec![
        ("marks", all("#")),
        ("bare headings", all("#\n")),
        ("names", all("# # a\n")),
        ("sections", all("# Description\n# Parameters\n# Implementation\n# Returns\n")),
        ("run-on sections", all("#Parameters#Implementation ")),
        ("open fence, blank lines", after("# a\n## Parameters\n```json", "\n")),
        ("open fence, blanks", after("# a\n## Implementation\n```yaml\n", " \n ")),
        ("backticks", all("`")),
        ("fences", all("```\n")),
        ("fences on one line", after("## Parameters\n", "``` ```x\n")),
        ("almost closed", after("# a\n## Parameters\n````json\n", "```\n")),
        ("blanks", all(" \n")),
        ("comments", after("# a\n## Description\n", "<!-- ")),
        ("closed comments", after("# a\n## Description\n", "<!---->")),
        ("bare, then blanks", after("#", "\n\r\n ")),
        ("frontmatter", after("---\n", "# a\n--- x\n")),
        ("braces", all("{")),
        ("nested JSON", after("{\"a\":", "[")),
        ("doubled keys", Box::new(|n| format!("{{{}\"a\":1}}", repeated("\"a\":1,", n)))),
        (
            "many keys",
            Box::new(|n| {
                let keys: String = (0..n / 10).map(|key| format!("\"k{key:05}\":1,")).collect();
                format!("{{\"config\":{{{keys}\"a\":1}}}}")
            }),
        ),
        (
            "many headers",
            Box::new(|n| {
                let keys: String = (0..n / 12).map(|key| format!("\"k{key:05}\":\"\",")).collect();
                format!("{{\"config\":{{\"headers\":{{{keys}\"a\":\"\"}}}}}}")
            }),
        ),
        (
            "placeholders",
            Box::new(|n| {
                format!(
                    "{{\"config\":{{\"api_key\":\"{}\",\"endpoint\":\"https://a/\"}}}}",
                    repeated("{{", n)
                )
            }),
        ),
        (
            "long key",
            Box::new(|n| {
                format!(
                    "{{\"config\":{{\"{}\":{{{}\"b\":1}}}}}}",
                    "k".repeat(n / 2),
                    repeated("\"b\":1,", n / 2)
                )
            }),
        ),
        (
            "long names",
            Box::new(|n| {
                let names: String =
                    (0..9).map(|key| format!("\"{key}{}\":1,", "é".repeat(n / 20))).collect();
                format!(
                    "{{\"config\":{{\"headers\":{{{names}\"a\":1}},\"response_mapping\":{{{names}\"a\":1}}}}}}"
                )
            }),
        ),
        (
            "credentials",
            Box::new(|n| {
                let fields = repeated("{\"token\":1},", n / 2);
                let form = repeated("key=a&", n / 2);
                format!(
                    "{{\"config\":{{\"body\":{{\"{}\":[{fields}1]}},\"endpoint\":\"https://a?{form}\"}}}}",
                    "k".repeat(n / 2)
                )
            }),
        ),
        ("long label", after("# a\n## Parameters\n```", "a")),
        ("embedded", Box::new(|n| serde_json::json!({"source": repeated("# a\n", n)}).to_string())),
    ]
}

#[test]
fn time_is_in_proportion_to_length() {
    for (name, make) in hostile() {
        assert_linear(name, &*make);
    }
}

/// The texts that took the gateway seconds. Without optimisation the first takes a tenth of a millisecond.
#[test]
fn known_slow_texts_are_parsed_quickly() {
    assert_under(Duration::from_millis(10), &"#".repeat(20_000));
    let open_fence = format!("# a\n## Parameters\n```json{}", "\n".repeat(2000));
    assert_under(Duration::from_millis(50), &open_fence);
}

#[test]
fn the_largest_texts_are_read_and_larger_ones_are_not() {
    for (name, make) in hostile() {
        let mut text = make(1 << 20);
        text.truncate(text.floor_char_boundary(1 << 20));
        let start = thread_cpu_time();
        let parsed = lenient(&text);
        let said: usize =
            parsed.diagnostics.iter().map(|d| d.message.len() + d.pointer.len()).sum();
        assert!(parsed.diagnostics.len() <= 64 && said < 200_000, "{name}: {said}");
        let taken = thread_cpu_time() - start;
        assert!(taken < Duration::from_secs(30), "{name}: {taken:?}");
    }
    let over = "#".repeat((1 << 20) + 1);
    assert_eq!(parse(&over, ParseMode::Lenient, None).unwrap_err().code().as_str(), "too_large");
}

#[test]
fn deep_and_long_yaml_is_bounded() {
    let block = |yaml: &str| format!("# a\n## Implementation\n```yaml\n{yaml}\n```\n");
    for yaml in
        ["a: [", "- ", "? ", "a:\n ", "{a: ", "&a [*a, ", "'a': b\n", "a: |\n  b\n", "\"", "%TAG "]
    {
        assert_linear(yaml, &|n| block(&repeated(yaml, n)));
    }
    let keys: String = (0..20_000).map(|n| format!("k{n}: v\n")).collect();
    assert_eq!(lenient(&block(&keys)).spec.implementation.len(), 20_001);
}

fn arb_markdown() -> impl Strategy<Value = String> {
    "((#{1,4} ?|```|~~~|````)?(json|yaml|yml|Description|Parameters|Implementation|Returns|a|é|\\{\"a\":1\\}|type: api|<!--|-->|\\{|\\}|\"|:|---)?( |\n|\r\n|\t|\u{2028})?){0,40}"
}

fn arb_json() -> impl Strategy<Value = String> {
    let key = "(id|name|meta|config|implementation|source|source_text|request|headers|parameters|tags|emoji|url|method|api_key|docs|type)";
    let leaf = prop_oneof![
        "(null|true|0|-1|1e3|\"\"|\"a\"|\"official\"|\"# a\"|\"GET\"|\"https://a\"|\"\\{\\}\"|\"\\{\\{x\\}\\}\")",
    ];
    let value = leaf.prop_recursive(4, 40, 5, move |inner| {
        prop_oneof![
            prop::collection::vec(inner.clone(), 0..3)
                .prop_map(|items| format!("[{}]", items.join(","))),
            prop::collection::vec((key, inner), 0..6).prop_map(|fields| {
                let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
                format!("{{{}}}", fields.join(","))
            }),
        ]
    });
    prop::collection::vec((key, value), 0..6).prop_map(|fields| {
        let fields: Vec<_> = fields.iter().map(|(k, v)| format!("\"{k}\":{v}")).collect();
        format!("{{{}}}", fields.join(","))
    })
}

/// Properties of every text.
fn is_sound(text: &str) -> Result<(), TestCaseError> {
    let parsed = lenient(text);
    prop_assert!(!parsed.spec.name.is_empty());
    prop_assert!(parsed.spec.implementation.get("type").is_some_and(Value::is_string));
    prop_assert!(parsed.spec.parameters.is_object());
    prop_assert!(parsed.spec.input_schema().get("type").is_some());
    let has_error = parsed.diagnostics.iter().any(|d| d.severity == Severity::Error);
    match strict(text) {
        Ok(accepted) => prop_assert!(!has_error && accepted == parsed),
        Err(refused) => prop_assert!(has_error && !refused.diagnostics().is_empty()),
    }
    for diagnostic in &parsed.diagnostics {
        prop_assert!(!diagnostic.message.is_empty());
    }
    let _ = serde_json::to_value(parsed.spec.to_public(skills_core::Tier::Market)).unwrap();
    let _ = tool_document(&parsed.spec, &"z".parse().unwrap());
    Ok(())
}

proptest! {
    #[test]
    fn any_text(text in "(\\PC|\n|#|`){0,300}") {
        is_sound(&text)?;
    }

    #[test]
    fn any_markdown(text in arb_markdown()) {
        is_sound(&text)?;
    }

    #[test]
    fn any_json(text in arb_json()) {
        is_sound(&text)?;
    }
}
