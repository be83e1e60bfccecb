//! Keys of the logical key space, parsed from text and written as text.

use std::{fmt, str::FromStr};

use crate::{
    Digest, Layer, Owner, RuleError, SkillId,
    limits::{MAX_KEY_BYTES, MAX_OWNER_BYTES},
};

/// Key of the logical key space, by the meaning of its value.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum LogicalKey {
    /// `skill:official:{id}`, `skill:market:{id}`, `skill:private:{uid}:{id}`: a manifest.
    Skill {
        /// Layer of the skill.
        layer: Layer,
        /// Id of the skill.
        id: SkillId,
    },
    /// `auth:hash:{hash}`: owner of the key with that SHA-256.
    AuthHash(Digest),
    /// `profile:{uid}`, also read as `user:profile:{uid}`.
    Profile(Owner),
    /// `skill:secrets:{uid}` (also read as `user:secrets:{uid}`) and `skill:secrets:{uid}:{id}`.
    Secrets {
        /// Owner of the secrets.
        owner: Owner,
        /// Skill that may use them; `None` for all skills.
        skill: Option<SkillId>,
    },
    /// `ratelimit:{hash}:{minute}`: number of uses of a key in a minute since 1970.
    RateLimit {
        /// Digest of the key.
        hash: Digest,
        /// Minute since 1970.
        minute: u64,
    },
    /// `mcp_registry:tools_cache`, which is derived from the catalog.
    ToolsCache,
    /// `mcp_broadcast:tools_changed`: time of the last tools notification, in milliseconds.
    ToolsChanged,
    /// Deprecated: `credits:{uid}`, `user:credits:{uid}` and `user:credits:{hash}`.
    Credits(CreditsAccount),
    /// Deprecated: `tier:{uid}`.
    Tier(Owner),
    /// Deprecated: `user:uid:{hash}`, which became `auth:hash:{hash}`.
    UserUid(Digest),
}

/// Holder of deprecated credits.
#[derive(Debug, Clone, PartialEq, Eq, Hash)]
pub enum CreditsAccount {
    /// User.
    Owner(Owner),
    /// Single key of a user.
    Key(Digest),
}

impl LogicalKey {
    /// Returns whether the key is only read and never written. Its value is stored elsewhere now.
    #[must_use]
    pub const fn is_deprecated(&self) -> bool {
        matches!(self, Self::Credits(_) | Self::Tier(_) | Self::UserUid(_))
    }
}

/// Error for text that is not a key of the key space.
#[derive(Debug, Clone, PartialEq, Eq, thiserror::Error)]
pub enum LogicalKeyError {
    /// The key is too long.
    #[error("the key is {0} bytes long, at most {MAX_KEY_BYTES} are allowed")]
    TooLong(usize),
    /// No pattern matches.
    #[error("no pattern of the key space matches the key {0:?}")]
    Unknown(String),
    /// The skill id contains a colon.
    #[error("the skill id {0:?} has a ':' in it, which separates the parts of a key")]
    Colon(String),
    /// The skill id breaks another rule.
    #[error("the skill id {id:?} cannot be used: {reason}")]
    SkillId {
        /// Rejected skill id.
        id: String,
        /// Broken rule.
        reason: RuleError,
    },
    /// The uid breaks a rule.
    #[error("the uid {uid:?} cannot be used: {reason}")]
    Owner {
        /// Rejected uid.
        uid: String,
        /// Broken rule.
        reason: RuleError,
    },
    /// The hash is not a SHA-256.
    #[error("{0:?} is not the hash of a key, which is 64 hexadecimal digits")]
    Hash(String),
    /// The minute is not a number.
    #[error("{0:?} is not a minute since 1970")]
    Minute(String),
}

/// Parses the owner in a key.
///
/// # Errors
/// [`LogicalKeyError::Owner`] with the reason.
pub fn parse_owner(uid: &str) -> Result<Owner, LogicalKeyError> {
    uid.parse().map_err(|reason| LogicalKeyError::Owner {
        uid: uid.chars().take(MAX_OWNER_BYTES).collect(),
        reason,
    })
}

fn skill_id(text: &str) -> Result<SkillId, LogicalKeyError> {
    if text.contains(':') {
        return Err(LogicalKeyError::Colon(text.to_owned()));
    }
    text.parse().map_err(|reason| LogicalKeyError::SkillId { id: text.to_owned(), reason })
}

fn hash(text: &str) -> Result<Digest, LogicalKeyError> {
    text.parse().map_err(|_| LogicalKeyError::Hash(text.to_owned()))
}

fn account(text: &str) -> Result<CreditsAccount, LogicalKeyError> {
    match text.parse() {
        Ok(hash) => Ok(CreditsAccount::Key(hash)),
        Err(_) => parse_owner(text).map(CreditsAccount::Owner),
    }
}

fn private_skill(rest: &str) -> Result<LogicalKey, LogicalKeyError> {
    let (uid, id) = rest.split_once(':').unwrap_or((rest, ""));
    Ok(LogicalKey::Skill { layer: Layer::Private(parse_owner(uid)?), id: skill_id(id)? })
}

fn secrets(rest: &str) -> Result<LogicalKey, LogicalKeyError> {
    let (uid, skill) = match rest.split_once(':') {
        Some((uid, id)) => (uid, Some(skill_id(id)?)),
        None => (rest, None),
    };
    Ok(LogicalKey::Secrets { owner: parse_owner(uid)?, skill })
}

fn rate_limit(rest: &str) -> Result<LogicalKey, LogicalKeyError> {
    let (text, minute) = rest.split_once(':').unwrap_or((rest, ""));
    let is_minute = !minute.is_empty() && minute.bytes().all(|byte| byte.is_ascii_digit());
    match minute.parse() {
        Ok(minute) if is_minute => Ok(LogicalKey::RateLimit { hash: hash(text)?, minute }),
        _ => Err(LogicalKeyError::Minute(minute.to_owned())),
    }
}

impl FromStr for LogicalKey {
    type Err = LogicalKeyError;

    fn from_str(text: &str) -> Result<Self, LogicalKeyError> {
        if text.len() > MAX_KEY_BYTES {
            return Err(LogicalKeyError::TooLong(text.len()));
        }
        let after = |prefix: &str| text.strip_prefix(prefix);
        match text {
            "mcp_registry:tools_cache" => return Ok(Self::ToolsCache),
            "mcp_broadcast:tools_changed" => return Ok(Self::ToolsChanged),
            _ => {}
        }
        if let Some(id) = after("skill:official:") {
            return Ok(Self::Skill { layer: Layer::Official, id: skill_id(id)? });
        }
        if let Some(id) = after("skill:market:") {
            return Ok(Self::Skill { layer: Layer::Market, id: skill_id(id)? });
        }
        if let Some(rest) = after("skill:private:") {
            return private_skill(rest);
        }
        if let Some(rest) = after("skill:secrets:") {
            return secrets(rest);
        }
        if let Some(uid) = after("user:secrets:") {
            return Ok(Self::Secrets { owner: parse_owner(uid)?, skill: None });
        }
        if let Some(text) = after("auth:hash:") {
            return hash(text).map(Self::AuthHash);
        }
        if let Some(uid) = after("profile:").or_else(|| after("user:profile:")) {
            return parse_owner(uid).map(Self::Profile);
        }
        if let Some(rest) = after("ratelimit:") {
            return rate_limit(rest);
        }
        if let Some(text) = after("credits:").or_else(|| after("user:credits:")) {
            return account(text).map(Self::Credits);
        }
        if let Some(uid) = after("tier:") {
            return parse_owner(uid).map(Self::Tier);
        }
        if let Some(text) = after("user:uid:") {
            return hash(text).map(Self::UserUid);
        }
        Err(LogicalKeyError::Unknown(text.to_owned()))
    }
}

impl fmt::Display for LogicalKey {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Self::Skill { layer: Layer::Private(owner), id } => {
                write!(f, "skill:private:{}:{id}", owner.as_str())
            }
            Self::Skill { layer, id } => write!(f, "skill:{}:{id}", layer.tier()),
            Self::AuthHash(hash) => write!(f, "auth:hash:{hash}"),
            Self::Profile(owner) => write!(f, "profile:{}", owner.as_str()),
            Self::Secrets { owner, skill: None } => write!(f, "skill:secrets:{}", owner.as_str()),
            Self::Secrets { owner, skill: Some(id) } => {
                write!(f, "skill:secrets:{}:{id}", owner.as_str())
            }
            Self::RateLimit { hash, minute } => write!(f, "ratelimit:{hash}:{minute}"),
            Self::ToolsCache => f.write_str("mcp_registry:tools_cache"),
            Self::ToolsChanged => f.write_str("mcp_broadcast:tools_changed"),
            Self::Credits(CreditsAccount::Owner(owner)) => write!(f, "credits:{}", owner.as_str()),
            Self::Credits(CreditsAccount::Key(hash)) => write!(f, "user:credits:{hash}"),
            Self::Tier(owner) => write!(f, "tier:{}", owner.as_str()),
            Self::UserUid(hash) => write!(f, "user:uid:{hash}"),
        }
    }
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    const HASH: &str = "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0";

    fn parse(text: &str) -> LogicalKey {
        text.parse().unwrap_or_else(|error| panic!("{text}: {error}"))
    }

    fn refused(text: &str) -> String {
        text.parse::<LogicalKey>().expect_err(text).to_string()
    }

    #[test]
    fn every_key_of_the_specification_round_trips() {
        for text in [
            "skill:official:uniskill_weather",
            "skill:private:ann:echo",
            "skill:market:echo",
            &format!("auth:hash:{HASH}"),
            "profile:ann",
            "skill:secrets:ann",
            "skill:secrets:ann:echo",
            &format!("ratelimit:{HASH}:29000000"),
            "mcp_registry:tools_cache",
            "mcp_broadcast:tools_changed",
            "credits:ann",
            &format!("user:credits:{HASH}"),
            "tier:ann",
            &format!("user:uid:{HASH}"),
        ] {
            assert_eq!(parse(text).to_string(), text, "{text}");
        }
    }

    #[test]
    fn alternative_spellings_are_equivalent() {
        for (other, text) in [
            ("user:profile:ann", "profile:ann"),
            ("user:secrets:ann", "skill:secrets:ann"),
            ("user:credits:ann", "credits:ann"),
            (&format!("credits:{HASH}"), &format!("user:credits:{HASH}")),
            (&format!("auth:hash:{}", HASH.to_uppercase()), &format!("auth:hash:{HASH}")),
        ] {
            assert_eq!(parse(other), parse(text), "{other}");
        }
        assert!(parse("tier:ann").is_deprecated() && !parse("profile:ann").is_deprecated());
    }

    #[test]
    fn what_is_wrong_is_named() {
        for (text, words) in [
            ("", "no pattern"),
            ("skill:secret:ann", "no pattern"),
            ("SKILL:official:a", "no pattern"),
            ("skill:official:", "non-empty"),
            ("skill:official:Weather", "lowercase"),
            ("skill:official:a:b", "has a ':' in it"),
            ("skill:private:ann:a:b", "has a ':' in it"),
            ("skill:private:ann", "non-empty"),
            ("skill:private::a", "uid \"\" cannot be used: uid must be non-empty"),
            ("skill:secrets:ann:a:b", "has a ':' in it"),
            ("profile:a:b", "found ':'"),
            ("profile:a b", "space"),
            ("auth:hash:12", "64 hexadecimal"),
            (&format!("ratelimit:{HASH}:soon"), "minute"),
            (&format!("ratelimit:{HASH}:+5"), "minute"),
            (&format!("ratelimit:{HASH}"), "minute"),
            (&format!("profile:{}", "u".repeat(129)), "uid too long: 129 bytes"),
            (&"x".repeat(513), "513 bytes"),
        ] {
            let said = refused(text);
            assert!(said.contains(words), "{text}: {said}");
        }
    }

    proptest! {
        #[test]
        fn parsing_never_panics_and_accepted_keys_round_trip(
            prefix in "(skill:(private|official|market|secrets):|profile:|user:(secrets|uid|credits|profile):|tier:)?",
            rest in "(\\PC{0,20}:?){0,3}",
        ) {
            if let Ok(key) = format!("{prefix}{rest}").parse::<LogicalKey>() {
                prop_assert_eq!(key.to_string().parse::<LogicalKey>(), Ok(key));
            }
        }
    }
}
