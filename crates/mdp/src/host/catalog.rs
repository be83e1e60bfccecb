//! The paths of one client, ready to be looked up.

use crate::{
    Limits, Refused, path,
    trie::Trie,
    wire::{Descriptor, Method},
};

/// A catalogue: it is replaced as a whole, never changed.
#[derive(Debug, Default)]
pub struct Catalog {
    descriptors: Vec<Descriptor>,
    trie: Trie,
}

/// The names of a pattern's parameters and what they stand for.
pub type Params<'a> = Vec<(&'a str, &'a str)>;

impl Catalog {
    /// The catalogue of these paths.
    ///
    /// # Errors
    /// When there are too many, or one is too long or too deep.
    pub fn new(descriptors: Vec<Descriptor>, limits: &Limits) -> Result<Self, Refused> {
        if descriptors.len() > limits.catalog_entries {
            let (entries, max) = (descriptors.len(), limits.catalog_entries);
            return Err(Refused::TooManyPaths { entries, max });
        }
        let mut trie = Trie::default();
        for (at, descriptor) in descriptors.iter().enumerate() {
            let (bytes, max) = (descriptor.path.len(), limits.path_bytes);
            if bytes > max {
                return Err(Refused::PathTooLong { at, bytes, max });
            }
            let (depth, max) = (path::split(&descriptor.path).count(), limits.path_depth);
            if depth > max {
                return Err(Refused::PathTooDeep { at, depth, max });
            }
            // Descriptors are checked when they are read, so this one is a pattern.
            if let (Ok(segments), Ok(number)) = (path::pattern(&descriptor.path), u32::try_from(at))
            {
                trie.insert(&segments, descriptor.kind.method(), number);
            }
        }
        Ok(Self { descriptors, trie })
    }

    /// How many places the tree has in which they are found.
    #[must_use]
    pub const fn nodes(&self) -> usize {
        self.trie.nodes()
    }

    /// All paths, in the client's own order.
    #[must_use]
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// What is at a concrete path: the most specific pattern, and of those the first.
    #[must_use]
    pub fn find<'a>(
        &'a self,
        method: Method,
        path: &'a str,
    ) -> Option<(&'a Descriptor, Params<'a>)> {
        let descriptor = self.descriptors.get(self.trie.find(method, path)? as usize)?;
        Some((descriptor, params(&descriptor.path, path)))
    }
}

fn params<'a>(pattern: &'a str, path: &'a str) -> Params<'a> {
    match pattern.contains(':') {
        true => path::captured(&path::pattern(pattern).unwrap_or_default(), path),
        false => Vec::new(),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::wire::Kind;

    fn catalog(paths: &[&str]) -> Result<Catalog, Refused> {
        let endpoint = |path: &&str| Descriptor::new(Kind::Endpoint(Method::Get), *path);
        let limits =
            Limits { catalog_entries: 3, path_bytes: 8, path_depth: 3, ..Limits::default() };
        Catalog::new(paths.iter().map(endpoint).collect(), &limits)
    }

    #[test]
    fn parameters_are_captured_by_name() {
        let catalog = catalog(&["/:a/:b", "/:a/x/:a"]).unwrap();
        let params = |path| catalog.find(Method::Get, path).map(|(_, params)| params);
        assert_eq!(params("/1/2"), Some(vec![("a", "1"), ("b", "2")]));
        assert_eq!(params("/1/x/2"), Some(vec![("a", "2")]));
        assert_eq!(params("/1"), None);
    }

    #[test]
    fn limits_are_inclusive_and_named() {
        assert!(catalog(&["/a/b/c", "/1234567", "/a"]).is_ok());
        for (paths, code) in [
            (&["/a", "/b", "/c", "/d"] as &[&str], "too_many_paths"),
            (&["/12345678"], "path_too_long"),
            (&["/a/b/c/d"], "path_too_deep"),
        ] {
            assert_eq!(catalog(paths).expect_err(code).code(), code);
        }
    }
}
