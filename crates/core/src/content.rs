//! HTTP policy for content that users wrote: content type, the policy under which a browser may show it, and whether
//! a browser may only save it. Knows no header types; the HTTP server applies it to every response.
//!
//! Content shares an origin with the API. A document that ran scripts there could call everything that pages of this
//! machine may call, so three measures keep a browser from running it: a fixed type (`nosniff`), a sandbox without
//! any permission, and a download instead of a view unless the type is on a list of inert ones.

use std::borrow::Cow;

use crate::uri::{percent_decode, percent_encode_component};

/// `Content-Security-Policy` of every response with content: loads nothing, runs nothing, has an origin of its own, and is shown in
/// no frame.
pub const SECURITY_POLICY: &str = "default-src 'none'; frame-ancestors 'none'; sandbox";

/// `Content-Security-Policy` of pages that this program made itself: scripts, styles, images and connections of this
/// server alone, nothing inline, no frames, no plug-ins, and forms that are sent to this server.
pub const PAGE_POLICY: &str = "default-src 'self'; base-uri 'none'; form-action 'self'; frame-ancestors 'none'; object-src 'none'";

/// `X-Content-Type-Options` of every response.
pub const NO_SNIFFING: &str = "nosniff";

/// Content type of documents without a declared type.
pub const MARKDOWN: &str = "text/markdown; charset=utf-8";

/// Media types that browsers show and never run. Everything else is an attachment, so that unknown types are safe.
const INLINE_TYPES: [&str; 14] = [
    "application/json",
    "text/markdown",
    "text/plain",
    "text/event-stream",
    "application/yaml",
    "application/toml",
    "application/x-ndjson",
    "text/csv",
    "text/css",
    "image/png",
    "image/jpeg",
    "image/gif",
    "image/webp",
    "image/avif",
];

/// Suffix of structured types that are always inert.
const INLINE_SUFFIX: &str = "+json";

/// Longest file name in a disposition, in characters. Common file systems take 255 bytes.
const MAX_NAME_CHARS: usize = 80;

/// Returns the media type of a file by its extension.
#[must_use]
pub fn media_type(path: &str) -> &'static str {
    let name = path.rsplit('/').next().unwrap_or(path);
    let ending = name.rsplit_once('.').map(|(_, ending)| ending.to_ascii_lowercase());
    match ending.as_deref().unwrap_or_default() {
        "md" | "markdown" => "text/markdown",
        "json" => "application/json",
        "yaml" | "yml" => "application/yaml",
        "toml" => "application/toml",
        "xml" => "application/xml",
        "html" | "htm" => "text/html",
        "css" => "text/css",
        "csv" => "text/csv",
        "js" | "mjs" | "cjs" => "text/javascript",
        "svg" => "image/svg+xml",
        "png" => "image/png",
        "jpg" | "jpeg" => "image/jpeg",
        "gif" => "image/gif",
        "webp" => "image/webp",
        "pdf" => "application/pdf",
        "zip" => "application/zip",
        "gz" | "tgz" => "application/gzip",
        "wasm" => "application/wasm",
        "txt" | "py" | "sh" | "bash" | "rs" | "ts" | "tsx" | "rb" | "go" | "java" | "c" | "h"
        | "sql" | "ini" | "cfg" | "log" => "text/plain",
        _ => "application/octet-stream",
    }
}

/// Returns the content type of a media type: text is UTF-8 unless it names another encoding.
#[must_use]
pub fn content_type(media_type: &str) -> Cow<'_, str> {
    let is_text = media_type.get(..5).is_some_and(|start| start.eq_ignore_ascii_case("text/"));
    if is_text && !media_type.to_ascii_lowercase().contains("charset=") {
        Cow::Owned(format!("{media_type}; charset=utf-8"))
    } else {
        Cow::Borrowed(media_type)
    }
}

/// Returns whether a browser may show a body of a content type. It may only save all others.
#[must_use]
pub fn is_inline(content_type: &str) -> bool {
    // Browsers take the last of several types.
    if content_type.contains(',') {
        return false;
    }
    let media_type = content_type.split(';').next().unwrap_or_default().trim();
    let has_suffix = || {
        let at = media_type.len().checked_sub(INLINE_SUFFIX.len());
        let end = at.and_then(|at| media_type.get(at..));
        end.is_some_and(|end| end.eq_ignore_ascii_case(INLINE_SUFFIX))
    };
    INLINE_TYPES.iter().any(|inline| media_type.eq_ignore_ascii_case(inline)) || has_suffix()
}

/// Returns the `Content-Disposition` of a file that may only be saved, named after the last segment of a URL path
/// (RFC 6266, RFC 8187). Always printable ASCII.
#[must_use]
pub fn attachment(url_path: &str) -> String {
    let segment = url_path.rsplit('/').next().unwrap_or_default();
    let decoded = percent_decode(segment);
    let name = decoded.as_deref().unwrap_or(segment);
    // Decoding may produce separators.
    let name = name.rsplit(['/', '\\']).next().unwrap_or_default();
    let name: String = name.chars().take(MAX_NAME_CHARS).collect();
    if name.trim_matches('.').is_empty() {
        return "attachment".to_owned();
    }
    let is_plain = |c: char| c.is_ascii_alphanumeric() || "-_. ()+@=".contains(c);
    let fallback: String = name.chars().map(|c| if is_plain(c) { c } else { '_' }).collect();
    let mut value = format!("attachment; filename=\"{fallback}\"");
    // A control character has no place in a file name in any encoding.
    if fallback != name && !name.chars().any(is_unsafe) {
        value.push_str("; filename*=UTF-8''");
        value.push_str(&percent_encode_component(&name));
    }
    value
}

/// Returns whether a character is a control character or makes a name look like another one (bidi controls, zero
/// width).
fn is_unsafe(c: char) -> bool {
    c.is_control()
        || matches!(c, '\u{200B}'..='\u{200F}' | '\u{2028}'..='\u{202E}' | '\u{2060}'..='\u{206F}' | '\u{FEFF}')
}

#[cfg(test)]
mod tests {
    use proptest::prelude::*;

    use super::*;

    #[test]
    fn active_and_unknown_types_are_attachments() {
        for path in [
            "x.html", "x.HTM", "x.svg", "x.xml", "x.js", "x.mjs", "x.wasm", "x.pdf", "x.xhtml",
            "x.xsl", "x.swf", "x.mml", "x.bin", "x", "x.zip", "x.rss",
        ] {
            assert!(!is_inline(media_type(path)), "{path}");
        }
        for path in
            ["x.md", "x.txt", "x.json", "x.png", "x.JPG", "x.gif", "x.webp", "x.yaml", "x.py"]
        {
            assert!(is_inline(&content_type(media_type(path))), "{path}");
        }
        for declared in [
            "",
            "text/html",
            "Text/HTML; Charset=latin1",
            "image/svg+xml",
            "application/atom+xml",
            "application/mathml+xml",
            "text/xsl",
            "multipart/x-mixed-replace",
            "text/plain, text/html",
            "text/plain;a=b, text/html",
            "text/plain/html",
            "application/x+json, text/html",
            "+jso\u{e9}",
        ] {
            assert!(!is_inline(declared), "{declared}");
        }
        for declared in ["TEXT/Plain ; charset=x", "application/vnd.api+JSON", "application/json"] {
            assert!(is_inline(declared), "{declared}");
        }
    }

    #[test]
    fn text_is_utf_8_unless_another_charset_is_declared() {
        for (declared, expected) in [
            ("text/plain", "text/plain; charset=utf-8"),
            ("Text/Markdown", "Text/Markdown; charset=utf-8"),
            ("Text/HTML; Charset=latin1", "Text/HTML; Charset=latin1"),
            ("application/json", "application/json"),
        ] {
            assert_eq!(content_type(declared), expected, "{declared}");
        }
        assert_eq!(content_type(media_type("a.md")), MARKDOWN);
    }

    #[test]
    fn attachment_names_are_safe_in_a_header() {
        for (path, expected) in [
            ("/a/x.html", r#"attachment; filename="x.html""#),
            ("/a/x%20y.html", r#"attachment; filename="x y.html""#),
            ("/a/", "attachment"),
            ("", "attachment"),
            ("/a/%2E%2E", "attachment"),
            (
                "/a/%22;%20filename=b.exe%22",
                "attachment; filename=\"__ filename=b.exe_\"; \
                 filename*=UTF-8''%22%3B%20filename%3Db.exe%22",
            ),
            ("/a/b%2F..%5Cc.html", r#"attachment; filename="c.html""#),
            ("/a/x%0D%0Ay.html", r#"attachment; filename="x__y.html""#),
            ("/a/x%E2%80%AElmth.exe", r#"attachment; filename="x_lmth.exe""#),
            ("/a/%C3%A9.html", "attachment; filename=\"_.html\"; filename*=UTF-8''%C3%A9.html"),
            // Malformed escapes are taken as they are.
            ("/a/100%.html", "attachment; filename=\"100_.html\"; filename*=UTF-8''100%25.html"),
        ] {
            assert_eq!(attachment(path), expected, "{path}");
        }
        assert!(attachment(&"x".repeat(10_000)).len() < 200);
    }

    proptest! {
        #[test]
        fn a_disposition_is_one_line_of_printable_ascii(path in "\\PC{0,100}|(/[%A-F0-9é\"]{0,30}){0,3}") {
            let value = attachment(&path);
            prop_assert!(value.bytes().all(|byte| (0x20..0x7f).contains(&byte)), "{}", value);
            prop_assert!(value.matches('"').count() <= 2, "{}", value);
        }
    }
}
