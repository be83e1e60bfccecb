//! Loading of the static embedding model that `search.model` names.

use std::{
    fs, io,
    path::{Path, PathBuf},
    sync::Arc,
};

use skills_registry::search::{EmbeddingModel, ModelError, ModelLoader};

/// Largest file of a model.
const MAX_FILE_BYTES: u64 = 2 << 30;

/// Model that cannot be loaded.
#[derive(Debug, thiserror::Error)]
enum LoadError {
    /// A file cannot be read.
    #[error("{name}: {error}")]
    File {
        /// Name of the file in the folder.
        name: &'static str,
        /// Reason.
        error: io::Error,
    },
    /// The files are not those of a model.
    #[error(transparent)]
    Model(#[from] ModelError),
}

/// Returns the loader of the model in a folder. A model that cannot be used is logged, and searches go without it.
pub(crate) fn loader(folder: PathBuf) -> ModelLoader {
    Arc::new(move || match load(&folder) {
        Ok(model) => Some(Arc::new(model)),
        Err(error) => {
            tracing::warn!(folder = %folder.display(), %error, "search.model cannot be used");
            None
        }
    })
}

fn load(folder: &Path) -> Result<EmbeddingModel, LoadError> {
    let read = |name: &'static str| {
        let path = folder.join(name);
        let read = || -> io::Result<Vec<u8>> {
            if fs::metadata(&path)?.len() > MAX_FILE_BYTES {
                return Err(io::Error::other("it is larger than 2 GiB"));
            }
            fs::read(&path)
        };
        read().map_err(|error| LoadError::File { name, error })
    };
    let tokenizer = read("tokenizer.json")?;
    let vectors = read("model.safetensors")?;
    Ok(EmbeddingModel::from_files(&String::from_utf8_lossy(&tokenizer), &vectors)?)
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_folder_without_a_model_is_no_failure() {
        let dir = tempfile::tempdir().unwrap();
        assert!(loader(dir.path().to_owned())().is_none());
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.starts_with("tokenizer.json: "), "{error}");
        fs::write(dir.path().join("tokenizer.json"), "{}").unwrap();
        fs::write(dir.path().join("model.safetensors"), "x").unwrap();
        let error = load(dir.path()).unwrap_err().to_string();
        assert!(error.contains("not the description of a tokenizer"), "{error}");
    }
}
