//! The little of HTTP/1.1 that a scrape needs: one request, one response, then the end of the
//! connection. The crate `httparse` reads the request; its size is bounded.

use super::CONTENT_TYPE;
use flate2::Compression;
use flate2::write::GzEncoder;
use std::io::Write;

/// Maximum size of a request's head, in bytes.
pub(crate) const HEAD_BYTES_MAX: usize = 8192;
/// Maximum number of a request's header fields.
const FIELDS_MAX: usize = 64;

/// Status of a response.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Status {
    Ok,
    BadRequest,
    NotFound,
    MethodNotAllowed,
    TooLarge,
    Unavailable,
}

impl Status {
    fn line(self) -> &'static str {
        match self {
            Status::Ok => "200 OK",
            Status::BadRequest => "400 Bad Request",
            Status::NotFound => "404 Not Found",
            Status::MethodNotAllowed => "405 Method Not Allowed",
            Status::TooLarge => "431 Request Header Fields Too Large",
            Status::Unavailable => "503 Service Unavailable",
        }
    }
}

/// The parts of a request for metrics that matter.
#[derive(Clone, Copy, PartialEq, Eq, Debug, Default)]
pub(crate) struct Head {
    /// Only the head of the response is wanted.
    pub(crate) is_head: bool,
    /// The response may be compressed.
    pub(crate) accepts_gzip: bool,
}

/// Whether a list of encodings has gzip, not excluded by a weight of zero.
fn has_gzip(value: &[u8]) -> bool {
    let Ok(value) = std::str::from_utf8(value) else { return false };
    value.split(',').any(|one| {
        let (name, weight) = one.split_once(';').unwrap_or((one, ""));
        let weight = weight.trim().strip_prefix("q=").unwrap_or("1");
        name.trim().eq_ignore_ascii_case("gzip") && weight.parse().is_ok_and(|q: f32| q > 0.0)
    })
}

/// Reads a request. None: its head is not complete yet.
///
/// # Errors
/// The status of the refusal.
pub(crate) fn parse(received: &[u8]) -> Result<Option<Head>, Status> {
    let mut fields = [httparse::EMPTY_HEADER; FIELDS_MAX];
    let mut request = httparse::Request::new(&mut fields);
    match request.parse(received) {
        Ok(httparse::Status::Complete(_)) => {}
        Ok(httparse::Status::Partial) if received.len() < HEAD_BYTES_MAX => return Ok(None),
        Ok(httparse::Status::Partial) | Err(httparse::Error::TooManyHeaders) => {
            return Err(Status::TooLarge);
        }
        Err(_) => return Err(Status::BadRequest),
    }
    let path = request.path.unwrap_or_default();
    if path.split('?').next() != Some("/metrics") {
        return Err(Status::NotFound);
    }
    let is_head = match request.method {
        Some("GET") => false,
        Some("HEAD") => true,
        _ => return Err(Status::MethodNotAllowed),
    };
    let is_encoding = |field: &&httparse::Header<'_>| {
        field.name.eq_ignore_ascii_case("accept-encoding") && has_gzip(field.value)
    };
    let accepts_gzip = request.headers.iter().any(|field| is_encoding(&field));
    Ok(Some(Head { is_head, accepts_gzip }))
}

/// A response, as bytes.
pub(crate) struct Response(pub(crate) Vec<u8>);

impl Response {
    /// Returns the response with the metrics.
    pub(crate) fn metrics(head: Head, text: &str) -> Response {
        let gzip = |text: &str| {
            let mut encoder = GzEncoder::new(Vec::new(), Compression::fast());
            encoder.write_all(text.as_bytes()).and_then(|()| encoder.finish()).ok()
        };
        let packed = if head.accepts_gzip { gzip(text) } else { None };
        let encoding = if packed.is_some() { "Content-Encoding: gzip\r\n" } else { "" };
        let body = packed.unwrap_or_else(|| text.as_bytes().to_vec());
        Response::of(Status::Ok, CONTENT_TYPE, encoding, &body, head.is_head)
    }

    /// Returns a refusal.
    pub(crate) fn refusal(status: Status) -> Response {
        let allow = match status {
            Status::MethodNotAllowed => "Allow: GET, HEAD\r\n",
            _ => "",
        };
        let body = format!("{}: metrics are at GET /metrics\n", status.line());
        Response::of(status, "text/plain; charset=utf-8", allow, body.as_bytes(), false)
    }

    fn of(status: Status, content: &str, more: &str, body: &[u8], is_head: bool) -> Response {
        let (line, length) = (status.line(), body.len());
        let mut bytes = format!(
            "HTTP/1.1 {line}\r\nContent-Type: {content}\r\nContent-Length: {length}\r\n\
             {more}X-Content-Type-Options: nosniff\r\nConnection: close\r\n\r\n"
        )
        .into_bytes();
        if !is_head {
            bytes.extend_from_slice(body);
        }
        Response(bytes)
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use lane::Random;

    const GET: &[u8] = b"GET /metrics HTTP/1.1\r\nHost: x\r\nAccept-Encoding: br, gzip\r\n\r\n";

    #[test]
    fn a_request_is_read_whole_and_refused_with_its_reason() {
        let wanted = Head { is_head: false, accepts_gzip: true };
        assert_eq!(parse(GET), Ok(Some(wanted)));
        assert_eq!(parse(&GET[..GET.len() - 1]), Ok(None));
        for (text, expected) in [
            ("GET /metrics?x=1 HTTP/1.0\r\n\r\n", Ok(Some(Head::default()))),
            ("GET / HTTP/1.1\r\n\r\n", Err(Status::NotFound)),
            ("POST /metrics HTTP/1.1\r\n\r\n", Err(Status::MethodNotAllowed)),
            ("GET /metrics HTTP/9\r\n\r\n", Err(Status::BadRequest)),
            ("\u{1}\u{2}", Err(Status::BadRequest)),
        ] {
            assert_eq!(parse(text.as_bytes()), expected, "{text:?}");
        }
        let long = [b"GET /metrics HTTP/1.1\r\nA: ".as_slice(), &[b'x'; HEAD_BYTES_MAX]].concat();
        assert_eq!(parse(&long), Err(Status::TooLarge));
        let many = format!("GET /metrics HTTP/1.1\r\n{}\r\n", "A: b\r\n".repeat(FIELDS_MAX + 1));
        assert_eq!(parse(many.as_bytes()), Err(Status::TooLarge));
        assert!(!has_gzip(b"gzip;q=0") && has_gzip(b"gzip;q=0.5") && !has_gzip(b"\xff"));
    }

    #[test]
    fn damaged_requests_never_panic() {
        let mut random = Random::new(5);
        for _ in 0..20_000 {
            let mut bytes = GET.to_vec();
            for _ in 0..=random.below(6) {
                let at = random.below(bytes.len() as u64) as usize;
                match random.below(3) {
                    0 => bytes[at] = random.next_u64() as u8,
                    1 => bytes.truncate(at.max(1)),
                    _ => bytes.insert(at, random.next_u64() as u8),
                }
            }
            let _ = parse(&bytes);
        }
    }

    #[test]
    fn a_response_has_its_length_and_a_head_has_no_body() {
        let text = |head| String::from_utf8(Response::metrics(head, "a 1\n").0).expect("plain");
        let whole = text(Head::default());
        assert!(whole.contains("Content-Length: 4\r\n") && whole.ends_with("\r\n\r\na 1\n"));
        let head = text(Head { is_head: true, accepts_gzip: false });
        assert!(head.contains("Content-Length: 4\r\n") && head.ends_with("\r\n\r\n"), "{head}");
        let refused = String::from_utf8(Response::refusal(Status::MethodNotAllowed).0);
        assert!(refused.is_ok_and(|text| text.contains("Allow: GET, HEAD\r\n")));
    }
}
