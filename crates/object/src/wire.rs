//! Sends HTTP requests, and notices when no byte moves.

use std::pin::Pin;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, AtomicUsize, Ordering};
use std::task::{Context, Poll};
use std::time::Duration;
use std::{convert, pin};

use bytes::{Buf, Bytes};
use futures_util::{Stream, stream};
use http::header::CONTENT_LENGTH;
use http::{Method, Request, Response};
use http_body::{Body, Frame, SizeHint};
use opendal::{Buffer, Error, ErrorKind, HttpBody, Result};
use reqwest::redirect::Policy;
use tokio::time::{Sleep, sleep_until, timeout};

use crate::bandwidth::Bandwidth;
use crate::unanswered::{Unanswered, failed};

/// Sends each request once.
pub(crate) struct Wire {
    client: reqwest::Client,
    /// How long a request may go without a byte.
    stall: Duration,
    bandwidth: Option<Bandwidth>,
    /// The bytes that the kernel may hold unsent, of all requests under way.
    held: AtomicUsize,
}

impl Wire {
    /// # Errors
    /// When TLS can't be set up.
    pub(crate) fn new(
        requests: usize,
        stall: Duration,
        bandwidth: Option<Bandwidth>,
    ) -> Result<Wire> {
        let client = reqwest::Client::builder()
            .connect_timeout(TO_CONNECT.min(stall))
            .pool_max_idle_per_host(requests)
            // The other server would get the session's token, since only some headers are dropped.
            .redirect(Policy::none())
            .build()
            .map_err(|error| Error::new(ErrorKind::Unexpected, "set up TLS").set_source(error))?;
        Ok(Wire { client, stall, bandwidth, held: AtomicUsize::new(0) })
    }

    /// Sends a request, and returns as soon as the head of the answer arrives.
    ///
    /// # Errors
    /// The source is an [`Unanswered`] if there is no connection, or no byte moves for too long.
    pub(crate) async fn send(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (uri, is_head) = (request.uri().clone(), request.method() == Method::HEAD);
        let sent = Arc::<Sent>::default();
        let copying = copying(&request, self.stall);
        let held = Held::new(&self.held, request.body().len());
        let limit = || held.limit(self.stall) + copying;
        let answer = self.client.execute(self.request(request, &sent)?);
        let answer = while_moving(&sent, limit, answer).await?;
        let mut answer = answer.map_err(|error| failed(error, &uri))?;

        let headers = answer.headers().iter();
        if headers.map(|(name, value)| name.as_str().len() + value.len()).sum::<usize>() > MOST_HEAD
        {
            return Err(Error::new(
                ErrorKind::Unexpected,
                "the store's answer has too long a head",
            ));
        }
        let length = answer.headers().get(CONTENT_LENGTH).filter(|_| !is_head);
        let length = length.and_then(|length| length.to_str().ok()?.parse().ok());
        let mut head = Response::builder().status(answer.status()).version(answer.version());
        if let Some(headers) = head.headers_mut() {
            std::mem::swap(headers, answer.headers_mut());
        }
        let bytes = Box::pin(watched(answer, self.stall, self.bandwidth.clone()));
        head.extension(uri).body(HttpBody::new(bytes, length)).map_err(unsendable)
    }

    fn request(&self, request: Request<Buffer>, sent: &Arc<Sent>) -> Result<reqwest::Request> {
        let (parts, rest) = request.into_parts();
        let body = match rest.is_empty() {
            true => reqwest::Body::default(),
            false => reqwest::Body::wrap(Pieces {
                rest,
                sent: sent.clone(),
                bandwidth: self.bandwidth.clone(),
                pause: None,
            }),
        };
        let request = Request::from_parts(parts, body);
        reqwest::Request::try_from(request).map_err(unsendable)
    }
}

fn unsendable(error: impl std::error::Error + Send + Sync + 'static) -> Error {
    Error::new(ErrorKind::Unexpected, "a request can't be made").set_source(error)
}

/// How much longer than `stall` the answer may take if a request makes parts an object: some servers
/// silently copy the parts that it lists. Amazon's sends white space meanwhile.
fn copying(request: &Request<Buffer>, stall: Duration) -> Duration {
    let query = request.uri().query().unwrap_or_default();
    let is_post = request.method() == Method::POST;
    // Azure's way is the second one.
    match is_post && query.contains("uploadId=") || query.contains("comp=blocklist") {
        true => stall.mul_f64(request.body().len() as f64 / LISTED_IN_A_STALL).min(stall * 15),
        false => Duration::ZERO,
    }
}

/// The bytes of a request that the kernel may still hold after it has taken them.
struct Held<'a> {
    /// Those of all requests, which share the line.
    all: &'a AtomicUsize,
    own: usize,
}

impl Held<'_> {
    fn new(all: &AtomicUsize, length: usize) -> Held<'_> {
        let own = length.min(MOST_HELD);
        all.fetch_add(own, Ordering::Relaxed);
        Held { all, own }
    }

    /// How long no byte may move: `stall`, and the time to send what all requests hold.
    fn limit(&self, stall: Duration) -> Duration {
        if self.own == 0 {
            return stall;
        }
        stall + stall.mul_f64(self.all.load(Ordering::Relaxed) as f64 / SENT_IN_A_STALL as f64)
    }
}

impl Drop for Held<'_> {
    fn drop(&mut self) {
        self.all.fetch_sub(self.own, Ordering::Relaxed);
    }
}

/// The progress of a request's body.
#[derive(Default)]
struct Sent {
    bytes: AtomicUsize,
    /// True while it waits for its share of the bandwidth.
    waits: AtomicBool,
}

/// The body of a request, sent in pieces that are counted.
struct Pieces {
    rest: Buffer,
    sent: Arc<Sent>,
    bandwidth: Option<Bandwidth>,
    /// Ends when the next piece may be sent.
    pause: Option<Pin<Box<Sleep>>>,
}

impl Body for Pieces {
    type Data = Bytes;
    type Error = convert::Infallible;

    fn poll_frame(
        mut self: Pin<&mut Self>,
        context: &mut Context<'_>,
    ) -> Poll<Option<std::result::Result<Frame<Bytes>, convert::Infallible>>> {
        let length = self.rest.chunk().len().min(PIECE);
        if length == 0 {
            return Poll::Ready(None);
        }
        if let Some(bandwidth) = self.bandwidth.clone() {
            let begin = || Box::pin(sleep_until(bandwidth.reserve(length)));
            let is_over = self.pause.get_or_insert_with(begin).as_mut().poll(context).is_ready();
            self.sent.waits.store(!is_over, Ordering::Relaxed);
            if !is_over {
                return Poll::Pending;
            }
            self.pause = None;
        }
        self.sent.bytes.fetch_add(length, Ordering::Relaxed);
        Poll::Ready(Some(Ok(Frame::data(self.rest.copy_to_bytes(length)))))
    }

    fn is_end_stream(&self) -> bool {
        self.rest.is_empty()
    }

    fn size_hint(&self) -> SizeHint {
        SizeHint::with_exact(self.rest.len() as u64)
    }
}

/// Waits for a future as long as some byte moves within each `limit`.
async fn while_moving<T>(
    sent: &Sent,
    limit: impl Fn() -> Duration,
    future: impl Future<Output = T>,
) -> Result<T> {
    let mut future = pin::pin!(future);
    loop {
        let before = sent.bytes.load(Ordering::Relaxed);
        if let Ok(done) = timeout(limit(), &mut future).await {
            return Ok(done);
        }
        let has_moved = sent.bytes.load(Ordering::Relaxed) != before;
        if !has_moved && !sent.waits.load(Ordering::Relaxed) {
            return Err(Unanswered::stalled());
        }
    }
}

/// The bytes of an answer, with an error when none comes for `stall`.
fn watched(
    answer: reqwest::Response,
    stall: Duration,
    bandwidth: Option<Bandwidth>,
) -> impl Stream<Item = Result<Buffer>> + Send + Sync {
    stream::unfold((answer, bandwidth), move |(mut answer, bandwidth)| async move {
        let next = match timeout(stall, answer.chunk()).await {
            Err(_) => Err(Unanswered::stalled()),
            Ok(Ok(bytes)) => Ok(Buffer::from(bytes?)),
            Ok(Err(error)) => {
                let error = error.without_url();
                let cut = Error::new(ErrorKind::Unexpected, "the answer was cut off");
                Err(cut.set_temporary().set_source(error))
            }
        };
        if let (Ok(bytes), Some(bandwidth)) = (&next, &bandwidth) {
            sleep_until(bandwidth.reserve(bytes.len())).await;
        }
        Some((next, (answer, bandwidth)))
    })
}

const TO_CONNECT: Duration = Duration::from_secs(10);

/// The most bytes of headers: with more than 64 KiB, OpenDAL panics.
const MOST_HEAD: usize = 32 << 10;

/// The most bytes to send in one piece.
const PIECE: usize = 64 << 10;

/// The most bytes of a request that the kernel may hold unsent.
const MOST_HELD: usize = 1 << 20;

/// The bytes that a slow line sends within the usual 20 seconds of a stall: 1 Mbit/s.
const SENT_IN_A_STALL: usize = 20 * (128 << 10);

/// The bytes of a list of parts that are copied within the usual 20 seconds of a stall: some 200 parts
/// of 8 MiB.
const LISTED_IN_A_STALL: f64 = 20_000.0;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn requests_that_share_a_slow_line_have_more_time() {
        let (all, stall) = (AtomicUsize::new(0), Duration::from_secs(20));
        assert_eq!(Held::new(&all, 0).limit(stall), stall);
        let held: Vec<_> = (0..32).map(|_| Held::new(&all, 8 << 20)).collect();
        // Their bytes need 54 seconds at 5 Mbit/s.
        assert!(held[0].limit(stall) > Duration::from_secs(60), "{:?}", held[0].limit(stall));
        assert_eq!(Held::new(&all, 0).limit(stall), stall);
        drop(held);
        assert_eq!(Held::new(&all, 8 << 20).limit(stall), Duration::from_secs(28));
    }

    #[test]
    fn a_server_has_time_to_copy_the_parts_that_a_completion_lists() {
        let stall = Duration::from_secs(20);
        let copying = |method, uri: &str, listed: usize| {
            let mut request = Request::new(Buffer::from(vec![0; listed]));
            (*request.method_mut(), *request.uri_mut()) = (method, uri.parse().unwrap());
            copying(&request, stall)
        };
        let (post, complete) = (Method::POST, "http://h/b/k?uploadId=1");
        assert!(copying(post.clone(), complete, 300) < Duration::from_secs(1));
        assert_eq!(copying(post.clone(), complete, 20_000), stall);
        assert_eq!(copying(post.clone(), complete, 1 << 20), stall * 15);
        assert_eq!(copying(Method::PUT, "http://h/b/k?comp=blocklist", 20_000), stall);
        assert!(copying(Method::PUT, "http://h/b/k?partNumber=1&uploadId=1", 20_000).is_zero());
        assert!(copying(post, "http://h/b/k?uploads", 20_000).is_zero());
    }
}
