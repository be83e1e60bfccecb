use std::time::Duration;

use proptest::prelude::*;
use skills_testkit::thread_cpu_time;

use super::*;

fn expanded(text: &str) -> Result<String, ExpandError> {
    Template::parse(text).expand(ValueEncoding::Plain, 1 << 20, |name| match name {
        PlaceholderName::Parameter("city") => Some("São Paulo".into()),
        PlaceholderName::Parameter("nested") => Some("{{city}}".into()),
        PlaceholderName::Secret("KEY") => Some("s3cret".into()),
        _ => None,
    })
}

#[test]
fn values_take_the_place_of_placeholders() {
    for (text, wanted) in [
        ("", ""),
        ("plain { } }} text", "plain { } }} text"),
        ("in {{city}}!", "in São Paulo!"),
        ("{{city}}{{city}}", "São PauloSão Paulo"),
        ("Bearer {{SECRETS.KEY}}", "Bearer s3cret"),
        ("{{SECRETS.KEY.more}}", "s3cret"),
        ("{{none|a default}}", "a default"),
        ("{{none|{{city}}", "{{city"),
        ("{{city|Rome}}", "São Paulo"),
        ("{{SECRETS.NONE|free}}", "free"),
        ("{{{city}}}", "{São Paulo}"),
        // A value is not scanned for placeholders.
        ("{{nested}}", "{{city}}"),
    ] {
        assert_eq!(expanded(text).as_deref(), Ok(wanted), "{text}");
    }
}

#[test]
fn other_braces_are_text() {
    for text in [
        "{{}}",
        "{{ city }}",
        "{{city",
        "{{city}",
        "{{city} }",
        "{{city|}}",
        "{{city|x} }",
        "{{é}}",
        "{{SECRETS.}}",
        "{{SECRETS..KEY}}",
        "{ {city}}",
        "{{a|{{b|{{c|",
    ] {
        assert_eq!(expanded(text).as_deref(), Ok(text), "{text}");
    }
    assert_eq!(expanded("{{city|{x}{{city}}").as_deref(), Ok("{{city|{x}São Paulo"));
}

#[test]
fn missing_values_are_named_once() {
    let missing = ["b", "A"].map(str::to_owned).to_vec();
    let error = expanded("{{b}} {{SECRETS.A}} {{b}} {{c|d}}").unwrap_err();
    assert_eq!(error, ExpandError::Unresolved(missing));
}

#[test]
fn values_and_defaults_are_encoded_and_bounded() {
    let template = Template::parse("/a?q={{q}}&r={{r|x y}}");
    let value = |name: &PlaceholderName<'_>| (name.as_str() == "q").then(|| Cow::from("1&r=../é"));
    let text = template.expand(ValueEncoding::Component, 100, value).unwrap();
    assert_eq!(text, "/a?q=1%26r%3D..%2F%C3%A9&r=x%20y");
    let error = template.expand(ValueEncoding::Component, 30, value).unwrap_err();
    assert_eq!(error, ExpandError::TooLong { max: 30 });
}

proptest! {
    #[test]
    fn the_parts_make_up_the_text(text in "([{}|. a-cS]|\\{\\{|\\}\\}|SECRETS\\.|é){0,40}") {
        let template = Template::parse(&text);
        let mut again = String::new();
        for piece in template.parts() {
            match piece {
                TemplatePart::Text(part) => again.push_str(part),
                TemplatePart::Placeholder(placeholder) => {
                    // The part after the name of a secret is not kept, so it is found by its end.
                    let rest = &text[again.len()..];
                    let end = rest.find("}}").unwrap() + 2;
                    prop_assert!(rest.starts_with("{{"));
                    prop_assert!(rest[..end].contains(placeholder.name.as_str()));
                    again.push_str(&rest[..end]);
                }
            }
        }
        prop_assert_eq!(again, text);
    }
}

#[test]
fn time_is_linear_whatever_the_text_is_made_of() {
    for unit in ["{{a|", "{", "{{a", "{{a}", "{{a|b} ", "{{{{a|}}", "{{a}}"] {
        let text = unit.repeat((1 << 20) / unit.len());
        let begun = thread_cpu_time();
        let parts = Template::parse(&text).parts().len();
        // Quadratic time would be hours.
        assert!(thread_cpu_time() - begun < Duration::from_secs(10), "{unit}: {parts} parts");
    }
}

proptest! {
    #[test]
    fn parsing_agrees_with_a_naive_matcher(text in "[{}|a. ]{0,24}") {
        prop_assert_eq!(Template::parse(&text).parts().to_vec(), by_trying(&text));
    }
}

/// The regular expression, tried at every place.
fn by_trying(text: &str) -> Vec<TemplatePart<'_>> {
    let (mut parts, mut copied, mut at) = (vec![], 0, 0);
    while at < text.len() {
        match matched(&text[at..]) {
            Some((placeholder, length)) => {
                if copied < at {
                    parts.push(TemplatePart::Text(&text[copied..at]));
                }
                parts.push(TemplatePart::Placeholder(placeholder));
                at += length;
                copied = at;
            }
            None => at += 1,
        }
    }
    if copied < text.len() {
        parts.push(TemplatePart::Text(&text[copied..]));
    }
    parts
}

fn matched(text: &str) -> Option<(Placeholder<'_>, usize)> {
    let inner = text.strip_prefix("{{")?;
    let inner = &inner[..inner.find('}')?];
    text[2 + inner.len()..].starts_with("}}").then_some(())?;
    let (name, default) = match inner.split_once('|') {
        Some((name, default)) => (name, Some(default).filter(|text| !text.is_empty())?.into()),
        None => (inner, None),
    };
    let fits = |c: char| c.is_ascii_alphanumeric() || "._-".contains(c);
    (!name.is_empty() && name.chars().all(fits)).then_some(())?;
    Some((Placeholder { name: PlaceholderName::Parameter(name), default }, inner.len() + 4))
}
