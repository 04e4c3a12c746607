//! HTTP as far as somebody who asks for metrics speaks it: one request, one answer.

use crate::prometheus::CONTENT_TYPE;

/// The answer to the bytes of a request so far; `None` if its head is not complete. `text` makes
/// the metrics.
pub(super) fn answer(request: &[u8], text: impl FnOnce() -> String) -> Option<Vec<u8>> {
    let is_whole = request.windows(4).any(|end| end == b"\r\n\r\n")
        || request.windows(2).any(|end| end == b"\n\n");
    if !is_whole {
        let is_too_long = request.len() >= LONGEST;
        return is_too_long.then(|| respond("431 Request Header Fields Too Large", "", "", true));
    }
    let line = request.split(|byte| *byte == b'\n').next().unwrap_or_default();
    let line = str::from_utf8(line).unwrap_or_default().trim_end_matches('\r');
    let mut words = line.split(' ');
    let (Some(method), Some(target), Some("HTTP/1.1" | "HTTP/1.0"), None) =
        (words.next(), words.next(), words.next(), words.next())
    else {
        return Some(respond("400 Bad Request", "", "this is no request of HTTP/1\n", true));
    };
    let has_body = match method {
        "GET" => true,
        "HEAD" => false,
        _ => {
            let allowed = "Allow: GET, HEAD\r\n";
            return Some(respond("405 Method Not Allowed", allowed, "", true));
        }
    };
    Some(match target.split('?').next() {
        Some("/metrics") => {
            let kind = format!("Content-Type: {CONTENT_TYPE}\r\n");
            respond("200 OK", &kind, &text(), has_body)
        }
        _ => respond("404 Not Found", "", "the metrics are at /metrics\n", has_body),
    })
}

fn respond(status: &str, headers: &str, body: &str, has_body: bool) -> Vec<u8> {
    let length = body.len();
    let body = if has_body { body } else { "" };
    format!(
        "HTTP/1.1 {status}\r\n{headers}Content-Length: {length}\r\nConnection: close\r\n\r\n{body}"
    )
    .into_bytes()
}

/// The most bytes of a request's head.
pub(super) const LONGEST: usize = 8 << 10;

#[cfg(test)]
mod tests {
    use super::*;

    fn told(request: &str) -> Option<String> {
        let answer = answer(request.as_bytes(), || "a 1\n".to_owned())?;
        Some(String::from_utf8(answer).unwrap())
    }

    #[test]
    fn a_whole_request_gets_the_text() {
        let head = "HTTP/1.1 200 OK\r\nContent-Type: text/plain; version=0.0.4; charset=utf-8\r\n\
                    Content-Length: 4\r\nConnection: close\r\n\r\n";
        for target in ["/metrics", "/metrics?name=x"] {
            let request = format!("GET {target} HTTP/1.1\r\nHost: x\r\n\r\n");
            assert_eq!(told(&request).unwrap(), format!("{head}a 1\n"));
        }
        assert_eq!(told("HEAD /metrics HTTP/1.0\n\n").unwrap(), head);
    }

    #[test]
    fn others_get_a_reason_or_are_awaited() {
        for (request, status) in [
            ("GET / HTTP/1.1\r\n\r\n", "404"),
            ("GET /metrics/ HTTP/1.1\r\n\r\n", "404"),
            ("POST /metrics HTTP/1.1\r\n\r\n", "405"),
            ("GET /metrics\r\n\r\n", "400"),
            ("GET  /metrics HTTP/1.1\r\n\r\n", "400"),
            ("GET /metrics HTTP/2\r\n\r\n", "400"),
            ("\r\n\r\n", "400"),
        ] {
            let answer = told(request).unwrap();
            assert!(answer.starts_with(&format!("HTTP/1.1 {status} ")), "{request}: {answer}");
        }
        for part in ["", "GET /metrics HTTP/1.1\r\n", "GET /metrics HTTP/1.1\r\nHost: x\r\n"] {
            assert_eq!(told(part), None);
        }
        assert!(told(&"x".repeat(LONGEST)).unwrap().starts_with("HTTP/1.1 431 "));
    }
}
