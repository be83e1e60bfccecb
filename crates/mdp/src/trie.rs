//! Trie that finds the most specific pattern for a path, at a cost independent of the number of patterns.
//!
//! A node has its literal children by name and one child for parameters of any name. Of two patterns that match a path,
//! the more specific one has a literal where they first differ, so the search tries the literal child before the
//! parameter. Patterns of equal specificity end at the same node, where the first one wins.
//!
//! A search visits one node for each segment. It visits more only where literals and parameters overlap and the literal
//! branch does not match in the end, and never more nodes than match so far.
//!
//! The trie knows patterns by their number only, and expects valid paths.

use std::collections::HashMap;

use crate::{
    path::{self, Segment},
    wire::Method,
};

/// Trie of patterns.
#[derive(Debug)]
pub(crate) struct Trie {
    nodes: Vec<Node>,
}

#[derive(Debug, Default)]
struct Node {
    literals: HashMap<Box<str>, u32>,
    param: Option<u32>,
    /// The first pattern that ends here, for each method.
    ends: [Option<u32>; Method::COUNT],
}

impl Default for Trie {
    fn default() -> Self {
        Self { nodes: vec![Node::default()] }
    }
}

impl Trie {
    /// Adds a pattern. An equally specific one for the same method stays in place.
    pub(crate) fn insert(&mut self, segments: &[Segment<'_>], method: Method, pattern: u32) {
        let mut at = 0;
        for segment in segments {
            at = self.child(at, *segment);
        }
        if let Some(node) = self.nodes.get_mut(at) {
            node.ends[method.index()].get_or_insert(pattern);
        }
    }

    /// Returns the number of nodes: one for each distinct prefix of the patterns.
    #[must_use]
    pub(crate) const fn node_count(&self) -> usize {
        self.nodes.len()
    }

    /// Finds the most specific pattern for a method and a concrete path.
    #[must_use]
    pub(crate) fn find(&self, method: Method, path: &str) -> Option<u32> {
        let segments: Vec<&str> = path::split(path).collect();
        self.search(0, &segments, method)
    }

    fn search(&self, at: usize, rest: &[&str], method: Method) -> Option<u32> {
        let node = self.nodes.get(at)?;
        let Some((first, rest)) = rest.split_first() else { return node.ends[method.index()] };
        let literal = node.literals.get(*first).copied();
        let next = |child: u32| self.search(child as usize, rest, method);
        literal.and_then(next).or_else(|| node.param.and_then(next))
    }

    fn child(&mut self, at: usize, segment: Segment<'_>) -> usize {
        // Limits on catalogs keep the number of nodes far below this.
        let fresh = u32::try_from(self.nodes.len()).unwrap_or(u32::MAX);
        let Some(node) = self.nodes.get_mut(at) else { return at };
        let child = match segment {
            Segment::Param(_) => *node.param.get_or_insert(fresh),
            Segment::Leaf(text) | Segment::Literal(text) => match node.literals.get(text) {
                Some(child) => *child,
                None => *node.literals.entry(text.into()).or_insert(fresh),
            },
        };
        if child == fresh {
            self.nodes.push(Node::default());
        }
        child as usize
    }
}

#[cfg(test)]
mod tests {
    use modeldriveprotocol_client as oracle;
    use proptest::prelude::*;

    use super::*;

    fn trie(patterns: &[(Method, &str)]) -> Trie {
        let mut trie = Trie::default();
        for (number, (method, pattern)) in patterns.iter().enumerate() {
            trie.insert(&path::parse_pattern(pattern).unwrap(), *method, number as u32);
        }
        trie
    }

    #[test]
    fn the_most_specific_pattern_wins_then_the_first() {
        let get = |patterns: &[&str], path| {
            let patterns: Vec<_> = patterns.iter().map(|pattern| (Method::Get, *pattern)).collect();
            trie(&patterns).find(Method::Get, path)
        };
        assert_eq!(get(&["/goods/:id", "/goods/new"], "/goods/new"), Some(1));
        assert_eq!(get(&["/goods/:id", "/goods/new"], "/goods/7"), Some(0));
        assert_eq!(get(&["/goods/:id", "/goods/:name"], "/goods/7"), Some(0));
        assert_eq!(get(&["/goods/:x", "/goods/skill.md"], "/goods/skill.md"), Some(1));
        assert_eq!(get(&["/:a/skill.md", "/goods/:x"], "/goods/skill.md"), Some(1));
        assert_eq!(get(&["/a/b/:x", "/:y/b/c"], "/a/b/d"), Some(0));
        // Backtracks from a literal without a match.
        assert_eq!(get(&["/a/b/c", "/:y/b/d"], "/a/b/d"), Some(1));
        assert_eq!(get(&["/a", "/a/b/c"], "/a/b"), None);
    }

    #[test]
    fn patterns_are_separate_for_each_method() {
        let trie = trie(&[(Method::Get, "/goods/:id"), (Method::Post, "/goods/new")]);
        assert_eq!(trie.find(Method::Get, "/goods/new"), Some(0));
        assert_eq!(trie.find(Method::Post, "/goods/new"), Some(1));
        assert_eq!(trie.find(Method::Delete, "/goods/new"), None);
    }

    fn segment() -> impl Strategy<Value = String> {
        prop_oneof![3 => "[ab]", 1 => ":[xy]"]
    }

    fn catalog() -> impl Strategy<Value = Vec<(Method, String)>> {
        let leaf = prop_oneof![3 => segment(), 1 => Just("skill.md".to_owned())];
        let path = (prop::collection::vec(segment(), 0..4), leaf)
            .prop_map(|(segments, leaf)| format!("/{}", [segments, vec![leaf]].concat().join("/")));
        let method = prop::sample::select(vec![Method::Get, Method::Post]);
        prop::collection::vec((method, path), 0..40)
    }

    /// Reference implementation: a linear scan by the published rules.
    fn linear(patterns: &[(Method, String)], method: Method, path: &str) -> Option<u32> {
        let mut best: Option<(u32, Vec<i32>)> = None;
        for (number, (own, pattern)) in patterns.iter().enumerate() {
            let found = oracle::match_path_pattern(pattern, path).filter(|_| *own == method);
            let Some(found) = found else { continue };
            let is_better = best.as_ref().is_none_or(|(_, best)| {
                oracle::compare_path_specificity(&found.specificity, best) > 0
            });
            if is_better {
                best = Some((number as u32, found.specificity));
            }
        }
        best.map(|(number, _)| number)
    }

    proptest! {
        #![proptest_config(ProptestConfig::with_cases(1024))]

        #[test]
        fn finds_what_a_linear_scan_by_the_published_rules_finds(
            patterns in catalog(),
            paths in prop::collection::vec("(/[ab]){0,4}/([ab]|skill\\.md)", 1..20),
        ) {
            let borrowed: Vec<_> =
                patterns.iter().map(|(method, pattern)| (*method, pattern.as_str())).collect();
            let trie = trie(&borrowed);
            for path in paths {
                for method in [Method::Get, Method::Post, Method::Put] {
                    prop_assert_eq!(
                        trie.find(method, &path), linear(&patterns, method, &path), "{}", path
                    );
                }
            }
        }
    }
}
