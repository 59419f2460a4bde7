//! Checks of every request: it was sent to this host, and a change was sent by a page of it.
//!
//! Another host's name that resolves to this machine (DNS rebinding) is refused by its Host. A form
//! of another site is refused by its Origin, by the cookie, which is SameSite=Strict, and by its
//! missing CSRF token.

use crate::app::App;
use crate::frame::refused;
use axum::extract::{Request, State};
use axum::http::header::{self, HeaderName, HeaderValue};
use axum::http::{HeaderMap, Method, StatusCode};
use axum::middleware::Next;
use axum::response::Response;
use std::net::SocketAddr;
use std::sync::Arc;

/// Permissions of a page of the dashboard. Styles and the script are files of this host.
const POLICY: &str = "default-src 'none'; script-src 'self'; style-src 'self'; img-src 'self'; \
                      connect-src 'self'; form-action 'self'; base-uri 'none'; \
                      frame-ancestors 'none'";

/// Headers of every answer. The referrer stays within this host: with `no-referrer` browsers would
/// send no Origin with a form either.
const HEADERS: [(HeaderName, &str); 6] = [
    (header::X_CONTENT_TYPE_OPTIONS, "nosniff"),
    (header::X_FRAME_OPTIONS, "DENY"),
    (header::REFERRER_POLICY, "same-origin"),
    (header::CACHE_CONTROL, "no-store"),
    (HeaderName::from_static("cross-origin-opener-policy"), "same-origin"),
    (HeaderName::from_static("cross-origin-resource-policy"), "same-origin"),
];

/// Returns the values of Host with which this address is reached.
pub(crate) fn hosts(address: SocketAddr) -> Vec<String> {
    let mut hosts = vec![address.to_string(), format!("localhost:{}", address.port())];
    if address.port() == 80 {
        let ip = address.ip();
        hosts.push(if ip.is_ipv6() { format!("[{ip}]") } else { ip.to_string() });
        hosts.push("localhost".to_owned());
    }
    hosts
}

fn one<'a>(headers: &'a HeaderMap, name: &HeaderName) -> Option<&'a str> {
    let mut all = headers.get_all(name).iter();
    let first = all.next()?.to_str().ok()?;
    all.next().is_none().then_some(first)
}

/// Returns the reason why a request is refused. None: it is not.
pub(crate) fn refusal(
    hosts: &[String],
    method: &Method,
    headers: &HeaderMap,
) -> Option<&'static str> {
    let host = one(headers, &header::HOST).map(str::to_ascii_lowercase);
    let Some(host) = host.filter(|host| hosts.contains(host)) else {
        return Some("The dashboard answers requests to its own address only (Host).");
    };
    let is_own = |origin: &str| origin.strip_prefix("http://") == Some(&*host);
    let has_origin = headers.contains_key(header::ORIGIN);
    let is_foreign = has_origin && !one(headers, &header::ORIGIN).is_some_and(is_own);
    let site = HeaderName::from_static("sec-fetch-site");
    let is_of_other_site =
        headers.contains_key(&site) && !matches!(one(headers, &site), Some("same-origin" | "none"));
    match *method {
        Method::GET | Method::HEAD if is_foreign => {
            Some("The dashboard answers its own pages only (Origin).")
        }
        Method::GET | Method::HEAD => None,
        _ if !has_origin || is_foreign || is_of_other_site => {
            Some("Changes are accepted from the dashboard's own pages only (Origin).")
        }
        _ => None,
    }
}

/// Refuses requests that must not be here, and adds the headers of every answer.
pub(crate) async fn check(State(app): State<Arc<App>>, request: Request, next: Next) -> Response {
    let refusal = refusal(&app.hosts, request.method(), request.headers());
    let mut response = match refusal {
        Some(why) => refused(StatusCode::FORBIDDEN, why),
        None => next.run(request).await,
    };
    let headers = response.headers_mut();
    for (name, value) in HEADERS {
        headers.entry(name).or_insert(HeaderValue::from_static(value));
    }
    headers.entry(header::CONTENT_SECURITY_POLICY).or_insert(HeaderValue::from_static(POLICY));
    response
}

#[cfg(test)]
mod tests {
    use super::*;

    fn refused(method: Method, headers: &[(&'static str, &str)]) -> bool {
        let hosts = hosts("127.0.0.1:7780".parse().expect("an address"));
        let mut all = HeaderMap::new();
        for (name, value) in headers {
            all.append(HeaderName::from_static(name), value.parse().expect("plain"));
        }
        refusal(&hosts, &method, &all).is_some()
    }

    #[test]
    fn other_names_of_this_machine_are_refused() {
        for host in ["127.0.0.1:7780", "localhost:7780", "LOCALHOST:7780"] {
            assert!(!refused(Method::GET, &[("host", host)]), "{host}");
        }
        for host in ["evil.example:7780", "127.0.0.1", "127.0.0.1:80", "127.0.0.1.nip.io:7780", ""]
        {
            assert!(refused(Method::GET, &[("host", host)]), "{host}");
        }
        assert!(refused(Method::GET, &[]));
        let twice = [("host", "127.0.0.1:7780"), ("host", "evil.example")];
        assert!(refused(Method::GET, &twice));
    }

    #[test]
    fn changes_come_from_own_pages() {
        let host = ("host", "127.0.0.1:7780");
        let own = ("origin", "http://127.0.0.1:7780");
        assert!(!refused(Method::POST, &[host, own]));
        assert!(!refused(Method::POST, &[host, own, ("sec-fetch-site", "same-origin")]));
        assert!(refused(Method::POST, &[host]));
        for origin in
            ["null", "http://127.0.0.1:7781", "https://127.0.0.1:7780", "http://localhost:7780"]
        {
            assert!(refused(Method::POST, &[host, ("origin", origin)]), "{origin}");
            assert!(refused(Method::GET, &[host, ("origin", origin)]), "{origin}");
        }
        assert!(refused(Method::POST, &[host, own, ("sec-fetch-site", "same-site")]));
    }
}
