//! Challenge-response proof of a server's identity, before the client sends any credential.
//!
//! The client sends a challenge over plain HTTP; the server answers with an HMAC of the challenge and of the address
//! it was reached at, and the WebSocket handshake follows on the same connection. A process that took over the port of a
//! stopped server cannot answer, nor can a server at another address. This module does not know where the secret is
//! stored.

use std::{fmt, io, net::SocketAddr};

use hmac::{Hmac, KeyInit as _, Mac as _};
use sha2::Sha256;
use tokio::io::{AsyncReadExt as _, AsyncWriteExt as _};
use uuid::Uuid;

use crate::client::QuickAckStream;

/// Path that answers challenges.
pub(crate) const PATH: &str = "/proof";
/// Request header with the challenge.
pub(crate) const CHALLENGE: &str = "skills-challenge";
/// Response header with the proof.
pub(crate) const PROOF: &str = "skills-proof";

/// Domain separation from any other use of the same secret.
const DOMAIN: &[u8] = b"skills server proof 1";
/// Length limit of a challenge.
const MAX_CHALLENGE: usize = 128;
/// Length limit of a response head.
const MAX_HEAD: usize = 4096;

/// Secret of a running server.
#[derive(Clone, PartialEq, Eq)]
pub struct ServerSecret(String);

// Manual implementation: the secret may not reach a log.
impl fmt::Debug for ServerSecret {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.write_str("ServerSecret")
    }
}

impl ServerSecret {
    /// Generates a secret of 244 random bits.
    #[must_use]
    pub fn random() -> Self {
        Self(format!("{}{}", Uuid::new_v4().simple(), Uuid::new_v4().simple()))
    }

    /// Parses a stored secret; `None` if it is too short.
    #[must_use]
    pub fn from_text(text: &str) -> Option<Self> {
        (text.len() >= 64).then(|| Self(text.to_owned()))
    }

    /// Returns the secret, to be stored where no other user can read it.
    #[must_use]
    pub fn as_text(&self) -> &str {
        &self.0
    }

    fn hmac(&self, challenge: &str, address: SocketAddr) -> Option<Hmac<Sha256>> {
        let address = SocketAddr::new(address.ip().to_canonical(), address.port());
        let mut hmac = Hmac::<Sha256>::new_from_slice(self.0.as_bytes()).ok()?;
        for part in [DOMAIN, challenge.as_bytes(), address.to_string().as_bytes()] {
            hmac.update(&(part.len() as u64).to_be_bytes());
            hmac.update(part);
        }
        Some(hmac)
    }

    /// Returns the proof for a challenge that arrived at an address of this server.
    pub(crate) fn prove(&self, challenge: &str, address: SocketAddr) -> Option<String> {
        if challenge.is_empty() || challenge.len() > MAX_CHALLENGE {
            return None;
        }
        Some(hex::encode(self.hmac(challenge, address)?.finalize().into_bytes()))
    }

    fn verify(&self, challenge: &str, address: SocketAddr, proof: &str) -> bool {
        let Ok(proof) = hex::decode(proof) else { return false };
        self.hmac(challenge, address).is_some_and(|code| code.verify_slice(&proof).is_ok())
    }
}

/// Failed proof; no credential was sent.
#[derive(Debug, thiserror::Error)]
pub enum ProofError {
    /// The connection failed.
    #[error("connection failed: {0}")]
    Io(#[from] io::Error),
    /// The server does not know the secret, or is another kind of server.
    #[error("it did not prove to be the server of the data directory")]
    Refused,
}

/// Challenges the server of a connection. Afterwards the connection can be used for a handshake.
///
/// # Errors
/// When the proof fails; nothing but the challenge was sent.
pub async fn challenge(
    stream: &mut QuickAckStream,
    secret: &ServerSecret,
) -> Result<(), ProofError> {
    let (_, address) = stream.addresses()?;
    let challenge = Uuid::new_v4().simple().to_string();
    let request =
        format!("GET {PATH} HTTP/1.1\r\nhost: {address}\r\n{CHALLENGE}: {challenge}\r\n\r\n");
    stream.write_all(request.as_bytes()).await?;
    let head = read_head(stream).await?;
    let mut lines = head.split("\r\n");
    let is_no_content = lines.next().is_some_and(|line| line.starts_with("HTTP/1.1 204 "));
    let header = |line: &str| {
        let (name, value) = line.split_once(':')?;
        name.eq_ignore_ascii_case(PROOF).then(|| value.trim().to_owned())
    };
    match lines.find_map(header) {
        Some(proof) if is_no_content && secret.verify(&challenge, address, &proof) => Ok(()),
        _ => Err(ProofError::Refused),
    }
}

/// Reads the head of a response without a body, and not a byte more.
async fn read_head(stream: &mut QuickAckStream) -> Result<String, ProofError> {
    let mut head = Vec::new();
    while !head.ends_with(b"\r\n\r\n") {
        if head.len() == MAX_HEAD {
            return Err(ProofError::Refused);
        }
        head.push(stream.read_u8().await?);
    }
    String::from_utf8(head).map_err(|_| ProofError::Refused)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_proof_is_valid_only_for_its_secret_challenge_and_address() {
        let (ours, other) = (ServerSecret::random(), ServerSecret::random());
        let here: SocketAddr = "127.0.0.1:49134".parse().unwrap();
        let mapped: SocketAddr = "[::ffff:127.0.0.1]:49134".parse().unwrap();
        let proof = ours.prove("abc", mapped).unwrap();
        assert!(ours.verify("abc", here, &proof));
        assert!(!other.verify("abc", here, &proof));
        assert!(!ours.verify("abd", here, &proof));
        assert!(!ours.verify("abc", "127.0.0.1:49135".parse().unwrap(), &proof));
        assert!(!ours.verify("abc", "[::1]:49134".parse().unwrap(), &proof));
        assert!(!ours.verify("abc", here, "") && !ours.verify("abc", here, "zz"));
        assert_eq!(ours.prove("", here), None);
        assert_eq!(ours.prove(&"a".repeat(MAX_CHALLENGE + 1), here), None);
        assert_eq!(ServerSecret::from_text(ours.as_text()), Some(ours.clone()));
        assert_eq!(ServerSecret::from_text("short"), None);
        assert!(!format!("{ours:?}").contains(ours.as_text()));
    }
}
