//! Stable error codes of all surfaces. `docs/errors.md` lists them.

use std::{borrow::Cow, fmt};

use serde::{Serialize, Serializer};
use serde_json::{Value, json};

macro_rules! codes {
    ($(#[doc = $meaning:literal] $name:ident = $text:literal,)*) => {
        /// Stable error code. Published texts never change; surfaces map codes to statuses of their protocol.
        #[derive(Debug, Clone, Copy, PartialEq, Eq, Hash)]
        pub enum Code {
            $(#[doc = $meaning] $name,)*
        }

        impl Code {
            /// All codes.
            pub const ALL: &[Self] = &[$(Self::$name),*];

            /// Returns the published text.
            #[must_use]
            pub const fn as_str(self) -> &'static str {
                match self {
                    $(Self::$name => $text,)*
                }
            }

            /// Parses a code that another program sent; [`Code::Remote`] if it is not one of these.
            #[must_use]
            pub fn from_remote(text: &str) -> Self {
                match text {
                    $($text => Self::$name,)*
                    _ => Self::Remote,
                }
            }
        }

        #[cfg(test)]
        const MEANINGS: &[&str] = &[$($meaning),*];
    };
}

codes! {
    /// The signed-in person may not do this in the console.
    AccessDenied = "access_denied",
    /// The ACP connection failed.
    Acp = "acp",
    /// Another server already uses the address.
    AddressInUse = "address_in_use",
    /// The token is not sent to the default address; give the address.
    AddressNotNamed = "address_not_named",
    /// The route requires an administrator's secret.
    AdminNeeded = "admin_needed",
    /// Several keys have this id prefix.
    AmbiguousKey = "ambiguous_key",
    /// The response is too large as JSON.
    AnswerTooLarge = "answer_too_large",
    /// Not an address to listen on.
    BadAddress = "bad_address",
    /// The archive is damaged, or the file is not an archive.
    BadArchive = "bad_archive",
    /// An argument of the command is missing or invalid.
    BadArgument = "bad_argument",
    /// The settings of the engine connection are invalid.
    BadEngine = "bad_engine",
    /// A header on the command line is not `NAME=VALUE`.
    BadHeader = "bad_header",
    /// A host name is missing or invalid.
    BadHost = "bad_host",
    /// Not a key id.
    BadKeyId = "bad_key_id",
    /// The lockfile cannot be parsed.
    BadLockfile = "bad_lockfile",
    /// `MASTER_ENCRYPTION_KEY` or a previous key is unusable.
    BadMasterKey = "bad_master_key",
    /// A web origin in the settings is invalid.
    BadOrigin = "bad_origin",
    /// The record of a synced folder is unusable.
    BadRecord = "bad_record",
    /// The call of a live client is invalid.
    BadRequest = "bad_request",
    /// A security setting is unusable.
    BadSetting = "bad_setting",
    /// Not a URL of a bus or an engine.
    BadUrl = "bad_url",
    /// An MDP session received a binary frame.
    Binary = "binary",
    /// The listener cannot be opened.
    Bind = "bind",
    /// The request body arrived too slowly.
    BodyTimeout = "body_timeout",
    /// The request body is too large or has too many values.
    BodyTooLarge = "body_too_large",
    /// Another sync runs in the folder.
    Busy = "busy",
    /// The path or registry cannot be watched.
    CannotWatch = "cannot_watch",
    /// A live client's catalog takes too much memory.
    CatalogTooLarge = "catalog_too_large",
    /// The catalogs of all live clients together are too large.
    CatalogsFull = "catalogs_full",
    /// The change log begins after the requested revision.
    ChangesForgotten = "changes_forgotten",
    /// The receiver does not read its messages, and its queue is full.
    ChannelSendFailed = "channel_send_failed",
    /// Retention removed the version.
    Collected = "collected",
    /// The configuration file is not a YAML mapping.
    ConfigMalformed = "config_malformed",
    /// The configuration file cannot be read.
    ConfigUnreadable = "config_unreadable",
    /// The stored value changed in the meantime.
    Conflict = "conflict",
    /// The connection to the bus was lost during the call.
    ConnectionLost = "connection_lost",
    /// A stored entry cannot be read.
    CorruptEntry = "corrupt_entry",
    /// A page of another site may not open or embed the address.
    CrossSiteRequest = "cross_site_request",
    /// A reference in a schema has no target.
    DanglingReference = "dangling_reference",
    /// An earlier call of the same delivery lane is missing.
    DeliveryOutOfTurn = "delivery_out_of_turn",
    /// The payload does not match the input of a built-in function.
    DeserializationError = "deserialization_error",
    /// Two added skills have the same id.
    DuplicateId = "duplicate_id",
    /// A pending request of the session has the same id.
    DuplicateRequestId = "duplicate_request_id",
    /// The worker behind a section or prompt is connected to another server on the same database.
    Elsewhere = "elsewhere",
    /// The hub does not queue calls.
    EnqueueError = "enqueue_error",
    /// A different file or folder is in the way.
    Exists = "exists",
    /// The observer expired.
    Expired = "EXPIRED",
    /// A repository or an archive cannot be fetched.
    FetchFailed = "fetch_failed",
    /// The function is private to the worker that registered it.
    Forbidden = "FORBIDDEN",
    /// Web pages of this origin may not connect to the bus.
    ForbiddenOrigin = "forbidden_origin",
    /// A form of the console is out of date.
    FormExpired = "form_expired",
    /// Another worker has registered the function.
    FunctionNamespaceConflict = "FUNCTION_NAMESPACE_CONFLICT",
    /// No worker has registered the function.
    FunctionNotFound = "function_not_found",
    /// The program `git` is not installed.
    GitMissing = "git_missing",
    /// The worker behind a section or prompt disconnected before it answered.
    HandlerDisconnected = "handler_disconnected",
    /// The handler of a live client failed.
    HandlerError = "handler_error",
    /// The function behind a section or prompt returned an error.
    HandlerFailed = "handler_failed",
    /// No worker serves the function behind a section or prompt.
    HandlerNotRegistered = "handler_not_registered",
    /// The function behind a prompt returned no valid prompt.
    HandlerOutput = "handler_output",
    /// The function behind a section or prompt did not answer in time.
    HandlerTimeout = "handler_timeout",
    /// The host name is not one of this server.
    HostNotAllowed = "host_not_allowed",
    /// `--id` is given, and several skills were found.
    IdForMany = "id_for_many",
    /// No name of the bundle is a valid skill id.
    IdNeeded = "id_needed",
    /// Unexpected failure of this program; its log has the cause.
    Internal = "internal",
    /// The user interrupted the command; nothing is left half-done.
    Interrupted = "interrupted",
    /// The function takes no arguments from observers.
    InvalidArgs = "INVALID_ARGS",
    /// The arguments do not match the schema of the tool.
    InvalidArguments = "invalid_arguments",
    /// The request body has the wrong shape.
    InvalidBody = "invalid_body",
    /// The id of a live client is invalid.
    InvalidClientId = "invalid_client_id",
    /// The cursor was not issued by this route.
    InvalidCursor = "invalid_cursor",
    /// The hub does not support filters of observers.
    InvalidFilter = "INVALID_FILTER",
    /// A header of the upstream request has a forbidden character.
    InvalidHeader = "invalid_header",
    /// The tool cannot be executed as its manifest describes.
    InvalidImplementation = "invalid_implementation",
    /// An argument breaks a rule.
    InvalidInput = "invalid_input",
    /// The request body is not JSON.
    InvalidJson = "invalid_json",
    /// The key of an imported line is invalid.
    InvalidKey = "invalid_key",
    /// The manifest has errors.
    InvalidManifest = "invalid_manifest",
    /// An MDP session received an unexpected message.
    InvalidMessage = "invalid_message",
    /// A parameter is not allowed where the manifest inserts it.
    InvalidParameters = "invalid_parameters",
    /// A path is invalid.
    InvalidPath = "invalid_path",
    /// The query string is invalid.
    InvalidQuery = "invalid_query",
    /// The function behind a section or prompt returned no JSON; in the message of `handler_failed`.
    InvalidResult = "invalid_result",
    /// Not a valid JSON Schema.
    InvalidSchema = "invalid_schema",
    /// The skill violates the Agent Skills specification.
    InvalidSkill = "invalid_skill",
    /// Some validated skills have errors.
    InvalidSkills = "invalid_skills",
    /// Not a URI of a resource.
    InvalidUri = "invalid_uri",
    /// The function failed without a code of its own.
    InvocationFailed = "invocation_failed",
    /// The worker disconnected before it answered.
    InvocationStopped = "invocation_stopped",
    /// The system refused to read or write.
    Io = "io",
    /// Some skills with local changes were kept; the folders are not in sync.
    Kept = "kept",
    /// The request needs the key of a user.
    KeyNeeded = "key_needed",
    /// A key was given as an argument, where other users can see it.
    KeyOnCommandLine = "key_on_command_line",
    /// The key was revoked.
    KeyRevoked = "key_revoked",
    /// The key belongs to another user.
    KeyTaken = "key_taken",
    /// The label is not at the expected version.
    LabelMoved = "label_moved",
    /// The path of a folder contains a link.
    LeadsElsewhere = "leads_elsewhere",
    /// An imported line is too long.
    LineTooLong = "line_too_long",
    /// The installed or the available content is not what the lockfile says.
    LockMismatch = "lock_mismatch",
    /// A frame is not one of the bus protocol.
    MalformedFrame = "malformed_frame",
    /// An imported line is not `{"key", "value"}`.
    MalformedLine = "malformed_line",
    /// The observer fired as often as it asked for.
    MaxFires = "MAX_FIRES",
    /// The MCP connection failed.
    Mcp = "mcp",
    /// The path has other methods.
    MethodNotAllowed = "method_not_allowed",
    /// Required arguments of a prompt are missing.
    MissingArguments = "missing_arguments",
    /// A required field of the request body is missing.
    MissingField = "missing_field",
    /// Required parameters of the tool are missing.
    MissingParameters = "missing_parameters",
    /// Required secrets of the tool are missing or not granted.
    MissingSecrets = "missing_secrets",
    /// Neither path nor body names a skill.
    MissingSkill = "missing_skill",
    /// Path and body name different skills.
    NamesDiffer = "names_differ",
    /// The command works on a data directory only.
    NeedsDataDir = "needs_data_dir",
    /// The archive has a newer format.
    NewerArchive = "newer_archive",
    /// No `SKILL.md` was found.
    NoBundle = "no_bundle",
    /// Functions cannot be called: the data directory was opened without a bus.
    NoBus = "no_bus",
    /// This process executes no tools.
    NoExecutor = "no_executor",
    /// `HOME` is not set.
    NoHome = "no_home",
    /// `MASTER_ENCRYPTION_KEY` is not set.
    NoMasterKey = "no_master_key",
    /// The operating system returned no random bytes.
    NoRandomness = "no_randomness",
    /// The engine has no state worker.
    NoState = "no_state",
    /// No key has this id.
    NoSuchKey = "no_such_key",
    /// The secret does not exist.
    NoSuchSecret = "no_such_secret",
    /// The text is not a key.
    NotAKey = "not_a_key",
    /// `state::update` increments a value that is not a number.
    NotANumber = "NOT_A_NUMBER",
    /// The skill has no manifest.
    NotATool = "not_a_tool",
    /// Some skills could not be added.
    NotAllAdded = "not_all_added",
    /// Some entries could not be copied.
    NotAllCopied = "not_all_copied",
    /// Some lines could not be imported.
    NotAllImported = "not_all_imported",
    /// Some skills could not be synchronized.
    NotAllSynced = "not_all_synced",
    /// `state::update` appends to a value that is not an array.
    NotAnArray = "NOT_AN_ARRAY",
    /// `state::update` merges a value that is not an object.
    NotAnObject = "NOT_AN_OBJECT",
    /// The function can only be observed.
    NotCallable = "not_callable",
    /// There is no connection to the bus; the call was not sent.
    NotConnected = "not_connected",
    /// No such entry, route or live client.
    NotFound = "not_found",
    /// The upstream must be called over https.
    NotHttps = "not_https",
    /// An MDP session received a message that is not JSON.
    NotJson = "not_json",
    /// The function cannot be observed.
    NotObservable = "NOT_OBSERVABLE",
    /// The live client or the server is busy; a retry may succeed.
    NotReady = "not_ready",
    /// The live client is not registered on this session.
    NotRegistered = "not_registered",
    /// The state of the engine cannot hold this.
    NotSupported = "not_supported",
    /// The value is not UTF-8.
    NotText = "not_text",
    /// There is neither a server nor a store to work on.
    NothingToOpen = "nothing_to_open",
    /// The worker rejected the observer.
    ObserveRejected = "OBSERVE_REJECTED",
    /// Another worker observes under the id.
    ObserverIdConflict = "OBSERVER_ID_CONFLICT",
    /// The observer is not active.
    ObserverNotActive = "OBSERVER_NOT_ACTIVE",
    /// Pages of this origin may not send requests.
    OriginNotAllowed = "origin_not_allowed",
    /// The body names another user than the key.
    OtherUser = "other_user",
    /// A write was interrupted; it is not known whether it was stored.
    OutcomeUnknown = "outcome_unknown",
    /// Too many or too large requests are in progress; try again in a moment.
    Overloaded = "overloaded",
    /// `state::update` addresses a field of a value that is not an object.
    PathNotObject = "PATH_NOT_OBJECT",
    /// A path in a live client's catalog has too many segments.
    PathTooDeep = "path_too_deep",
    /// A path in a live client's catalog is too long.
    PathTooLong = "path_too_long",
    /// A message or listing exceeds the limit of the bus.
    PayloadTooLarge = "payload_too_large",
    /// The function behind a section or prompt is private to its worker.
    PrivateFunction = "private_function",
    /// `skills doctor` found problems.
    ProblemsFound = "problems_found",
    /// The content of the version was removed for good.
    Purged = "purged",
    /// The caller has no calls left in this minute.
    RateLimited = "rate_limited",
    /// The reattach token does not belong to the worker.
    ReattachRefused = "reattach_refused",
    /// A reference in a schema recurses on the same value.
    RecursiveSchema = "recursive_schema",
    /// The upstream is not on the public internet.
    RefusedAddress = "refused_address",
    /// The engine rejected this worker.
    Rejected = "rejected",
    /// Another program sent a code that is not on this page; its text is passed on instead of this one.
    Remote = "remote",
    /// A reference leaves the schema.
    RemoteReference = "remote_reference",
    /// The request to the upstream is too large.
    RequestTooLarge = "request_too_large",
    /// The id of a live client is reserved.
    ReservedClientId = "reserved_client_id",
    /// The function is in a reserved namespace.
    ReservedFunction = "reserved_function",
    /// A schema exceeds a limit.
    SchemaTooLarge = "schema_too_large",
    /// The section is neither linked by its skill nor exposed by its function.
    SectionNotLinked = "section_not_linked",
    /// A function cannot observe itself.
    SelfTarget = "SELF_TARGET",
    /// A payload or result cannot be serialized.
    SerializationError = "serialization_error",
    /// The MDP session has ended.
    SessionEnded = "session_ended",
    /// The server is shutting down.
    ShuttingDown = "shutting_down",
    /// The skill came from another source.
    SourceConflict = "source_conflict",
    /// No worker serves the observed function.
    SourceUnavailable = "SOURCE_UNAVAILABLE",
    /// The store is damaged or is not one of this program.
    StoreCorrupt = "store_corrupt",
    /// Other error of the store's database.
    StoreError = "store_error",
    /// The disk of the store is full.
    StoreFull = "store_full",
    /// Another process has the data directory open.
    StoreInUse = "store_in_use",
    /// The store cannot be created, read or written.
    StoreIo = "store_io",
    /// The store was written by a newer version.
    StoreNewerSchema = "store_newer_schema",
    /// The target of a copy or a restore is not empty.
    StoreNotEmpty = "store_not_empty",
    /// The database of the store cannot be reached or written; try again.
    StoreUnavailable = "store_unavailable",
    /// The call or request took too long.
    Timeout = "timeout",
    /// A listener on this address requires a token.
    TokenNeeded = "token_needed",
    /// Content exceeds a limit.
    TooLarge = "too_large",
    /// An account or a skill has too many keys or secrets.
    TooMany = "too_many",
    /// The connection has too many unanswered calls.
    TooManyCalls = "too_many_calls",
    /// Too many live clients are registered.
    TooManyClients = "too_many_clients",
    /// Too many connections are open.
    TooManyConnections = "too_many_connections",
    /// A live client's catalog has too many paths.
    TooManyPaths = "too_many_paths",
    /// The connection has reached its limit of registrations.
    TooManyRegistrations = "too_many_registrations",
    /// Too many MDP sessions have no client.
    TooManySessions = "too_many_sessions",
    /// The live client disconnected or its result cannot be used.
    TransportError = "transport_error",
    /// The trigger cannot be registered.
    TriggerRegistrationFailed = "trigger_registration_failed",
    /// Another worker has registered the trigger type.
    TriggerTypeConflict = "trigger_type_conflict",
    /// A token is required.
    Unauthorized = "unauthorized",
    /// The remote registry or state worker returned an unexpected result.
    UnexpectedAnswer = "unexpected_answer",
    /// The key was never issued, or is revoked or expired; on import: the line's key is not part of the key space.
    UnknownKey = "unknown_key",
    /// The observer was removed on request.
    Unobserved = "UNOBSERVED",
    /// Another process listens at the address of the default server.
    UnprovenServer = "unproven_server",
    /// No server answers at the address.
    Unreachable = "unreachable",
    /// A file cannot be read.
    Unreadable = "unreadable",
    /// The request body is incomplete or its encoding is invalid.
    UnreadableBody = "unreadable_body",
    /// A secret cannot be decrypted.
    UnreadableSecret = "unreadable_secret",
    /// A stored value of the bus state cannot be read.
    UnreadableValue = "unreadable_value",
    /// The store or the remote registry does not support the operation.
    Unsupported = "unsupported",
    /// The request body is not declared as JSON.
    UnsupportedMediaType = "unsupported_media_type",
    /// A schema uses an unsupported keyword.
    UnsupportedSchema = "unsupported_schema",
    /// The registry chose a source that only the user may choose.
    UntrustedSource = "untrusted_source",
    /// A file cannot be written.
    Unwritable = "unwritable",
    /// The upstream redirects to where calls may not go.
    UpstreamBadRedirect = "upstream_bad_redirect",
    /// The exchange with the upstream failed.
    UpstreamBroken = "upstream_broken",
    /// The connection to the upstream failed.
    UpstreamConnect = "upstream_connect",
    /// The upstream responded with an error status.
    UpstreamStatus = "upstream_status",
    /// The upstream did not respond in time.
    UpstreamTimedOut = "upstream_timed_out",
    /// The TLS handshake with the upstream failed.
    UpstreamTls = "upstream_tls",
    /// The upstream's response is too large.
    UpstreamTooLarge = "upstream_too_large",
    /// The upstream's response cannot be parsed.
    UpstreamUnreadable = "upstream_unreadable",
    /// Another process holds the vault's write lock.
    VaultBusy = "vault_busy",
    /// The vault is damaged or is not one of this program.
    VaultCorrupt = "vault_corrupt",
    /// Other error of the vault's database.
    VaultError = "vault_error",
    /// The disk of the vault is full.
    VaultFull = "vault_full",
    /// The vault cannot be created, read or written.
    VaultIo = "vault_io",
    /// The vault was written by a newer version.
    VaultNewerSchema = "vault_newer_schema",
    /// The newest version is not the expected one.
    VersionConflict = "version_conflict",
    /// Another worker has the name.
    WorkerNamespaceConflict = "WORKER_NAMESPACE_CONFLICT",
    /// The writer thread stopped after an internal error; restart the server.
    WriterStopped = "writer_stopped",
    /// The version is yanked.
    Yanked = "yanked",
}

impl fmt::Display for Code {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.as_str())
    }
}

impl Serialize for Code {
    fn serialize<S: Serializer>(&self, serializer: S) -> Result<S::Ok, S::Error> {
        serializer.serialize_str(self.as_str())
    }
}

impl From<Code> for String {
    fn from(code: Code) -> Self {
        code.as_str().to_owned()
    }
}

/// Error with a stable code.
pub trait Coded: std::error::Error {
    /// Returns the stable error code.
    fn code(&self) -> Code;

    /// Returns the code as published: the text that another program sent for [`Code::Remote`].
    fn code_text(&self) -> Cow<'_, str> {
        self.code().as_str().into()
    }

    /// Returns the next step for the user.
    fn hint(&self) -> Option<&str> {
        None
    }

    /// Returns whether it is not known if a write was stored. Any other error means that it was not. Surfaces add
    /// [`UNKNOWN_OUTCOME`] to such an error.
    fn is_outcome_unknown(&self) -> bool {
        false
    }
}

/// Details of an error that leaves open whether a write was stored: a name and its value.
pub const UNKNOWN_OUTCOME: (&str, &str) = ("outcome", "unknown");

/// Returns the details of an error that leaves open whether a write was stored.
#[must_use]
pub fn outcome_details(error: &dyn Coded) -> Option<Value> {
    let (name, value) = UNKNOWN_OUTCOME;
    error.is_outcome_unknown().then(|| json!({ name: value }))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_page_of_errors_lists_all_codes_with_their_meaning() {
        let page = include_str!("../../../docs/errors.md");
        let listed: Vec<(&str, &str)> = page
            .lines()
            .filter_map(|line| line.strip_prefix("| `")?.split_once("` | "))
            .filter_map(|(code, rest)| Some((code, rest.split_once(" | ")?.0)))
            .collect();
        let meanings = MEANINGS.iter().map(|text| text.trim().trim_end_matches('.'));
        let codes: Vec<(&str, &str)> =
            Code::ALL.iter().map(|code| code.as_str()).zip(meanings).collect();
        assert_eq!(listed, codes);
    }

    #[test]
    fn texts_are_parsed_back_and_unknown_ones_are_remote() {
        for code in Code::ALL {
            assert_eq!(Code::from_remote(code.as_str()), *code);
        }
        assert_eq!(Code::from_remote("quota"), Code::Remote);
    }
}
