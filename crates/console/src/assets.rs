//! Embedded stylesheet, scripts and icon. Their names contain a digest, so that browsers may keep them for ever.

use std::sync::LazyLock;

use axum::{
    body::Body,
    extract::Path,
    http::{HeaderValue, StatusCode, header},
    response::{IntoResponse as _, Response},
};
use skills_core::Digest;
use skills_http::OwnPage;

/// Digits of the digest in a name.
const DIGEST_DIGITS: usize = 12;
const FOR_EVER: HeaderValue = HeaderValue::from_static("public, max-age=31536000, immutable");

/// Embedded file.
pub(crate) struct Asset {
    /// Address of the file.
    pub(crate) path: String,
    content_type: &'static str,
    text: &'static str,
}

impl Asset {
    fn new(stem: &str, ending: &str, content_type: &'static str, text: &'static str) -> Self {
        let digest = Digest::of(text.as_bytes()).to_string();
        let path = format!("/ui/assets/{stem}-{}.{ending}", &digest[..DIGEST_DIGITS]);
        Self { path, content_type, text }
    }

    fn script(stem: &str, text: &'static str) -> Self {
        Self::new(stem, "js", "text/javascript; charset=utf-8", text)
    }
}

/// Stylesheet of all pages.
pub(crate) static STYLE: LazyLock<Asset> = LazyLock::new(|| {
    let text = include_str!("../assets/console.css");
    Asset::new("console", "css", "text/css; charset=utf-8", text)
});
/// Script of all pages.
pub(crate) static SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("console", include_str!("../assets/console.js")));
/// Script of the page that publishes.
pub(crate) static PUBLISH_SCRIPT: LazyLock<Asset> =
    LazyLock::new(|| Asset::script("publish", include_str!("../assets/publish.js")));
/// Icon of all pages.
pub(crate) static ICON: LazyLock<Asset> = LazyLock::new(|| {
    Asset::new("icon", "svg", "image/svg+xml", include_str!("../assets/icon.svg"))
});

/// Answers the request for an asset. A name of another release is not found.
pub(crate) async fn serve(Path(name): Path<String>) -> Response {
    let assets = [&*STYLE, &*SCRIPT, &*PUBLISH_SCRIPT, &*ICON];
    let is_named = |asset: &&Asset| asset.path.rsplit('/').next() == Some(name.as_str());
    let Some(asset) = assets.into_iter().find(is_named) else {
        return StatusCode::NOT_FOUND.into_response();
    };
    let content_type = HeaderValue::from_static(asset.content_type);
    let headers = [(header::CONTENT_TYPE, content_type), (header::CACHE_CONTROL, FOR_EVER)];
    let mut response = (headers, Body::from(asset.text)).into_response();
    response.extensions_mut().insert(OwnPage);
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn scripts_and_styles_stay_small() {
        assert!(SCRIPT.text.len() + PUBLISH_SCRIPT.text.len() < 60 << 10);
        assert!(STYLE.text.len() < 40 << 10);
    }

    #[test]
    fn the_style_loads_nothing_from_elsewhere() {
        for asset in [&*STYLE, &*SCRIPT, &*PUBLISH_SCRIPT, &*ICON] {
            let without_namespace = asset.text.replace("http://www.w3.org/2000/svg", "");
            assert!(!without_namespace.contains("://"), "{}", asset.path);
            assert!(!asset.text.contains("@import"), "{}", asset.path);
        }
    }
}
