//! S3's object lock: nobody can delete or replace an object until a time.

use std::future::ready;
use std::path::Path;
use std::sync::Mutex;
use std::time::SystemTime;

use base64::Engine as _;
use base64::prelude::BASE64_STANDARD;
use evener_core::IgnorePoison;
use evener_seal::{Fault, Name};
use futures_util::{StreamExt, TryStreamExt, stream};
use http::header::{AUTHORIZATION, CONTENT_TYPE, HOST};
use http::{HeaderMap, HeaderName, HeaderValue, Method, Request, Response};
use opendal::{Buffer, Error, ErrorKind, HttpBody, HttpTransport, HttpTransporter, Result};
use reqsign_aws_v4::Credential;
use reqsign_core::Signer;
use reqsign_core::time::Timestamp;
use serde::Deserialize;
use sha2::{Digest, Sha256};

use crate::amazon::{Amazon, time};
use crate::leftovers::is_probe;
use crate::objects::Objects;

/// How long nobody can delete or replace a version of an object.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub struct Retention {
    /// The end of the lock.
    pub until: SystemTime,
    /// True if nobody can end it sooner, not even the account that pays. Otherwise accounts with
    /// the permission `s3:BypassGovernanceRetention` can.
    pub complies: bool,
}

impl Retention {
    /// Until a time, in governance mode: accounts with the permission can end it sooner.
    pub fn until(until: SystemTime) -> Retention {
        Retention { until, complies: false }
    }

    fn mode(self) -> &'static str {
        if self.complies { "COMPLIANCE" } else { "GOVERNANCE" }
    }

    fn date(self) -> Option<String> {
        let since = self.until.duration_since(SystemTime::UNIX_EPOCH).ok()?;
        // A part of a second counts as a whole one.
        let seconds = since.as_secs() + u64::from(since.subsec_nanos() > 0);
        let time = Timestamp::from_second(i64::try_from(seconds).ok()?).ok()?;
        Some(time.format_rfc3339_zulu())
    }
}

/// Adds the retention to each request that begins an object, because OpenDAL has no setting for it,
/// and signs the request again.
pub(crate) struct Locking {
    inner: HttpTransporter,
    signer: Signer<Credential>,
    headers: HeaderMap,
}

impl Locking {
    pub(crate) fn new(
        inner: HttpTransporter,
        signer: Signer<Credential>,
        retention: Retention,
    ) -> Locking {
        let mut headers = HeaderMap::new();
        headers.insert(MODE, HeaderValue::from_static(retention.mode()));
        let date = retention.date().and_then(|date| HeaderValue::try_from(date).ok());
        headers.extend(date.map(|date| (UNTIL, date)));
        Locking { inner, signer, headers }
    }
}

impl HttpTransport for Locking {
    async fn fetch(&self, request: Request<Buffer>) -> Result<Response<HttpBody>> {
        if !begins_object(&request) {
            return self.inner.fetch(request).await;
        }
        let (mut head, body) = request.into_parts();
        for name in [AUTHORIZATION, SIGNED_AT, TOKEN] {
            head.headers.remove(name);
        }
        head.headers.extend(self.headers.clone());
        let signed = self.signer.sign(&mut head, None).await;
        let failed = |error| Error::new(ErrorKind::Unexpected, "sign it again").set_source(error);
        signed.map_err(failed)?;
        head.headers.remove(HOST);
        self.inner.fetch(Request::from_parts(head, body)).await
    }
}

/// Returns whether a request makes an object, or begins its upload. Leaves out probe objects, which
/// must be removable.
fn begins_object<B>(request: &Request<B>) -> bool {
    let query = request.uri().query();
    let begins = match *request.method() {
        Method::PUT => query.is_none(),
        Method::POST => query.is_some_and(|query| query.starts_with("uploads")),
        _ => false,
    };
    begins && !is_probe(Path::new(request.uri().path()))
}

impl Objects {
    /// Locks existing objects as long as new ones. A lock that ends later stays.
    ///
    /// # Errors
    /// When the settings have no retention, or the store refuses it.
    pub fn retain(&self, names: &[Name]) -> std::result::Result<(), Fault> {
        let refused = || Fault::Refused(NO_RETENTION.to_owned());
        let (amazon, retention) = self.amazon().zip(self.retention()).ok_or_else(refused)?;
        let keys = names.iter().map(|name| self.key(name));
        let keys = keys.collect::<std::result::Result<Vec<_>, _>>()?;
        let root = |key: &str| self.address().join(key).prefix;
        let each = stream::iter(keys).map(|key| retain(amazon, root(key), retention));
        let all = each.buffer_unordered(self.requests()).try_for_each(|_| ready(Ok(())));
        self.wait(all)
    }

    /// Locks an existing object as long as new ones, if those are locked. Returns false if none are,
    /// or its lock ends later.
    pub(crate) fn lock_longer(&self, name: &Name) -> std::result::Result<bool, Fault> {
        let Some((amazon, retention)) = self.amazon().zip(self.retention()) else {
            return Ok(false);
        };
        self.lock().check(self)?;
        let key = self.address().join(self.key(name)?).prefix;
        self.wait(retain(amazon, key, retention))
    }
}

/// Asks once whether a bucket has object lock: some servers ignore the locks of new objects.
#[derive(Default)]
pub(crate) struct LockCheck(Mutex<Option<std::result::Result<(), Fault>>>);

impl LockCheck {
    /// Fails if new objects need a lock and would not get it.
    pub(crate) fn check(&self, objects: &Objects) -> std::result::Result<(), Fault> {
        let (Some(amazon), Some(_)) = (objects.amazon(), objects.retention()) else {
            return Ok(());
        };
        let mut asked = self.0.lock().ignore_poison();
        let ask = || {
            let answer = objects.wait(amazon.ask(Method::GET, "", &[("object-lock", "")]));
            match answer.and_then(|answer| answer.parse::<Configuration>()) {
                Ok(found) if found.object_lock_enabled == "Enabled" => Ok(()),
                // Without this permission, go on: Amazon's own store refuses objects it can't lock.
                Err(Fault::Failed(reason)) if reason.contains("AccessDenied") => {
                    let unasked = || Fault::Refused(NOT_TOLD.to_owned());
                    amazon.is_own.then_some(()).ok_or_else(unasked)
                }
                Err(Fault::Failed(reason)) if !reason.contains("ObjectLock") => {
                    Err(Fault::Failed(reason))
                }
                _ => Err(Fault::Refused(NO_LOCK.to_owned())),
            }
        };
        asked.get_or_insert_with(ask).clone()
    }
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct Configuration {
    object_lock_enabled: String,
}

/// Returns false if the lock that is there ends later.
async fn retain(
    amazon: &Amazon,
    key: String,
    retention: Retention,
) -> std::result::Result<bool, Fault> {
    let Err(refusal) = lock(amazon, &key, retention).await else { return Ok(true) };
    // The store also refuses to shorten a lock.
    let there = amazon.ask(Method::GET, &key, &[("retention", "")]).await;
    let Ok(there) = there.and_then(|answer| answer.parse::<There>()) else { return Err(refusal) };
    match time(&there.retain_until_date).filter(|until| *until >= retention.until) {
        None => Err(refusal),
        Some(until) if retention.complies && there.mode != retention.mode() => {
            let locked = lock(amazon, &key, Retention { until, ..retention }).await;
            let failed = |fault| Fault::Failed(format!("{GOVERNED}: {fault}"));
            locked.map(|()| true).map_err(failed)
        }
        Some(_) => Ok(false),
    }
}

async fn lock(amazon: &Amazon, key: &str, retention: Retention) -> std::result::Result<(), Fault> {
    let (mode, date) = (retention.mode(), retention.date().unwrap_or_default());
    let body = format!(
        "<Retention xmlns=\"http://s3.amazonaws.com/doc/2006-03-01/\"><Mode>{mode}</Mode>\
         <RetainUntilDate>{date}</RetainUntilDate></Retention>"
    );
    let sum = BASE64_STANDARD.encode(Sha256::digest(&body));
    let mut headers = HeaderMap::new();
    headers.extend(HeaderValue::try_from(sum).ok().map(|sum| (CHECKSUM, sum)));
    headers.insert(CONTENT_TYPE, HeaderValue::from_static("application/xml"));
    amazon.put(key, &[("retention", "")], headers, body).await.map(drop)
}

#[derive(Deserialize)]
#[serde(rename_all = "PascalCase")]
struct There {
    mode: String,
    retain_until_date: String,
}

const MODE: HeaderName = HeaderName::from_static("x-amz-object-lock-mode");
const UNTIL: HeaderName = HeaderName::from_static("x-amz-object-lock-retain-until-date");
const SIGNED_AT: HeaderName = HeaderName::from_static("x-amz-date");
const TOKEN: HeaderName = HeaderName::from_static("x-amz-security-token");
const CHECKSUM: HeaderName = HeaderName::from_static("x-amz-checksum-sha256");

const NO_LOCK: &str = "the bucket has no object lock, so nothing in it can be locked until a time";
const GOVERNED: &str =
    "an object has a lock in governance mode, which could not be changed to compliance mode";
const NOT_TOLD: &str = "the store does not tell whether the bucket has object lock, and only Amazon's own is known to \
     refuse an object that it can't lock: grant s3:GetBucketObjectLockConfiguration, or leave the \
     retention period out";
const NO_RETENTION: &str = "no retention period is set for objects here";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_begins_an_object_is_locked() {
        let begins = |method: Method, url: &str| {
            begins_object(&Request::builder().method(method).uri(url).body(()).unwrap())
        };
        assert!(
            begins(Method::PUT, "http://h/b/k") && begins(Method::POST, "http://h/b/k?uploads")
        );
        assert!(!begins(Method::PUT, "http://h/b/k?partNumber=1&uploadId=x"));
        assert!(!begins(Method::POST, "http://h/b/k?uploadId=x"));
        assert!(!begins(Method::PUT, "http://h/b/a/.evener-0123456789abcdef.part"));
        assert!(begins(Method::PUT, "http://h/b/a/.evener-key.age"));
        assert!(!begins(Method::GET, "http://h/b/k") && !begins(Method::DELETE, "http://h/b/k"));
    }

    #[test]
    fn dates_are_in_utc() {
        let date = |seconds| {
            let since = std::time::Duration::from_secs(seconds);
            Retention::until(SystemTime::UNIX_EPOCH + since).date()
        };
        assert_eq!(date(1_795_199_400).as_deref(), Some("2026-11-20T18:30:00Z"));
    }
}
