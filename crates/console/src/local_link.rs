//! One-time link of the person at this machine, for browsers whose user the server cannot tell: on systems without a
//! table of sockets, in containers and virtual machines, and behind a proxy.
//!
//! The link is a credential. It is kept as a digest, compared in constant time and replaced when it is used.

use parking_lot::Mutex;
use skills_core::Token;

use crate::session::random_name;

/// Prefix of the path of the link.
pub(crate) const PREFIX: &str = "/ui/link/";

/// One-time link; there is always one that was not used.
pub struct LocalLink {
    /// Secret of the present link; `None` if the system had no randomness for another one.
    secret: Mutex<Option<Token>>,
    publish: Box<dyn Fn(&str) + Send + Sync>,
}

impl LocalLink {
    /// Creates a link. `publish` gets its path, and that of each later link when the one before is used.
    ///
    /// # Errors
    /// When the system has no randomness.
    pub fn new(publish: impl Fn(&str) + Send + Sync + 'static) -> Result<Self, getrandom::Error> {
        let link = Self { secret: Mutex::new(None), publish: Box::new(publish) };
        link.replace(&mut link.secret.lock())?;
        Ok(link)
    }

    /// Returns whether a text is the secret of the link, which is another one from then on.
    pub(crate) fn redeem(&self, presented: &str) -> bool {
        // Held until the link is replaced: of two requests with it only one is accepted.
        let mut secret = self.secret.lock();
        if !secret.as_ref().is_some_and(|secret| secret.matches(presented.as_bytes())) {
            return false;
        }
        if let Err(error) = self.replace(&mut secret) {
            tracing::error!(%error, "no further link of the console");
        }
        true
    }

    fn replace(&self, secret: &mut Option<Token>) -> Result<(), getrandom::Error> {
        *secret = None;
        let name = random_name()?;
        *secret = Some(Token::new(&name));
        (self.publish)(&format!("{PREFIX}{name}"));
        Ok(())
    }
}

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use super::*;

    #[test]
    fn a_link_works_once_and_another_one_is_published() {
        let published = Arc::new(Mutex::new(Vec::<String>::new()));
        let paths = Arc::clone(&published);
        let link = LocalLink::new(move |path| paths.lock().push(path.to_owned())).unwrap();
        let last = || published.lock().last().unwrap().strip_prefix(PREFIX).unwrap().to_owned();
        let first = last();
        assert_eq!(first.len(), 64);
        for wrong in
            ["", &first[1..], &format!("{first}0"), &first.to_uppercase().replace('0', "1")]
        {
            assert!(!link.redeem(wrong), "{wrong}");
        }
        assert!(link.redeem(&first) && !link.redeem(&first));
        assert_ne!(last(), first);
        assert!(link.redeem(&last()));
        assert_eq!(published.lock().len(), 3);
    }
}
