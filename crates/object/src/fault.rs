//! Errors of the protocols as faults.

use evener_core::shown_text;
use evener_seal::{Fault, Name};
use opendal::{Error, ErrorKind};

use crate::unanswered::{Unanswered, causes};

/// The fault of a call that was about this object.
pub(crate) fn fault(error: &Error, name: &Name) -> Fault {
    match error.kind() {
        // Of a whole place, the store tells what is missing.
        ErrorKind::NotFound if *name != Name::root() => Fault::Missing(name.clone()),
        ErrorKind::ConditionNotMatch => Fault::Changed,
        _ => Fault::Failed(text(error)),
    }
}

/// The reason of a failure, on one line that is safe to print: a server may have written it.
pub(crate) fn text(error: &Error) -> String {
    shown(&words(error))
}

/// Makes a message safe to print, on one line.
pub(crate) fn shown(words: &str) -> String {
    let line: Vec<_> = words.split_whitespace().collect();
    let line: String = line.join(" ").chars().take(LONGEST).collect();
    shown_text(&line)
}

fn words(error: &Error) -> String {
    if error.to_string().contains("failed to load signing credential") {
        return NO_CREDENTIALS.to_owned();
    }
    if let Some(unanswered) = Unanswered::of(error) {
        return unanswered.to_string();
    }
    let told = told_by_store(error.message());
    let is_of_clocks = |told: &&String| CLOCKS.iter().any(|sign| told.contains(sign));
    if let Some(told) = told.as_ref().filter(is_of_clocks) {
        return format!("this machine's clock and the store's differ; set it right ({told})");
    }
    match error.kind() {
        ErrorKind::PermissionDenied => {
            match told.unwrap_or_else(|| error.message().to_owned()) {
                // The answer to a HEAD request says no more.
                told if told.is_empty() => format!(
                    "the store refuses access{}; check the credentials, what they allow, and this \
                     machine's clock",
                    status(error)
                ),
                told => format!(
                    "the store refuses access ({told}); check the credentials and what they allow"
                ),
            }
        }
        _ if told.is_none() && error.message().is_empty() => {
            let status = status(error);
            match &*status {
                " (status 304)" => format!("the store gives no reason{status}"),
                " (status 400)" => format!(
                    "the store gives no reason{status}; check the name of the bucket, the region \
                     and the endpoint"
                ),
                _ if status.contains("(status 3") => format!("{REDIRECTS}{status}"),
                _ => format!("the store gives no reason{status}"),
            }
        }
        _ if error.message().contains("got too little data") => TOO_SHORT.to_owned(),
        _ if error.message().contains("got too much data") => TOO_LONG.to_owned(),
        _ => told.unwrap_or_else(|| {
            let causes = causes(error).map(|cause| format!(": {cause}"));
            error.message().to_owned() + &causes.collect::<String>()
        }),
    }
}

/// Returns whether an object has nothing in a range, as an empty one has not in any.
pub(crate) fn is_out_of_range(error: &Error) -> bool {
    // OpenDAL gives the answer of Google's store no kind of its own.
    error.kind() == ErrorKind::RangeNotSatisfied || status(error) == " (status 416)"
}

/// The status of an answer, from the library's text.
fn status(error: &Error) -> String {
    let text = error.to_string();
    let digits = text.split_once("status: ").and_then(|(_, rest)| rest.get(..3));
    let digits = digits.filter(|digits| digits.bytes().all(|byte| byte.is_ascii_digit()));
    digits.map_or_else(String::new, |digits| format!(" (status {digits})"))
}

/// The message and the code in an answer, which the library gives as its `Debug` text.
fn told_by_store(message: &str) -> Option<String> {
    let field = |name: &str| {
        let (_, rest) = message.split_once(&format!("{name}: \""))?;
        Some(rest.split_once('"')?.0).filter(|text| !text.is_empty())
    };
    let is_answer = ["S3Error", "AzblobError", "GcsErrorResponse"];
    if !is_answer.iter().any(|name| message.starts_with(name)) {
        return None;
    }
    match (field("message").map(|text| text.trim_end_matches('.')), field("code")) {
        (Some(text), Some(code)) => Some(format!("{text} ({code})")),
        (text, code) => text.or(code).map(str::to_owned),
    }
}

const TOO_SHORT: &str = "the store sent fewer bytes than it announced or was asked for";
const TOO_LONG: &str = "the store sent more bytes than it announced";

const NO_CREDENTIALS: &str =
    "no credentials were found for the store: neither the environment nor a profile has any";

const REDIRECTS: &str = "the store redirects to another server, which Evener does not ask; check \
     the region and the endpoint";

/// How Amazon and Azure report that the time in a request differs from theirs.
const CLOCKS: [&str; 2] = ["(RequestTimeTooSkewed)", "Request date header too old"];

/// The most characters of a message.
const LONGEST: usize = 500;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn answers_are_told_in_their_words() {
        let told = |message: &str| text(&Error::new(ErrorKind::Unexpected, message));
        let s3 = r#"S3Error { code: "NoSuchBucket", message: "It is not there.", resource: "" }"#;
        assert_eq!(told(s3), "It is not there (NoSuchBucket)");
        let gcs =
            r#"GcsErrorResponse { error: GcsError { code: 400, message: "no", errors: [] } }"#;
        assert_eq!(told(gcs), "no");
        let empty = Error::new(ErrorKind::Unexpected, "");
        let empty = empty.with_context("response", "Parts { status: 503, version: HTTP/1.1 }");
        assert_eq!(text(&empty), "the store gives no reason (status 503)");
        let refused = Error::new(ErrorKind::PermissionDenied, "");
        let refused = text(&refused.with_context("response", "Parts { status: 403 }"));
        assert!(refused.starts_with("the store refuses access (status 403); check"), "{refused}");
        let bad = Error::new(ErrorKind::Unexpected, "");
        let bad = text(&bad.with_context("response", "Parts { status: 400 }"));
        assert!(
            bad.ends_with(
                "(status 400); check the name of the bucket, the region and the endpoint"
            )
        );
        let away = Error::new(ErrorKind::Unexpected, "");
        let away = away.with_context("response", "Parts { status: 307, version: HTTP/1.1 }");
        assert_eq!(text(&away), format!("{REDIRECTS} (status 307)"));
        assert_eq!(told("reader got too little data"), TOO_SHORT);
        assert_eq!(told("http response got too much data, expect: 1, actual: 2"), TOO_LONG);
        assert_eq!(told("a\n<b>\u{1b}[2J"), "a <b>\\u{1b}[2J");
        assert_eq!(told(&"x".repeat(1000)).len(), LONGEST);
    }
}
