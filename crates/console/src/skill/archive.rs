//! The files of a bundle as a zip archive, packed while it is sent.

use std::{
    io::{self, Write},
    mem,
    sync::Arc,
};

use axum::{
    body::{Body, Bytes},
    extract::Path,
    http::{HeaderValue, header},
    response::{IntoResponse as _, Response},
};
use futures_util::{Stream, stream};
use parking_lot::Mutex;
use skills_core::{WorkAccount, WorkKind};
use zip::{
    ZipWriter,
    result::ZipResult,
    write::{SimpleFileOptions, StreamWriter},
};

use super::ShownSkill;
use crate::{error::ConsoleError, visit::Visit};

const PACKING: WorkKind = WorkKind::compute("packing of a part of an archive in the console");
/// Bytes of a file that are packed at a time.
const PART_BYTES: usize = 1 << 20;
/// Fewest bytes of a part that is sent, except for the last.
const MIN_PART_BYTES: usize = 64 << 10;
/// Bytes of an archive for each of its files besides its content.
const FILE_OVERHEAD: usize = 512;
/// Memory of the compressor, the list of files, and the parts that are packed or being sent.
const PACKING_MEMORY: usize = 5 * PART_BYTES;

/// Answers all files of a bundle as a zip archive.
pub(crate) async fn zip(visit: Visit, Path(name): Path<String>) -> Result<Response, ConsoleError> {
    let id = name.strip_suffix(".zip").ok_or(ConsoleError::NoPage)?;
    let skill = ShownSkill::load(visit, id).await?;
    skill.row.readable()?;
    let largest = skill.row.meta.files.iter().map(|file| file.size).max().unwrap_or_default();
    let largest = usize::try_from(largest).unwrap_or(usize::MAX);
    // The stream holds the memory of the request until its last part is sent.
    skill.visit.reserve(largest.saturating_add(PACKING_MEMORY))?;
    let content_type = HeaderValue::from_static("application/zip");
    let parts = parts(skill, WorkAccount::current());
    Ok(([(header::CONTENT_TYPE, content_type)], Body::from_stream(parts)).into_response())
}

/// Returns the parts of the archive of a skill. Each is packed when the part before it has been taken.
fn parts(
    skill: ShownSkill,
    account: WorkAccount,
) -> impl Stream<Item = Result<Bytes, ConsoleError>> + Send {
    let skill = Arc::new(skill);
    stream::try_unfold(Packing::new(), move |mut packing| {
        let (skill, account) = (Arc::clone(&skill), account.clone());
        async move {
            while packing.writer.is_some() && packing.packed.len() < MIN_PART_BYTES {
                let steps = packing.next_steps(&skill, &account).await?;
                let packed = account.run(PACKING, 0, move |_| packing.pack(steps)).await?;
                packing = packed.map_err(|error| {
                    tracing::error!(%error, "archive cannot be packed");
                    ConsoleError::Internal
                })?;
            }
            let part = packing.packed.take();
            Ok((!part.is_empty()).then_some((part, packing)))
        }
    })
}

/// Bytes of the archive that were packed and not sent.
#[derive(Clone, Default)]
struct Packed(Arc<Mutex<Vec<u8>>>);

impl Packed {
    fn len(&self) -> usize {
        self.0.lock().len()
    }

    fn take(&self) -> Bytes {
        mem::take(&mut *self.0.lock()).into()
    }
}

impl Write for Packed {
    fn write(&mut self, bytes: &[u8]) -> io::Result<usize> {
        self.0.lock().extend_from_slice(bytes);
        Ok(bytes.len())
    }

    fn flush(&mut self) -> io::Result<()> {
        Ok(())
    }
}

/// Step of packing an archive.
enum Step {
    /// Begins a file.
    Begin {
        path: String,
        mode: u32,
    },
    /// Appends to the file.
    Append(Bytes),
    Finish,
}

/// Archive that is being packed.
struct Packing {
    /// `None` after the end.
    writer: Option<ZipWriter<StreamWriter<Packed>>>,
    packed: Packed,
    /// Number of files that were begun.
    begun: usize,
    /// Rest of the file that is being packed.
    rest: Bytes,
}

impl Packing {
    fn new() -> Self {
        let packed = Packed::default();
        let writer = Some(ZipWriter::new_stream(packed.clone()));
        Self { writer, packed, begun: 0, rest: Bytes::new() }
    }

    /// Returns the next steps, up to a number of bytes.
    async fn next_steps(
        &mut self,
        skill: &ShownSkill,
        account: &WorkAccount,
    ) -> Result<Vec<Step>, ConsoleError> {
        let (mut steps, mut left) = (Vec::new(), PART_BYTES);
        while left > 0 {
            let part = self.rest.split_to(self.rest.len().min(left));
            left -= part.len();
            if !part.is_empty() {
                steps.push(Step::Append(part));
                continue;
            }
            let Some(file) = skill.row.meta.files.get(self.begun) else {
                steps.push(Step::Finish);
                break;
            };
            self.begun += 1;
            left = left.saturating_sub(FILE_OVERHEAD);
            self.rest = account.scope(skill.skills.document(&skill.row, &file.path)).await?.body;
            let mode = if file.is_executable(&self.rest) { 0o755 } else { 0o644 };
            // Files are below a folder of the skill's name.
            steps.push(Step::Begin { path: format!("{}/{}", skill.row.id, file.path), mode });
        }
        Ok(steps)
    }

    fn pack(mut self, steps: Vec<Step>) -> ZipResult<Self> {
        for step in steps {
            let Some(writer) = &mut self.writer else { break };
            match step {
                Step::Begin { path, mode } => {
                    let options = SimpleFileOptions::default().unix_permissions(mode);
                    writer.start_file(path, options)?;
                }
                Step::Append(bytes) => writer.write_all(&bytes)?,
                Step::Finish => {
                    if let Some(writer) = self.writer.take() {
                        writer.finish()?;
                    }
                }
            }
        }
        Ok(self)
    }
}
