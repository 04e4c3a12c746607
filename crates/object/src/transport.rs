//! Repeats requests that fail temporarily.
//!
//! A repeated request has the same bytes, which are kept until the answer comes. The layers above
//! therefore never seal anything twice.

use std::collections::HashMap;
use std::pin::pin;
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex};
use std::time::{Duration, Instant};

use evener_core::IgnorePoison;
use futures_util::future::{Either, select, select_ok};
use futures_util::{StreamExt, stream};
use http::header::{RANGE, RETRY_AFTER};
use http::{HeaderMap, Method, Request, Response, StatusCode, Uri};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, Result};
use tokio::time::{sleep, timeout};

use crate::answer;
use crate::host::Host;
use crate::operator::Settings;
use crate::page::Pages;
use crate::traffic::{RequestFailure, Traffic};
use crate::unanswered::{Kind, Unanswered};
use crate::wire::Wire;

/// Sends requests, and repeats those that fail in passing.
pub(crate) struct Patient {
    wire: Wire,
    requests: usize,
    stall: Duration,
    hosts: Mutex<HashMap<String, Arc<Host>>>,
    silence: Arc<Silence>,
    pages: Pages,
    traffic: Traffic,
}

tokio::task_local! {
    /// Set while requests are made even to a server that has just failed to answer.
    pub(crate) static INSISTS: ();
}

/// Called once, when the store does not answer and a request is repeated.
pub(crate) type Listener = Box<dyn Fn() + Send + Sync>;

impl Patient {
    /// # Errors
    /// When TLS can't be set up.
    pub(crate) fn new(settings: &Settings, listener: Listener) -> Result<Patient> {
        let Settings { requests, stall, .. } = *settings;
        let wire = Wire::new(requests, stall, settings.bandwidth.clone())?;
        let silence = Arc::new(Silence { listener, has_told: AtomicBool::new(false) });
        let (hosts, pages) = (Mutex::default(), Pages::default());
        let traffic = settings.traffic.clone();
        Ok(Patient { wire, requests, stall, hosts, silence, pages, traffic })
    }

    fn host(&self, uri: &Uri) -> Arc<Host> {
        let authority = uri.authority().map_or("", |it| it.as_str());
        let mut hosts = self.hosts.lock().ignore_poison();
        let host = hosts.entry(authority.to_owned());
        host.or_insert_with(|| Arc::new(Host::new(self.requests))).clone()
    }

    async fn attempt(&self, host: &Host, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        // The range of an object may be long; everything else is read at once, and repeated whole.
        let is_read = request.method() == Method::GET && request.headers().contains_key(RANGE);
        let (method, uri) = (request.method().clone(), request.uri().clone());
        let range = request.headers().get(RANGE).cloned();
        let place = host.window.enter().await;
        let answer = match is_read {
            true => self.race(host, request).await,
            false => self.send(request).await,
        };
        let (parts, body) = answer?.into_parts();
        host.answered();
        match parts.status.as_u16() {
            429 | 503 => place.was_too_many(),
            _ => place.was_answered(),
        }
        if is_read && parts.status.is_success() {
            answer::check_range(range.as_ref(), &parts)?;
            let (silence, traffic) = (self.silence.clone(), self.traffic.clone());
            let watch = move |bytes: &Result<Buffer>| match bytes {
                Ok(_) => place.stay(),
                Err(error) => {
                    silence.tell_if_caused(error);
                    traffic.count_failed(RequestFailure::of_error(error));
                }
            };
            let body = body.map_inner(|bytes| Box::new(bytes.inspect(watch)));
            return Ok(Response::from_parts(parts, body));
        }
        let most = if method == Method::GET && parts.status.is_success() {
            MOST_LISTED
        } else {
            MOST_TOLD
        };
        let whole = at_most(most, body).to_buffer().await?;
        if parts.status.is_success() {
            self.pages.check(&uri, &whole)?;
            answer::check_completion(&method, &uri, &whole)?;
        }
        if method == Method::PUT && parts.status == StatusCode::CONFLICT {
            answer::check_conflict(&whole)?;
        }
        let length = whole.len() as u64;
        let body = HttpBody::new(stream::iter([Ok(whole)]), Some(length));
        Ok(Response::from_parts(parts, body))
    }

    async fn send(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        self.traffic.count_sent();
        self.wire.send(request).await
    }

    /// Sends a read, and a second one if the first is slower than most of the latest reads.
    async fn race(&self, host: &Host, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let begun = Instant::now();
        let mut first = pin!(self.send(copy(&request)));
        let slow = host.reads.slow().filter(|_| host.window.is_whole());
        let answer = match timeout(slow.unwrap_or(Duration::MAX), &mut first).await {
            Ok(answer) => answer,
            Err(_) => match select(first, pin!(host.window.enter())).await {
                Either::Left((answer, _)) => answer,
                Either::Right((_place, first)) => {
                    let second = pin!(self.send(request));
                    select_ok([first, second]).await.map(|(answer, _)| answer)
                }
            },
        };
        host.reads.add(begun.elapsed());
        answer
    }
}

/// Tells once that the store does not answer.
struct Silence {
    listener: Listener,
    has_told: AtomicBool,
}

impl Silence {
    fn tell_if_caused(&self, error: &Error) {
        if Unanswered::of(error).is_some() && !self.has_told.swap(true, Ordering::Relaxed) {
            (self.listener)();
        }
    }
}

/// The body, with an error if it is longer than `most` bytes.
fn at_most(most: usize, body: HttpBody) -> HttpBody {
    let mut left = most;
    let count = move |bytes: Result<Buffer>| {
        let bytes = bytes?;
        let rest = left.checked_sub(bytes.len());
        left = rest.ok_or_else(|| Error::new(ErrorKind::Unexpected, TOO_LONG))?;
        Ok(bytes)
    };
    body.map_inner(|bytes| Box::new(bytes.map(count)))
}

impl HttpTransport for Patient {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        let (host, begun) = (self.host(request.uri()), Instant::now());
        if INSISTS.try_get().is_err() {
            host.check(self.stall).inspect_err(|_| self.traffic.count_decision(false))?;
        }
        if asks_for_credentials(&request) {
            let answer = timeout(FOR_CREDENTIALS, self.attempt(&host, request)).await;
            let answer = answer.unwrap_or_else(|_| Err(Unanswered::stalled()));
            return answer.inspect_err(|error| host.gave_up(error, begun));
        }
        let mut patience = Patience::default();
        loop {
            let answer = self.attempt(&host, copy(&request)).await;
            let pause = match &answer {
                Ok(answer) if is_passing(answer.status()) => {
                    self.traffic.count_failed(RequestFailure::of_status(answer.status()));
                    patience.after_refusal(answer.headers())
                }
                Ok(_) => return answer,
                Err(error) => {
                    self.traffic.count_failed(RequestFailure::of_error(error));
                    patience.after(error, host.has_answered())
                }
            };
            self.traffic.count_decision(pause.is_some());
            if let Err(error) = &answer {
                match pause {
                    Some(_) => self.silence.tell_if_caused(error),
                    None => host.gave_up(error, begun),
                }
            }
            let Some(pause) = pause else { return answer };
            sleep(pause).await;
        }
    }
}

/// The failures of one request.
#[derive(Default)]
pub(crate) struct Patience {
    failures: u32,
    stalls: u32,
}

impl Patience {
    /// How long to wait before repeating the request; `None` if it should not be repeated.
    pub(crate) fn after(&mut self, error: &Error, has_answered: bool) -> Option<Duration> {
        match Unanswered::of(error).map(|unanswered| unanswered.kind) {
            Some(Kind::Stalled) => self.stalls += 1,
            // The address is probably wrong.
            Some(Kind::Unreached) if !has_answered => return None,
            Some(Kind::Distrusted) => return None,
            None if !error.is_temporary() => return None,
            _ => {}
        }
        self.pause()
    }

    fn after_refusal(&mut self, headers: &HeaderMap) -> Option<Duration> {
        let pause = self.pause()?;
        Some(asked(headers).unwrap_or(pause))
    }

    fn pause(&mut self) -> Option<Duration> {
        self.failures += 1;
        let is_over = self.failures == ATTEMPTS || self.stalls == MOST_STALLS;
        (!is_over).then(|| backoff(self.failures))
    }
}

/// How long to wait before the next attempt: a random time, which doubles up to a limit.
fn backoff(attempt: u32) -> Duration {
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

/// The most attempts at one request: some 15 seconds.
const ATTEMPTS: u32 = 8;

/// The most attempts that may end because no byte moves.
const MOST_STALLS: u32 = 3;

const FIRST_PAUSE: Duration = Duration::from_millis(100);
const LONGEST_PAUSE: Duration = Duration::from_secs(8);
const LONGEST_ASKED: Duration = Duration::from_secs(60);

/// The most bytes of a listing: Azure's pages have 5,000 names of up to 1,024 bytes.
const MOST_LISTED: usize = 16 << 20;

/// The most bytes of any other answer that is read at once.
const MOST_TOLD: usize = 1 << 20;

const TOO_LONG: &str = "the store's answer is too long";

/// How long to wait for the credentials of this machine.
const FOR_CREDENTIALS: Duration = Duration::from_secs(2);

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn patience_ends() {
        let attempts = |error: &Error, has_answered| {
            let mut patience = Patience::default();
            1 + std::iter::from_fn(|| patience.after(error, has_answered)).count() as u32
        };
        let error = |kind| Error::from(Unanswered { kind, reason: String::new() });
        let reset = Error::new(opendal::ErrorKind::Unexpected, "").set_temporary();
        assert_eq!(attempts(&reset, false), ATTEMPTS);
        assert_eq!(attempts(&error(Kind::Stalled), false), MOST_STALLS);
        assert_eq!(attempts(&error(Kind::Unreached), true), ATTEMPTS);
        assert_eq!(attempts(&error(Kind::Unreached), false), 1);
        assert_eq!(attempts(&error(Kind::Distrusted), true), 1);
    }
}
