//! Permissions and reach that the later side adds: tools, scripts, URLs and endpoints.

use std::collections::{BTreeSet, HashMap, HashSet};

use skills_agent_skills::{agent_skill::allowed_tools, frontmatter};
use skills_core::{Digest, FileMeta, RunningWork, work::Stopped};
use skills_manifest::ParseMode;

use super::{Allowance, AllowanceKind, ComparedSkill, MAX_ALLOWANCES};

/// Folder whose files agents run, by the specification of Agent Skills.
const SCRIPTS: &str = "scripts/";
/// Longest URL that is listed, in bytes.
const MAX_URL_BYTES: usize = 2048;
/// URLs of one word that are listed with all that follows, such as the target of a redirect. Others end where the next
/// begins, so that the listed text grows no faster than the files.
const MAX_NESTED_URLS: usize = 8;
/// Most URLs of the earlier side that are remembered.
pub(super) const MAX_KNOWN_URLS: usize = 1 << 16;

/// What the later side adds.
pub(super) struct Added {
    pub(super) allows: Vec<Allowance>,
    /// True if the list is cut, or a file of either side was too large to be looked into.
    pub(super) is_incomplete: bool,
}

/// Returns what the later side adds.
pub(super) fn added(
    from: &ComparedSkill,
    to: &ComparedSkill,
    work: &RunningWork,
) -> Result<Added, Stopped> {
    let mut added = Vec::new();
    let of = |kind, value: String, path| Allowance { kind, value, path };
    let known = tools(from);
    let new_tools = tools(to).into_iter().filter(|tool| !known.contains(tool));
    added.extend(new_tools.map(|tool| of(AllowanceKind::AllowedTool, tool, None)));
    // Reversed, so that the first of several files with one content counts.
    let known_files: HashMap<&Digest, &FileMeta> =
        from.files().iter().rev().map(|file| (&file.digest, file)).collect();
    let new_scripts = to.files().iter().filter(|file| {
        let same = || known_files.get(&file.digest).copied();
        let before = from.file(&file.path).or_else(same);
        is_script(to, file) && before.is_none_or(|before| !is_script(from, before))
    });
    added.extend(new_scripts.map(|file| of(AllowanceKind::Script, file.path.clone(), None)));
    let endpoint = changed_endpoint(from, to);
    // A change of the endpoint is listed, however many URLs come before it.
    let max = MAX_ALLOWANCES - usize::from(endpoint.is_some());
    let mut is_cut = false;
    let mut known = HashSet::new();
    'earlier: for (_, text) in texts(from) {
        work.check()?;
        for url in urls(text) {
            if known.len() >= MAX_KNOWN_URLS {
                is_cut = true;
                break 'earlier;
            }
            known.insert(url);
        }
    }
    let mut seen = HashSet::new();
    // The earlier side may be too large to be read in full. A file that it has too adds nothing.
    let is_new =
        |path: &str| to.file(path).is_none_or(|file| !known_files.contains_key(&file.digest));
    'later: for (path, text) in texts(to).filter(|(path, _)| is_new(path)) {
        work.check()?;
        for url in urls(text) {
            if known.contains(url) || !seen.insert(url) {
                continue;
            }
            if added.len() >= max {
                is_cut = true;
                break 'later;
            }
            added.push(of(AllowanceKind::Url, url.to_owned(), Some(path.to_owned())));
        }
    }
    is_cut |= added.len() > max;
    added.truncate(max);
    added.extend(endpoint.map(|endpoint| of(AllowanceKind::Endpoint, endpoint, None)));
    // A URL may be in a part of the earlier side that was not read: it is listed all the same, and the result says so.
    let is_unread = has_unread(to, is_new) || (!seen.is_empty() && has_unread(from, |_| true));
    Ok(Added { allows: added, is_incomplete: is_cut || is_unread })
}

/// Returns whether a file that counts was too large to be looked into.
fn has_unread(input: &ComparedSkill, counts: impl Fn(&str) -> bool) -> bool {
    input.files().iter().any(|file| counts(&file.path) && input.bytes(&file.path).is_none())
}

/// Returns the tools that the frontmatter allows.
fn tools(input: &ComparedSkill) -> BTreeSet<String> {
    let fields = frontmatter::fields(input.root()).unwrap_or_default();
    fields.get("allowed-tools").map(allowed_tools).unwrap_or_default().into_iter().collect()
}

/// Returns whether an agent may run a file.
fn is_script(input: &ComparedSkill, file: &FileMeta) -> bool {
    let bytes = input.bytes(&file.path).map(AsRef::as_ref).unwrap_or_default();
    file.path.starts_with(SCRIPTS) || file.is_executable(bytes)
}

fn texts(input: &ComparedSkill) -> impl Iterator<Item = (&str, &str)> {
    input.files().iter().filter_map(|file| {
        let text = std::str::from_utf8(input.bytes(&file.path)?).ok()?;
        Some((file.path.as_str(), text))
    })
}

/// Returns the web addresses in a text, in order.
fn urls(text: &str) -> Urls<'_> {
    Urls { text, position: 0, word_end: 0, urls_of_word: 0 }
}

/// Web addresses in a text. An address may be part of another one, up to the end of the same word. The end of a word is
/// searched once, and the addresses together are a few times longer than the text at most.
struct Urls<'a> {
    text: &'a str,
    position: usize,
    /// End of the word that has the last address.
    word_end: usize,
    urls_of_word: usize,
}

impl Urls<'_> {
    /// Returns the place of the next address at or after a position, and the length of its scheme.
    fn find(text: &str, mut position: usize) -> Option<(usize, usize)> {
        loop {
            let at = position + text[position..].find("http")?;
            let rest = &text[at..];
            let scheme =
                ["https://", "http://"].into_iter().find(|scheme| rest.starts_with(scheme));
            match scheme {
                Some(scheme) => return Some((at, scheme.len())),
                None => position = at + "http".len(),
            }
        }
    }
}

impl<'a> Iterator for Urls<'a> {
    type Item = &'a str;

    fn next(&mut self) -> Option<&'a str> {
        loop {
            let (at, scheme) = Self::find(self.text, self.position)?;
            self.position = at + scheme;
            if at >= self.word_end {
                let address = &self.text[self.position..];
                self.word_end = self.position + address.find(ends_url).unwrap_or(address.len());
                self.urls_of_word = 0;
            }
            self.urls_of_word += 1;
            let end = self.word_end.min(at + MAX_URL_BYTES);
            let mut url = &self.text[at..self.text.floor_char_boundary(end)];
            if self.urls_of_word > MAX_NESTED_URLS
                && let Some((next, _)) = Self::find(url, scheme)
            {
                url = &url[..next];
            }
            let url = url.trim_end_matches(['.', ',', ';', ':', '!', '?', '*', '_']);
            if url.len() > scheme {
                return Some(url);
            }
        }
    }
}

fn ends_url(c: char) -> bool {
    c.is_whitespace() || c.is_control() || "<>\"'`|()[]{}\\^".contains(c)
}

/// Returns the endpoint of the later side's tool if the earlier side has another one, or none.
fn changed_endpoint(from: &ComparedSkill, to: &ComparedSkill) -> Option<String> {
    endpoint(to).filter(|later| endpoint(from).as_ref() != Some(later))
}

/// Returns the endpoint of a tool without its query, which may hold a credential.
fn endpoint(input: &ComparedSkill) -> Option<String> {
    let parsed = skills_manifest::parse(input.manifest()?, ParseMode::Lenient, None).ok()?;
    let endpoint = parsed.spec.endpoint()?;
    Some(endpoint.split(['?', '#']).next().unwrap_or(endpoint).to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    fn listed(text: &str) -> Vec<&str> {
        urls(text).collect()
    }

    #[test]
    fn urls_are_found_in_texts_and_in_other_urls() {
        assert_eq!(
            listed(
                "see <https://a.example/x>, http://b.example. Or https:// (http://c.example/(d))"
            ),
            ["https://a.example/x", "http://b.example", "http://c.example/"]
        );
        assert_eq!(
            listed("https://a.example/?to=https://b.example/é!"),
            ["https://a.example/?to=https://b.example/é", "https://b.example/é"]
        );
        let long = format!("http://a.example/{} http://b.example", "x".repeat(5000));
        let found = listed(&long);
        assert_eq!((found[0].len(), found[1]), (MAX_URL_BYTES, "http://b.example"));
        assert!(listed("http httphttp:/ http://. https://").is_empty());
    }

    #[test]
    fn each_url_of_a_long_chain_is_listed() {
        let text: String = (0..20).map(|number| format!("https://{number}.example/")).collect();
        let found = listed(&text);
        assert_eq!(found.len(), 20);
        for (number, url) in found.iter().enumerate() {
            let rest = &text[text.find(&format!("https://{number}.")).unwrap()..];
            let is_whole = number < MAX_NESTED_URLS || number == 19;
            let own = format!("https://{number}.example/");
            assert_eq!(*url, if is_whole { rest } else { &own });
        }
    }

    #[test]
    fn the_work_on_urls_inside_urls_grows_with_their_text() {
        for part in ["http://", "http://a", "https://a.example/", "http://a!!!!!!!!", "http"] {
            let text = part.repeat((1 << 20) / part.len());
            let mut urls = urls(&text);
            // Each byte is in few of the listed URLs, and the end of the word is searched once.
            let (mut bytes, mut searches) = (0, HashSet::new());
            while let Some(url) = urls.next() {
                bytes += url.len();
                searches.insert(urls.word_end);
            }
            assert!(bytes <= (MAX_NESTED_URLS + 1) * text.len(), "{part}: {bytes}");
            assert!(searches.len() <= 1, "{part}: {searches:?}");
        }
    }
}
