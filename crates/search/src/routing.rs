//! Routing diagnostics: skills whose descriptions few queries would find, and skills that compete for the same ones.

use std::{
    collections::{HashMap, HashSet},
    fmt,
};

use serde::Serialize;

use crate::{
    analysis::Analyzer,
    document::SearchDocument,
    index::{Partition, PartitionWriter},
    query::{Query, SearchHit, Searcher, SynonymTable, Visibility},
    text::{fold, is_unspaced, terms},
};

/// Shortest useful description, in words.
const MIN_WORDS: usize = 6;
/// Shortest useful description in scripts without spaces, in characters.
const MIN_UNSPACED_CHARS: usize = 12;
/// Characters of a description that are searched for.
const MAX_QUERY_CHARS: usize = 400;
/// Score of another skill, relative to that of the skill itself, above which both compete.
const CLOSE_SCORE: f32 = 0.75;
/// Most skills whose queries are tried.
const MAX_SKILLS: usize = 10_000;

/// Problem of a skill's routing.
#[derive(Debug, Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Hash, Serialize)]
#[serde(rename_all = "kebab-case")]
pub enum RoutingProblem {
    /// It has no description.
    NoDescription,
    /// The description has only a few words.
    ShortDescription,
    /// The description names nothing that the skill does.
    NoVerb,
    /// The description does not tell when to use the skill.
    NoTrigger,
    /// Another skill has the same description.
    DuplicateDescription,
    /// A search for the skill's own title or description finds another skill first.
    OutrankedByOther,
    /// A search for the description of either of two skills finds both, with hardly a difference.
    CompetesWithOther,
}

impl RoutingProblem {
    /// Returns the code of the problem.
    #[must_use]
    pub const fn as_str(self) -> &'static str {
        match self {
            Self::NoDescription => "no-description",
            Self::ShortDescription => "short-description",
            Self::NoVerb => "no-verb",
            Self::NoTrigger => "no-trigger",
            Self::DuplicateDescription => "duplicate-description",
            Self::OutrankedByOther => "outranked-by-other",
            Self::CompetesWithOther => "competes-with-other",
        }
    }

    /// Returns the advice for the author of the skill.
    #[must_use]
    pub const fn hint(self) -> &'static str {
        match self {
            Self::NoDescription => {
                "add a `description` to the frontmatter: what it does, and when to use it"
            }
            Self::ShortDescription => {
                "name the task, its objects and the words that people use for it"
            }
            Self::NoVerb => "begin with what the skill does: `Extracts …`, `Reviews …`",
            Self::NoTrigger => "add a sentence that begins with `Use when`",
            Self::DuplicateDescription => "describe the difference, or remove one of them",
            Self::OutrankedByOther => {
                "put the words that only this skill is about into its name and description"
            }
            Self::CompetesWithOther => "tell them apart in both descriptions, or merge them",
        }
    }
}

/// Finding about a skill.
#[derive(Debug, Clone, PartialEq, Eq, Serialize)]
pub struct RoutingFinding {
    /// Skill id.
    pub id: String,
    /// Problem.
    pub code: RoutingProblem,
    /// Skill that it competes with.
    #[serde(skip_serializing_if = "Option::is_none")]
    pub other: Option<String>,
}

impl fmt::Display for RoutingFinding {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let other = self.other.as_deref().unwrap_or_default();
        match self.code {
            RoutingProblem::NoDescription => f.write_str("it has no description"),
            RoutingProblem::ShortDescription => f.write_str("its description has only a few words"),
            RoutingProblem::NoVerb => f.write_str("its description names nothing that it does"),
            RoutingProblem::NoTrigger => {
                f.write_str("its description does not tell when to use it")
            }
            RoutingProblem::DuplicateDescription => write!(f, "{other} has the same description"),
            RoutingProblem::OutrankedByOther => {
                write!(f, "a search for its own words finds {other} first")
            }
            RoutingProblem::CompetesWithOther => {
                write!(f, "searches for it and for {other} find both, with hardly a difference")
            }
        }
    }
}

/// Returns the findings about skills that are searched together, sorted by id.
#[must_use]
pub fn diagnose(documents: &[SearchDocument], synonyms: &SynonymTable) -> Vec<RoutingFinding> {
    let mut findings = Vec::new();
    let mut by_description: HashMap<String, &str> = HashMap::new();
    let mut duplicates: HashSet<(&str, &str)> = HashSet::new();
    for document in documents {
        let id = &*document.key.id;
        findings.extend(
            description_problems(&document.description).map(|code| finding(id, code, None)),
        );
        let key = fold(document.description.trim()).into_owned();
        if key.is_empty() {
            continue;
        }
        if let Some(other) = by_description.get(key.as_str()) {
            duplicates.insert((other, id));
            findings.push(finding(id, RoutingProblem::DuplicateDescription, Some(other)));
        } else {
            by_description.insert(key, id);
        }
    }
    findings.extend(competitions(documents, synonyms, &duplicates));
    findings.sort_by(|one, other| (&one.id, one.code).cmp(&(&other.id, other.code)));
    findings
}

fn finding(id: &str, code: RoutingProblem, other: Option<&str>) -> RoutingFinding {
    RoutingFinding { id: id.to_owned(), code, other: other.map(str::to_owned) }
}

fn description_problems(description: &str) -> impl Iterator<Item = RoutingProblem> {
    let description = description.trim();
    let unspaced = description.chars().filter(|c| is_unspaced(*c)).count();
    let is_unspaced_text = unspaced * 2 > description.chars().count();
    let is_short = if is_unspaced_text {
        unspaced < MIN_UNSPACED_CHARS
    } else {
        description.split_whitespace().count() < MIN_WORDS
    };
    let problems = if description.is_empty() {
        vec![RoutingProblem::NoDescription]
    } else if is_short {
        vec![RoutingProblem::ShortDescription]
    } else {
        // Only English is checked for verbs.
        let has_verb = is_unspaced_text || !description.is_ascii() || has_verb(description);
        let checks = [
            (RoutingProblem::NoVerb, has_verb),
            (RoutingProblem::NoTrigger, has_trigger(description)),
        ];
        checks.into_iter().filter(|(_, is_fine)| !is_fine).map(|(problem, _)| problem).collect()
    };
    problems.into_iter()
}

/// Stems of verbs that descriptions of skills use.
const VERBS: &str = "add adjust aggreg align analys annot answer anonym appli arrang ask assess assist attach audit \
    automat bake balanc benchmark book brainstorm break brows build calcul call captur categor chang check choos \
    classifi clean collect combin compar compil complet compos compress condens configur connect consolid convert copi \
    coordin correct creat critiqu crop cut debug decid decod deduplic defin delet deliv deploy deriv describ design \
    detect determin diagnos diff discov document download draft draw edit embed encod enforc enrich ensur estim \
    evalu examin execut expand explain explor export extract fetch fill filter find fix flag forecast format gather \
    generat get give group guid handl help highlight identifi illustr implement import improv index inspect instal \
    integr interpret interview investig keep label launch learn lint list load local log look maintain make manag map \
    mark measur merg migrat mock model moder monitor name negoti normal open optim orchestr order organ outlin pack \
    pars perform pick plan play plot polish predict prepar present prevent priorit process produc profil proofread \
    propos prove provid provis publish queri quot read rebas recommend record recov redact refactor regist releas \
    remov renam render repair replac repli report request research resiz resolv respond restor review revis rewrit \
    rotat rout run save scaffold scan schedul score scrape search secur segment select send serv set setup sharpen \
    show simplifi simul sketch sort spell split stitch store structur style suggest summar support sync tag teach tell \
    test time trace track train transcrib transform translat triag trim troubleshoot tune turn uncov updat upgrad \
    upload use valid verifi view visual walk watch work wrangl write";

fn has_verb(description: &str) -> bool {
    let verbs: HashSet<&str> = VERBS.split_whitespace().collect();
    terms(description).iter().any(|term| verbs.contains(term.as_str()))
}

/// Phrases that tell when to use a skill, folded.
const TRIGGERS: [&str; 30] = [
    "use when",
    "use this",
    "use it",
    "use for",
    "used when",
    "used for",
    "use to",
    "when ",
    "whenever",
    "if you",
    "if the",
    "trigger",
    "invoke",
    "asks",
    "asked",
    "mention",
    "适用",
    "用于",
    "使用",
    "场景",
    "时候",
    "場合",
    "とき",
    "際に",
    "使う",
    "verwende",
    "wenn ",
    "lorsque",
    "quand ",
    "cuando ",
];

fn has_trigger(description: &str) -> bool {
    let folded = fold(description);
    TRIGGERS.iter().any(|trigger| folded.contains(trigger))
}

/// Finds skills that are outranked, and pairs that compete.
fn competitions(
    documents: &[SearchDocument],
    synonyms: &SynonymTable,
    duplicates: &HashSet<(&str, &str)>,
) -> Vec<RoutingFinding> {
    let documents = &documents[..documents.len().min(MAX_SKILLS)];
    let partition = partition(documents);
    let search = |text: &str| -> Vec<SearchHit> {
        let text: String = text.chars().take(MAX_QUERY_CHARS).collect();
        // A description is no query language.
        let text = text.replace(['"', '-', ':'], " ");
        let partitions = [&partition];
        let searcher = Searcher::new(&partitions, synonyms);
        searcher.search(&Query::parse(&text), 0, 3, &|_, _| Visibility::Shown).hits
    };
    let mut findings = Vec::new();
    let mut close: HashSet<(&str, String)> = HashSet::new();
    for document in documents {
        let id = &*document.key.id;
        let is_duplicate =
            |other: &str| duplicates.contains(&(id, other)) || duplicates.contains(&(other, id));
        for text in [document.title.as_str(), document.description.as_str()] {
            let hits = search(text);
            let Some(own) = hits.iter().position(|hit| &*hit.key.id == id) else {
                if let Some(first) = hits.first().filter(|hit| !is_duplicate(&hit.key.id)) {
                    findings.push(finding(
                        id,
                        RoutingProblem::OutrankedByOther,
                        Some(&first.key.id),
                    ));
                }
                continue;
            };
            if own > 0 && !is_duplicate(&hits[0].key.id) {
                findings.push(finding(id, RoutingProblem::OutrankedByOther, Some(&hits[0].key.id)));
            }
            let others = hits.iter().filter(|hit| &*hit.key.id != id);
            let near = others.filter(|hit| hit.score >= CLOSE_SCORE * hits[own].score);
            if text == document.description {
                close.extend(near.map(|hit| (id, hit.key.id.to_string())));
            }
        }
    }
    findings.dedup();
    let is_mutual =
        |id: &str, other: &str| close.iter().any(|(one, another)| *one == other && another == id);
    for (id, other) in &close {
        let is_known = findings
            .iter()
            .any(|known: &RoutingFinding| known.id == *id && known.other.as_deref() == Some(other));
        let is_duplicate = duplicates.contains(&(*id, other.as_str()))
            || duplicates.contains(&(other.as_str(), *id));
        if *id < other.as_str() && is_mutual(id, other) && !is_known && !is_duplicate {
            findings.push(finding(id, RoutingProblem::CompetesWithOther, Some(other)));
        }
    }
    findings
}

fn partition(documents: &[SearchDocument]) -> Partition {
    let mut analyzer = Analyzer::default();
    let mut writer = PartitionWriter::default();
    writer.add(documents.iter().map(|document| analyzer.analyze(document)).collect());
    writer.snapshot()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::HitKind;

    fn skill(id: &str, title: &str, description: &str) -> SearchDocument {
        let mut document = SearchDocument::new(HitKind::Skill, id.into());
        document.title = title.to_owned();
        document.description = description.to_owned();
        document
    }

    fn found(documents: &[SearchDocument]) -> Vec<String> {
        let findings = diagnose(documents, &SynonymTable::with_groups([]));
        let shown = |finding: &RoutingFinding| {
            format!(
                "{} {} {}",
                finding.id,
                finding.code.as_str(),
                finding.other.as_deref().unwrap_or("-")
            )
        };
        findings.iter().map(shown).collect()
    }

    #[test]
    fn weak_descriptions_are_named() {
        let documents = [
            skill("a", "A", ""),
            skill("b", "B", "Nice things."),
            skill("c", "C", "The general landscape of a blue whale and its ocean habitat."),
            skill(
                "d",
                "D",
                "Converts audio recordings. Use when somebody has a podcast to publish.",
            ),
        ];
        assert_eq!(
            found(&documents),
            ["a no-description -", "b short-description -", "c no-verb -", "c no-trigger -"]
        );
    }

    #[test]
    fn duplicates_and_competitors_are_named() {
        let text = "Reviews pull requests for bugs. Use when asked to review code.";
        let documents = [
            skill("one", "One", text),
            skill("two", "Two", text),
            skill(
                "pdf-read",
                "Read",
                "Extracts tables from PDF invoices. Use when a user has an invoice.",
            ),
            skill(
                "pdf-scan",
                "Scan",
                "Extracts tables from PDF invoices. Use when a user has a bill.",
            ),
        ];
        let found = found(&documents);
        assert!(found.contains(&"two duplicate-description one".to_owned()), "{found:?}");
        assert!(found.contains(&"pdf-read competes-with-other pdf-scan".to_owned()), "{found:?}");
        assert!(!found.iter().any(|line| line.starts_with("one competes")), "{found:?}");
    }

    #[test]
    fn a_skill_that_another_outranks_is_named() {
        let documents = [
            skill(
                "helper",
                "Kubernetes",
                "Writes about things. Use when needed for any task at all.",
            ),
            skill(
                "kubernetes",
                "Kubernetes",
                "Deploys Kubernetes workloads. Use when a cluster is involved.",
            ),
        ];
        let found = found(&documents);
        assert!(found.contains(&"helper outranked-by-other kubernetes".to_owned()), "{found:?}");
    }
}
