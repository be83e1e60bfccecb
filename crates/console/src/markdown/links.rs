//! Addresses of links and images in a document: those of the bundle lead to the console, remote images are not loaded.

use std::collections::{HashMap, HashSet};

use pulldown_cmark::{CowStr, Event, HeadingLevel, Tag, TagEnd};
use skills_core::{
    content::media_type,
    skill::ROOT_PATH,
    uri::{SCHEME, percent_decode},
};

use super::ID_PREFIX;
use crate::{
    HOME,
    components::{raw_path, skill_part, skill_path},
};

/// Raster images, which browsers show and never run.
const IMAGE_TYPES: [&str; 4] = ["image/png", "image/jpeg", "image/gif", "image/webp"];

/// Returns whether a file of a bundle may be shown as an image.
pub(crate) fn is_image(path: &str) -> bool {
    IMAGE_TYPES.contains(&media_type(path))
}

/// The skill that a document belongs to, which relative addresses refer to.
pub(crate) struct LinkTargets {
    /// Id of the skill.
    pub(crate) id: String,
    /// Tier in the address of the page, if any.
    pub(crate) tier: &'static str,
    /// Version in the address of the page, if any.
    pub(crate) version: String,
    /// Path of the document in its bundle.
    pub(crate) path: String,
    /// Paths of the bundle.
    pub(crate) files: HashSet<String>,
    /// Title that the page shows above the document, which need not repeat it.
    pub(crate) title: Option<String>,
}

impl LinkTargets {
    /// Returns the address that a link leads to; `None` if it is dropped.
    pub(super) fn link(&self, target: &str) -> Option<String> {
        let target = target.trim();
        // Made by an earlier pass, or absolute on this server: only pages of the console.
        if target.starts_with('/') {
            let is_own = target == HOME || target.starts_with("/ui/");
            return Some(target.to_owned()).filter(|_| is_own && stays_below(target));
        }
        if let Some(fragment) = target.strip_prefix('#') {
            let fragment = fragment.strip_prefix(ID_PREFIX).unwrap_or(fragment);
            return Some(format!("#{ID_PREFIX}{fragment}"));
        }
        if let Some(rest) = target.strip_prefix(SCHEME) {
            return Some(registry_link(rest));
        }
        if let Some((scheme, _)) = target.split_once(':')
            && scheme.bytes().all(|c| c.is_ascii_alphanumeric() || b"+-.".contains(&c))
        {
            let allowed = ["http", "https", "mailto"];
            return allowed
                .iter()
                .any(|it| scheme.eq_ignore_ascii_case(it))
                .then(|| target.to_owned());
        }
        let (path, fragment) = target.split_once('#').unwrap_or((target, ""));
        let path = self.file(path)?;
        if path == ROOT_PATH {
            let page = skill_part(
                "/ui/skills/",
                &self.id,
                &[("tier", self.tier), ("version", &self.version)],
            );
            return Some(format!("{page}#{ID_PREFIX}{fragment}"));
        }
        let query =
            [("tab", "files"), ("path", &path), ("tier", self.tier), ("version", &self.version)];
        Some(skill_part("/ui/skills/", &self.id, &query))
    }

    /// Returns the address of an image of the bundle; `None` for all others.
    pub(super) fn image(&self, target: &str) -> Option<String> {
        // Made by an earlier pass: an image of this bundle.
        if target.starts_with('/') {
            let own = raw_path(&self.id, "", &[]);
            return Some(target.to_owned()).filter(|it| it.starts_with(&own) && stays_below(it));
        }
        let path = self.file(target).filter(|path| is_image(path))?;
        Some(raw_path(&self.id, &path, &[("tier", self.tier), ("version", &self.version)]))
    }

    /// Returns the path of the file in the bundle that a relative address names.
    fn file(&self, target: &str) -> Option<String> {
        let target = target.split(['?', '#']).next().unwrap_or(target);
        let decoded = percent_decode(target);
        let target = decoded.as_deref().unwrap_or(target);
        let folder = self.path.rsplit_once('/').map_or("", |(folder, _)| folder);
        let mut segments: Vec<&str> = folder.split('/').filter(|it| !it.is_empty()).collect();
        for segment in target.split('/') {
            match segment {
                "" | "." => {}
                ".." => drop(segments.pop()?),
                segment => segments.push(segment),
            }
        }
        let path = segments.join("/");
        self.files.contains(&path).then_some(path)
    }
}

/// Returns whether a browser requests an address as it is written: segments such as `..` and `%2e%2e` lead out of its
/// folder, and browsers read `\` as `/` and skip line ends.
fn stays_below(address: &str) -> bool {
    let path = address.split(['?', '#']).next().unwrap_or(address);
    let path = path.to_ascii_lowercase().replace("%2e", ".");
    let is_plain = |c: char| c != '\\' && !c.is_control();
    path.chars().all(is_plain) && !path.split('/').any(|it| it == "." || it == "..")
}

/// Returns the page of the rest of an `iii://` URI: of a skill, of a file of one, or of an entry of a live client, whose
/// ids have a slash too. The page finds out which.
fn registry_link(rest: &str) -> String {
    let rest = rest.split(['?', '#']).next().unwrap_or(rest);
    let decoded = percent_decode(rest);
    match decoded.as_deref().unwrap_or(rest) {
        "skills" | "skills/" => HOME.to_owned(),
        id => skill_path(id.trim_end_matches('/')),
    }
}

fn heading(level: HeadingLevel, id: Option<CowStr<'_>>) -> Event<'_> {
    Event::Start(Tag::Heading { level, id, classes: vec![], attrs: vec![] })
}

/// Rewrites links, images and headings of a document.
pub(super) struct LinkRewriter<'a> {
    targets: &'a LinkTargets,
    /// Number of headings of one text.
    slugs: HashMap<String, usize>,
    /// Level and text of the open heading, and the position of its start.
    heading: Option<(HeadingLevel, String, usize)>,
    /// Text instead of an image that is not loaded, collected until its end.
    image: Option<(String, String)>,
}

impl<'a> LinkRewriter<'a> {
    pub(super) fn new(targets: &'a LinkTargets) -> Self {
        Self { targets, slugs: HashMap::new(), heading: None, image: None }
    }

    /// Returns whether a heading is open, whose events may still be changed.
    pub(super) const fn is_in_heading(&self) -> bool {
        self.heading.is_some()
    }

    /// Rewrites an event into the output.
    pub(super) fn push<'e>(&mut self, event: Event<'e>, output: &mut Vec<Event<'e>>) {
        if let Some((_, text, _)) = &mut self.heading
            && let Event::Text(part) | Event::Code(part) = &event
        {
            text.push_str(part);
        }
        if self.image.is_some() {
            return self.push_in_image(event, output);
        }
        match event {
            Event::Start(Tag::Link { link_type, dest_url, title, id }) => {
                let dest_url = self.targets.link(&dest_url).unwrap_or_default().into();
                output.push(Event::Start(Tag::Link { link_type, dest_url, title, id }));
            }
            Event::Start(Tag::Image { link_type, dest_url, title, id }) => {
                match self.targets.image(&dest_url) {
                    Some(dest_url) => {
                        let dest_url = dest_url.into();
                        output.push(Event::Start(Tag::Image { link_type, dest_url, title, id }));
                    }
                    None => self.image = Some((dest_url.into_string(), String::new())),
                }
            }
            Event::Start(Tag::Heading { level, .. }) => {
                self.heading = Some((level, String::new(), output.len()));
                output.push(heading(level, None));
            }
            Event::End(TagEnd::Heading(_)) => self.end_heading(output),
            // A box that nobody can check is a sign, not a control.
            Event::TaskListMarker(is_done) => {
                output.push(Event::Text(if is_done { "☑ " } else { "☐ " }.into()));
            }
            event => output.push(event),
        }
    }

    /// Ends a heading. It gets an id, and the level below its own: the page has the first level.
    fn end_heading(&mut self, output: &mut Vec<Event<'_>>) {
        let Some((level, text, at)) = self.heading.take() else { return };
        let is_first = self.slugs.is_empty();
        let id = self.slug(&text);
        let is_title =
            level == HeadingLevel::H1 && Some(text.trim()) == self.targets.title.as_deref();
        if is_first && is_title {
            output.truncate(at);
            return;
        }
        let level = HeadingLevel::try_from(level as usize + 1).unwrap_or(HeadingLevel::H6);
        output[at] = heading(level, Some(id.into()));
        output.push(Event::End(TagEnd::Heading(level)));
    }

    /// Collects the text of an image that is not loaded, and shows it with its address.
    fn push_in_image<'e>(&mut self, event: Event<'e>, output: &mut Vec<Event<'e>>) {
        match event {
            Event::Text(part) | Event::Code(part) => {
                if let Some((_, text)) = &mut self.image {
                    text.push_str(&part);
                }
            }
            Event::End(TagEnd::Image) => {
                let Some((target, text)) = self.image.take() else { return };
                let shown = if text.is_empty() { "image" } else { &text };
                output.push(Event::InlineHtml("<span class=\"not-loaded\">".into()));
                output.push(Event::Text(format!("{shown} (image not loaded: {target})").into()));
                output.push(Event::InlineHtml("</span>".into()));
            }
            _ => {}
        }
    }

    /// Returns the id of a heading, as code hosts make it.
    fn slug(&mut self, text: &str) -> String {
        let text = text.trim().to_lowercase();
        let slug: String = text
            .chars()
            .filter_map(|c| match c {
                c if c.is_alphanumeric() || c == '-' || c == '_' => Some(c),
                c if c.is_whitespace() => Some('-'),
                _ => None,
            })
            .take(80)
            .collect();
        let count = self.slugs.entry(slug.clone()).or_default();
        *count += 1;
        if *count == 1 { slug } else { format!("{slug}-{}", *count - 1) }
    }
}
