//! Reading an object.

use std::future::ready;
use std::ops::Range;
use std::sync::{Arc, Mutex};

use bytes::Buf as _;
use evener_core::IgnorePoison;
use evener_place::{self as place, Blob, Metadata};
use evener_seal::{Fault, Name};
use futures_util::future::{BoxFuture, FutureExt};
use futures_util::{TryStream, TryStreamExt};
use opendal::options::ReaderOptions;
use opendal::{Buffer, Error, ErrorKind, Operator};
use tokio::time::sleep;

use crate::address::Provider;
use crate::ahead::{Ahead, Fetched};
use crate::fault::{fault, is_out_of_range};
use crate::metadata::{changed, metadata, version};
use crate::objects::{Objects, PART};
use crate::pool::{LONG, Pool};
use crate::transport::Patience;

/// An open object.
pub(crate) struct Object {
    objects: Objects,
    name: Name,
    length: u64,
    version: Version,
    /// The version in the form of listings.
    text: Option<String>,
    metadata: Metadata,
    /// The time at which its source was last changed.
    changed: Option<(i64, u32)>,
    /// The parts read ahead, if the whole object will be read.
    ahead: Mutex<Option<Ahead>>,
}

/// A version of an object in the store's own words, for conditions of requests.
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
        let provider = objects.address().provider;
        let object = Object {
            objects: objects.clone(),
            name: name.clone(),
            length: found.content_length(),
            version: Version::of(&found, provider)?,
            text: version(&found, provider),
            metadata: metadata(&found),
            changed: changed(&found),
            ahead: Mutex::default(),
        };
        Ok((object, read))
    }

    /// Begins to fetch exactly this range of this version.
    fn fetch(&self, range: Range<u64>) -> Result<Fetching, Fault> {
        let (name, key) = (self.name.clone(), self.objects.key(&self.name)?.to_owned());
        let (operator, version) = (self.objects.operator().clone(), self.version.clone());
        let pool = self.objects.pool().clone();
        let provider = self.objects.address().provider;
        let length = range.end - range.start;
        Ok(self.objects.begin_to(async move {
            match read((&operator, &pool), &key, &version.only(), range).await {
                Ok((found, bytes)) => {
                    let is_whole = bytes.len() as u64 == length;
                    let is_same = Version::of(&found, provider)? == version;
                    if is_whole && is_same { Ok(bytes) } else { Err(Fault::Changed) }
                }
                Err(error) if error.kind() == ErrorKind::NotFound => Err(Fault::Changed),
                Err(error) => Err(fault(&error, &name)),
            }
        }))
    }

    fn read_directly(&self, buffer: &mut [u8], at: u64) -> Result<(), Fault> {
        if !buffer.is_empty() {
            let fetching = self.fetch(at..at + buffer.len() as u64)?;
            self.objects.wait(fetching)?.copy_to_slice(buffer);
        }
        Ok(())
    }

    /// A part that was read ahead; `None` if the caller must read it directly.
    fn part(&self, number: u64) -> Option<Fetched> {
        let fetch = |range| match self.fetch(range) {
            Ok(fetching) => fetching,
            Err(fault) => ready(Err(fault)).boxed(),
        };
        self.ahead.lock().ignore_poison().as_mut()?.part(number, self.objects.permits(), fetch)
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
    let any = ReaderOptions::default();
    let begun = match first {
        [] => None,
        _ => match read((objects.operator(), objects.pool()), key, &any, 0..first.len() as u64)
            .await
        {
            // An empty object has no range.
            Err(error) if is_out_of_range(&error) => None,
            read => {
                let (found, mut bytes) = read.map_err(|error| fault(&error, name))?;
                let length = bytes.len();
                bytes.copy_to_slice(&mut first[..length]);
                Some((found, length))
            }
        },
    };
    match begun {
        // Others tell the user's metadata, or OpenDAL does, only when they are asked for them.
        Some((found, read)) if provider == Provider::S3 || found.user_metadata().is_some() => {
            Ok((found, read))
        }
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
        end.ok_or(Fault::Changed)?;
        if self.ahead.lock().ignore_poison().is_none() {
            return self.read_directly(buffer, at);
        }
        let (mut rest, mut at) = (buffer, at);
        while !rest.is_empty() {
            let (number, within) = (at / PART as u64, (at % PART as u64) as usize);
            let (now, later) = rest.split_at_mut(rest.len().min(PART - within));
            match self.part(number) {
                None => self.read_directly(now, at)?,
                Some(fetched) => {
                    let bytes = self.objects.wait(fetched)?;
                    bytes.slice(within..within + now.len()).copy_to_slice(now);
                    if let Some(ahead) = &mut *self.ahead.lock().ignore_poison() {
                        ahead.has_read(number, now.len());
                    }
                }
            }
            at += now.len() as u64;
            rest = later;
        }
        Ok(())
    }

    fn will_read_all(&self) {
        if self.length > LONG as u64 {
            *self.ahead.lock().ignore_poison() = Some(Ahead::new(self.length));
        }
    }

    /// Every read was of one version.
    fn check(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn metadata(&self) -> Option<&Metadata> {
        Some(&self.metadata)
    }

    fn version(&self) -> Option<place::Version> {
        Some(place::Version::new(self.text.clone()?, self.changed))
    }
}

/// Reads a range, or as much of it as the object has. Repeats answers that are cut off.
async fn read(
    (operator, pool): (&Operator, &Arc<Pool>),
    key: &str,
    options: &ReaderOptions,
    range: Range<u64>,
) -> opendal::Result<(opendal::Metadata, Buffer)> {
    let reader = operator.reader_options(key, options.clone()).await?;
    let mut patience = Patience::default();
    loop {
        // The transport repeats requests that fail before their answer begins.
        let mut stream = reader.clone().into_stream(range.clone()).await?;
        let found = stream.metadata().await?;
        let left = found.content_length().saturating_sub(range.start);
        let wanted = left.min(range.end - range.start) as usize;
        match collect(stream, wanted, pool).await {
            Ok(bytes) => return Ok((found, bytes)),
            Err(error) => sleep(patience.after(&error, true).ok_or(error)?).await,
        }
    }
}

/// Collects at most `most` bytes.
async fn collect(
    mut stream: impl TryStream<Ok = Buffer, Error = Error> + Unpin,
    most: usize,
    pool: &Arc<Pool>,
) -> opendal::Result<Buffer> {
    let mut bytes = pool.lend(most).map_err(no_memory)?;
    let mut read = 0;
    while read < most {
        let Some(more) = stream.try_next().await? else { break };
        for piece in more {
            let taken = piece.len().min(most - read);
            bytes.bytes()[read..][..taken].copy_from_slice(&piece[..taken]);
            read += taken;
        }
    }
    Ok(bytes.freeze().slice(..read))
}

fn no_memory(fault: Fault) -> Error {
    Error::new(ErrorKind::Unexpected, fault.to_string())
}

/// A range that is being fetched.
type Fetching = BoxFuture<'static, Result<Buffer, Fault>>;

const NO_ETAG: &str =
    "the store tells no ETag or generation, so reads could be of several versions";
