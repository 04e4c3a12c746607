//! Requests that are repeated when they fail in passing.
//!
//! A repeated request has the same bytes, which are kept until an answer is there. So nothing above
//! seals anything again.

use std::time::Duration;

use futures_util::{Stream, StreamExt, stream};
use http::header::{RANGE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use opendal_http_transport_reqwest::ReqwestTransport;
use tokio::time::{sleep, timeout};

/// Sends requests, and repeats those that fail in passing.
pub(crate) struct Patient {
    inner: ReqwestTransport,
}

impl Patient {
    /// # Errors
    /// When TLS can't be set up.
    pub(crate) fn new(requests: usize) -> Result<Patient> {
        let client = reqwest::Client::builder()
            .connect_timeout(TO_CONNECT)
            .pool_max_idle_per_host(requests)
            .build()
            .map_err(|error| Error::new(ErrorKind::Unexpected, "set up TLS").set_source(error))?;
        Ok(Patient { inner: ReqwestTransport::new(client) })
    }

    async fn attempt(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        // The range of an object may be long; everything else is read at once, and repeated whole.
        let is_read = request.method() == Method::GET && request.headers().contains_key(RANGE);
        let length = request.body().len() as u64;
        let limit = STALL + Duration::from_secs(length / SLOWEST);
        let answer = timeout(limit, self.inner.fetch(request)).await;
        let (parts, body) = answer.unwrap_or_else(|_| Err(stalled()))?.into_parts();
        let mut body = body.map_inner(|bytes| Box::new(Box::pin(watched(bytes))));
        if is_read && parts.status.is_success() {
            return Ok(Response::from_parts(parts, body));
        }
        let whole = body.to_buffer().await?;
        let length = whole.len() as u64;
        let body = HttpBody::new(stream::iter([Ok(whole)]), Some(length));
        Ok(Response::from_parts(parts, body))
    }
}

impl HttpTransport for Patient {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let most = if asks_for_credentials(&request) { 1 } else { ATTEMPTS };
        for attempt in 1.. {
            let answer = self.attempt(copy(&request)).await;
            let pause = match &answer {
                Ok(answer) if is_passing(answer.status()) => asked(answer.headers()),
                Err(error) if error.is_temporary() && !is_distrusted(error) => None,
                _ => return answer,
            };
            if attempt >= most {
                return answer;
            }
            sleep(pause.unwrap_or_else(|| backoff(attempt))).await;
        }
        unreachable!("the loop has no end")
    }
}

/// How long to wait before the next attempt: a random time, which doubles up to a limit.
pub(crate) fn backoff(attempt: u32) -> Duration {
    let longest = (FIRST_PAUSE * 2u32.saturating_pow(attempt - 1)).min(LONGEST_PAUSE);
    let mut random = [0; 4];
    // Without randomness it waits for the longest time.
    let share = match getrandom::fill(&mut random) {
        Ok(()) => f64::from(u32::from_le_bytes(random)) / f64::from(u32::MAX),
        Err(_) => 1.0,
    };
    longest.mul_f64(0.25 + 0.75 * share)
}

/// The pause that a store asks for, if it is no longer than anybody would wait.
fn asked(headers: &HeaderMap) -> Option<Duration> {
    let seconds = headers.get(RETRY_AFTER)?.to_str().ok()?.parse().ok()?;
    Some(Duration::from_secs(seconds)).filter(|pause| *pause <= LONGEST_ASKED)
}

/// 499 is not among them: by it, Google's store says that an upload was aborted.
fn is_passing(status: StatusCode) -> bool {
    matches!(status.as_u16(), 408 | 429 | 500 | 502 | 503 | 504)
}

/// A server whose certificate is not trusted will not have another one soon.
fn is_distrusted(error: &Error) -> bool {
    let causes = std::iter::successors(std::error::Error::source(error), |cause| cause.source());
    causes.into_iter().any(|cause| cause.to_string().contains("certificate"))
}

/// A machine of a cloud answers at once, and elsewhere nobody does.
fn asks_for_credentials(request: &Request<Buffer>) -> bool {
    let host = request.uri().host().unwrap_or_default();
    matches!(host, "169.254.169.254" | "169.254.170.2" | "metadata.google.internal")
}

fn copy(request: &Request<Buffer>) -> Request<Buffer> {
    let mut copy = Request::new(request.body().clone());
    *copy.method_mut() = request.method().clone();
    *copy.uri_mut() = request.uri().clone();
    *copy.version_mut() = request.version();
    *copy.headers_mut() = request.headers().clone();
    *copy.extensions_mut() = request.extensions().clone();
    copy
}

/// The same bytes, with an error when none come for too long.
fn watched(
    bytes: impl Stream<Item = Result<Buffer>> + Send + Sync + Unpin,
) -> impl Stream<Item = Result<Buffer>> + Send + Sync {
    stream::unfold(bytes, |mut bytes| async {
        let next = timeout(STALL, bytes.next()).await;
        next.unwrap_or_else(|_| Some(Err(stalled()))).map(|next| (next, bytes))
    })
}

fn stalled() -> Error {
    Error::new(ErrorKind::Unexpected, "the store does not answer").set_temporary()
}

/// The most attempts at one request: some 15 seconds.
pub(crate) const ATTEMPTS: u32 = 8;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_ASKED: Duration = Duration::from_secs(60);
const TO_CONNECT: Duration = Duration::from_secs(10);

/// How long nothing may come.
const STALL: Duration = Duration::from_secs(60);

/// The bytes a second at which a request is still taken to move.
const SLOWEST: u64 = 16 << 10;
