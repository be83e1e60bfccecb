//! Keywords of JSON Schema by their effect on cost.

/// Keywords whose value is a schema, or a list of schemas.
pub(super) const SCHEMAS: [&str; 17] = [
    "additionalItems",
    "additionalProperties",
    "allOf",
    "anyOf",
    "contains",
    "contentSchema",
    "else",
    "extends",
    "if",
    "items",
    "not",
    "oneOf",
    "prefixItems",
    "propertyNames",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose value is a mapping to schemas.
pub(super) const MAPPINGS: [&str; 4] =
    ["dependencies", "dependentSchemas", "patternProperties", "properties"];
/// Mappings of schemas that are only used through references.
pub(super) const DEFINITIONS: [&str; 2] = ["$defs", "definitions"];
/// Keywords whose value is compared with a value or its fields.
pub(super) const COMPARISONS: [&str; 4] = ["const", "dependentRequired", "enum", "required"];
/// Keywords that depend on the results of other keywords.
pub(super) const UNEVALUATED: [&str; 2] = ["unevaluatedItems", "unevaluatedProperties"];
/// Keywords that an `unevaluated…` keyword evaluates again.
pub(super) const REEVALUATED: [&str; 11] = [
    "$ref",
    "allOf",
    "anyOf",
    "contains",
    "dependentSchemas",
    "else",
    "if",
    "oneOf",
    "then",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords whose schemas are for parts of a value and not for the value itself.
pub(super) const FOR_PARTS: [&str; 10] = [
    "additionalItems",
    "additionalProperties",
    "contains",
    "items",
    "patternProperties",
    "prefixItems",
    "properties",
    "propertyNames",
    "unevaluatedItems",
    "unevaluatedProperties",
];
/// Keywords for parts of which only one applies to any one part.
pub(super) const EXCLUSIVE: [&str; 5] =
    ["additionalItems", "additionalProperties", "items", "prefixItems", "properties"];
/// References whose target is only known during a validation.
pub(super) const DYNAMIC: [&str; 4] =
    ["$dynamicAnchor", "$dynamicRef", "$recursiveAnchor", "$recursiveRef"];
