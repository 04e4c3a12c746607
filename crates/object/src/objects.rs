//! The objects below a prefix.

use std::fmt;
use std::future::Future;
use std::path::PathBuf;
use std::sync::Arc;
use std::sync::atomic::{AtomicBool, Ordering};
use std::thread;

use evener_place::{
    Abilities, Blob, Draft, Entry, Kind, MOST_LISTED, Metadata, NewObject, Origin, Store,
};
use evener_seal::{Fault, Name};
use futures_util::future::{BoxFuture, FutureExt};
use opendal::{ErrorKind, Operator};
use tokio::runtime::{Builder, Runtime};
use tokio::sync::Semaphore;

use crate::address::{Address, Provider, is_clean};
use crate::ahead::PARTS_AT_ONCE;
use crate::amazon::Amazon;
use crate::blob::Object;
use crate::draft::Upload;
use crate::fault::{fault, text};
use crate::listing;
use crate::metadata::{changed, metadata, version};
use crate::operator::{Client, Settings, client};
use crate::pool::Pool;
use crate::probe::Probe;
use crate::retention::{LockCheck, Retention};
use crate::walk::Walk;

/// The objects of a bucket whose names begin with a prefix. Copies share their connections.
///
/// There are no directories and no links, and names are UTF-8 of at most 1,024 bytes with the
/// prefix. Modes, times and owners are kept in the metadata of each object, as rclone has them.
#[derive(Clone)]
pub struct Objects {
    inner: Arc<Inner>,
}

struct Inner {
    address: Address,
    client: Client,
    runtime: Runtime,
    requests: usize,
    retention: Option<Retention>,
    probe: Probe,
    lock: LockCheck,
    pool: Arc<Pool>,
    /// For parts that are read ahead.
    permits: Arc<Semaphore>,
    /// True if an object had extended attributes, which are not kept.
    lost_xattrs: AtomicBool,
}

impl Objects {
    /// Makes no request, unless the region of a bucket of Amazon's is to be found.
    ///
    /// # Errors
    /// [`Fault::Refused`] where the settings do not fit, or something is missing.
    pub fn new(address: &Address, settings: &Settings) -> Result<Objects, Fault> {
        let threads = thread::available_parallelism().map_or(1, usize::from).min(4);
        let runtime = Builder::new_multi_thread().worker_threads(threads).enable_all().build();
        let runtime = runtime.map_err(|error| Fault::Failed(error.to_string()))?;
        let inner = Inner {
            address: address.clone(),
            client: client(address, settings, &runtime)?,
            runtime,
            requests: settings.requests.max(2),
            retention: settings.retention,
            probe: Probe::default(),
            lock: LockCheck::default(),
            pool: Arc::default(),
            permits: Arc::new(Semaphore::new(PARTS_AT_ONCE.min(settings.requests))),
            lost_xattrs: AtomicBool::new(false),
        };
        Ok(Objects { inner: Arc::new(inner) })
    }

    /// The bucket and the prefix.
    pub fn address(&self) -> &Address {
        &self.inner.address
    }

    /// The [name](crate::server_name) of the server that these objects are on, wherever the settings
    /// name it.
    pub fn server(&self) -> &str {
        &self.inner.client.server
    }

    /// Returns whether there is an object below the prefix.
    ///
    /// # Errors
    /// When the store can't tell.
    pub fn has_objects(&self) -> Result<bool, Fault> {
        self.in_order().next().transpose().map(|first| first.is_some())
    }

    /// Lists all objects in the store's order. [`Origin::walk`] is faster if there are many.
    pub fn in_order(&self) -> impl Iterator<Item = Result<Entry, Fault>> + Send + '_ {
        listing::InOrder::new(self)
    }

    /// Lists the objects directly below the prefix whose names begin with a text, and no others.
    ///
    /// # Errors
    /// When the store can't list them, or lists more than [`MOST_LISTED`].
    pub fn beginning_with(&self, text: &str) -> Result<Vec<Entry>, Fault> {
        listing::beginning_with(self, text, MOST_LISTED)
    }

    pub(crate) fn operator(&self) -> &Operator {
        &self.inner.client.operator
    }

    pub(crate) fn amazon(&self) -> Option<&Amazon> {
        self.inner.client.amazon.as_ref()
    }

    pub(crate) fn requests(&self) -> usize {
        self.inner.requests
    }

    pub(crate) fn retention(&self) -> Option<Retention> {
        self.inner.retention
    }

    pub(crate) fn lock(&self) -> &LockCheck {
        &self.inner.lock
    }

    pub(crate) fn probe(&self) -> &Probe {
        &self.inner.probe
    }

    pub(crate) fn pool(&self) -> &Arc<Pool> {
        &self.inner.pool
    }

    pub(crate) fn permits(&self) -> &Arc<Semaphore> {
        &self.inner.permits
    }

    /// Runs a future in the background. It must not hold these objects.
    pub(crate) fn begin_to<T: Send + 'static>(
        &self,
        future: impl Future<Output = Result<T, Fault>> + Send + 'static,
    ) -> BoxFuture<'static, Result<T, Fault>> {
        let begun = self.inner.runtime.spawn(future);
        begun
            .map(|ended| ended.unwrap_or_else(|error| Err(Fault::Failed(error.to_string()))))
            .boxed()
    }

    pub(crate) fn wait<T>(&self, future: impl Future<Output = T>) -> T {
        self.inner.runtime.block_on(future)
    }

    /// The key of an object, without the prefix.
    ///
    /// # Errors
    /// [`Fault::Refused`] when a store can't have such a name.
    pub(crate) fn key<'n>(&self, name: &'n Name) -> Result<&'n str, Fault> {
        let refused = |reason: &str| Err(Fault::Refused(reason.to_owned()));
        let Some(key) = name.path().to_str() else { return refused(NO_UTF_8) };
        if key.is_empty() {
            return Ok("/");
        }
        if !is_clean(key) {
            return refused(UNCLEAN);
        }
        if self.inner.address.provider == Provider::Azure && key.contains('\\') {
            return refused(BACKSLASH);
        }
        let length = self.inner.address.prefix.len() + 1 + key.len();
        if length > LONGEST_KEY { refused(TOO_LONG) } else { Ok(key) }
    }

    /// Adds the address of an output to its fault: otherwise the error would name only its source.
    pub(crate) fn at(&self, name: &Name, fault: Fault) -> Fault {
        let address = self.inner.address.join(name.path().to_str().unwrap_or_default());
        match fault {
            Fault::Failed(reason) => Fault::Failed(format!("{address}: {reason}")),
            Fault::Unknown(reason) => Fault::Unknown(format!("{address}: {reason}")),
            fault => fault,
        }
    }

    /// Returns what a store knows of an object; `None` if there is none.
    pub(crate) fn status(&self, name: &Name) -> Result<Option<opendal::Metadata>, Fault> {
        let key = self.key(name)?;
        match self.wait(self.operator().stat(key)) {
            Ok(found) => Ok(Some(found)),
            Err(error) if error.kind() == ErrorKind::NotFound => Ok(None),
            Err(error) => Err(fault(&error, name)),
        }
    }
}

impl fmt::Debug for Objects {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_tuple("Objects").field(&self.inner.address.to_string()).finish()
    }
}

impl Origin for Objects {
    fn abilities(&self) -> Abilities {
        Abilities::slow(self.inner.requests).with_metadata()
    }

    fn walk(&self) -> Box<dyn Iterator<Item = Result<Entry, Fault>> + Send + '_> {
        Box::new(Walk::new(self))
    }

    fn list(&self, directory: &Name) -> Result<Vec<Entry>, Fault> {
        listing::list(self, directory, usize::MAX)
    }

    fn list_each(
        &self,
        directory: &Name,
        take: &mut dyn FnMut(Entry) -> Result<(), Fault>,
    ) -> Result<(), Fault> {
        listing::list_each(self, directory, take)
    }

    fn list_at_most(&self, directory: &Name, most: usize) -> Result<Vec<Entry>, Fault> {
        listing::list(self, directory, most)
    }

    fn open(&self, name: &Name, first: &mut [u8]) -> Result<(Box<dyn Blob>, usize), Fault> {
        let (object, read) = Object::open(self, name, first)?;
        Ok((Box::new(object), read))
    }

    fn label(&self) -> PathBuf {
        self.inner.address.to_string().into()
    }
}

impl Store for Objects {
    fn abilities(&self) -> Abilities {
        Origin::abilities(self).in_parts(PART)
    }

    fn look(&self, name: &Name) -> Result<Option<Entry>, Fault> {
        if *name == Name::root() {
            return Ok(Some(Entry::of(name.clone(), Kind::Directory, Metadata::default())));
        }
        let entry = |found: opendal::Metadata| {
            let mut entry = Entry::new(name.clone(), Some(found.content_length()));
            entry.metadata = metadata(&found);
            entry.source_changed = changed(&found);
            entry.version = version(&found, self.address().provider);
            entry
        };
        Ok(self.status(name)?.map(entry))
    }

    fn begin(&self, object: &NewObject<'_>) -> Result<Box<dyn Draft>, Fault> {
        if !object.metadata.xattrs.is_empty() {
            self.inner.lost_xattrs.store(true, Ordering::Relaxed);
        }
        let begun = Upload::begin(self, object);
        Ok(Box::new(begun.map_err(|fault| self.at(object.name, fault))?))
    }

    fn origin(&self) -> Option<&dyn Origin> {
        Some(self)
    }

    /// Stores answer when what they have taken is safe.
    fn sync(&self) -> Result<(), Fault> {
        Ok(())
    }

    fn keep(&self, name: &Name) -> Result<bool, Fault> {
        self.lock_longer(name).map_err(|fault| self.at(name, fault))
    }

    fn remove(&self, name: &Name) -> Result<(), Fault> {
        let key = self.key(name)?;
        match self.wait(self.operator().delete(key)) {
            Err(error) if error.kind() == ErrorKind::NotFound => Err(Fault::Missing(name.clone())),
            Err(error) => Err(Fault::Failed(text(&error))),
            Ok(()) => Ok(()),
        }
    }

    fn label(&self) -> PathBuf {
        Origin::label(self)
    }

    fn notices(&self) -> Vec<String> {
        let lost = self.inner.lost_xattrs.load(Ordering::Relaxed);
        lost.then(|| NO_XATTRS.to_owned()).into_iter().collect()
    }
}

/// The length of parts in bytes: a multiple of 256 KiB, as Google's store has it.
pub(crate) const PART: usize = 8 << 20;

const LONGEST_KEY: usize = 1024;

const NO_UTF_8: &str = "its name is no UTF-8, and the names of an object store are";
const UNCLEAN: &str = "an object store does not keep such a name: it has a control character, U+FFFE or \
     U+FFFF, a part that is `.` or `..`, or white space at an end";
const BACKSLASH: &str = "Azure takes the backslash in its name for a slash";
const TOO_LONG: &str =
    "with the prefix, its name is longer than the 1,024 bytes of an object store";
const NO_XATTRS: &str = "extended attributes are not kept in an object store";
