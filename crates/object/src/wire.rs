//! One request over HTTP, watched for bytes that move.

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
use tokio::time::{Sleep, sleep_until, timeout};

use crate::bandwidth::Bandwidth;
use crate::unanswered::{Unanswered, failed};

/// Sends requests, each once.
#[derive(Clone)]
pub(crate) struct Wire {
    client: reqwest::Client,
    /// How long nothing may move.
    stall: Duration,
    bandwidth: Option<Bandwidth>,
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
            .build()
            .map_err(|error| Error::new(ErrorKind::Unexpected, "set up TLS").set_source(error))?;
        Ok(Wire { client, stall, bandwidth })
    }

    /// Returns when the head of the answer is there.
    ///
    /// # Errors
    /// [`Unanswered`] is the source if there is no connection, or no byte moves for too long.
    pub(crate) async fn send(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (uri, is_head) = (request.uri().clone(), request.method() == Method::HEAD);
        let sent = Arc::<Sent>::default();
        // The kernel still holds some of what it has taken.
        let held = request.body().len().min(MOST_HELD);
        let limit = self.stall + Duration::from_secs((held / SLOWEST) as u64);
        let answer = self.client.execute(self.request(request, &sent)?);
        let answer = while_moving(&sent, limit, answer).await?;
        let mut answer = answer.map_err(|error| failed(error, &uri))?;

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

/// How a request moves.
#[derive(Default)]
struct Sent {
    bytes: AtomicUsize,
    /// True while it waits for its share of the bandwidth.
    waits: AtomicBool,
}

/// What a request sends, in pieces that are counted.
struct Pieces {
    rest: Buffer,
    sent: Arc<Sent>,
    bandwidth: Option<Bandwidth>,
    /// Ends when the next piece may move.
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

/// Waits as long as bytes move within each span of time.
async fn while_moving<T>(
    sent: &Sent,
    limit: Duration,
    future: impl Future<Output = T>,
) -> Result<T> {
    let mut future = pin::pin!(future);
    loop {
        let before = sent.bytes.load(Ordering::Relaxed);
        if let Ok(done) = timeout(limit, &mut future).await {
            return Ok(done);
        }
        let has_moved = sent.bytes.load(Ordering::Relaxed) != before;
        if !has_moved && !sent.waits.load(Ordering::Relaxed) {
            return Err(Unanswered::stalled());
        }
    }
}

/// The bytes of an answer, with an error when none come for too long.
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

/// The most bytes that are sent before they are counted.
const PIECE: usize = 64 << 10;

/// How much the kernel may have taken and not yet sent, and the bytes a second at which that moves.
const MOST_HELD: usize = 1 << 20;
const SLOWEST: usize = 128 << 10;
