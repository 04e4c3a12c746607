//! Object stores as sources and targets.

mod any_place;

use std::ffi::{OsStr, OsString};
use std::io;
use std::path::{Path, PathBuf};
use std::sync::{Arc, Mutex};

use evener::keys::{KeyError, KeyFile};
use evener::place::{Blob, Fault, MOST_LISTED, Name, Origin, ReadAhead, Store};
use evener::{Evener, Failure, FileError, Operation, OperationError, Report, is_wrapped_key_name};
use evener_core::IgnorePoison;

use crate::ends::{Ends, Place, directory_of};
use crate::objects::{Address, Objects, Settings, Traffic};
use crate::options::{StoreOptions, Writing};
use crate::progress::clear_bar;
use crate::route::Route;
use crate::trouble::{Trouble, complain, refused, shown};

pub(crate) use any_place::AnyPlace;
use any_place::One;

/// Opens object stores. Copies share the open ones.
#[derive(Clone, Default)]
pub(crate) struct Stores {
    settings: Settings,
    opened: Arc<Mutex<Vec<Opened>>>,
}

struct Opened {
    address: Address,
    /// True if it was opened without what applies to new objects.
    is_bare: bool,
    objects: Objects,
}

impl Stores {
    pub(crate) fn new(options: &StoreOptions) -> Stores {
        let mut settings = options.settings();
        settings.on_silence = Some(tell_of_silence);
        Stores { settings, ..Stores::default() }
    }

    /// The counts of the requests that are made.
    pub(crate) fn traffic(&self) -> Traffic {
        self.settings.traffic.clone()
    }

    /// The address that was typed; `None` for a path.
    pub(crate) fn address(typed: &OsStr) -> Result<Option<Address>, Trouble> {
        match typed.to_str().filter(|typed| Address::is_meant(typed)) {
            Some(typed) => {
                let address = typed.parse::<Address>();
                address.map(Some).map_err(|error| Trouble::Usage(error.to_string()))
            }
            None if is_nearly_meant(typed) => Err(Trouble::Usage(format!(
                "{}: an address begins with s3://, gs:// or az://; write ./ before a path that \
                 looks like one",
                shown(Path::new(typed))
            ))),
            None => Ok(None),
        }
    }

    /// Returns whether new objects are locked for a time.
    pub(crate) fn retains(&self) -> bool {
        self.settings.retention.is_some()
    }

    /// The objects at an address.
    pub(crate) fn open(&self, address: &Address) -> Result<Objects, Failure> {
        self.open_with(address, &self.settings, false)
    }

    /// The objects at an address where none are made: settings of new objects may be for the other
    /// end alone.
    pub(crate) fn open_source(&self, address: &Address) -> Result<Objects, Failure> {
        let mut bare = self.settings.clone();
        let is_bare = bare.retention.take().is_some() | bare.storage_class.take().is_some();
        self.open_with(address, &bare, is_bare)
    }

    fn open_with(
        &self,
        address: &Address,
        settings: &Settings,
        is_bare: bool,
    ) -> Result<Objects, Failure> {
        let mut opened = self.opened.lock().ignore_poison();
        let is_it = |it: &&Opened| it.address == *address && it.is_bare <= is_bare;
        if let Some(Opened { objects, .. }) = opened.iter().find(is_it) {
            return Ok(objects.clone());
        }
        let mut settings = settings.clone();
        if !is_in_s3(address) {
            settings.profile = None;
        }
        let objects = Objects::new(address, &settings).map_err(|fault| at(address, fault))?;
        opened.push(Opened { address: address.clone(), is_bare, objects: objects.clone() });
        Ok(objects)
    }

    /// Opens an address for new objects before anything there is read, so that settings that its
    /// store does not take are refused first.
    pub(crate) fn prepare(&self, typed: &OsStr) -> Result<(), Trouble> {
        if let Some(address) = Stores::address(typed)? {
            self.open(&address)?;
        }
        Ok(())
    }

    /// The place that a name leads to.
    pub(crate) fn place(&self, typed: &Path, evener: &Evener) -> Result<AnyPlace, Trouble> {
        Ok(match Stores::address(typed.as_os_str())? {
            Some(address) => AnyPlace::Objects(self.open(&address)?),
            None => AnyPlace::local(evener, typed),
        })
    }

    /// The name of the server that an address is on.
    pub(crate) fn server(&self, address: &Address) -> Result<String, Failure> {
        Ok(self.open_source(address)?.server().to_owned())
    }

    /// The name of a place in what runs remember.
    pub(crate) fn name(&self, address: &Address) -> Result<String, Failure> {
        Ok(format!("{address} at {}", self.server(address)?))
    }

    /// Returns whether a sealed tree is there, as far as its marker shows.
    pub(crate) fn has_sealed(&self, address: &Address) -> Result<bool, Trouble> {
        let marker = self.open_source(address)?.look(&Name::found(MARKER.into()));
        Ok(marker.map_err(|fault| at(address, fault))?.is_some())
    }

    /// The prefix and the name of an object, if there is one with this address.
    pub(crate) fn split_object(
        &self,
        address: &Address,
    ) -> Result<Option<(Address, Name)>, Failure> {
        let Some((above, name)) = address.split_last() else { return Ok(None) };
        let name = Name::found(name.into());
        let there = self.open_source(&above)?.look(&name);
        let there = there.map_err(|fault| at(address, fault))?;
        Ok(there.map(|_| (above, name)))
    }

    /// The wrapped key that was written last in a sealed tree, and its address.
    pub(crate) fn newest_wrapping(
        &self,
        tree: &Address,
    ) -> Result<Option<(String, Vec<u8>)>, Trouble> {
        let (objects, fail) = (self.open_source(tree)?, |fault| at(tree, fault));
        let keys = objects.list_at_most(&Name::found("keys".into()), MOST_LISTED).map_err(fail)?;
        let Some(newest) = keys.into_iter().max_by_key(|entry| entry.metadata.modified) else {
            return Ok(None);
        };
        let path = tree.join(newest.name.path().to_str().unwrap_or_default()).to_string();
        let bytes = read_wrapped(&objects, &newest.name, Path::new(&path))?;
        Ok(Some((path, bytes)))
    }

    /// An open object, of which more is read at once than is asked for.
    pub(crate) fn open_object(&self, address: &Address) -> Result<Box<dyn Blob>, Failure> {
        let missing = || at(address, Fault::Refused("it names no object".to_owned()));
        let (above, name) = address.split_last().ok_or_else(missing)?;
        let opened = self.open_source(&above)?.open(&Name::found(name.into()), &mut []);
        let (blob, _) = opened.map_err(|fault| at(address, fault))?;
        Ok(Box::new(ReadAhead::of(blob, ReadAhead::MOST)))
    }

    /// Returns when the store of a target answers, which a run that writes nothing would not notice.
    pub(crate) fn check_target(&self, ends: &Ends) -> Result<(), Failure> {
        let Some(Place::Objects(address)) = &ends.target else { return Ok(()) };
        let answered = self.open(address)?.has_objects();
        answered.map(drop).map_err(|fault| at(address, fault))
    }

    /// Encrypts, decrypts or verifies plain objects and files. Failed ones give a report, no error.
    pub(crate) fn process(
        &self,
        evener: &Evener,
        operation: Operation,
        ends: &Ends,
    ) -> Result<Report, Failure> {
        refuse_overlap(ends)?;
        let source = self.source(evener, ends)?;
        let target = match &ends.target {
            None => None,
            Some(Place::Objects(address)) => Some(AnyPlace::Objects(self.open(address)?)),
            Some(Place::Path(path)) => Some(AnyPlace::local(evener, path)),
            Some(Place::Pipe) => return Err(fail(Path::new("-"), refused(NO_PIPE))),
        };
        let target = target.as_ref().map(|target| target as &dyn Store);
        let report = evener.transfer(operation, &*source.place, target);
        let mut report = report.or_else(OperationError::into_report).map_err(|failure| {
            let is_of_all = failure.path.as_os_str().is_empty();
            if is_of_all { Failure { path: source.path.clone(), ..failure } } else { failure }
        })?;
        let Report { files, files_skipped, files_updated, files_unchanged, .. } = report;
        let done = files + files_skipped + files_updated + files_unchanged;
        if files_skipped + files_unchanged > 0 && self.retains() {
            report.failures.extend(self.retain_keys(ends).err());
        }
        if done == 0 && !report.interrupted && report.failures.is_empty() {
            let why = if report.left_out > 0 { ": all of it was left out" } else { "" };
            let error = refused(format!("nothing was found to {}{why}", operation.name()));
            report.failures.push(Failure { path: source.path, error });
        }
        Ok(report)
    }

    /// Locks the wrapped keys of objects that stay as they are.
    fn retain_keys(&self, ends: &Ends) -> Result<(), Failure> {
        let Some(Place::Objects(target)) = &ends.target else { return Ok(()) };
        let objects = self.open(target)?;
        let file = match &ends.source {
            Place::Path(path) if !ends.source_is_tree => path.file_name(),
            _ => None,
        };
        let stem = file.and_then(OsStr::to_str).unwrap_or("evener-key");
        let is_key = |name: &str| {
            let sealed = name.split_once(".evener-key").map(|(sealed, _)| OsStr::new(sealed));
            is_wrapped_key_name(file.and(sealed), OsStr::new(name))
        };
        let retained = objects.beginning_with(stem).and_then(|found| {
            let names = found.into_iter().map(|entry| entry.name);
            let keys = names.filter(|name| name.path().to_str().is_some_and(is_key));
            objects.retain(&keys.collect::<Vec<_>>())
        });
        retained.map_err(|fault| at(target, fault))
    }

    fn source(&self, evener: &Evener, ends: &Ends) -> Result<Source, Failure> {
        let one = |place: AnyPlace, name: Name| Box::new(One { place, name }) as Box<dyn Origin>;
        Ok(match &ends.source {
            Place::Pipe => return Err(fail(Path::new("-"), refused(NO_PIPE))),
            Place::Path(path) if ends.source_is_tree => {
                Source { path: path.clone(), place: Box::new(evener.local(path)) }
            }
            Place::Path(path) => {
                let above = AnyPlace::local(evener, directory_of(path));
                let name = Name::found(path.file_name().unwrap_or_default().into());
                Source { path: path.clone(), place: one(above, name) }
            }
            Place::Objects(address) => {
                let path = PathBuf::from(address.to_string());
                let place: Box<dyn Origin> = match self.split_object(address)? {
                    Some((above, name)) => one(AnyPlace::Objects(self.open_source(&above)?), name),
                    None => Box::new(self.open_source(address)?),
                };
                Source { path, place }
            }
        })
    }
}

/// Returns whether a path looks like an address of a store, or of a server.
fn is_nearly_meant(typed: &OsStr) -> bool {
    let Some((scheme, rest)) = typed.to_str().and_then(|typed| typed.split_once(':')) else {
        return false;
    };
    let is_known = ["s3", "gs", "az"].iter().any(|known| scheme.eq_ignore_ascii_case(known));
    let is_word = !scheme.is_empty() && scheme.bytes().all(|byte| byte.is_ascii_alphanumeric());
    is_known || is_word && rest.starts_with("//")
}

fn is_in_s3(address: &Address) -> bool {
    address.to_string().starts_with("s3://")
}

fn tell_of_silence(address: &Address) {
    clear_bar();
    complain(&format_args!("{address}: the store does not answer; trying again"));
}

/// A source with its path.
struct Source {
    path: PathBuf,
    place: Box<dyn Origin>,
}

/// Reads a wrapped key. Messages call it `path`.
pub(crate) fn read_key(objects: &Objects, name: &Name, path: &Path) -> Result<KeyFile, KeyError> {
    let bytes = read_wrapped(objects, name, path)?;
    KeyFile::read_from(&mut &bytes[..], &shown(path).to_string())
}

fn read_wrapped(objects: &Objects, name: &Name, path: &Path) -> Result<Vec<u8>, KeyError> {
    let failed = |fault: Fault| {
        let cause = io::Error::other(fault.to_string());
        KeyError::Io { action: "read", path: path.to_owned(), cause }
    };
    let mut bytes = vec![0; USUAL_KEY];
    let (blob, read) = objects.open(name, &mut bytes).map_err(failed)?;
    bytes.resize(blob.length().min(LONGEST_KEY) as usize, 0);
    if let Some(rest) = bytes.get_mut(read..).filter(|rest| !rest.is_empty()) {
        blob.read_at(rest, read as u64).map_err(failed)?;
    }
    Ok(bytes)
}

/// Names an address in a failure.
pub(crate) fn at(address: &Address, fault: Fault) -> Failure {
    fail(Path::new(&address.to_string()), fault.into())
}

fn fail(path: &Path, error: FileError) -> Failure {
    Failure { path: path.to_owned(), error }
}

/// Refuses a source and a target of which one is below the other.
pub(crate) fn refuse_overlap(ends: &Ends) -> Result<(), Failure> {
    match (&ends.source, &ends.target) {
        (Place::Objects(source), Some(Place::Objects(target)))
            if source.holds(target) || target.holds(source) =>
        {
            Err(at(source, Fault::Refused(OVERLAP.to_owned())))
        }
        _ => Ok(()),
    }
}

/// Refuses several ends of which one is an object store.
pub(crate) fn refuse_among_several(sources: &[OsString], target: &OsString) -> Result<(), Trouble> {
    for path in sources.iter().chain([target]) {
        if Stores::address(path)?.is_some() && sources.len() > 1 {
            return Err(Trouble::Usage(format!(
                "{}: an object store goes with one other place; give several sources one by one",
                shown(Path::new(path))
            )));
        }
    }
    Ok(())
}

/// Refuses options that do not go with an object store, and those that go only with one.
pub(crate) fn check(
    options: &StoreOptions,
    writing: &Writing,
    route: &Route,
) -> Result<(), Trouble> {
    let ends = route.first();
    refuse_unused(options, ends)?;
    if !ends.has_objects() {
        return Ok(());
    }
    if ends.has_pipe() {
        return Err(Trouble::usage(NO_PIPE));
    }
    writing.check_objects()
}

/// Refuses the options of object stores where none is.
pub(crate) fn refuse_unused(options: &StoreOptions, ends: &Ends) -> Result<(), Trouble> {
    let places = [Some(&ends.source), ends.target.as_ref()];
    refuse_unused_in(options, &places.into_iter().flatten().collect::<Vec<_>>())
}

/// Refuses the options of object stores where none of these places is one.
pub(crate) fn refuse_unused_in(options: &StoreOptions, places: &[&Place]) -> Result<(), Trouble> {
    let has_objects = places.iter().any(|place| matches!(place, Place::Objects(_)));
    if let Some(option) = options.any().filter(|_| !has_objects) {
        return Err(Trouble::Usage(format!(
            "{option} is for object stores (s3://, gs://, az://), and none is given; leave it out"
        )));
    }
    let is_in_s3 = |place: &&Place| matches!(place, Place::Objects(address) if is_in_s3(address));
    if options.has_profile() && !places.iter().any(is_in_s3) {
        return Err(Trouble::usage("--aws-profile is for s3://, and none is given; leave it out"));
    }
    Ok(())
}

/// The bytes of most wrapped keys, which are read with the request that opens one.
const USUAL_KEY: usize = 4 << 10;

/// More than a wrapped key may have.
pub(crate) const LONGEST_KEY: u64 = (1 << 20) + 1;

/// The file that every sealed tree has.
const MARKER: &str = "evener-tree-v1";

const OVERLAP: &str = "it and DST overlap, so outputs would be taken for sources; give DST a prefix \
     beside it";

pub(crate) const NO_PIPE: &str = "an object store goes with files and trees, not with pipes; `evener cat` prints \
     objects";
