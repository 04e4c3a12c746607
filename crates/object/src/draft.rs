//! Writing an object.

use evener_place::{Draft, NewObject, Store as _};
use evener_seal::{Fault, Name};
use opendal::options::WriteOptions;
use opendal::{Buffer, Error, ErrorKind, Writer};

use crate::address::Provider;
use crate::fault::text;
use crate::metadata::{CHANGED, TOKEN, pairs, version};
use crate::objects::{Objects, PART};
use crate::probe::{is_refusal, token};
use crate::transport::INSISTS;
use crate::unanswered::{Kind, Unanswered};

/// An object that is being written: in one request, or in several parts that become an object at the
/// end.
pub(crate) struct Upload {
    objects: Objects,
    name: Name,
    options: WriteOptions,
    /// Distinguishes this attempt from all others. It is in the object's metadata.
    token: String,
    /// True if it may replace nothing.
    is_new: bool,
    /// The bytes that were written.
    length: u64,
    /// The upload of several parts.
    writer: Option<Writer>,
}

impl Upload {
    pub(crate) fn begin(objects: &Objects, object: &NewObject<'_>) -> Result<Upload, Fault> {
        objects.key(object.name)?;
        objects.lock().check(objects)?;
        if !object.replaces {
            objects.probe().whole(objects)?;
        }
        let token = token()?;
        let mut pairs = pairs(object.metadata);
        pairs.insert(TOKEN.to_owned(), token.clone());
        let changed = object.changed.map(|(seconds, part)| format!("{seconds}.{part:09}"));
        pairs.extend(changed.map(|changed| (CHANGED.to_owned(), changed)));
        let mut options = WriteOptions {
            user_metadata: Some(pairs),
            if_not_exists: !object.replaces,
            chunk: chunk(object.longest),
            ..WriteOptions::default()
        };
        if object.replaces {
            replace(objects, object, &mut options)?;
        }
        let (objects, name, is_new) = (objects.clone(), object.name.clone(), !object.replaces);
        Ok(Upload { objects, name, options, token, is_new, length: 0, writer: None })
    }

    fn writer(&mut self) -> Result<&mut Writer, Fault> {
        if self.writer.is_none() {
            if self.is_new {
                self.objects.probe().parts(&self.objects)?;
            }
            let key = self.objects.key(&self.name)?;
            let begun = self.objects.operator().writer_options(key, self.options.clone());
            let writer = self.objects.wait(begun);
            self.writer = Some(writer.map_err(|error| Fault::Failed(text(&error)))?);
        }
        self.writer.as_mut().ok_or_else(|| Fault::Failed("there is no upload".to_owned()))
    }

    fn end(&mut self, rest: Buffer) -> opendal::Result<opendal::Metadata> {
        let key = self.objects.key(&self.name).unwrap_or_default();
        let made = self.objects.wait(async {
            match &mut self.writer {
                None => {
                    let options = self.options.clone();
                    self.objects.operator().write_options(key, rest, options).await
                }
                Some(writer) => {
                    if !rest.is_empty() {
                        writer.write(rest).await?;
                    }
                    writer.close().await
                }
            }
        })?;
        // Other servers say yes to everything.
        if self.objects.address().provider == Provider::S3 && made.etag().is_none_or(str::is_empty)
        {
            return Err(Error::new(ErrorKind::Unexpected, NO_STORE));
        }
        Ok(made)
    }

    /// Finds out what became of a call that failed: the answer to an earlier attempt may be lost.
    /// Returns what the store tells of the object that it has made.
    fn settle(&self, error: &Error) -> Result<opendal::Metadata, Fault> {
        let reason = text(error);
        let unanswered = Unanswered::of(error);
        if unanswered.is_some_and(|it| it.kind == Kind::Unsent) {
            return Err(Fault::Failed(reason));
        }
        let is_certain = !error.is_temporary() && unanswered.is_none();
        match INSISTS.sync_scope((), || self.objects.status(&self.name)) {
            Ok(Some(found)) if self.is_ours(&found) => {
                self.check_length(found.content_length()).map(|()| found)
            }
            Ok(Some(_)) if self.is_new => Err(Fault::Exists(self.name.clone())),
            Ok(_) if is_certain && is_refusal(error.kind()) => {
                Err(Fault::Failed(format!("another writer was at work on it ({reason})")))
            }
            Ok(_) if is_certain => Err(Fault::Failed(reason)),
            Ok(_) | Err(_) => Err(Fault::Unknown(reason)),
        }
    }

    fn is_ours(&self, found: &opendal::Metadata) -> bool {
        found.user_metadata().and_then(|pairs| pairs.get(TOKEN)) == Some(&*self.token)
    }

    /// Some servers make an object of what comes before a connection breaks.
    fn check_length(&self, there: u64) -> Result<(), Fault> {
        if there == self.length {
            return Ok(());
        }
        let removed = self.objects.remove(&self.name);
        let after = if removed.is_ok() { "" } else { ", and it could not be removed" };
        let length = self.length;
        Err(Fault::Failed(format!("the store made an object of {there} of {length} bytes{after}")))
    }
}

impl Draft for Upload {
    fn write_at(&mut self, bytes: &[u8], _: u64) -> Result<(), Fault> {
        let objects = self.objects.clone();
        let part = objects.pool().copy(bytes)?;
        self.length += bytes.len() as u64;
        let written = objects.wait(self.writer()?.write(part));
        written.map_err(|error| objects.at(&self.name, Fault::Failed(text(&error))))
    }

    fn publish(mut self: Box<Self>, rest: &[u8]) -> Result<Option<String>, Fault> {
        self.length += rest.len() as u64;
        let rest = self.objects.pool().copy(rest)?;
        let made = match self.end(rest) {
            Ok(made) => {
                self.writer = None;
                made
            }
            Err(error) => {
                self.settle(&error).map_err(|fault| self.objects.at(&self.name, fault))?
            }
        };
        Ok(version(&made, self.objects.address().provider))
    }
}

impl Drop for Upload {
    /// An upload that is not completed would be paid for until somebody aborts it.
    fn drop(&mut self) {
        if let Some(mut writer) = self.writer.take() {
            let _ = self.objects.wait(INSISTS.scope((), writer.abort()));
        }
    }
}

/// Replaces only the version that was read, or else the one that is there now, so that of two writers
/// one hears of the other.
fn replace(
    objects: &Objects,
    object: &NewObject<'_>,
    options: &mut WriteOptions,
) -> Result<(), Fault> {
    let is_google = objects.address().provider == Provider::Gcs;
    if let Some(version) = object.version {
        let it = if is_google { &mut options.if_version_match } else { &mut options.if_match };
        *it = Some(version.to_owned());
        return Ok(());
    }
    match objects.status(object.name)? {
        Some(there) if is_google => options.if_version_match = there.version().map(str::to_owned),
        Some(there) => options.if_match = there.etag().map(str::to_owned),
        // A user who may replace objects needs no server with conditions.
        None => options.if_not_exists = is_google,
    }
    Ok(())
}

/// The length of parts, if an object of this length has more than a store takes of the usual ones.
fn chunk(longest: u64) -> Option<usize> {
    let part = PART as u64;
    let together = longest.div_ceil(part * MOST_PARTS);
    (together > 1).then(|| usize::try_from(together * part).unwrap_or(usize::MAX))
}

const NO_STORE: &str = "its answer has no ETag, so it is no object store";

/// The parts that S3 takes. Azure takes more.
const MOST_PARTS: u64 = 10_000;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn parts_grow_with_the_object() {
        assert_eq!(chunk(0), None);
        assert_eq!(chunk(10_000 * PART as u64), None);
        assert_eq!(chunk(10_000 * PART as u64 + 1), Some(2 * PART));
        assert_eq!(chunk(5 << 40), Some(66 * PART));
    }
}
