//! Encryption of secrets: AES-256-GCM under a master key, with owner, skill and name as associated data, so that a
//! ciphertext cannot be moved to another secret.
//!
//! Format, in hexadecimal: `v1.{kid}.{iv}.{ciphertext and tag}`, where `kid` identifies the master key. The legacy format
//! `{iv}.{tag}.{ciphertext}` has no associated data and can still be read.

use std::fmt;

use aes_gcm::{Aes256Gcm, KeyInit as _, aead::AeadInOut as _};
use skills_core::{Code, Coded, Digest};
use zeroize::{Zeroize as _, Zeroizing};

use crate::VaultError;

const KEY_BYTES: usize = 32;
const IV_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Hexadecimal digits of a master key id.
const KID_DIGITS: usize = 8;
/// Most previous master keys.
const MAX_PREVIOUS: usize = 16;

/// Returns random bytes of the operating system.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], VaultError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| VaultError::Random(error.to_string()))?;
    Ok(bytes)
}

/// An unusable master key. No message contains the key.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyError {
    /// Wrong length or alphabet.
    #[error("{variable} must be 64 hexadecimal digits (32 bytes){position}")]
    Shape {
        /// Environment variable.
        variable: &'static str,
        /// Position in a list, such as ` (key number 2)`, or empty.
        position: String,
    },
    /// Only previous keys are set.
    #[error("MASTER_ENCRYPTION_KEY_PREVIOUS is set, but MASTER_ENCRYPTION_KEY is not")]
    OnlyPrevious,
    /// Too many previous keys.
    #[error("MASTER_ENCRYPTION_KEY_PREVIOUS has more than {MAX_PREVIOUS} keys")]
    TooManyPrevious,
}

impl Coded for MasterKeyError {
    fn code(&self) -> Code {
        Code::BadMasterKey
    }

    fn hint(&self) -> Option<&str> {
        Some("generate one with `openssl rand -hex 32`")
    }
}

struct MasterKey {
    kid: String,
    /// Zeroized on drop, as the key bytes are after the cipher is built.
    cipher: Aes256Gcm,
}

impl MasterKey {
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        hex::decode_to_slice(text, &mut *bytes).ok()?;
        let mut labelled = Zeroizing::new(b"skills master key".to_vec());
        labelled.reserve_exact(KEY_BYTES);
        labelled.extend_from_slice(&*bytes);
        let mut kid = Digest::of(&labelled).to_string();
        kid.truncate(KID_DIGITS);
        let cipher = Aes256Gcm::new_from_slice(&*bytes).ok()?;
        Some(Self { kid, cipher })
    }
}

/// The current master key, which encrypts, and previous ones, which still decrypt.
pub struct MasterKeys {
    current: MasterKey,
    previous: Vec<MasterKey>,
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKeys").field("kid", &self.current.kid).finish_non_exhaustive()
    }
}

/// Identity of a secret, which its ciphertext is bound to: owner, skill (empty for all skills) and name.
#[derive(Clone, Copy)]
pub(crate) struct SecretBinding<'a> {
    pub(crate) owner: &'a str,
    pub(crate) skill: &'a str,
    pub(crate) name: &'a str,
}

impl SecretBinding<'_> {
    /// Returns the associated data. Neither a skill id nor a name contains a bar, so it is unique whatever an owner
    /// contains.
    fn associated_data(self) -> String {
        let Self { owner, skill, name } = self;
        let scope = if skill.is_empty() { "global" } else { "skill" };
        format!("v1|{scope}|{owner}|{skill}|{name}")
    }
}

impl fmt::Display for SecretBinding<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, skill, name } = self;
        match *skill {
            "" => write!(f, "{name} of {owner}"),
            skill => write!(f, "{name} of {owner} for the skill {skill}"),
        }
    }
}

/// A parsed ciphertext.
pub(crate) struct Envelope {
    /// Master key id; `None` in the legacy format.
    kid: Option<String>,
    iv: [u8; IV_BYTES],
    /// Ciphertext and tag.
    sealed: Vec<u8>,
}

/// A damaged envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("the envelope is truncated or not hexadecimal")]
pub(crate) struct MalformedEnvelope;

impl Envelope {
    /// Parses an envelope; `None` for plain text.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, MalformedEnvelope> {
        let parts: Vec<&str> = text.trim().split('.').collect();
        match parts[..] {
            ["v1", kid, iv, sealed] => {
                let is_kid = kid.len() == KID_DIGITS && is_hexadecimal(kid);
                let sealed = hex::decode(sealed).map_err(|_| MalformedEnvelope)?;
                if !is_kid || sealed.len() < TAG_BYTES {
                    return Err(MalformedEnvelope);
                }
                Ok(Some(Self { kid: Some(kid.to_owned()), iv: decode_fixed(iv)?, sealed }))
            }
            [iv, tag, ciphertext] if looks_sealed(&parts) => {
                let mut sealed = hex::decode(ciphertext).map_err(|_| MalformedEnvelope)?;
                sealed.extend_from_slice(&decode_fixed::<TAG_BYTES>(tag)?);
                Ok(Some(Self { kid: None, iv: decode_fixed(iv)?, sealed }))
            }
            _ if looks_sealed(&parts) => Err(MalformedEnvelope),
            _ => Ok(None),
        }
    }

    /// Returns whether the envelope has the legacy format.
    pub(crate) const fn is_legacy(&self) -> bool {
        self.kid.is_none()
    }
}

/// Returns whether the dot-separated parts are an envelope or the remains of one, and so must not count as plain text.
///
/// | parts | reason |
/// |---|---|
/// | `v1` and a key id | only an envelope begins so |
/// | an initialisation vector and two or more | the legacy format, with a part damaged or added |
/// | three or more, two of which have different [shapes](PartShape) or are long | either format, with its version, its vector or another part damaged |
/// | three or more, one of them long and another one digits of bytes | the legacy format of a short value, with its vector damaged |
/// | three or more, all hexadecimal, with at least as many digits as an initialisation vector has | either format, with parts of wrong lengths |
///
/// Versions (`1.2.3`), addresses (`10.0.0.1`) and signed tokens (`header.payload.signature`) are none of these.
fn looks_sealed(parts: &[&str]) -> bool {
    let [first, rest @ ..] = parts else { return false };
    let is_version = |part: &str| part.eq_ignore_ascii_case("v1");
    let is_key_id = |part: &&str| PartShape::of(part) == Some(PartShape::KeyId);
    if is_version(first) && rest.first().is_some_and(is_key_id) {
        return true;
    }
    if parts.len() < 3 {
        return false;
    }
    let shapes = || parts.iter().filter_map(|part| PartShape::of(part));
    let long = shapes().filter(|shape| *shape != PartShape::KeyId).count();
    // Several numbers of eight digits are no remains of an envelope.
    let has_key_id = shapes().any(|shape| shape == PartShape::KeyId);
    let is_bytes = |part: &&&str| part.len().is_multiple_of(2) && is_hexadecimal(part);
    let bytes = parts.iter().filter(is_bytes).count();
    let digits = if is_version(first) { rest } else { parts };
    let count: usize = digits.iter().map(|part| part.len()).sum();
    PartShape::of(first) == Some(PartShape::Vector)
        || long + usize::from(has_key_id) + usize::from(is_version(first)) >= 2
        || long >= 1 && bytes >= 2
        || count >= 2 * IV_BYTES && digits.iter().all(|part| is_hexadecimal(part))
}

/// Shape of an undamaged part of an envelope.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
enum PartShape {
    KeyId,
    Vector,
    /// A tag, or a ciphertext with its tag.
    Sealed,
}

impl PartShape {
    fn of(part: &str) -> Option<Self> {
        if !is_hexadecimal(part) {
            return None;
        }
        match part.len() {
            KID_DIGITS => Some(Self::KeyId),
            len if len == 2 * IV_BYTES => Some(Self::Vector),
            len if len >= 2 * TAG_BYTES => Some(Self::Sealed),
            _ => None,
        }
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn decode_fixed<const N: usize>(text: &str) -> Result<[u8; N], MalformedEnvelope> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| MalformedEnvelope)?;
    Ok(bytes)
}

impl MasterKeys {
    /// Parses the values of `MASTER_ENCRYPTION_KEY` and of `MASTER_ENCRYPTION_KEY_PREVIOUS`, a comma-separated list.
    /// `None` if neither is set.
    ///
    /// # Errors
    /// When a key is not 64 hexadecimal digits, or only previous keys are set.
    pub fn from_env(
        current: Option<&str>,
        previous: Option<&str>,
    ) -> Result<Option<Self>, MasterKeyError> {
        let set = |text: &&str| !text.trim().is_empty();
        let previous = previous.filter(set);
        let Some(current) = current.filter(set) else {
            return if previous.is_some() { Err(MasterKeyError::OnlyPrevious) } else { Ok(None) };
        };
        let parse = |text: &str, variable, position: String| {
            MasterKey::parse(text.trim()).ok_or(MasterKeyError::Shape { variable, position })
        };
        let current = parse(current, "MASTER_ENCRYPTION_KEY", String::new())?;
        let texts = previous.into_iter().flat_map(|text| text.split(',')).filter(set);
        let mut keys = vec![];
        for (number, text) in texts.enumerate() {
            if number == MAX_PREVIOUS {
                return Err(MasterKeyError::TooManyPrevious);
            }
            let position = format!(" (key number {})", number + 1);
            keys.push(parse(text, "MASTER_ENCRYPTION_KEY_PREVIOUS", position)?);
        }
        Ok(Some(Self { current, previous: keys }))
    }

    /// Encrypts a value under the current master key.
    pub(crate) fn seal(
        &self,
        binding: SecretBinding<'_>,
        value: &str,
    ) -> Result<String, VaultError> {
        let iv = random::<IV_BYTES>()?;
        // Allocated at its final size: a reallocation would leave a copy of the value in memory.
        let mut bytes = Zeroizing::new(Vec::with_capacity(value.len() + TAG_BYTES));
        bytes.extend_from_slice(value.as_bytes());
        let aad = binding.associated_data();
        let MasterKey { kid, cipher } = &self.current;
        cipher.encrypt_in_place(&iv.into(), aad.as_bytes(), &mut *bytes).map_err(|_| {
            VaultError::UnreadableSecret {
                secret: binding.to_string(),
                reason: "encryption failed".to_owned(),
            }
        })?;
        Ok(format!("v1.{kid}.{}.{}", hex::encode(iv), hex::encode(&*bytes)))
    }

    /// Decrypts a value.
    pub(crate) fn open(
        &self,
        binding: SecretBinding<'_>,
        envelope: Envelope,
    ) -> Result<Zeroizing<String>, VaultError> {
        let unreadable = |reason: &str| VaultError::UnreadableSecret {
            secret: binding.to_string(),
            reason: reason.to_owned(),
        };
        let Envelope { kid, iv, sealed } = envelope;
        let aad = if kid.is_some() { binding.associated_data() } else { String::new() };
        let fits = |key: &&MasterKey| kid.as_ref().is_none_or(|kid| *kid == key.kid);
        let keys: Vec<_> =
            std::iter::once(&self.current).chain(&self.previous).filter(fits).collect();
        if keys.is_empty() {
            let kid = kid.unwrap_or_default();
            return Err(unreadable(&format!("no master key with the id {kid} is set")));
        }
        for key in keys {
            let mut bytes = Zeroizing::new(sealed.clone());
            if key.cipher.decrypt_in_place(&iv.into(), aad.as_bytes(), &mut *bytes).is_ok() {
                return String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(
                    |error| {
                        error.into_bytes().zeroize();
                        unreadable("the value is not UTF-8")
                    },
                );
            }
        }
        Err(unreadable("none of the master keys decrypts it"))
    }

    /// Returns whether an envelope uses the current master key and format.
    pub(crate) fn is_current(&self, envelope: &Envelope) -> bool {
        envelope.kid.as_deref() == Some(&self.current.kid)
    }
}

#[cfg(test)]
mod tests;
