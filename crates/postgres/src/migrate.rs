//! Schema migrations under an advisory lock. Each component has versions of its own.

use std::time::Duration;

use crate::{PgError, PgSession, Pool, column};

/// Key of the advisory lock: `skills` in ASCII.
const LOCK_KEY: i64 = 0x73_6b_69_6c_6c_73;
/// Time for which a server waits for another that migrates, and for its own statements.
const LOCK_TIMEOUT: Duration = Duration::from_secs(60);

/// Part of the schema with one owner.
#[derive(Debug, Clone, Copy)]
pub struct Component {
    /// Name of the owner.
    pub name: &'static str,
    /// SQL that leads from version N to N + 1, beginning with an empty schema.
    pub migrations: &'static [&'static str],
}

/// State of the tables of a component.
#[derive(Debug, Clone, Copy, PartialEq, Eq)]
pub enum SchemaState {
    /// There are none.
    Missing,
    /// They are of an earlier version of this program.
    Older,
    /// They are of this version.
    Current,
}

impl Component {
    /// Returns the state of the tables, which stay as they are.
    ///
    /// # Errors
    /// [`PgError::NewerSchema`], and when the database cannot be read.
    pub fn state(&self, session: &PgSession) -> Result<SchemaState, PgError> {
        let found = version(session, self)?;
        Ok(match found {
            0 => SchemaState::Missing,
            found if found < self.supported() => SchemaState::Older,
            _ => SchemaState::Current,
        })
    }

    fn supported(&self) -> i32 {
        i32::try_from(self.migrations.len()).unwrap_or(i32::MAX)
    }

    fn newer(&self, found: i32) -> PgError {
        PgError::NewerSchema { component: self.name, found, supported: self.supported() }
    }
}

impl Pool {
    /// Creates or migrates the tables of a component. Several servers may do so at once.
    ///
    /// # Errors
    /// [`PgError::NewerSchema`], and when the database cannot be reached or refuses.
    pub fn migrate(&self, component: &Component) -> Result<(), PgError> {
        // A server whose schema is current needs no lock and no right to create tables.
        let found = self.read(|session| version(session, component))?;
        if found == component.supported() {
            return Ok(());
        }
        self.transaction(|session| {
            let limit = LOCK_TIMEOUT.as_millis();
            session.batch(&format!(
                "SET LOCAL lock_timeout = {limit}; SET LOCAL statement_timeout = {limit}; \
                 SELECT pg_advisory_xact_lock({LOCK_KEY})"
            ))?;
            let schema = self.url().schema();
            session.batch(&format!(
                "CREATE SCHEMA IF NOT EXISTS \"{schema}\"; \
                 CREATE TABLE IF NOT EXISTS schema_version (\
                     component text PRIMARY KEY, version integer NOT NULL)"
            ))?;
            let found = version(session, component)?;
            if found > component.supported() {
                return Err(component.newer(found));
            }
            let done = usize::try_from(found).unwrap_or_default();
            for migration in component.migrations.iter().skip(done) {
                session.batch(migration)?;
            }
            let sql = "INSERT INTO schema_version (component, version) VALUES ($1, $2)
                       ON CONFLICT (component) DO UPDATE SET version = excluded.version";
            session.execute(sql, &[&component.name, &component.supported()])?;
            Ok(())
        })
    }
}

/// Returns the version of a component, or 0 if it has no tables.
fn version(session: &PgSession, component: &Component) -> Result<i32, PgError> {
    let sql = "SELECT to_regclass('schema_version') IS NOT NULL";
    let exists: bool = column(&session.query_one(sql, &[])?, 0)?;
    if !exists {
        return Ok(0);
    }
    let sql = "SELECT version FROM schema_version WHERE component = $1";
    let found = match session.query_opt(sql, &[&component.name])? {
        Some(row) => column(&row, 0)?,
        None => 0,
    };
    if found > component.supported() {
        return Err(component.newer(found));
    }
    Ok(found)
}
