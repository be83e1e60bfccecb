//! Repositories: those that the user named, and those that a registry or a marketplace named.

use std::{
    sync::{Arc, Mutex, PoisonError},
    time::Instant,
};

use anstream::Stderr;
use skills_bundles::{BundleError, FetchDisplay, FoundBundles, GitSource, find_in_repository};
use skills_core::text::truncate_within;
use skills_upstream::{UpstreamError, resolve_public};

use super::{Fetcher, address::local_address, download::failed};
use crate::{Failure, blocking::blocking, output, progress::Progress};

/// Most characters of a progress line.
const MAX_PROGRESS_CHARS: usize = 76;

impl Fetcher {
    /// Fetches a repository and finds its bundles.
    pub(super) async fn find_in_git(&self, source: GitSource) -> Result<FoundBundles, Failure> {
        self.print_fetch(source.public_url());
        let display = self.interactive.then(|| Arc::new(TerminalDisplay::new()));
        let limits = self.limits.clone();
        let shown = display.clone().map(|display| display as Arc<dyn FetchDisplay>);
        let found = blocking(move || find_in_repository(&source, shown, &limits)).await;
        if let Some(display) = display {
            display.clear();
        }
        found?.map_err(|error| {
            let is_fetch = matches!(error, BundleError::Fetch { .. });
            let failure = Failure::from(error);
            if !is_fetch {
                return failure;
            }
            failure.hint(
                "check the name and the reference; a path on this machine must exist, and `git` needs access",
            )
        })
    }

    /// Fetches a repository that the user did not name. Its server must be on the public internet, and git gets the
    /// addresses that were checked.
    pub(super) async fn find_in_public_git(
        &self,
        source: GitSource,
    ) -> Result<FoundBundles, Failure> {
        let shown = source.public_url().to_owned();
        let (source, remote) = blocking(move || {
            let remote = source.remote();
            (source, remote)
        })
        .await?;
        let remote = remote?;
        let resolved = resolve_public(&*self.resolver, remote.host()).await;
        let addresses = resolved.map_err(|error| match error {
            UpstreamError::RefusedAddress { .. } => local_address(&shown),
            error => failed(&shown, &error.to_string()).hint(
                "a repository that a registry or a marketplace names is fetched without a proxy; if you trust it, \
                 add it by its own URL",
            ),
        })?;
        let pinned = remote.pin(addresses).ok_or_else(|| failed(&shown, "it has no address"))?;
        self.find_in_git(source.pinned_to(pinned)).await
    }
}

/// Messages of git on the terminal.
struct TerminalDisplay(Mutex<Progress<Stderr>>);

impl TerminalDisplay {
    fn new() -> Self {
        Self(Mutex::new(Progress::new(0, false)))
    }

    fn clear(&self) {
        self.0.lock().unwrap_or_else(PoisonError::into_inner).clear();
    }
}

impl FetchDisplay for TerminalDisplay {
    fn message(&self, line: &str) {
        self.clear();
        output::notice("git", line);
    }

    fn progress(&self, text: &str) {
        let text = truncate_within(text, MAX_PROGRESS_CHARS);
        self.0.lock().unwrap_or_else(PoisonError::into_inner).show_text(&text, Instant::now());
    }
}

#[cfg(test)]
mod tests {
    use std::{
        io,
        net::{IpAddr, TcpListener},
        sync::atomic::AtomicBool,
    };

    use async_trait::async_trait;
    use skills_core::{Code, Provenance, SourceKind};
    use skills_upstream::DnsResolver;

    use super::*;
    use crate::fetch::{ChosenBy, DEFAULT_HOST, SourceSpec};

    /// Resolver that knows a list of addresses for every name.
    struct FixedResolver(Vec<IpAddr>);

    #[async_trait]
    impl DnsResolver for FixedResolver {
        async fn resolve(&self, _: &str) -> io::Result<Vec<IpAddr>> {
            Ok(self.0.clone())
        }
    }

    #[tokio::test]
    async fn a_public_name_with_a_private_address_gets_no_connection() {
        let listener = TcpListener::bind("127.0.0.1:0").unwrap();
        listener.set_nonblocking(true).unwrap();
        let port = listener.local_addr().unwrap().port();
        for addresses in [
            &["127.0.0.1"] as &[&str],
            &["::1"],
            &["::ffff:127.0.0.1"],
            &["10.0.0.1"],
            &["169.254.169.254"],
            &["8.8.8.8", "127.0.0.1"],
            &["2606:50c0:8000::153", "fd00::1"],
        ] {
            let addresses = addresses.iter().map(|address| address.parse().unwrap()).collect();
            let fetcher = Fetcher {
                resolver: Arc::new(FixedResolver(addresses)),
                ..Fetcher::new(DEFAULT_HOST, false, true, Arc::new(AtomicBool::new(false)))
            };
            for location in [
                format!("https://git.example.com:{port}/a"),
                format!("ssh://git@git.example.com:{port}/a"),
            ] {
                let source = Provenance::new(SourceKind::Git, location.as_str());
                let spec = SourceSpec::from_provenance(&source, ChosenBy::Registry).unwrap();
                let failure = fetcher.find(spec).await.err().unwrap();
                assert_eq!(failure.code, Code::UntrustedSource, "{location}: {}", failure.message);
                let accepted = listener.accept().map(drop).map_err(|error| error.kind());
                assert_eq!(accepted, Err(io::ErrorKind::WouldBlock), "{location}");
            }
        }
    }
}
