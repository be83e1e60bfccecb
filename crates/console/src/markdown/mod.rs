//! Markdown of skills as safe HTML.
//!
//! The document is hostile. Three measures keep it harmless: the events of the parser are bounded in number and depth
//! (`bounds`), links and images are rewritten to addresses of this server or dropped (`links`), and the result is
//! sanitised by an allow list. The content policy of the page would still keep a script from running.

mod bounds;
mod links;

use std::{
    borrow::Cow,
    collections::HashSet,
    sync::{Arc, LazyLock},
};

use ammonia::{Builder, UrlRelative};
use maud::{Markup, PreEscaped};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd, html::push_html};
use skills_agent_skills::validate::reveal_hidden;

pub(crate) use self::links::{LinkTargets, is_image};
use self::{bounds::Bounded, links::LinkRewriter};
use crate::highlight::highlight;

/// Prefix of all ids in a document, so that none is that of an element of the page.
const ID_PREFIX: &str = "doc-";

/// Rendered document.
pub(crate) struct Rendered {
    pub(crate) html: Markup,
    /// True if the document was too large or too deep to be rendered whole.
    pub(crate) is_truncated: bool,
}

/// Renders a document without its frontmatter. Takes time in proportion to the document: call it on a blocking thread.
pub(crate) fn render(document: &str, targets: &Arc<LinkTargets>) -> Rendered {
    let text = reveal_hidden(document);
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    let mut events = Bounded::new(Parser::new_ext(&text, options));
    let mut rewriter = LinkRewriter::new(targets);
    let mut code: Option<CodeBlock> = None;
    let mut rewritten = Vec::new();
    for event in &mut events {
        match (event, &mut code) {
            (Event::Start(Tag::CodeBlock(kind)), _) => code = Some(CodeBlock::new(&kind)),
            (Event::Text(text), Some(block)) => block.text.push_str(&text),
            (Event::End(TagEnd::CodeBlock), block) => {
                rewritten.extend(block.take().map(|block| Event::Html(block.html().into())));
            }
            (event, _) => rewriter.push(event, &mut rewritten),
        }
    }
    // A document that was cut in a code block.
    rewritten.extend(code.take().map(|block| Event::Html(block.html().into())));
    let mut html = String::with_capacity(text.len() * 2);
    push_html(&mut html, rewritten.into_iter());
    let html = sanitiser(targets).clean(&html).to_string();
    Rendered { html: PreEscaped(html), is_truncated: events.is_truncated() }
}

struct CodeBlock {
    language: String,
    text: String,
}

impl CodeBlock {
    fn new(kind: &CodeBlockKind<'_>) -> Self {
        let info = match kind {
            CodeBlockKind::Fenced(info) => info.as_ref(),
            CodeBlockKind::Indented => "",
        };
        let language = info.split([' ', ',', '{']).next().unwrap_or_default().to_owned();
        Self { language, text: String::new() }
    }

    fn html(self) -> String {
        let code = highlight(&self.text, &self.language).into_string();
        format!("<pre tabindex=\"0\"><code>{code}</code></pre>\n")
    }
}

/// Tags that a document may have.
static TAGS: LazyLock<HashSet<&'static str>> = LazyLock::new(|| {
    HashSet::from([
        "a",
        "abbr",
        "b",
        "bdi",
        "blockquote",
        "br",
        "caption",
        "code",
        "dd",
        "del",
        "details",
        "div",
        "dl",
        "dt",
        "em",
        "h1",
        "h2",
        "h3",
        "h4",
        "h5",
        "h6",
        "hr",
        "i",
        "img",
        "ins",
        "kbd",
        "li",
        "mark",
        "ol",
        "p",
        "pre",
        "q",
        "s",
        "samp",
        "small",
        "span",
        "strong",
        "sub",
        "summary",
        "sup",
        "table",
        "tbody",
        "td",
        "tfoot",
        "th",
        "thead",
        "tr",
        "u",
        "ul",
        "var",
    ])
});

/// Returns the sanitiser of a document. Attributes with addresses are rewritten by the same rule as Markdown links.
fn sanitiser(targets: &Arc<LinkTargets>) -> Builder<'static> {
    let targets = Arc::clone(targets);
    let mut builder = Builder::empty();
    builder
        .tags(TAGS.clone())
        .clean_content_tags(HashSet::from([
            "script", "style", "title", "noscript", "template", "svg", "math",
        ]))
        .generic_attributes(HashSet::from(["title", "lang"]))
        .add_tag_attributes("a", ["href"])
        .add_tag_attributes("img", ["src", "alt", "width", "height"])
        .add_tag_attributes("ol", ["start"])
        .add_tag_attributes("td", ["align", "colspan", "rowspan"])
        .add_tag_attributes("th", ["align", "colspan", "rowspan"])
        .set_tag_attribute_value("img", "loading", "lazy")
        .add_tag_attributes("details", ["open"])
        .add_tag_attribute_values("pre", "tabindex", ["0"])
        .add_allowed_classes("span", ["hl-c", "hl-s", "hl-n", "hl-k", "not-loaded"])
        .add_allowed_classes("sup", ["footnote-reference"])
        .add_allowed_classes("div", ["footnote-definition"])
        .url_schemes(HashSet::from(["http", "https", "mailto"]))
        .url_relative(UrlRelative::PassThrough)
        .link_rel(Some("noopener noreferrer nofollow"))
        .strip_comments(true)
        .id_prefix(Some(ID_PREFIX));
    for heading in ["h1", "h2", "h3", "h4", "h5", "h6", "div"] {
        builder.add_tag_attributes(heading, ["id"]);
    }
    builder.attribute_filter(move |element, attribute, value| match (element, attribute) {
        ("a", "href") => targets.link(value).map(Cow::Owned),
        ("img", "src") => targets.image(value).map(Cow::Owned),
        ("img", "width" | "height") => {
            value.parse::<u16>().ok().filter(|size| *size <= 2000).map(|_| value.into())
        }
        _ => Some(value.into()),
    });
    builder
}

#[cfg(test)]
mod tests;
