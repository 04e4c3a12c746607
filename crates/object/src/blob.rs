//! Reading an object.

use std::ops::Range;

use evener_place::{Blob, Metadata};
use evener_seal::{Fault, Name};
use futures_util::{TryStream, TryStreamExt};
use opendal::options::ReaderOptions;
use opendal::{Buffer, Error, ErrorKind};
use tokio::time::sleep;

use crate::address::Provider;
use crate::fault::fault;
use crate::metadata::metadata;
use crate::objects::Objects;
use crate::transport::Patience;

/// An open object.
pub(crate) struct Object {
    objects: Objects,
    name: Name,
    length: u64,
    version: Version,
    metadata: Metadata,
}

/// What tells a version of an object from all others: its generation in Google's store, whose ETags
/// differ from one interface to the other, and elsewhere its ETag.
#[derive(Clone, Debug, PartialEq, Eq)]
enum Version {
    Etag(String),
    Generation(String),
}

impl Version {
    fn of(found: &opendal::Metadata, provider: Provider) -> Result<Version, Fault> {
        let version = match provider {
            Provider::Gcs => found.version().map(|it| Version::Generation(it.to_owned())),
            _ => found.etag().map(|it| Version::Etag(it.to_owned())),
        };
        version.ok_or_else(|| Fault::Failed(NO_ETAG.to_owned()))
    }

    /// Options of a read that is refused for another version.
    fn only(&self) -> ReaderOptions {
        match self.clone() {
            Version::Etag(etag) => {
                ReaderOptions { if_match: Some(etag), ..ReaderOptions::default() }
            }
            Version::Generation(generation) => {
                ReaderOptions { if_version_match: Some(generation), ..ReaderOptions::default() }
            }
        }
    }
}

impl Object {
    /// Opens an object, and reads its first bytes.
    pub(crate) fn open(
        objects: &Objects,
        name: &Name,
        first: &mut [u8],
    ) -> Result<(Object, usize), Fault> {
        let (found, read) = objects.wait(begin(objects, name, first))?;
        let version = Version::of(&found, objects.address().provider)?;
        let (length, metadata) = (found.content_length(), metadata(&found));
        let object =
            Object { objects: objects.clone(), name: name.clone(), length, version, metadata };
        Ok((object, read))
    }
}

/// Reads the first bytes of an object, as many as there are and have room, with what the store tells
/// of it.
async fn begin(
    objects: &Objects,
    name: &Name,
    first: &mut [u8],
) -> Result<(opendal::Metadata, usize), Fault> {
    let (key, provider) = (objects.key(name)?, objects.address().provider);
    let (length, any) = (first.len() as u64, ReaderOptions::default());
    let begun = match first {
        [] => None,
        _ => match read(objects, key, &any, 0..length, first).await {
            // An empty object has no range.
            Err(error) if error.kind() == ErrorKind::RangeNotSatisfied => None,
            read => Some(read.map_err(|error| fault(&error, name))?),
        },
    };
    match begun {
        // Google's store tells the user's metadata only when it is asked for them.
        Some((found, read)) if found.user_metadata().is_some() => Ok((found, read)),
        begun => {
            let status = objects.operator().stat(key).await.map_err(|error| fault(&error, name))?;
            match begun {
                Some((found, _))
                    if Version::of(&found, provider)? != Version::of(&status, provider)? =>
                {
                    Err(Fault::Changed)
                }
                begun => Ok((status, begun.map_or(0, |(_, read)| read))),
            }
        }
    }
}

impl Blob for Object {
    fn length(&self) -> u64 {
        self.length
    }

    fn read_at(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        let end = at.checked_add(buffer.len() as u64).filter(|end| *end <= self.length);
        let range = at..end.ok_or(Fault::Changed)?;
        if range.is_empty() {
            return Ok(());
        }
        let key = self.objects.key(&self.name)?;
        let (length, only) = (buffer.len(), self.version.only());
        let read = self.objects.wait(read(&self.objects, key, &only, range, buffer));
        match read {
            Ok((found, read)) => {
                let version = Version::of(&found, self.objects.address().provider)?;
                let is_whole = read == length && version == self.version;
                if is_whole { Ok(()) } else { Err(Fault::Changed) }
            }
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Fault::Changed),
            Err(error) => Err(fault(&error, &self.name)),
        }
    }

    /// Every read was of one version.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.metadata)
    }
}

/// Reads a range into a buffer, or as much of it as the object has, and repeats what is cut off.
async fn read(
    objects: &Objects,
    key: &str,
    options: &ReaderOptions,
    range: Range<u64>,
    buffer: &mut [u8],
) -> opendal::Result<(opendal::Metadata, usize)> {
    let reader = objects.operator().reader_options(key, options.clone()).await?;
    let mut patience = Patience::default();
    loop {
        // The transport has repeated what fails up to here.
        let mut stream = reader.clone().into_stream(range.clone()).await?;
        let found = stream.metadata().await?;
        let left = found.content_length().saturating_sub(range.start);
        let wanted = usize::try_from(left).unwrap_or(usize::MAX).min(buffer.len());
        match fill(&mut buffer[..wanted], stream).await {
            Ok(read) => return Ok((found, read)),
            Err(error) => sleep(patience.after(&error, true).ok_or(error)?).await,
        }
    }
}

/// Returns how many bytes came.
async fn fill(
    buffer: &mut [u8],
    mut stream: impl TryStream<Ok = Buffer, Error = Error> + Unpin,
) -> opendal::Result<usize> {
    let mut read = 0;
    while read < buffer.len() {
        let Some(bytes) = stream.try_next().await? else { break };
        for piece in bytes {
            let taken = piece.len().min(buffer.len() - read);
            buffer[read..][..taken].copy_from_slice(&piece[..taken]);
            read += taken;
        }
    }
    Ok(read)
}

const NO_ETAG: &str =
    "the store tells no ETag or generation, so reads could be of several versions";
