//! Names of the headers that proxies, load balancers and content delivery networks add to the requests that they
//! forward: the one list of them. A browser sends none.

/// Name prefixes of such headers, in lower case.
const PREFIXES: [&str; 46] = [
    "akamai-",
    "ali-cdn-",
    "cdn-",
    "cf-",
    "client-ip",
    "cloudfront-",
    "fastly-",
    "fly-",
    "forwarded",
    "proxy-",
    "true-client-",
    "via",
    "x-akamai-",
    "x-amz",
    "x-appengine-",
    "x-arr-",
    "x-azure-",
    "x-b3-",
    "x-cdn",
    "x-cf-",
    "x-client-",
    "x-cloud-",
    "x-cluster-client-ip",
    "x-envoy-",
    "x-fastly-",
    "x-fly-",
    "x-forward",
    "x-goog-",
    "x-haproxy-",
    "x-istio-",
    "x-kong-",
    "x-ms-",
    "x-nf-",
    "x-nginx-",
    "x-original",
    "x-originating-",
    "x-proxy",
    "x-proxied",
    "x-real-",
    "x-remote-",
    "x-scheme",
    "x-ssl-",
    "x-tls-",
    "x-true-client-",
    "x-varnish",
    "x-vercel-",
];

/// Returns whether a header, with its name in lower case, is one that proxies add.
#[must_use]
pub fn is_proxy_header(name: &str) -> bool {
    PREFIXES.iter().any(|start| name.starts_with(start))
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn headers_of_proxies_are_known_by_their_prefix() {
        for name in [
            "cdn-loop",
            "cf-connecting-ip",
            "cf-ray",
            "client-ip",
            "cloudfront-viewer-address",
            "fastly-client-ip",
            "fly-client-ip",
            "forwarded",
            "forwarded-for",
            "proxy-connection",
            "true-client-ip",
            "via",
            "x-amzn-trace-id",
            "x-azure-clientip",
            "x-client-ip",
            "x-cluster-client-ip",
            "x-envoy-external-address",
            "x-forward-for",
            "x-forwarded",
            "x-forwarded-anything",
            "x-forwarded-prefix",
            "x-forwarded-scheme",
            "x-forwarded-ssl",
            "x-original-forwarded-for",
            "x-original-url",
            "x-originating-ip",
            "x-proxyuser-ip",
            "x-real-ip",
            "x-real-port",
            "x-remote-addr",
            "x-scheme",
            "x-true-client-ip",
            "x-vercel-forwarded-for",
        ] {
            assert!(is_proxy_header(name), "{name}");
        }
    }

    #[test]
    fn headers_of_browsers_and_programs_are_no_headers_of_proxies() {
        for name in [
            "accept",
            "accept-language",
            "authorization",
            "connection",
            "content-type",
            "cookie",
            "dnt",
            "host",
            "if-none-match",
            "mcp-session-id",
            "origin",
            "pragma",
            "priority",
            "range",
            "referer",
            "sec-fetch-site",
            "sec-gpc",
            "te",
            "traceparent",
            "upgrade-insecure-requests",
            "user-agent",
            "x-api-key",
            "x-fragment",
            "x-request-id",
            "x-requested-with",
            "x-review-scope",
            "x-skills-catalog-age",
        ] {
            assert!(!is_proxy_header(name), "{name}");
        }
    }
}
