//! JSON pointers (RFC 6901) that are built on the way down and written only when something is to be said.

use std::{borrow::Cow, fmt};

/// A pointer is cut after this many bytes: keys are as long as their author likes.
const MAX_BYTES: usize = 512;

/// A place in a JSON document, on the stack of who walks it.
#[derive(Clone, Copy)]
pub(crate) enum At<'a> {
    /// The whole document.
    Root,
    /// A field of an object.
    Key(&'a At<'a>, &'a str),
    /// An item of a list.
    Index(&'a At<'a>, usize),
}

impl<'a> At<'a> {
    pub(crate) const fn key(&'a self, key: &'a str) -> Self {
        Self::Key(self, key)
    }

    pub(crate) const fn index(&'a self, index: usize) -> Self {
        Self::Index(self, index)
    }
}

impl fmt::Display for At<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let mut steps: Vec<Cow<'_, str>> = Vec::new();
        let mut here = self;
        loop {
            here = match here {
                At::Root => break,
                At::Key(parent, key) => {
                    steps.push((*key).into());
                    parent
                }
                At::Index(parent, index) => {
                    steps.push(index.to_string().into());
                    parent
                }
            };
        }
        let mut left = MAX_BYTES;
        for step in steps.iter().rev() {
            let shown = &step[..step.floor_char_boundary(left)];
            write!(f, "/{}", shown.replace('~', "~0").replace('/', "~1"))?;
            if shown.len() < step.len() {
                return f.write_str("…");
            }
            left -= shown.len();
        }
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn written_as_the_standard_says() {
        let properties = At::Root.key("a/b~c");
        assert_eq!(properties.index(3).key("").to_string(), "/a~1b~0c/3/");
        assert_eq!(At::Root.to_string(), "");
    }

    #[test]
    fn long_keys_are_cut_between_characters() {
        let key = "é".repeat(1000);
        let at = At::Root.key("a").key(&key).to_string();
        assert!(at.len() < 530 && at.starts_with("/a/éé") && at.ends_with("é…"), "{at}");
    }
}
