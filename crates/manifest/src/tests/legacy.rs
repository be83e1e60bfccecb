//! The Markdown format.

use serde_json::json;

use super::*;

fn with_blocks(parameters: &str, implementation: &str) -> String {
    format!(
        "# A\n## Description\nd\n## Parameters\n{parameters}\n## Implementation\n{implementation}\n"
    )
}

#[test]
fn bad_parameters_leave_the_rest() {
    let text = "# A\n## Description\nhi <!-- c --> there\n## Parameters\n```json\n{bad}\n```\n\
        ## Implementation\n```yaml\ntype: api\nendpoint: https://a\n```\n";
    let parsed = lenient(text);
    assert_eq!(parsed.format, ManifestFormat::Markdown);
    let mut spec = serde_json::to_value(&parsed.spec).unwrap();
    assert_eq!(spec.as_object_mut().unwrap().remove("display_name"), Some(json!("A")));
    assert_eq!(
        spec,
        json!({"name": "A", "description": "hi  there", "parameters": {"type": "object", "properties": {}},
            "returns": null, "implementation": {"type": "api", "endpoint": "https://a"}})
    );
    assert_eq!(errors(text), [("invalid_json", "6:2".to_owned())]);
    assert!(strict(text).is_err());
}

#[test]
fn a_complete_one_is_accepted() {
    let text = "---\nx: 1\n# not the name\n---\n# A tool\r\n\r\n## Description\r\nWhat it does.\r\n\r\n### Parameters and more\r\n\
        ```json\r\n{\"type\":\"object\",\"properties\":{\"q\":{\"type\":\"string\"}}}\r\n```\r\n#### IMPLEMENTATION YAML\r\n\
        ```yaml\r\ntype: api\r\nendpoint: \"https://a/{{q}}\"\r\n```\r\n##Returns\r\n```json\r\n{\"type\":\"array\"}\r\n```\r\n";
    let parsed = strict(text).unwrap();
    assert_eq!(codes(&parsed), [] as [&str; 0]);
    let spec = parsed.spec;
    assert_eq!((spec.name.as_str(), spec.description.as_str()), ("A tool", "What it does."));
    assert_eq!(spec.parameters["properties"]["q"], json!({"type": "string"}));
    assert_eq!((spec.endpoint(), spec.method().as_str()), (Some("https://a/{{q}}"), "POST"));
    assert_eq!(spec.returns, Some(json!({"type": "array"})));
}

#[test]
fn the_name() {
    let unknown = json!("Unknown_Skill");
    check_all(&[
        ("# hello", Same, &[("/name", json!("hello"))]),
        ("", Same, &[("/name", unknown.clone())]),
        ("#\n\nfoo", Same, &[("/name", json!("foo"))]),
        ("# one\n# two", Same, &[("/name", json!("one"))]),
        ("## two\n# one", Same, &[("/name", json!("one"))]),
        ("#nospace", Same, &[("/name", unknown.clone())]),
        ("text # not", Same, &[("/name", unknown.clone())]),
        ("#   padded  \n", Same, &[("/name", json!("padded"))]),
        ("# a #", Same, &[("/name", json!("a #"))]),
        (
            "# Description\nd",
            Same,
            &[("/name", json!("Description")), ("/description", json!("d"))],
        ),
        (
            "## Implementation\n```yaml\n# a comment\ntype: api\n```\n# late",
            Different("a comment inside a block is no heading"),
            &[("/name", json!("late")), ("/implementation/type", json!("api"))],
        ),
        (
            "# Returns Calculator\n## Parameters\n```json\n{\"title\":\"p\"}\n```",
            Different("what a tool is called is no section"),
            &[("/returns", json!(null)), ("/parameters/title", json!("p"))],
        ),
        (
            "#\n## Description\nd",
            Different("a heading is not the text of another"),
            &[("/name", unknown)],
        ),
    ]);
}

#[test]
fn the_description() {
    check_all(&[
        (
            "# a\n## Description\n\n one\n two \n\n## x",
            Same,
            &[("/description", json!("one\n two"))],
        ),
        ("# a\n###### dEsCrIpTiOn  \nd", Same, &[("/description", json!("d"))]),
        ("# a\n##Description\nd", Same, &[("/description", json!("d"))]),
        ("# a\n## Description: x\nd", Same, &[("/description", json!(""))]),
        ("# a\n## Description\nd\n### sub\ne", Same, &[("/description", json!("d"))]),
        ("# a\n## Description\nd\n## Description\ne", Same, &[("/description", json!("d"))]),
        (
            "# a\n## Description\n<!-- x\ny -->d<!-- open",
            Same,
            &[("/description", json!("d<!-- open"))],
        ),
        (
            "# a\n## Description\nUse C# today, #1",
            Different("only a heading ends it, not a character"),
            &[("/description", json!("Use C# today, #1"))],
        ),
        (
            "# a\nsee ## Description\nd",
            Different("a mention is no heading"),
            &[("/description", json!(""))],
        ),
        (
            "# a\n## Description\nd\n```sh\n# c\n```\ne",
            Different("a comment inside a block is no heading"),
            &[("/description", json!("d\n```sh\n# c\n```\ne"))],
        ),
    ]);
}

#[test]
fn the_blocks() {
    let title = |text: &str| json!({"title": text});
    let none = json!({"type": "object", "properties": {}});
    check_all(&[
        ("# a\n## Parameters\n```\n{\"title\":\"x\"}\n```", Same, &[("/parameters", title("x"))]),
        (
            "# a\n## Parameters\n```JSON\n{\"title\":\"x\"}\n```",
            Same,
            &[("/parameters", title("x"))],
        ),
        (
            "# a\n## Parameters\ntext\n\n  ```json\n{\"title\":\"x\"}\n  ```",
            Same,
            &[("/parameters", title("x"))],
        ),
        ("# a\n## Parameters\n```json {\"title\":\"x\"} ```", Same, &[("/parameters", title("x"))]),
        ("# a\n## Parameters\n```json\n{\"title\":\"x\"}```", Same, &[("/parameters", title("x"))]),
        ("# a\n## Parameters\n```{\"title\":\n\"x\"}\n```", Same, &[("/parameters", title("x"))]),
        (
            "# a\n## Parameters\n### Schema\n```json\n{\"title\":\"x\"}\n```",
            Same,
            &[("/parameters", title("x"))],
        ),
        (
            "# a\n## Parameters\n## Parameters\n```json\n{\"title\":\"x\"}\n```",
            Same,
            &[("/parameters", title("x"))],
        ),
        (
            "# a\n## Parameters\n```json\n{\"title\":\"x\"}\n",
            Same,
            &[("/parameters", none.clone())],
        ),
        ("# a", Same, &[("/parameters", none.clone()), ("/returns", json!(null))]),
        (
            "# a\n##\n\nParameters\n```json\n{\"title\":\"x\"}\n```",
            Same,
            &[("/parameters", title("x"))],
        ),
        (
            "# a\n## Parameters\n```json\n[1]\n```",
            Different("arguments are an object, so their schema is one"),
            &[("/parameters", none.clone())],
        ),
        (
            "# a\n## Parameters\n\nnone\n## Implementation\n```yaml\ntype: api\n```\n## Returns\n```json\n{\"title\":\"r\"}\n```",
            Different("a section does not take the block of the next"),
            &[
                ("/parameters", none.clone()),
                ("/implementation/type", json!("api")),
                ("/returns", title("r")),
            ],
        ),
        (
            "# Parameters\n## Implementation\n```yaml\ntype: api\n```",
            Different("nor does one of a higher level"),
            &[("/parameters", none.clone()), ("/implementation/type", json!("api"))],
        ),
        (
            "# a\n## Parameters\n```sh\ncurl\n```\n```jsonc\n{\"title\":\"x\"}\n```",
            Different("a block that says it is something else is passed over"),
            &[("/parameters", title("x"))],
        ),
        (
            "# a\n## Implementation\n```yml\ntype: api\n```",
            Different("yml is YAML"),
            &[("/implementation/type", json!("api"))],
        ),
        (
            "# a\n## Implementation\n~~~yaml\ntype: api\n~~~",
            Different("Markdown has two kinds of fence"),
            &[("/implementation/type", json!("api"))],
        ),
        (
            "# a\n## Implementation\n````yaml\ntype: |\n  ```\n  x\n````",
            Different("a longer fence may hold a shorter one"),
            &[("/implementation/type", json!("```\nx\n"))],
        ),
        (
            "# a\n## Implementation\n```yaml type: api```",
            Different("a block may stand on one line in every section"),
            &[("/implementation/type", json!("api"))],
        ),
        (
            "# a\n## Implementation\n```yaml\nrequest: {url: 'https://r', method: PUT}\n```",
            Different("a request block means the same in both formats"),
            &[
                ("/implementation/endpoint", json!("https://r")),
                ("/implementation/method", json!("PUT")),
            ],
        ),
        (
            "# a\nsee #Parameters\n```json\n{\"title\":\"x\"}\n```",
            Different("a mention is no heading"),
            &[("/parameters", none)],
        ),
    ]);
}

#[test]
fn everything_odd_is_reported_with_its_line() {
    let found = |text: &str| {
        let all =
            lenient(text).diagnostics.into_iter().filter(|d| !d.code.starts_with("missing_e"));
        all.map(|d| (d.code, d.pointer)).collect::<Vec<_>>()
    };
    let one = |code, locate: &str| vec![(code, locate.to_owned())];
    let fine = "```yaml\nendpoint: https://a\n```";
    assert_eq!(found(&with_blocks("```json\n{}\n```", fine)), []);
    assert_eq!(found(&with_blocks("```jsonc\n{}\n```", fine)), one("unusual_label", "5:1"));
    assert_eq!(
        found(&with_blocks("```json\n{}\n```", &fine.replace("yaml", "yml"))),
        one("unusual_label", "9:1")
    );
    assert_eq!(found(&with_blocks("no block", fine)), one("missing_block", "4:1"));
    assert_eq!(
        found(&with_blocks("```json\n{\"type\": 1}\n```", fine)),
        one("invalid_schema", "5:1")
    );
    assert_eq!(
        found(&with_blocks("```json\n\n{\n \"a\": x}\n```", fine)),
        one("invalid_json", "8:7")
    );
    assert_eq!(found(&with_blocks("```json\n7\n```", fine)), one("wrong_type", "5:1"));
    assert_eq!(
        found(&with_blocks("```json\n{\"a\":1,\"a\":2}\n```", fine)),
        one("duplicate_key", "/parameters/a")
    );
    assert_eq!(
        found(&with_blocks("```json\n{}\n```", "```yaml\na: 1\na: 2\n```")),
        one("duplicate_key", "11:1")
    );
    assert_eq!(
        found(&with_blocks("```json\n{}\n```", "```yaml\n- a\n```")),
        one("wrong_type", "10:1")
    );
    assert_eq!(
        found(&with_blocks("```json\n{}\n```", "```yaml\na: 1"))[..1],
        one("unclosed_fence", "9:1")
    );
    assert_eq!(
        found(&with_blocks("```sh\nx\n```\n```json\n{}\n```", fine)),
        one("block_skipped", "5:1")
    );
}
