//! Submitted forms. The extractor checks the token, so no handler can read a form that another site made.

use axum::{
    RequestExt as _,
    body::{Bytes, HttpBody as _},
    extract::{FromRequest, Multipart, Request},
    http::header,
};
use serde_json::Value;
use skills_core::limits::{ByteLimit, MAX_SKILL_BYTES};

use crate::{error::ConsoleError, visit::Visit};

/// Name of the field that holds the form token.
pub(crate) const TOKEN_FIELD: &str = "token";
/// Longest text of a field: four times the longest document, so that a page can say that one is too long.
const MAX_TEXT_BYTES: usize = 4 * MAX_SKILL_BYTES;
/// Most parts of a form: the files of the largest bundle, and some fields.
const MAX_PARTS: usize = 2100;

/// A submitted form of this session.
#[derive(Debug, Default)]
pub(crate) struct Form {
    fields: Vec<(String, String)>,
    /// Uploaded files, in the order of the form.
    pub(crate) files: Vec<UploadedFile>,
}

/// File of a form.
#[derive(Debug)]
pub(crate) struct UploadedFile {
    /// Name, or path inside the folder that was chosen.
    pub(crate) name: String,
    pub(crate) bytes: Bytes,
}

impl Form {
    /// Returns the text of a field with LF as line ends: browsers send CRLF.
    pub(crate) fn text(&self, name: &str) -> Option<String> {
        let (_, text) = self.fields.iter().find(|(field, _)| field == name)?;
        Some(text.replace("\r\n", "\n"))
    }

    /// Returns the text of a field of one line without surrounding spaces; `None` if it is empty.
    pub(crate) fn line(&self, name: &str) -> Option<&str> {
        let (_, text) = self.fields.iter().find(|(field, _)| field == name)?;
        Some(text.trim()).filter(|text| !text.is_empty())
    }

    /// Returns the line of a field that the form must have.
    ///
    /// # Errors
    /// When it is empty.
    pub(crate) fn required(&self, name: &str, label: &str) -> Result<&str, ConsoleError> {
        self.line(name).ok_or_else(|| ConsoleError::Form(format!("fill in {label}")))
    }

    /// Returns whether a box is checked or a button was pressed.
    pub(crate) fn has(&self, name: &str) -> bool {
        self.fields.iter().any(|(field, _)| field == name)
    }

    /// Returns the fields whose names begin with a prefix, without it.
    pub(crate) fn prefixed(&self, prefix: &str) -> impl Iterator<Item = (&str, Value)> {
        self.fields.iter().filter_map(move |(field, text)| {
            let name = field.strip_prefix(prefix)?;
            Some((name, Value::String(text.replace("\r\n", "\n"))))
        })
    }

    fn push(&mut self, name: String, text: String) -> Result<(), ConsoleError> {
        if self.fields.len() + self.files.len() >= MAX_PARTS {
            return Err(ConsoleError::Form("the form has too many parts".to_owned()));
        }
        if text.len() > MAX_TEXT_BYTES {
            let message = format!("a field has more than {}", ByteLimit(MAX_TEXT_BYTES));
            return Err(ConsoleError::Form(message));
        }
        self.fields.push((name, text));
        Ok(())
    }

    async fn from_multipart(mut parts: Multipart) -> Result<Self, ConsoleError> {
        let malformed = |error: axum::extract::multipart::MultipartError| {
            ConsoleError::Form(format!("the form cannot be read: {}", error.body_text()))
        };
        let mut form = Self::default();
        while let Some(part) = parts.next_field().await.map_err(malformed)? {
            let name = part.name().unwrap_or_default().to_owned();
            match part.file_name().map(str::to_owned) {
                None => form.push(name, text(part.bytes().await.map_err(malformed)?)?)?,
                Some(file_name) => {
                    let bytes = part.bytes().await.map_err(malformed)?;
                    // Browsers send an empty part for an input without a file.
                    if file_name.is_empty() && bytes.is_empty() {
                        continue;
                    }
                    if form.files.len() >= MAX_PARTS {
                        return Err(ConsoleError::Form("there are too many files".to_owned()));
                    }
                    form.files.push(UploadedFile { name: file_name, bytes });
                }
            }
        }
        Ok(form)
    }
}

/// Returns the text of a field, without another copy of it.
fn text(bytes: Bytes) -> Result<String, ConsoleError> {
    let text = String::from_utf8(bytes.into());
    text.map_err(|_| ConsoleError::Form("a field is not UTF-8".to_owned()))
}

impl<S: Send + Sync> FromRequest<S> for Form {
    type Rejection = ConsoleError;

    async fn from_request(mut request: Request, state: &S) -> Result<Self, ConsoleError> {
        let Ok(visit) = request.extract_parts::<Visit>().await;
        let content_type = request.headers().get(header::CONTENT_TYPE);
        let content_type = content_type.and_then(|value| value.to_str().ok()).unwrap_or_default();
        // The parts are copies of the received body, which is gone when they have been read.
        let received = usize::try_from(request.body().size_hint().lower()).unwrap_or(usize::MAX);
        visit.reserve(received)?;
        let form = if content_type.starts_with("multipart/form-data") {
            let parts = Multipart::from_request(request, state).await;
            Self::from_multipart(parts.map_err(|error| ConsoleError::Form(error.body_text()))?)
                .await?
        } else if content_type.starts_with("application/x-www-form-urlencoded") {
            let body = Bytes::from_request(request, state).await;
            let body = body.map_err(|error| ConsoleError::Form(error.body_text()))?;
            let mut form = Self::default();
            for (name, text) in form_urlencoded::parse(&body) {
                form.push(name.into_owned(), text.into_owned())?;
            }
            form
        } else {
            return Err(ConsoleError::Form("this is not a form".to_owned()));
        };
        visit.give_back(received);
        let token = form.line(TOKEN_FIELD).unwrap_or_default();
        if !visit.console.sessions.is_form_token(&visit.session, token) {
            return Err(ConsoleError::FormToken);
        }
        Ok(form)
    }
}
