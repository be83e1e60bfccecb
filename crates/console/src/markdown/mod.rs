//! Markdown of skills as safe HTML.
//!
//! The document is hostile. These measures keep it harmless: what it expands to is bounded, before it is parsed and while its
//! HTML is written (`bounds`), raw HTML is reduced to tags that are well nested (`raw_html`), links and images are
//! rewritten to addresses of this server or dropped (`links`), and the result is sanitised by an allow list. The
//! content policy of the page would still keep a script from running.

mod bounds;
mod links;
mod raw_html;

use std::{
    borrow::Cow,
    collections::{HashSet, VecDeque},
    sync::{Arc, LazyLock},
};

use ammonia::{Builder, UrlRelative};
use maud::{Markup, PreEscaped};
use pulldown_cmark::{CodeBlockKind, Event, Options, Parser, Tag, TagEnd, html::write_html_fmt};
use skills_agent_skills::validate::reveal_hidden;
use skills_core::work::{StopFlag, Stopped};

use self::{
    bounds::{Bounded, CountingWriter, Expansion, rendered_part},
    links::LinkRewriter,
};
pub(crate) use self::{
    bounds::{MAX_BYTES, first_part},
    links::{LinkTargets, is_image},
};
use crate::highlight::highlight;

/// Prefix of all ids in a document, so that none is that of an element of the page.
const ID_PREFIX: &str = "doc-";

/// Memory of a rendering besides what grows with the document.
const BASE_MEMORY: usize = 256 << 10;
/// Memory of the trees of a document for each of its bytes, while it is short.
const TREE_FACTOR: usize = 600;
/// Most memory of the trees of a document, whose nodes are bounded.
const MAX_TREES: usize = 14 << 20;
/// Memory of the copies of a document and of its HTML for each of its bytes.
const TEXT_FACTOR: usize = 16;

/// Rendered document.
pub(crate) struct Rendered {
    pub(crate) html: Markup,
    /// True if the document was too large or too deep to be rendered whole.
    pub(crate) is_truncated: bool,
}

/// Returns the memory that rendering a document of some bytes takes at most.
pub(crate) fn memory(bytes: usize) -> usize {
    let bytes = bytes.min(MAX_BYTES);
    BASE_MEMORY + (bytes * TREE_FACTOR).min(MAX_TREES) + bytes * TEXT_FACTOR
}

/// Renders a document without its frontmatter. Takes time in proportion to the document: call it on a blocking thread.
///
/// # Errors
/// When the work has to stop.
pub(crate) fn render(
    document: &str,
    targets: &Arc<LinkTargets>,
    stop: &StopFlag,
) -> Result<Rendered, Stopped> {
    let part = first_part(document, MAX_BYTES);
    let revealed = reveal_hidden(part);
    let text = rendered_part(&revealed);
    let is_cut = part.len() < document.len() || text.len() < revealed.len();
    let options = Options::ENABLE_TABLES
        | Options::ENABLE_STRIKETHROUGH
        | Options::ENABLE_TASKLISTS
        | Options::ENABLE_FOOTNOTES
        | Options::ENABLE_GFM;
    let left = Expansion::new();
    let mut document = Document {
        events: Bounded::new(Parser::new_ext(text, options), &left, stop),
        rewriter: LinkRewriter::new(targets),
        left: &left,
        code: None,
        held: Vec::new(),
        ready: VecDeque::new(),
    };
    let mut writer = CountingWriter { html: String::with_capacity(text.len() * 2), left: &left };
    // Writing to a string cannot fail.
    let _ = write_html_fmt(&mut writer, &mut document);
    let is_truncated = is_cut || document.events.is_truncated();
    drop(document);
    stop.check()?;
    let html = sanitiser(targets).clean(&writer.html).to_string();
    Ok(Rendered { html: PreEscaped(html), is_truncated })
}

/// Events of a document with rewritten links and highlighted code.
struct Document<'a, 'e, I> {
    events: Bounded<'a, I>,
    rewriter: LinkRewriter<'a>,
    left: &'a Expansion,
    code: Option<CodeBlock>,
    /// Events of a heading, which is changed at its end.
    held: Vec<Event<'e>>,
    ready: VecDeque<Event<'e>>,
}

impl<'e, I: Iterator<Item = Event<'e>>> Iterator for Document<'_, 'e, I> {
    type Item = Event<'e>;

    fn next(&mut self) -> Option<Event<'e>> {
        while self.ready.is_empty() {
            match (self.events.next()?, &mut self.code) {
                (Event::Start(Tag::CodeBlock(kind)), _) => self.code = Some(CodeBlock::new(&kind)),
                (Event::Text(text), Some(block)) => block.text.push_str(&text),
                (Event::End(TagEnd::CodeBlock), block) => {
                    let html = block.take().map(|block| block.html(self.left.tags()));
                    self.held.extend(html.map(|html| Event::Html(html.into())));
                }
                (event, _) => self.rewriter.push(event, &mut self.held),
            }
            if !self.rewriter.is_in_heading() {
                self.ready.extend(self.held.drain(..));
            }
        }
        self.ready.pop_front()
    }
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

    /// Returns the code with as many tags as may be.
    fn html(self, max_tags: usize) -> String {
        let code = highlight(&self.text, &self.language, max_tags / 2).into_string();
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
