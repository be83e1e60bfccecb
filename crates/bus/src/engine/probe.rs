//! Why an engine cannot be reached. The SDK only logs it, so it is asked once more here.

use std::{collections::HashMap, time::Duration};

use futures_util::StreamExt as _;
use tokio::{net::TcpStream, time::timeout};
use tokio_tungstenite::tungstenite::{
    Error, Message,
    client::IntoClientRequest as _,
    http::{HeaderName, HeaderValue, StatusCode},
};

/// An engine that takes longer than this to answer is as good as absent.
const PATIENCE: Duration = Duration::from_secs(5);

/// What is in the way, or `None` when nothing is.
pub(super) async fn obstacle(url: &str, headers: &HashMap<String, String>) -> Option<String> {
    match timeout(PATIENCE, greet(url, headers)).await {
        Ok(Ok(())) => None,
        Ok(Err(reason)) => Some(reason),
        Err(_) => Some(format!("no answer within {} s", PATIENCE.as_secs())),
    }
}

async fn greet(url: &str, headers: &HashMap<String, String>) -> Result<(), String> {
    let mut request = url.into_client_request().map_err(|error| error.to_string())?;
    for (name, value) in headers {
        if let (Ok(name), Ok(mut value)) =
            (HeaderName::from_bytes(name.as_bytes()), HeaderValue::from_str(value))
        {
            value.set_sensitive(true);
            request.headers_mut().insert(name, value);
        }
    }
    let uri = request.uri();
    let secure = uri.scheme_str() == Some("wss");
    let host = uri.host().unwrap_or_default().trim_matches(['[', ']']).to_owned();
    let port = uri.port_u16().unwrap_or(if secure { 443 } else { 80 });
    let stream =
        TcpStream::connect((host.as_str(), port)).await.map_err(|error| error.to_string())?;
    if secure {
        // Only the SDK speaks TLS here.
        return Ok(());
    }
    let (mut socket, _) =
        tokio_tungstenite::client_async(request, stream).await.map_err(|error| refusal(&error))?;
    // An engine refuses after the handshake, in a frame of its own; else it greets.
    let said = match socket.next().await {
        Some(Ok(Message::Text(text))) => said(&text),
        Some(Ok(_)) => None,
        Some(Err(error)) => Some(error.to_string()),
        None => Some("it closed the connection".to_owned()),
    };
    let _ = socket.close(None).await;
    said.map_or(Ok(()), Err)
}

fn refusal(error: &Error) -> String {
    match error {
        Error::Http(response) if response.status() == StatusCode::UNAUTHORIZED => {
            "it refused the token, or wants one (401)".to_owned()
        }
        Error::Http(response) => format!("it refused the connection ({})", response.status()),
        other => other.to_string(),
    }
}

fn said(text: &str) -> Option<String> {
    let frame: serde_json::Value = serde_json::from_str(text).ok()?;
    if frame.get("type")?.as_str()? != "error" {
        return None;
    }
    let part = |key: &str| frame.get("error")?.get(key)?.as_str();
    let code = part("code").unwrap_or("error");
    Some(format!("it refused the connection: {} ({code})", part("message").unwrap_or_default()))
}
