//! Paths of one client, indexed for lookup.

use crate::{
    MdpLimits, SessionError, path,
    trie::Trie,
    wire::{Descriptor, Method},
};

/// Catalog of one client. It is replaced as a whole, never modified.
#[derive(Debug, Default)]
pub struct ClientCatalog {
    descriptors: Vec<Descriptor>,
    trie: Trie,
}

/// Names and values of the parameters of a pattern.
pub type PathParams<'a> = Vec<(&'a str, &'a str)>;

impl ClientCatalog {
    /// Indexes paths.
    ///
    /// # Errors
    /// When there are too many paths, or one is too long or too deep.
    pub fn new(descriptors: Vec<Descriptor>, limits: &MdpLimits) -> Result<Self, SessionError> {
        if descriptors.len() > limits.catalog_entries {
            let (entries, max) = (descriptors.len(), limits.catalog_entries);
            return Err(SessionError::TooManyPaths { entries, max });
        }
        let mut trie = Trie::default();
        for (at, descriptor) in descriptors.iter().enumerate() {
            let (bytes, max) = (descriptor.path.len(), limits.path_bytes);
            if bytes > max {
                return Err(SessionError::PathTooLong { at, bytes, max });
            }
            let (depth, max) = (path::split(&descriptor.path).count(), limits.path_depth);
            if depth > max {
                return Err(SessionError::PathTooDeep { at, depth, max });
            }
            // Always a valid pattern: descriptors are checked when they are parsed.
            if let (Ok(segments), Ok(number)) =
                (path::parse_pattern(&descriptor.path), u32::try_from(at))
            {
                trie.insert(&segments, descriptor.kind.method(), number);
            }
        }
        Ok(Self { descriptors, trie })
    }

    /// Returns the number of nodes of the index.
    #[must_use]
    pub const fn node_count(&self) -> usize {
        self.trie.node_count()
    }

    /// Returns all paths in the order of the client.
    #[must_use]
    pub fn descriptors(&self) -> &[Descriptor] {
        &self.descriptors
    }

    /// Finds the most specific pattern for a concrete path; of equally specific ones, the first.
    #[must_use]
    pub fn find<'a>(
        &'a self,
        method: Method,
        path: &'a str,
    ) -> Option<(&'a Descriptor, PathParams<'a>)> {
        let descriptor = self.descriptors.get(self.trie.find(method, path)? as usize)?;
        let has_params = descriptor.path.contains(':');
        let segments =
            has_params.then(|| path::parse_pattern(&descriptor.path).unwrap_or_default());
        Some((descriptor, path::capture_params(&segments.unwrap_or_default(), path)))
    }
}

#[cfg(test)]
mod tests {
    use skills_core::Coded as _;

    use super::*;
    use crate::wire::DescriptorKind;

    fn catalog(paths: &[&str]) -> Result<ClientCatalog, SessionError> {
        let endpoint = |path: &&str| Descriptor::new(DescriptorKind::Endpoint(Method::Get), *path);
        let limits =
            MdpLimits { catalog_entries: 3, path_bytes: 8, path_depth: 3, ..MdpLimits::default() };
        ClientCatalog::new(paths.iter().map(endpoint).collect(), &limits)
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
    fn limits_are_inclusive_and_have_codes() {
        assert!(catalog(&["/a/b/c", "/1234567", "/a"]).is_ok());
        for (paths, code) in [
            (&["/a", "/b", "/c", "/d"] as &[&str], "too_many_paths"),
            (&["/12345678"], "path_too_long"),
            (&["/a/b/c/d"], "path_too_deep"),
        ] {
            assert_eq!(catalog(paths).expect_err(code).code().as_str(), code, "{paths:?}");
        }
    }
}
