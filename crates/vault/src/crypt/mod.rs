//! Sealing secrets: AES-256-GCM under a master key, bound to whose secret it is, for which skill and by what
//! name, so that a sealed value opens in its own place only.
//!
//! `v1.{kid}.{iv}.{ciphertext and tag}`, in hexadecimal: the key id tells which master key, the rest has
//! fixed lengths. The older form `{iv}.{tag}.{ciphertext}`, which is bound to nothing, can still be read.

use std::fmt;

use aes_gcm::{Aes256Gcm, KeyInit as _, aead::AeadInOut as _};
use skills_core::Digest;
use zeroize::{Zeroize as _, Zeroizing};

use crate::VaultError;

const KEY_BYTES: usize = 32;
const IV_BYTES: usize = 12;
const TAG_BYTES: usize = 16;
/// Hexadecimal digits of a key id.
const KID_DIGITS: usize = 8;
/// Most master keys of before.
const MAX_PREVIOUS: usize = 16;

/// Bytes that nobody can foresee.
pub(crate) fn random<const N: usize>() -> Result<[u8; N], VaultError> {
    let mut bytes = [0; N];
    getrandom::fill(&mut bytes).map_err(|error| VaultError::Random(error.to_string()))?;
    Ok(bytes)
}

/// A master key that cannot be used. The words never hold it.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum MasterKeyError {
    /// Of a wrong length or alphabet.
    #[error("{variable} has to be 64 hexadecimal digits, which are 32 bytes{place}")]
    Shape {
        /// Where it came from.
        variable: &'static str,
        /// Which one of several.
        place: String,
    },
    /// There is nothing to go on with.
    #[error("MASTER_ENCRYPTION_KEY_PREVIOUS is set, but MASTER_ENCRYPTION_KEY is not")]
    OnlyPrevious,
    /// Too many of before.
    #[error("MASTER_ENCRYPTION_KEY_PREVIOUS has more than {MAX_PREVIOUS} keys")]
    TooManyPrevious,
}

impl MasterKeyError {
    /// A stable code for machines.
    #[must_use]
    pub const fn code(&self) -> &'static str {
        "bad_master_key"
    }
}

struct MasterKey {
    kid: String,
    /// Overwritten when it goes, as the key itself is after this was made of it.
    cipher: Aes256Gcm,
}

impl MasterKey {
    fn parse(text: &str) -> Option<Self> {
        let mut bytes = Zeroizing::new([0; KEY_BYTES]);
        hex::decode_to_slice(text, &mut *bytes).ok()?;
        let mut named = Zeroizing::new(b"skills master key".to_vec());
        named.reserve_exact(KEY_BYTES);
        named.extend_from_slice(&*bytes);
        let mut kid = Digest::of(&named).to_string();
        kid.truncate(KID_DIGITS);
        let cipher = Aes256Gcm::new_from_slice(&*bytes).ok()?;
        Some(Self { kid, cipher })
    }
}

/// The key that seals, and those of before, which still open.
pub struct MasterKeys {
    current: MasterKey,
    previous: Vec<MasterKey>,
}

impl fmt::Debug for MasterKeys {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("MasterKeys").field("kid", &self.current.kid).finish_non_exhaustive()
    }
}

/// Whose secret, for which skill (empty: for all), by what name.
#[derive(Clone, Copy)]
pub(crate) struct Place<'a> {
    pub(crate) owner: &'a str,
    pub(crate) skill: &'a str,
    pub(crate) name: &'a str,
}

impl Place<'_> {
    /// Neither a skill's id nor a name holds a bar, so two places never have the same data, whatever an
    /// owner's id holds.
    fn associated_data(self) -> String {
        let Self { owner, skill, name } = self;
        let scope = if skill.is_empty() { "global" } else { "skill" };
        format!("v1|{scope}|{owner}|{skill}|{name}")
    }
}

impl fmt::Display for Place<'_> {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let Self { owner, skill, name } = self;
        match *skill {
            "" => write!(f, "{name} of {owner}"),
            skill => write!(f, "{name} of {owner} for the skill {skill}"),
        }
    }
}

/// A sealed value, taken apart.
pub(crate) struct Envelope {
    /// None in the older form.
    kid: Option<String>,
    iv: [u8; IV_BYTES],
    /// Ciphertext and tag.
    sealed: Vec<u8>,
}

/// A text that is sealed, but not properly.
#[derive(Debug, Clone, Copy, PartialEq, Eq, thiserror::Error)]
#[error("it is cut off, or is not hexadecimal throughout")]
pub(crate) struct Malformed;

impl Envelope {
    /// Takes a text apart; `None` if it is not sealed at all.
    pub(crate) fn parse(text: &str) -> Result<Option<Self>, Malformed> {
        let parts: Vec<&str> = text.split('.').collect();
        match parts[..] {
            ["v1", kid, iv, sealed] => {
                let is_kid = kid.len() == KID_DIGITS && is_hexadecimal(kid);
                let sealed = hex::decode(sealed).map_err(|_| Malformed)?;
                if !is_kid || sealed.len() < TAG_BYTES {
                    return Err(Malformed);
                }
                Ok(Some(Self { kid: Some(kid.to_owned()), iv: exactly(iv)?, sealed }))
            }
            // Other texts have two dots as well; only this one begins with so many digits.
            [iv, tag, ciphertext] if iv.len() == 2 * IV_BYTES && is_hexadecimal(iv) => {
                let mut sealed = hex::decode(ciphertext).map_err(|_| Malformed)?;
                sealed.extend_from_slice(&exactly::<TAG_BYTES>(tag)?);
                Ok(Some(Self { kid: None, iv: exactly(iv)?, sealed }))
            }
            _ => Ok(None),
        }
    }

    /// Whether it is of the older form.
    pub(crate) const fn is_legacy(&self) -> bool {
        self.kid.is_none()
    }
}

fn is_hexadecimal(text: &str) -> bool {
    text.bytes().all(|byte| byte.is_ascii_hexdigit())
}

fn exactly<const N: usize>(text: &str) -> Result<[u8; N], Malformed> {
    let mut bytes = [0; N];
    hex::decode_to_slice(text, &mut bytes).map_err(|_| Malformed)?;
    Ok(bytes)
}

impl MasterKeys {
    /// From the values of `MASTER_ENCRYPTION_KEY` and of `MASTER_ENCRYPTION_KEY_PREVIOUS`, which lists those
    /// of before with commas between them. None where neither is set.
    ///
    /// # Errors
    /// When a key is not 64 hexadecimal digits, or there are only keys of before.
    pub fn from_env(
        current: Option<&str>,
        previous: Option<&str>,
    ) -> Result<Option<Self>, MasterKeyError> {
        let set = |text: &&str| !text.trim().is_empty();
        let previous = previous.filter(set);
        let Some(current) = current.filter(set) else {
            return if previous.is_some() { Err(MasterKeyError::OnlyPrevious) } else { Ok(None) };
        };
        let parse = |text: &str, variable, place: String| {
            MasterKey::parse(text.trim()).ok_or(MasterKeyError::Shape { variable, place })
        };
        let current = parse(current, "MASTER_ENCRYPTION_KEY", String::new())?;
        let texts = previous.into_iter().flat_map(|text| text.split(',')).filter(set);
        let mut keys = vec![];
        for (number, text) in texts.enumerate() {
            if number == MAX_PREVIOUS {
                return Err(MasterKeyError::TooManyPrevious);
            }
            let place = format!(" (key number {})", number + 1);
            keys.push(parse(text, "MASTER_ENCRYPTION_KEY_PREVIOUS", place)?);
        }
        Ok(Some(Self { current, previous: keys }))
    }

    /// Seals a value for its place.
    pub(crate) fn seal(&self, place: Place<'_>, value: &str) -> Result<String, VaultError> {
        let iv = random::<IV_BYTES>()?;
        // Sized beforehand: bytes that move leave a copy of themselves behind.
        let mut bytes = Zeroizing::new(Vec::with_capacity(value.len() + TAG_BYTES));
        bytes.extend_from_slice(value.as_bytes());
        let aad = place.associated_data();
        let MasterKey { kid, cipher } = &self.current;
        cipher.encrypt_in_place(&iv.into(), aad.as_bytes(), &mut *bytes).map_err(|_| {
            VaultError::UnreadableSecret {
                secret: place.to_string(),
                reason: "it cannot be encrypted".to_owned(),
            }
        })?;
        Ok(format!("v1.{kid}.{}.{}", hex::encode(iv), hex::encode(&*bytes)))
    }

    /// Opens a value in its place.
    pub(crate) fn open(
        &self,
        place: Place<'_>,
        envelope: Envelope,
    ) -> Result<Zeroizing<String>, VaultError> {
        let unreadable = |reason: &str| VaultError::UnreadableSecret {
            secret: place.to_string(),
            reason: reason.to_owned(),
        };
        let Envelope { kid, iv, sealed } = envelope;
        let aad = if kid.is_some() { place.associated_data() } else { String::new() };
        let fits = |key: &&MasterKey| kid.as_ref().is_none_or(|kid| *kid == key.kid);
        let keys: Vec<_> =
            std::iter::once(&self.current).chain(&self.previous).filter(fits).collect();
        if keys.is_empty() {
            let kid = kid.unwrap_or_default();
            return Err(unreadable(&format!("its master key, {kid}, is not at hand")));
        }
        for key in keys {
            let mut bytes = Zeroizing::new(sealed.clone());
            if key.cipher.decrypt_in_place(&iv.into(), aad.as_bytes(), &mut *bytes).is_ok() {
                return String::from_utf8(std::mem::take(&mut *bytes)).map(Zeroizing::new).map_err(
                    |error| {
                        error.into_bytes().zeroize();
                        unreadable("it is not text in UTF-8")
                    },
                );
            }
        }
        Err(unreadable("no master key at hand opens it here"))
    }

    /// Whether a value is sealed as it would be now.
    pub(crate) fn is_current(&self, envelope: &Envelope) -> bool {
        envelope.kid.as_deref() == Some(&self.current.kid)
    }
}

#[cfg(test)]
mod tests;
