//! Texts of requests that have a form of their own: they are read once, and what has not that form is refused
//! with a sentence that says what it would be.

use std::{fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};
use skills_vault::AccountTier;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, Type},
    },
};

/// A text that was read as something.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Text<T>(pub(crate) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Text<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Owned: the text may have escapes, which cannot be borrowed.
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// A description of what [`Text`] takes, for OpenAPI.
macro_rules! described_texts {
    ($($(#[doc = $words:literal])* $name:ident { pattern: $pattern:literal, max: $max:literal, example: $example:literal })*) => {
        $($(#[doc = $words])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(concat!($($words),*).trim()))
                    .pattern(Some($pattern))
                    .min_length(Some(1))
                    .max_length(Some($max))
                    .examples([$example])
                    .into()
            }
        }

        impl ToSchema for $name {})*
    };
}

described_texts! {
    /// Whom something belongs to: at most 128 bytes without spaces, control characters and colons.
    Uid { pattern: r"^[^\s:\x00-\x20\x7F-\xA0]+$", max: 128, example: "ann" }
    /// The id of a skill.
    Id { pattern: "^[a-z0-9_-]+$", max: 64, example: "uniskill_weather" }
    /// The name of a secret.
    SecretKey { pattern: "^[A-Za-z0-9_-]+$", max: 64, example: "WEATHER_KEY" }
    /// The SHA-256 of a key, in hexadecimal digits.
    KeyHash {
        pattern: "^[0-9a-fA-F]{64}$",
        max: 64,
        example: "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0"
    }
}

/// What a user pays for.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum AccountTierName {
    /// Everybody.
    Free,
    /// The next.
    Starter,
    /// The next.
    Pro,
    /// The last.
    Scale,
}

impl From<AccountTier> for AccountTierName {
    fn from(tier: AccountTier) -> Self {
        match tier {
            AccountTier::Free => Self::Free,
            AccountTier::Starter => Self::Starter,
            AccountTier::Pro => Self::Pro,
            AccountTier::Scale => Self::Scale,
        }
    }
}
