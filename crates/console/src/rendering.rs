//! Rendering that takes much memory or processor time, within the account of the person who asks.

use std::sync::Arc;

use maud::Markup;
use skills_core::{
    WorkAccount, WorkKind,
    work::{StopFlag, Stopped, WorkPermit},
};
use skills_registry::Catalog;

use crate::{error::ConsoleError, visit::Visit};

const SCAN: WorkKind = WorkKind::compute("pass over the catalog in the console");
/// Memory of a pass for each skill: an entry of a table of tags or sources.
const SCAN_ROW: usize = 128;
/// Copies of a rendered part that exist while its page is put together: the part, the body and the page.
const COPIES: usize = 3;

/// Permit for one rendering.
pub(crate) struct Rendering<'a> {
    visit: &'a Visit,
    permit: WorkPermit,
}

impl<'a> Rendering<'a> {
    /// Waits for a permit, and reserves the memory of the rendering: one that waits for another of its person holds only
    /// what it renders. Read that before: a permit is not held while something else is waited for.
    ///
    /// # Errors
    /// When the memory is not free, or no thread becomes free in time.
    pub(crate) async fn start(
        visit: &'a Visit,
        kind: WorkKind,
        bytes: usize,
    ) -> Result<Self, ConsoleError> {
        let mut permit = WorkAccount::current().permit(kind, 0).await?;
        permit.try_grow(bytes)?;
        Ok(Self { visit, permit })
    }

    /// Renders a part of a page on a blocking thread. The request holds its memory from then on.
    ///
    /// # Errors
    /// When the memory is not free, or the time is up.
    pub(crate) async fn run(
        self,
        work: impl FnOnce(&StopFlag) -> Result<Markup, Stopped> + Send + 'static,
    ) -> Result<Markup, ConsoleError> {
        let markup = self.permit.run(work).await??;
        self.visit.reserve(markup.0.capacity().saturating_mul(COPIES))?;
        Ok(markup)
    }
}

/// Passes over all rows of a catalog on a blocking thread.
///
/// # Errors
/// When the memory is not free, or no thread becomes free in time.
pub(crate) async fn scan<T: Send + 'static>(
    catalog: &Arc<Catalog>,
    pass: impl FnOnce(&Catalog) -> T + Send + 'static,
) -> Result<T, ConsoleError> {
    let catalog = Arc::clone(catalog);
    let mut permit = WorkAccount::current().permit(SCAN, 0).await?;
    permit.try_grow(catalog.skill_count().saturating_mul(SCAN_ROW))?;
    Ok(permit.run(move |_| pass(&catalog)).await?)
}
