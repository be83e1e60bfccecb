//! The page of a skill: document, files, install, trust, explain, tools.

mod archive;
pub(crate) mod compare;
mod document;
mod explain;
mod files;
mod install;
mod run;
mod trust;
pub(crate) mod versions;

use std::sync::Arc;

use axum::{extract::Path, http::StatusCode, response::Response};
use maud::{Markup, html};
use skills_core::{EntryKind, Tier, VersionSelector, skill::ROOT_PATH};
use skills_registry::{Catalog, RegistryError, SkillRegistry, SkillRow};

pub(crate) use self::{
    archive::zip,
    files::raw,
    install::clients,
    run::run,
    trust::{LineLink, finding_row},
};
use crate::{
    HOME,
    components::{origin, size, skill_part, source_text, user_text},
    error::{ConsoleError, ErrorPage},
    layout::{Page, Section, error_body},
    publish,
    response::see_other,
    units::{ago, counted},
    visit::Visit,
};

/// Memory of a row of a table of files besides its path, in all copies of the page.
const TABLE_ROW: usize = 2 << 10;
/// Memory of a path in such a row for each of its bytes: in an address, and with escaped characters.
const PATH_FACTOR: usize = 24;

/// Tab of the page.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum Tab {
    Document,
    Files,
    Versions,
    Install,
    Trust,
    Explain,
    Tools,
}

impl Tab {
    const ALL: [Self; 7] = [
        Self::Document,
        Self::Files,
        Self::Versions,
        Self::Install,
        Self::Trust,
        Self::Explain,
        Self::Tools,
    ];

    const fn as_str(self) -> &'static str {
        match self {
            Self::Document => "",
            Self::Files => "files",
            Self::Versions => "versions",
            Self::Install => "install",
            Self::Trust => "trust",
            Self::Explain => "explain",
            Self::Tools => "tools",
        }
    }

    const fn label(self) -> &'static str {
        match self {
            Self::Document => "Document",
            Self::Files => "Files",
            Self::Versions => "Versions",
            Self::Install => "Install",
            Self::Trust => "Trust",
            Self::Explain => "Explain",
            Self::Tools => "Tools",
        }
    }

    /// Returns whether a skill has the tab. Nothing of a live client is stored.
    fn is_for(self, row: &SkillRow) -> bool {
        match self {
            Self::Document | Self::Install | Self::Explain => true,
            Self::Files | Self::Trust => !row.is_live(),
            Self::Versions => row.heads.is_some() || row.pinned.is_some(),
            Self::Tools => row.meta.tool.is_some(),
        }
    }
}

/// Query of the page.
#[derive(Debug, Default)]
pub(crate) struct SkillQuery {
    tab: Option<String>,
    tier: Option<Tier>,
    path: Option<String>,
    /// Version to show instead of the served one.
    version: Option<VersionSelector>,
    /// Versions to compare.
    from: Option<VersionSelector>,
    to: Option<VersionSelector>,
    /// Position in the list of versions.
    after: Option<String>,
}

impl SkillQuery {
    fn parse(target: &str) -> Self {
        let (_, query) = target.split_once('?').unwrap_or_default();
        let mut parsed = Self::default();
        for (name, value) in form_urlencoded::parse(query.as_bytes()) {
            match &*name {
                "tab" => parsed.tab = Some(value.into_owned()),
                "tier" => parsed.tier = value.parse().ok(),
                "version" => parsed.version = value.parse().ok(),
                "from" => parsed.from = value.parse().ok(),
                "to" => parsed.to = value.parse().ok(),
                "after" => parsed.after = Some(value.into_owned()),
                "path" => parsed.path = Some(value.into_owned()).filter(|path| !path.is_empty()),
                _ => {}
            }
        }
        parsed
    }
}

/// Skill of a page.
struct ShownSkill {
    visit: Visit,
    skills: Arc<dyn SkillRegistry>,
    catalog: Arc<Catalog>,
    row: Arc<SkillRow>,
    query: SkillQuery,
}

impl ShownSkill {
    async fn load(visit: Visit, id: &str) -> Result<Self, ConsoleError> {
        let (skills, catalog) = (visit.skills()?, visit.catalog().await?);
        let query = SkillQuery::parse(&visit.target);
        if let Some(version) = &query.version {
            let row = skills.skill_version(query.tier, id, version).await?;
            return Ok(Self { visit, skills, catalog, row, query });
        }
        let row = match query.tier {
            Some(tier) => catalog.skill_in(tier, id),
            None => catalog.skill(id),
        };
        let not_found = || RegistryError::NotFound { kind: EntryKind::Skill, id: id.to_owned() };
        let row = Arc::clone(row.ok_or_else(not_found)?);
        Ok(Self { visit, skills, catalog, row, query })
    }

    /// Returns the tier for addresses of this copy; empty unless the page names one.
    fn tier_name(&self) -> &'static str {
        self.query.tier.map_or("", Tier::as_str)
    }

    /// Returns the version for addresses of this copy; empty unless the page names one.
    fn version_name(&self) -> String {
        self.query.version.as_ref().map(ToString::to_string).unwrap_or_default()
    }

    /// Returns the address of a page of this copy.
    fn address(&self, pairs: &[(&str, &str)]) -> String {
        let version = self.version_name();
        let scope = [("tier", self.tier_name()), ("version", version.as_str())];
        let pairs: Vec<(&str, &str)> = pairs.iter().copied().chain(scope).collect();
        skill_part("/ui/skills/", &self.row.id, &pairs)
    }

    /// Returns the address of a tab.
    fn tab_path(&self, tab: Tab) -> String {
        self.address(&[("tab", tab.as_str())])
    }

    /// Reads the root document. The request holds its memory.
    async fn document(&self) -> Result<String, ConsoleError> {
        if self.row.is_live() {
            let uri = format!("{}{}", skills_core::uri::SCHEME, self.row.id);
            let text = self.skills.read(&uri).await?.into_text();
            self.visit.reserve(text.len())?;
            return Ok(text);
        }
        self.row.readable()?;
        let bytes = self.row.meta.file(ROOT_PATH).map_or(0, |file| file.size);
        // The bytes and the text.
        self.visit.reserve(usize::try_from(bytes).unwrap_or(usize::MAX).saturating_mul(2))?;
        let document = self.skills.document(&self.row, ROOT_PATH).await?;
        Ok(String::from_utf8_lossy(&document.body).into_owned())
    }

    /// Returns the memory of a table of the files.
    fn table_memory(&self) -> usize {
        let row = |path: &str| TABLE_ROW + path.len() * PATH_FACTOR;
        self.row.meta.files.iter().map(|file| row(&file.path)).sum()
    }

    fn paths(&self) -> Vec<String> {
        self.row.meta.files.iter().map(|file| file.path.clone()).collect()
    }
}

/// Renders the page.
pub(crate) async fn page(visit: Visit, Path(id): Path<String>) -> Result<Response, ConsoleError> {
    if let Some(path) = file_page(&*visit.catalog().await?, &id) {
        return Ok(see_other(&path));
    }
    let skill = ShownSkill::load(visit, &id).await?;
    let named = skill.query.tab.as_deref().unwrap_or_default();
    let tab = Tab::ALL.into_iter().find(|tab| tab.as_str() == named);
    let tab = tab.filter(|tab| tab.is_for(&skill.row)).ok_or(ConsoleError::NoPage)?;
    let content = match tab {
        Tab::Document => document::render(&skill).await,
        Tab::Files => files::render(&skill).await,
        Tab::Versions => versions::render(&skill).await,
        Tab::Install => Ok(install::render(&skill)),
        Tab::Trust => trust::render(&skill).await,
        Tab::Explain => explain::render(&skill).await,
        Tab::Tools => Ok(run::render(&skill, None)),
    };
    let (status, content) = match content {
        Ok(content) => (StatusCode::OK, content),
        Err(error @ ConsoleError::SignInNeeded) => return Err(error),
        // The frame stays: a corrupt entry is replaced or removed from its page.
        Err(error) => {
            let error = ErrorPage::from(&error);
            (error.status, error_body(&error))
        }
    };
    Ok(respond(&skill, tab, status, &content))
}

/// Returns the page of a file, if an address is that of a file of a stored skill: `ID/PATH`, as in `iii://ID/PATH`.
fn file_page(catalog: &Catalog, address: &str) -> Option<String> {
    let (id, path) = address.split_once('/')?;
    let row = catalog.stored(id).filter(|row| row.meta.file(path).is_some())?;
    Some(skill_part("/ui/skills/", &row.id, &[("tab", Tab::Files.as_str()), ("path", path)]))
}

fn respond(skill: &ShownSkill, tab: Tab, status: StatusCode, content: &Markup) -> Response {
    let row = &skill.row;
    let body = html! {
        nav.crumbs aria-label="Breadcrumb" { a href=(HOME) { "Skills" } span aria-hidden="true" { "/" } span { (user_text(&row.id)) } }
        div #head data-live { (head(skill)) }
        nav.tabs aria-label="Parts of the skill" {
            @for it in Tab::ALL {
                @if it.is_for(row) {
                    a href=(skill.tab_path(it)) aria-current=[(it == tab).then_some("page")] { (it.label()) }
                }
            }
        }
        @if tab == Tab::Tools { div #tab { (content) } } @else { div #tab data-live { (content) } }
    };
    let title = skills_core::text::truncate(row.title(), 80).into_owned();
    let title = skills_agent_skills::validate::reveal_hidden(&title).into_owned();
    let page = Page::new(title, Section::Browse, body);
    // The answer of a tool has no address from which it could be fetched again.
    let page = if tab == Tab::Tools { page } else { page.live() };
    page.respond_with(&skill.visit, status)
}

fn head(skill: &ShownSkill) -> Markup {
    let row = &skill.row;
    let is_shadowed = !row.is_live() && row.pinned.is_none() && !skill.catalog.is_effective(row);
    let bytes: u64 = row.meta.files.iter().map(|file| file.size).sum();
    html! {
        div.head {
            h1 { (user_text(row.title())) }
            @if row.meta.tool.is_some() { span.badge { "tool" } }
            (origin(row))
            @if let Some(tier) = row.stored_tier() { (publish::change_links(&skill.visit, tier, &row.id)) }
        }
        @if let Some(description) = row.description() { p.lead { (user_text(&description)) } }
        p.meta {
            code { "iii://" (user_text(&row.id)) }
            span { (ago(row.registered_at)) }
            @if !row.is_live() { span { (counted(row.meta.files.len(), "file")) ", " (size(bytes)) } }
            @if let Some(version) = row.version() { span { "version " (version.version) } }
            @if let Some(source) = &row.meta.provenance { span.source { (source_text("from ", source)) } }
            @if let Some((client, _)) = row.origin() { span { "of the live client " (user_text(client)) } }
        }
        (version_notice(skill))
        @if is_shadowed {
            div.notice { p { "Another tier has a skill of this name, which is used instead. "
                a href=(skill_part("/ui/skills/", &row.id, &[("tab", "explain")])) { "Explain" } } }
        }
        @if let Some(reason) = row.corruption() {
            div.notice.error role="alert" { p { "This entry is corrupt: " (user_text(reason)) "." } p { "Next: register it again, or remove it." } }
        }
    }
}

/// Renders that the page shows a version that readers do not get, or one that was yanked.
fn version_notice(skill: &ShownSkill) -> Markup {
    let version = skill.row.version();
    let yanked = version.as_ref().and_then(|version| version.yanked.as_deref());
    html! {
        @if let Some(reason) = yanked {
            div.notice.error role="alert" { p { "This version was yanked: " (user_text(reason)) } }
        }
        @if skill.query.version.is_some() {
            div.notice { p { "You look at one version. "
                a href=(skill_part("/ui/skills/", &skill.row.id, &[("tier", skill.tier_name())])) { "Show the one that readers get" } } }
        }
    }
}
