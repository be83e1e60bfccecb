//! Download of a file that the user named.

use std::io::Write;

use http_body_util::BodyExt as _;
use hyper::{Method, header};
use tokio::time::{Instant, timeout_at};
use url::Url;

use crate::{
    UpstreamClient, UpstreamError, UpstreamOrigin, client::USER_AGENT, request::UpstreamRequest,
    secret::Redactor,
};

impl UpstreamClient {
    /// Writes the response of a GET request to `file`. `allowed` has the origins that are exempt from the rules on https
    /// and addresses.
    ///
    /// # Errors
    /// See [`UpstreamError`]. The file may have a part of the response then.
    pub async fn download(
        &self,
        url: Url,
        allowed: &[UpstreamOrigin],
        file: &mut (dyn Write + Send),
    ) -> Result<(), UpstreamError> {
        let mut headers = header::HeaderMap::new();
        headers.insert(header::USER_AGENT, header::HeaderValue::from_static(USER_AGENT));
        let request = UpstreamRequest { method: Method::GET, url, headers, body: None };
        let deadline = Instant::now() + self.timeout();
        let run = async {
            let redactor = Redactor::default();
            let opened = self.open_following(request, allowed, deadline, &redactor).await?;
            self.write_body(opened.response, file).await
        };
        let timed_out = UpstreamError::TimedOut { after: self.timeout() };
        timeout_at(deadline, run).await.unwrap_or(Err(timed_out))
    }

    async fn write_body(
        &self,
        response: hyper::Response<hyper::body::Incoming>,
        file: &mut (dyn Write + Send),
    ) -> Result<(), UpstreamError> {
        let (head, mut body) = response.into_parts();
        if !head.status.is_success() {
            let (status, message) = (head.status.as_u16(), String::new());
            return Err(UpstreamError::UpstreamStatus { status, message });
        }
        let (max, mut left) = (self.max_response(), self.max_response());
        while let Some(frame) = body.frame().await {
            let unreadable = |reason: String| UpstreamError::Unreadable { reason };
            let Ok(data) = frame.map_err(|error| unreadable(error.to_string()))?.into_data() else {
                continue;
            };
            left = left.checked_sub(data.len()).ok_or(UpstreamError::TooLarge { max })?;
            file.write_all(&data).map_err(|error| unreadable(error.to_string()))?;
        }
        Ok(())
    }
}
