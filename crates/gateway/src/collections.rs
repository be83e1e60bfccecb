//! `/v1/collections`: named lists of skills.
//!
//! Every caller reads the collections of their view. A key changes the private ones of its user; an administrator changes
//! those of the other tiers.

use axum::{extract::State, response::Response};
use serde::{Deserialize, Serialize};
use skills_core::{Caller, SkillCollection, Tier, caller::AdminName};
use skills_registry::{CollectionInfo, PublishRequest, Published, RegistryError};
use utoipa::{IntoParams, ToSchema};
use utoipa_axum::{router::OpenApiRouter, routes};

use crate::{
    Gateway,
    caller::MaybeUser,
    error::GatewayError,
    extractors::{JsonBody, PathParam, Query},
    openapi::ErrorResponse,
    parsed_field::Id,
    response::{Success, json_response},
    skills::TierName,
};

pub(crate) fn routes() -> OpenApiRouter<Gateway> {
    OpenApiRouter::new().routes(routes!(list)).routes(routes!(read, put, remove))
}

/// A collection.
#[derive(Debug, Serialize, ToSchema)]
struct Collection {
    /// Name of the collection.
    name: String,
    /// Tier in which it is stored.
    tier: TierName,
    /// Title for people.
    title: String,
    /// What the collection is for.
    description: String,
    /// Addresses of the skills: `id` or `id@label`.
    skills: Vec<String>,
    /// Time of registration, in RFC 3339.
    registered_at: String,
    /// Number of the version.
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
}

impl From<CollectionInfo> for Collection {
    fn from(info: CollectionInfo) -> Self {
        let CollectionInfo { name, tier, collection, registered_at, version } = info;
        let SkillCollection { title, description, skills } = collection;
        Self { name, tier: tier.into(), title, description, skills, registered_at, version }
    }
}

/// All collections.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionList {
    success: Success,
    data: Vec<Collection>,
}

/// One collection.
#[derive(Debug, Serialize, ToSchema)]
struct CollectionResponse {
    success: Success,
    #[serde(flatten)]
    collection: Collection,
}

/// Content of a collection.
#[derive(Debug, Deserialize, ToSchema)]
struct PutCollection {
    /// Title for people.
    #[schema(pattern = r"\S")]
    title: String,
    /// What the collection is for.
    #[serde(default)]
    description: String,
    /// Addresses of the skills: `id` or `id@label`.
    #[serde(default)]
    #[schema(max_items = 500)]
    skills: Vec<String>,
    /// Message of the version.
    message: Option<String>,
    /// Number that the newest version must have; 0 for a collection that must not exist.
    expected_version: Option<u64>,
}

/// A stored collection.
#[derive(Debug, Serialize, ToSchema)]
struct StoredCollection {
    success: Success,
    name: String,
    tier: TierName,
    /// Time of the registration, in RFC 3339.
    registered_at: String,
    #[serde(skip_serializing_if = "Option::is_none")]
    version: Option<u64>,
    /// False if the newest version had the same content already.
    created: bool,
}

/// Result of a removal.
#[derive(Debug, Serialize, ToSchema)]
struct RemovedCollection {
    success: Success,
    name: String,
    /// False if there was no such collection.
    removed: bool,
}

/// Tier of a collection that is changed.
#[derive(Debug, Deserialize, IntoParams)]
#[into_params(parameter_in = Query)]
struct TierQuery {
    /// Tier; by default private for a key, and official for an administrator.
    #[param(inline)]
    tier: Option<TierName>,
}

/// List collections
#[utoipa::path(
    get,
    path = "/v1/collections",
    tag = "collections",
    responses((status = 200, description = "The collections, sorted by name", body = CollectionList)),
)]
async fn list(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
) -> Result<Response, GatewayError> {
    let catalog = gateway.registry().await?.catalog_for(&caller);
    let data = catalog.collection_infos().into_iter().map(Into::into).collect();
    Ok(json_response(CollectionList { success: Success, data }))
}

/// Show a collection
#[utoipa::path(
    get,
    path = "/v1/collections/{name}",
    tag = "collections",
    params(("name" = inline(Id), Path, description = "Name of the collection")),
    responses(
        (status = 200, description = "The collection", body = CollectionResponse),
        (status = 404, response = ErrorResponse),
        (status = 422, response = ErrorResponse),
    ),
)]
async fn read(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(name): PathParam<String>,
) -> Result<Response, GatewayError> {
    let collection = gateway.registry().await?.catalog_for(&caller).collection_info(&name)?;
    Ok(json_response(CollectionResponse { success: Success, collection: collection.into() }))
}

/// Store a collection
///
/// Replaces the collection of this name, as a new version.
#[utoipa::path(
    put,
    path = "/v1/collections/{name}",
    tag = "collections",
    params(("name" = inline(Id), Path, description = "Name of the collection"), TierQuery),
    request_body = PutCollection,
    responses(
        (status = 200, description = "The collection is stored", body = StoredCollection),
        (status = 409, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
async fn put(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(name): PathParam<String>,
    Query(TierQuery { tier }): Query<TierQuery>,
    JsonBody(body): JsonBody<PutCollection>,
) -> Result<Response, GatewayError> {
    let (tier, actor) = authorize(&gateway, &caller, tier).await?;
    let registry = gateway.registry().await?;
    let layer = caller.layer(tier).ok_or(RegistryError::KeyNeeded)?;
    let PutCollection { title, description, skills, message, expected_version } = body;
    let collection = SkillCollection { title, description, skills };
    let request = PublishRequest { message, expected_version };
    let stored = registry.put_collection(&actor, &layer, &name, collection, request).await?;
    let Published { registered_at, version, created, .. } = stored;
    let (success, tier) = (Success, tier.into());
    Ok(json_response(StoredCollection { success, name, tier, registered_at, version, created }))
}

/// Remove a collection
#[utoipa::path(
    delete,
    path = "/v1/collections/{name}",
    tag = "collections",
    params(("name" = inline(Id), Path, description = "Name of the collection"), TierQuery),
    responses(
        (status = 200, description = "There is no such collection any more", body = RemovedCollection),
        (status = 422, response = ErrorResponse),
        (status = 429, response = ErrorResponse),
    ),
    security(("key" = []), ("admin" = [])),
)]
async fn remove(
    State(gateway): State<Gateway>,
    MaybeUser(caller): MaybeUser,
    PathParam(name): PathParam<String>,
    Query(TierQuery { tier }): Query<TierQuery>,
) -> Result<Response, GatewayError> {
    let (tier, actor) = authorize(&gateway, &caller, tier).await?;
    let registry = gateway.registry().await?;
    let layer = caller.layer(tier).ok_or(RegistryError::KeyNeeded)?;
    let removed = registry.remove_collection(&actor, &layer, &name).await?;
    Ok(json_response(RemovedCollection { success: Success, name, removed }))
}

/// Returns the tier that a caller changes, and their name in the change log. Changes of users count against their rate
/// limit.
async fn authorize(
    gateway: &Gateway,
    caller: &Caller,
    tier: Option<TierName>,
) -> Result<(Tier, String), GatewayError> {
    let is_admin = *caller == Caller::Admin(AdminName::AdminKey);
    let tier = match tier {
        Some(tier) => tier.into(),
        None if is_admin => Tier::Official,
        None => Tier::Private,
    };
    match caller {
        Caller::User(user) if tier == Tier::Private => gateway.count_write(user).await?,
        _ if is_admin && tier != Tier::Private => {}
        _ => {
            let is_authenticated = *caller != Caller::Anonymous;
            return Err(GatewayError::AdminRequired { is_authenticated });
        }
    }
    Ok((tier, caller.actor().unwrap_or_default()))
}
