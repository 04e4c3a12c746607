//! Hard links: a file with several names is processed once and then linked. If its outputs can't be
//! linked, or linked files can't be told from others there, its further names become separate
//! files.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::fd::AsFd;
use std::path::{Path, PathBuf};
use std::sync::atomic::{AtomicBool, Ordering};
use std::sync::{Arc, Mutex, MutexGuard};

use evener_core::{IgnorePoison, shown};
use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;

use super::descent::{Descent, Ways};
use super::directory::{Directory, Item, Made};
use super::endpoints::Endpoints;
use super::link::{Attempt, Link, OTHER_NUMBER};
use super::names::{Claims, has_entry};
use super::resume::difference;
use super::work::TreeWork;
use crate::identity::{FileState, Identity};
use crate::location::Location;
use crate::naming::noun_of;
use crate::source::Source;
use crate::{FileError, Refusal};
use evener_seal::Feed;

/// The files with several names that were found so far.
#[derive(Default)]
pub(super) struct Links {
    met: Mutex<Met>,
    /// True if all links are made, so that each name is a separate file from now on.
    ended: AtomicBool,
}

#[derive(Default)]
struct Met {
    /// Each file under the name that was found first.
    first: Vec<First>,
    /// The index in `first` by state. An inode whose number is reused, or that was written to, is
    /// in another state, and not a further name.
    by_state: HashMap<FileState, usize>,
    /// The other names.
    further: Vec<Further>,
}

impl Met {
    fn knows(&self, name: &Name) -> bool {
        self.first.iter().any(|first| first.name == *name)
    }

    /// Notes that the file with this first name is in another state now.
    fn moved(&mut self, name: &Name, state: FileState) {
        if let Some(number) = self.first.iter().position(|first| first.name == *name) {
            self.first[number].state = state;
            self.by_state.insert(state, number);
        }
    }
}

/// A file under its first name.
struct First {
    name: Name,
    state: FileState,
    /// Its output, once that is published and, if sources are removed, on the device.
    output: Option<Identity>,
}

/// Another name of a file.
pub(super) struct Further {
    name: Name,
    first: usize,
    /// The outputs in its own directory.
    claims: Arc<Claims>,
}

/// A name of a file, on both sides: in directories at the same location below the roots.
pub(super) struct Name {
    pub(super) location: Arc<Location>,
    pub(super) source: OsString,
    pub(super) target: OsString,
}

impl Name {
    pub(super) fn of(directory: &Directory, name: &OsStr, target: &OsStr) -> Name {
        let location = directory.location.clone();
        Name { location, source: name.to_owned(), target: target.to_owned() }
    }

    pub(super) fn source(&self) -> PathBuf {
        self.location.path_of(&self.source)
    }

    pub(super) fn target(&self) -> PathBuf {
        self.location.path_of(&self.target)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        Arc::ptr_eq(&self.location, &other.location) && self.source == other.source
    }
}

impl Links {
    /// Returns whether this is a further name of a file that is done under its first name; such
    /// names are kept for the end. Only outputs have links, so without outputs no name is one.
    pub(super) fn is_further_name(
        &self,
        source: &Source,
        directory: &Directory,
        item: &Item,
        writes: bool,
    ) -> bool {
        let status = source.status();
        if !writes || status.st_nlink < 2 || self.ended.load(Ordering::Relaxed) {
            return false;
        }
        let mut met = self.lock();
        let name = Name::of(directory, &item.name, &item.target);
        let state = FileState::of(status);
        match met.by_state.get(&state).copied() {
            // It has changed since it was read, and is read again.
            None if item.is_again && met.knows(&name) => {
                met.moved(&name, state);
                false
            }
            None => {
                let number = met.first.len();
                met.first.push(First { name, state, output: None });
                met.by_state.insert(state, number);
                false
            }
            // An engine failed on this file before.
            Some(number) if met.first[number].name == name => false,
            Some(first) => {
                met.further.push(Further { name, first, claims: directory.claims.clone() });
                true
            }
        }
    }

    /// Notes that a file is done, so that its further names can be linked to its output.
    pub(super) fn done(&self, source: &Source, output: Identity) {
        let mut met = self.lock();
        let known = met.by_state.get(&FileState::of(source.status())).copied();
        if let Some(first) = known.and_then(|number| met.first.get_mut(number)) {
            first.output = Some(output);
        }
    }

    fn lock(&self) -> MutexGuard<'_, Met> {
        self.met.lock().ignore_poison()
    }
}

impl TreeWork<'_> {
    /// Links every further name to its first. Returns the number of names that this completes, and
    /// those that can't be linked, which are to be [done apart](TreeWork::feed_apart).
    pub(super) fn make_links(&self, endpoints: &Endpoints) -> (u64, Vec<Further>) {
        let Met { first, further, .. } = std::mem::take(&mut *self.links.lock());
        self.links.ended.store(true, Ordering::Relaxed);
        let Endpoints::Tree { root, .. } = endpoints else { return (0, Vec::new()) };
        if self.options.dry_run {
            return (self.plan_links(root, &further), Vec::new());
        }
        let Some(target) = &root.target else { return (0, Vec::new()) };
        let (mut linked, mut apart, mut reason) = (0, Vec::new(), None);
        let way = || Descent::new(target.as_fd(), false);
        let (from, into) = (&mut way(), &mut way());
        for further in further {
            let Some(first) = first.get(further.first) else { continue };
            let location = &further.name.location;
            let make = || self.make_link(from, into, &further.name, first);
            match self.in_target_at(root, (location, location), make) {
                Ok(None) => match (self.options.remove_source, first.output) {
                    (true, Some(output)) => {
                        self.linked_sources.add_link(further.name, first.state, output);
                    }
                    _ => {
                        self.record.linked(|| further.name.source());
                        linked += 1;
                    }
                },
                Ok(Some(why)) => {
                    reason.get_or_insert(why);
                    apart.push(further);
                }
                Err(error) => {
                    let named = self.at_name(&further.name.location, &further.name.target);
                    self.record.failed_file(&further.name.source(), named(error));
                }
            }
        }
        if let Some(reason) = reason {
            self.record.notice(Path::new(""), notice_of_apart(apart.len(), &reason));
        }
        (linked, apart)
    }

    /// Feeds the names that could not be linked as separate files.
    pub(super) fn feed_apart(
        &self,
        endpoints: &Endpoints,
        apart: Vec<Further>,
        feed: &Feed<'_, Self>,
    ) {
        let (Endpoints::Tree { root, .. } | Endpoints::File { directory: root, .. }) = endpoints;
        let Some(ways) = &mut root.ways() else { return };
        for Further { name, claims, .. } in apart {
            match self.open_again(root, ways, &name, claims) {
                Ok((directory, item)) => feed.push(directory, vec![item]),
                Err(error) => self.record.failed_file(&name.source(), error),
            }
        }
    }

    /// Opens the directories of a name again.
    pub(super) fn open_again(
        &self,
        root: &Directory,
        Ways { sources, targets }: &mut Ways<'_>,
        name: &Name,
        claims: Arc<Claims>,
    ) -> Result<(Arc<Directory>, Item), FileError> {
        let again = |way: &mut Descent<'_>| {
            let directory = way.to(&name.location)?.try_clone_to_owned();
            directory.map_err(|error| Errno::from_io_error(&error).unwrap_or(Errno::IO))
        };
        let system = FileError::system("open the directory again");
        let source = again(sources).map_err(&system)?;
        let made = Made::of(again(targets).map_err(&system)?, false)?;
        let mut directory = root.below(source, &name.location)?;
        let is_source = self.directories.is_source(directory.identity());
        if !is_source || !self.directories.is_target(made.identity) {
            return Err(Refusal::DirectoryMoved.into());
        }
        (directory.target, directory.claims) = (Some(Arc::new(made)), claims);
        Ok((Arc::new(directory), Item::new(&name.source, name.target.clone())))
    }

    /// The dry run of [`TreeWork::make_links`].
    fn plan_links(&self, root: &Directory, further: &[Further]) -> u64 {
        let mut ways = root.ways();
        let mut exists = |name: &Name| {
            let directory = ways.as_mut()?.targets.to(&name.location).ok()?;
            let there = statat(directory, &name.target, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(refuse_directory(&there, &name.target))
        };
        let mut links = 0;
        for Further { name, .. } in further {
            match exists(name) {
                Some(Err(error)) => self.record.failed_file(&name.source(), error),
                Some(Ok(())) if !self.may_find_outputs() => {
                    let target = shown(&name.target()).to_string();
                    self.record.failed_file(&name.source(), FileError::Taken(target));
                }
                _ => {
                    self.record.linked(|| name.source());
                    links += 1;
                }
            }
        }
        links
    }

    /// Links a further name to its first. Returns the reason if it can't be linked.
    fn make_link(
        &self,
        from: &mut Descent<'_>,
        into: &mut Descent<'_>,
        name: &Name,
        first: &First,
    ) -> Result<Option<String>, FileError> {
        // Another file may have the output's name if this one's output could not be made.
        let Some(output) = first.output else {
            return Err(match self.is_stopped() {
                true => FileError::Interrupted,
                false => FileError::LinkedToFailed(shown(&first.name.source()).to_string()),
            });
        };
        let system = FileError::system("link its output");
        let from = from.to(&first.name.location).map_err(&system)?;
        let into = into.to(&name.location).map_err(&system)?;
        let (existing, new) = (&*first.name.target, &*name.target);
        if !self.directories.is_target(Identity::of_open(into)?) {
            return Err(Refusal::DirectoryMoved.into());
        }
        let link = Link { from, existing, into, output };
        // Another run may have replaced it, or the file got another number with its name.
        if Identity::of_name(from, existing)? != Some(output) {
            return Ok(Some(OTHER_NUMBER.to_owned()));
        }
        match link.make(new)? {
            Attempt::Made => return Ok(None),
            Attempt::Apart(reason) => return Ok(Some(reason)),
            Attempt::Gone => return Ok(Some(OTHER_NUMBER.to_owned())),
            Attempt::Taken => {}
        }
        if !self.may_find_outputs() {
            if let Ok(there) = statat(into, new, AtFlags::SYMLINK_NOFOLLOW) {
                refuse_directory(&there, new)?;
            }
            return Err(FileError::Taken(shown(&name.target()).to_string()));
        }
        if Identity::of_name(into, new)? == Some(output) {
            return Ok(None);
        }
        self.refuse_replacing(&link, name)?;
        link.make_over(new)
    }

    /// Refuses to replace the output of a name with a link if it may not be replaced.
    fn refuse_replacing(&self, link: &Link<'_>, name: &Name) -> Result<(), FileError> {
        let (into, new, system) = (link.into, &*name.target, FileError::system("link its output"));
        let status = |directory, name| statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let there = status(into, new).map_err(&system)?;
        refuse_directory(&there, new)?;
        self.outputs.refuse_protected(into, new)?;
        if self.options.existing.updates() && !self.options.existing.overwrites() {
            self.refuse_foreign(into, new, &there)?;
        }
        // An earlier run may have found this name first and made a separate output for it.
        if !self.options.existing.replaces() {
            let wanted = status(link.from, link.existing).map_err(&system)?;
            let length = wanted.st_size as u64;
            if let Some(difference) = difference(&there, &wanted, iter::once(length..=length)) {
                let name = shown(&name.target()).to_string();
                return Err(FileError::Differs { name, difference });
            }
        }
        // If two names are one, it may be an output of this very run.
        if !has_entry(into, new).map_err(&system)? {
            return Err(FileError::SameName(shown(&name.target()).to_string()));
        }
        Ok(())
    }
}

pub(crate) fn notice_of_apart(count: usize, reason: &str) -> String {
    let names = match count {
        1 => "1 hard link is stored as a file of its own",
        _ => &*format!("{count} hard links are stored as files of their own"),
    };
    format!("{names}, since the outputs can't be linked: {reason}")
}

/// Refuses a name that a directory has: nothing replaces a directory.
fn refuse_directory(there: &Stat, name: &OsStr) -> Result<(), FileError> {
    match FileType::from_raw_mode(there.st_mode) {
        kind @ FileType::Directory => {
            Err(FileError::Special { name: shown(name).to_string(), kind: noun_of(kind) })
        }
        _ => Ok(()),
    }
}
