//! Connection taken from the pool.

use std::{
    cell::{Cell, RefCell},
    collections::HashMap,
    fmt,
    time::{Duration, Instant},
};

use futures_util::TryFutureExt as _;
use tokio::task::AbortHandle;
use tokio_postgres::{
    Client, Row, Statement,
    types::{FromSql, ToSql},
};

use crate::{PgError, block_on::block_on_until, connect::Connected};

/// Most statements that a connection keeps prepared; further ones are prepared for each call.
const MAX_STATEMENTS: usize = 256;

/// Returns the value of a column.
///
/// # Errors
/// [`PgError::Corrupt`] if it has another type or is null.
pub fn column<'a, T: FromSql<'a>>(row: &'a Row, index: usize) -> Result<T, PgError> {
    row.try_get(index).map_err(|error| PgError::from_statement(&error))
}

/// Connection with a blocking interface.
///
/// Every call ends at the deadline of the session, also if the server answers no more; the connection is then closed.
pub struct PgSession {
    client: Client,
    task: AbortHandle,
    statements: RefCell<HashMap<Box<str>, Statement>>,
    deadline: Cell<Instant>,
    is_broken: Cell<bool>,
    in_transaction: Cell<bool>,
}

impl fmt::Debug for PgSession {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("PgSession").field("is_broken", &self.is_broken).finish_non_exhaustive()
    }
}

impl Drop for PgSession {
    fn drop(&mut self) {
        self.task.abort();
    }
}

impl PgSession {
    pub(crate) fn new(connected: Connected) -> Self {
        Self {
            client: connected.client,
            task: connected.task,
            statements: RefCell::default(),
            deadline: Cell::new(Instant::now()),
            is_broken: Cell::new(false),
            in_transaction: Cell::new(false),
        }
    }

    /// Sets the time at which calls give up.
    pub(crate) fn set_deadline(&self, limit: Duration) {
        self.deadline.set(Instant::now() + limit);
    }

    /// Returns whether the connection can be used again by another caller.
    pub(crate) fn is_reusable(&self) -> bool {
        !self.is_broken.get() && !self.in_transaction.get() && !self.client.is_closed()
    }

    /// Runs a query and returns its rows.
    ///
    /// # Errors
    /// When the statement fails.
    pub fn query(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Vec<Row>, PgError> {
        self.wait(self.query_async(sql, params))
    }

    /// Runs a query and returns its row, if there is one.
    ///
    /// # Errors
    /// When the statement fails.
    pub fn query_opt(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Option<Row>, PgError> {
        Ok(self.query(sql, params)?.into_iter().next())
    }

    /// Runs a query that always has a row.
    ///
    /// # Errors
    /// When the statement fails or has no row.
    pub fn query_one(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<Row, PgError> {
        self.query_opt(sql, params)?.ok_or_else(|| PgError::Other("a query has no row".to_owned()))
    }

    /// Runs a statement and returns the number of rows that it changed.
    ///
    /// # Errors
    /// When the statement fails.
    pub fn execute(&self, sql: &str, params: &[&(dyn ToSql + Sync)]) -> Result<u64, PgError> {
        self.wait(self.execute_async(sql, params))
    }

    /// Runs statements without parameters, separated by semicolons.
    ///
    /// # Errors
    /// When one of them fails.
    pub fn batch(&self, sql: &str) -> Result<(), PgError> {
        self.wait(self.batch_async(sql))
    }

    /// Runs a future of the `…_async` calls. Several that are joined are sent at once and answered in order. A
    /// connection that refuses writes is not used again: a session keeps the setting that it began with, and another
    /// host may accept them.
    ///
    /// # Errors
    /// The error of the future, and [`PgError::Unavailable`] at the deadline.
    pub fn wait<T>(&self, future: impl Future<Output = Result<T, PgError>>) -> Result<T, PgError> {
        let finished = block_on_until(future, self.deadline.get()).unwrap_or_else(|| {
            self.task.abort();
            self.is_broken.set(true);
            Err(PgError::Unavailable("the database did not answer in time".to_owned()))
        });
        let is_lost = match &finished {
            Err(PgError::ReadOnly(_)) => true,
            Err(error) => error.is_unavailable() && self.client.is_closed(),
            Ok(_) => false,
        };
        if is_lost {
            self.is_broken.set(true);
        }
        finished
    }

    /// Returns a statement, which is prepared once per connection.
    ///
    /// # Errors
    /// When the statement cannot be prepared.
    pub async fn prepare(&self, sql: &str) -> Result<Statement, PgError> {
        if let Some(statement) = self.statements.borrow().get(sql) {
            return Ok(statement.clone());
        }
        let prepared = self.client.prepare(sql).map_err(|error| PgError::from_statement(&error));
        let statement = prepared.await?;
        let mut statements = self.statements.borrow_mut();
        // The others stay: calls that are joined rely on statements that were prepared before them.
        if statements.len() < MAX_STATEMENTS {
            statements.insert(sql.into(), statement.clone());
        }
        Ok(statement)
    }

    /// Runs a query; see [`wait`](Self::wait).
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn query_async(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<Vec<Row>, PgError> {
        let statement = self.prepare(sql).await?;
        let rows = self.client.query(&statement, params);
        rows.map_err(|error| PgError::from_statement(&error)).await
    }

    /// Runs a statement; see [`wait`](Self::wait).
    ///
    /// # Errors
    /// When the statement fails.
    pub async fn execute_async(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, PgError> {
        let statement = self.prepare(sql).await?;
        let count = self.client.execute(&statement, params);
        count.map_err(|error| PgError::from_statement(&error)).await
    }

    /// Runs a statement that is a transaction by itself; see [`wait_for_commit`](Self::wait_for_commit).
    ///
    /// # Errors
    /// [`PgError::OutcomeUnknown`] if the connection breaks, or the deadline passes, before the answer. Any other error
    /// means that nothing was written.
    pub async fn execute_alone_async(
        &self,
        sql: &str,
        params: &[&(dyn ToSql + Sync)],
    ) -> Result<u64, PgError> {
        let statement = self.prepare(sql).await?;
        let count = self.client.execute(&statement, params);
        count.map_err(|error| PgError::from_commit(&error)).await
    }

    /// Runs statements without parameters; see [`wait`](Self::wait).
    ///
    /// # Errors
    /// When one of them fails.
    pub async fn batch_async(&self, sql: &str) -> Result<(), PgError> {
        self.client.batch_execute(sql).map_err(|error| PgError::from_statement(&error)).await
    }

    /// Begins a transaction.
    ///
    /// # Errors
    /// When the server refuses.
    pub async fn begin_async(&self) -> Result<(), PgError> {
        self.in_transaction.set(true);
        self.batch_async("BEGIN").await
    }

    /// Commits the transaction.
    ///
    /// # Errors
    /// [`PgError::OutcomeUnknown`] if the connection breaks, or the deadline passes, before the answer. Any other error
    /// means that nothing was written.
    pub async fn commit_async(&self) -> Result<(), PgError> {
        let committed = self.client.batch_execute("COMMIT").await;
        committed.map_err(|error| PgError::from_commit(&error))?;
        self.in_transaction.set(false);
        Ok(())
    }

    /// Runs a future that ends with [`commit_async`](Self::commit_async).
    ///
    /// # Errors
    /// The error of the future, and [`PgError::OutcomeUnknown`] at the deadline.
    pub fn wait_for_commit<T>(
        &self,
        future: impl Future<Output = Result<T, PgError>>,
    ) -> Result<T, PgError> {
        self.wait(async { Ok(future.await) }).unwrap_or_else(|late| {
            let reason = match late {
                PgError::Unavailable(reason) => reason,
                other => other.to_string(),
            };
            Err(PgError::OutcomeUnknown(reason))
        })
    }

    /// Undoes the transaction. A failure closes the connection, which undoes it too.
    pub fn roll_back(&self) {
        match self.batch("ROLLBACK") {
            Ok(()) => self.in_transaction.set(false),
            Err(_) => self.is_broken.set(true),
        }
    }
}
