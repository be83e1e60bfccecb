//! Fields of requests that are parsed by their type, with their OpenAPI schemas.

use std::{fmt::Display, str::FromStr};

use serde::{Deserialize, Deserializer, Serialize, de};
use skills_vault::Plan;
use utoipa::{
    PartialSchema, ToSchema,
    openapi::{
        RefOr, Schema,
        schema::{ObjectBuilder, Type},
    },
};

/// String field parsed with `FromStr`; the parse error becomes the rejection.
#[derive(Debug, Clone, PartialEq, Eq, Hash, PartialOrd, Ord)]
pub(crate) struct Parsed<T>(pub(crate) T);

impl<'de, T: FromStr<Err: Display>> Deserialize<'de> for Parsed<T> {
    fn deserialize<D: Deserializer<'de>>(deserializer: D) -> Result<Self, D::Error> {
        // Owned: a string with escapes cannot be borrowed.
        let text = String::deserialize(deserializer)?;
        text.parse().map(Self).map_err(de::Error::custom)
    }
}

/// Defines OpenAPI schemas of [`Parsed`] fields.
macro_rules! field_schemas {
    ($($(#[doc = $doc:literal])* $name:ident { pattern: $pattern:literal, max: $max:literal, example: $example:literal })*) => {
        $($(#[doc = $doc])*
        pub(crate) struct $name;

        impl PartialSchema for $name {
            fn schema() -> RefOr<Schema> {
                ObjectBuilder::new()
                    .schema_type(Type::String)
                    .description(Some(concat!($($doc),*).trim()))
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

field_schemas! {
    /// Id of a user: at most 128 bytes without spaces, control characters and colons.
    Uid { pattern: r"^[^\s:\x00-\x20\x7F-\xA0]+$", max: 128, example: "ann" }
    /// Id of a skill.
    Id { pattern: "^[a-z0-9_-]+$", max: 64, example: "uniskill_weather" }
    /// Label of a version, which is not a number and not `latest`.
    LabelName { pattern: "^[a-z0-9-]+$", max: 32, example: "stable" }
    /// Name of a secret.
    SecretKey { pattern: "^[A-Za-z0-9_-]+$", max: 64, example: "WEATHER_KEY" }
    /// SHA-256 of a key, in hexadecimal digits.
    KeyHash {
        pattern: "^[0-9a-fA-F]{64}$",
        max: 64,
        example: "1ac7f2dbf6a3aa2b8c4c0ff95325882101df62151e861cf94f2a8ef01187e1d0"
    }
}

/// Plan of an account.
#[derive(Debug, Clone, Copy, PartialEq, Eq, Serialize, ToSchema)]
#[serde(rename_all = "UPPERCASE")]
pub(crate) enum PlanName {
    /// Plan of accounts that pay nothing.
    Free,
    /// First paid plan.
    Starter,
    /// Second paid plan.
    Pro,
    /// Highest plan.
    Scale,
}

impl From<Plan> for PlanName {
    fn from(tier: Plan) -> Self {
        match tier {
            Plan::Free => Self::Free,
            Plan::Starter => Self::Starter,
            Plan::Pro => Self::Pro,
            Plan::Scale => Self::Scale,
        }
    }
}
