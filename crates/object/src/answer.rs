//! Looks at answers that OpenDAL would take for something else.

use http::header::CONTENT_RANGE;
use http::response::Parts;
use http::{HeaderValue, Method, StatusCode, Uri};
use opendal::{Buffer, Error, ErrorKind, Result};

/// Checks that the answer to a read begins where the range begins that was asked for.
///
/// # Errors
/// When it begins elsewhere.
pub(crate) fn check_range(asked: Option<&HeaderValue>, answer: &Parts) -> Result<()> {
    let start = |range: &HeaderValue, unit: &str| -> Option<u64> {
        range.to_str().ok()?.trim().strip_prefix(unit)?.split('-').next()?.parse().ok()
    };
    let told = match answer.headers.get(CONTENT_RANGE) {
        Some(range) => start(range, "bytes "),
        None => (answer.status == StatusCode::OK).then_some(0),
    };
    match (asked.and_then(|range| start(range, "bytes=")), told) {
        (Some(asked), Some(told)) if asked != told => {
            Err(Error::new(ErrorKind::Unexpected, OTHER_RANGE))
        }
        _ => Ok(()),
    }
}

/// Checks the answer to a request that makes parts an object. Only while that fails can the upload be
/// aborted.
///
/// # Errors
/// When the answer comes from something else than a store, as from a portal.
pub(crate) fn check_completion(method: &Method, uri: &Uri, answer: &Buffer) -> Result<()> {
    let query = uri.query().unwrap_or_default();
    if *method != Method::POST || !query.contains("uploadId=") {
        return Ok(());
    }
    let answer = answer.to_vec();
    match [MADE, FAILED].iter().any(|element| holds(&answer, element)) {
        true => Ok(()),
        false => Err(Error::new(ErrorKind::Unexpected, NO_STORE)),
    }
}

/// Looks at the answer 409 to a request that writes an object.
///
/// # Errors
/// A temporary one where another writer was at work at the same time: nobody knows yet who wins.
pub(crate) fn check_conflict(answer: &Buffer) -> Result<()> {
    match holds(&answer.to_vec(), RACED) {
        true => Err(Error::new(ErrorKind::Conflict, OTHER_WRITER).set_temporary()),
        false => Ok(()),
    }
}

/// Returns whether a text is in an answer.
pub(crate) fn holds(answer: &[u8], text: &str) -> bool {
    answer.windows(text.len()).any(|found| found == text.as_bytes())
}

/// The elements of answers to requests that make parts an object.
const MADE: &str = "CompleteMultipartUploadResult";
const FAILED: &str = "<Error";

/// The code of Amazon's store for two writers at once.
const RACED: &str = "ConditionalRequestConflict";

const OTHER_WRITER: &str = "another writer was at work on the object at the same time";
const OTHER_RANGE: &str = "the store sent another range of the object than was asked for";
const NO_STORE: &str = "the answer to the end of an upload is not that of an object store";

#[cfg(test)]
mod tests {
    use http::Response;

    use super::*;

    #[test]
    fn another_range_is_refused() {
        let is_taken = |asked: &'static str, status: u16, told: Option<&str>| {
            let mut answer = Response::builder().status(status);
            if let Some(told) = told {
                answer = answer.header(CONTENT_RANGE, told);
            }
            let (answer, ()) = answer.body(()).unwrap().into_parts();
            check_range(Some(&HeaderValue::from_static(asked)), &answer).is_ok()
        };
        assert!(is_taken("bytes=5-9", 206, Some("bytes 5-9/20")));
        assert!(is_taken("bytes=5-9", 206, Some("bytes 5-7/8")));
        assert!(is_taken("bytes=0-9", 200, None) && is_taken("bytes=-9", 200, None));
        assert!(is_taken("bytes=5-9", 206, None));
        assert!(!is_taken("bytes=5-9", 200, None));
        assert!(!is_taken("bytes=5-9", 206, Some("bytes 0-9/20")));
    }

    #[test]
    fn a_portal_completes_nothing() {
        let is_taken = |method, uri: &str, answer: &str| {
            let (uri, answer) = (uri.parse().unwrap(), Buffer::from(answer.to_owned()));
            check_completion(&method, &uri, &answer).is_ok()
        };
        let (complete, html) = ("http://h/b/k?uploadId=1", "<html>Please log in</html>");
        assert!(!is_taken(Method::POST, complete, html));
        assert!(!is_taken(Method::POST, complete, ""));
        assert!(is_taken(Method::POST, complete, "  <CompleteMultipartUploadResult/>"));
        assert!(is_taken(Method::POST, complete, "<Error><Code>InternalError</Code></Error>"));
        assert!(is_taken(Method::POST, "http://h/b/k?uploads", html));
        assert!(is_taken(Method::DELETE, complete, ""));
    }

    #[test]
    fn only_races_are_repeated() {
        let race = Buffer::from("<Error><Code>ConditionalRequestConflict</Code></Error>");
        assert!(check_conflict(&race).is_err_and(|error| error.is_temporary()));
        let exists = Buffer::from("<Error><Code>BlobAlreadyExists</Code></Error>");
        assert!(check_conflict(&exists).is_ok());
    }
}
