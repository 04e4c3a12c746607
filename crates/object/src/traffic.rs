//! Counts of requests to stores.

use std::sync::Arc;
use std::sync::atomic::{AtomicU64, Ordering};

use http::StatusCode;
use opendal::Error;

use crate::unanswered::{Kind, Unanswered};

/// Counts requests, for other threads to read. Copies share the counts, which only grow.
#[derive(Clone, Debug, Default)]
pub struct Traffic(Arc<Counts>);

#[derive(Debug, Default)]
struct Counts {
    sent: AtomicU64,
    repeated: AtomicU64,
    given_up: AtomicU64,
    failed: [AtomicU64; RequestFailure::ALL.len()],
}

/// Why a request failed that is repeated, or that was given up after several attempts.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RequestFailure {
    /// The store wants fewer requests (429, 503).
    TooMany,
    /// The store answered with another error that passes (408, 500, 502, 504).
    Server,
    /// No byte moved for too long.
    Timeout,
    /// There was no connection.
    Unreachable,
    /// The answer broke off, or there was none.
    Broken,
}

impl RequestFailure {
    /// All of them.
    pub const ALL: [RequestFailure; 5] = [
        RequestFailure::TooMany,
        RequestFailure::Server,
        RequestFailure::Timeout,
        RequestFailure::Unreachable,
        RequestFailure::Broken,
    ];

    /// A word for programs, such as `too_many`.
    pub fn name(self) -> &'static str {
        match self {
            RequestFailure::TooMany => "too_many",
            RequestFailure::Server => "server_error",
            RequestFailure::Timeout => "timeout",
            RequestFailure::Unreachable => "unreachable",
            RequestFailure::Broken => "broken",
        }
    }

    /// The reason that a status tells.
    pub(crate) fn of_status(status: StatusCode) -> RequestFailure {
        match status.as_u16() {
            429 | 503 => RequestFailure::TooMany,
            _ => RequestFailure::Server,
        }
    }

    pub(crate) fn of_error(error: &Error) -> RequestFailure {
        match Unanswered::of(error).map(|unanswered| unanswered.kind) {
            Some(Kind::Stalled) => RequestFailure::Timeout,
            Some(Kind::Unreached | Kind::Distrusted | Kind::Unsent) => RequestFailure::Unreachable,
            None => RequestFailure::Broken,
        }
    }
}

impl Traffic {
    /// Requests that were sent, with those that were repeated.
    pub fn sent(&self) -> u64 {
        self.0.sent.load(Ordering::Relaxed)
    }

    /// Requests that were sent again after a failure.
    pub fn repeated(&self) -> u64 {
        self.0.repeated.load(Ordering::Relaxed)
    }

    /// Requests that failed in the end.
    pub fn given_up(&self) -> u64 {
        self.0.given_up.load(Ordering::Relaxed)
    }

    /// Requests that failed for this reason, with those that were repeated. An answer that the store
    /// means, such as that an object is missing, is no failure.
    pub fn failed(&self, why: RequestFailure) -> u64 {
        self.0.failed[why as usize].load(Ordering::Relaxed)
    }

    pub(crate) fn count_sent(&self) {
        self.0.sent.fetch_add(1, Ordering::Relaxed);
    }

    pub(crate) fn count_failed(&self, why: RequestFailure) {
        self.0.failed[why as usize].fetch_add(1, Ordering::Relaxed);
    }

    /// Counts the decision after a failure.
    pub(crate) fn count_decision(&self, is_repeated: bool) {
        let count = if is_repeated { &self.0.repeated } else { &self.0.given_up };
        count.fetch_add(1, Ordering::Relaxed);
    }
}
