//! Requests that no server answers.

use std::error::Error as StdError;
use std::io;
use std::iter::successors;

use http::Uri;
use opendal::{Error, ErrorKind};

/// The reason for a missing answer, as the source of an error.
#[derive(Clone, Debug, thiserror::Error)]
#[error("{reason}")]
pub(crate) struct Unanswered {
    pub(crate) kind: Kind,
    pub(crate) reason: String,
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Kind {
    /// No byte moves.
    Stalled,
    /// There is no connection.
    Unreached,
    /// The server's certificate is not trusted.
    Distrusted,
    /// The request was not made, since the server has just failed to answer another.
    Unsent,
}

impl Unanswered {
    pub(crate) fn stalled() -> Error {
        Unanswered { kind: Kind::Stalled, reason: "the store does not answer".to_owned() }.into()
    }

    /// Finds the [`Unanswered`] that caused an error.
    pub(crate) fn of(error: &Error) -> Option<&Unanswered> {
        causes(error).find_map(|cause| cause.downcast_ref())
    }
}

impl From<Unanswered> for Error {
    /// Marks the error as permanent: this crate has already repeated the request, and OpenDAL would
    /// repeat some requests forever.
    fn from(unanswered: Unanswered) -> Error {
        Error::new(ErrorKind::Unexpected, "no answer").set_source(unanswered)
    }
}

/// Converts the error of a request that was not sent, or that got no answer.
pub(crate) fn failed(error: reqwest::Error, uri: &Uri) -> Error {
    let error = error.without_url();
    if error.is_connect() && error.is_timeout() {
        return Unanswered::stalled();
    }
    if error.is_connect() {
        return unreached(&error, uri).into();
    }
    let ended = Error::new(ErrorKind::Unexpected, "the connection ended before an answer");
    ended.set_temporary().set_source(error)
}

fn unreached(error: &reqwest::Error, uri: &Uri) -> Unanswered {
    let scheme = uri.scheme_str().unwrap_or_default();
    let authority = uri.authority().map_or("", |it| it.as_str());
    let server = format!("{scheme}://{authority}");
    let all: Vec<_> = causes(error).map(ToString::to_string).collect();
    let (all, last) = (all.join(": "), all.last().map_or("", |it| it.as_str()));
    let is_refused = |cause: &(dyn StdError + 'static)| {
        let cause = cause.downcast_ref::<io::Error>();
        cause.is_some_and(|cause| cause.kind() == io::ErrorKind::ConnectionRefused)
    };
    let (kind, reason) = if all.contains("certificate") {
        (Kind::Distrusted, format!("the certificate of {server} is not trusted: {last}"))
    } else if all.contains("dns error") {
        let host = uri.host().unwrap_or_default();
        (Kind::Unreached, format!("the host {host} was not found: {last}"))
    } else if causes(error).any(is_refused) {
        (Kind::Unreached, format!("no server listens at {server}"))
    } else if scheme == "https" && all.contains("SSL") {
        (Kind::Unreached, format!("TLS with {server} failed: {last}"))
    } else {
        (Kind::Unreached, format!("{server} can't be reached: {last}"))
    };
    Unanswered { kind, reason }
}

/// The causes of an error, the nearest first.
pub(crate) fn causes(error: &dyn StdError) -> impl Iterator<Item = &(dyn StdError + 'static)> {
    successors(error.source(), |&cause| cause.source())
}
