//! Hard links: a file with several names is processed once and then linked.

use std::collections::HashMap;
use std::ffi::{OsStr, OsString};
use std::iter;
use std::os::fd::{AsFd, BorrowedFd};
use std::path::PathBuf;
use std::sync::{Arc, Mutex, MutexGuard, PoisonError};

use evener_core::shown;
use rustix::fs::{
    AtFlags, Dir, FileType, Mode, OFlags, Stat, fstat, linkat, openat, statat, syncfs, unlinkat,
};
use rustix::io::Errno;

use super::descent::Descent;
use super::directory::{Directory, Item};
use super::location::Location;
use super::resume::difference;
use super::work::TreeWork;
use crate::FileError;
use crate::identity::{FileState, Identity};
use crate::naming::noun_of;
use crate::output::{rename_over, temporary_name};
use crate::source::Source;

/// The files with several names that have been met.
#[derive(Default)]
pub(super) struct Links {
    met: Mutex<Met>,
}

#[derive(Default)]
struct Met {
    /// Each file under the name that was met first.
    first: Vec<First>,
    /// Which of them had, or has since its own source was removed, this state. An inode whose
    /// number is used again, or that was written to, is in another state, and no further name.
    by_state: HashMap<FileState, usize>,
    /// The other names.
    further: Vec<Further>,
    /// Whether one of the names of a file has been removed, so that the last one left may be a
    /// further name.
    has_removed: bool,
}

impl Met {
    fn knows(&self, name: &Name) -> bool {
        self.first.iter().any(|first| first.name == *name)
    }

    /// Notes that the file of this first name is in another state now.
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
struct Further {
    name: Name,
    first: usize,
}

/// A name of a file, on both sides: in directories that lie alike below the roots.
struct Name {
    location: Arc<Location>,
    source: OsString,
    target: OsString,
}

impl Name {
    fn of(directory: &Directory, item: &Item) -> Name {
        let location = directory.location.clone();
        Name { location, source: item.name.clone(), target: item.target.clone() }
    }

    fn source(&self) -> PathBuf {
        self.location.path_of(&self.source)
    }

    fn target(&self) -> PathBuf {
        self.location.path_of(&self.target)
    }
}

impl PartialEq for Name {
    fn eq(&self, other: &Name) -> bool {
        Arc::ptr_eq(&self.location, &other.location) && self.source == other.source
    }
}

impl Links {
    /// Whether this is a further name of a file that is done under its first name; such names
    /// are kept for the end. Only outputs have links, so without outputs nothing is one.
    pub(super) fn is_further_name(
        &self,
        source: &Source,
        directory: &Directory,
        item: &Item,
        writes: bool,
        removes: bool,
    ) -> bool {
        let status = source.status();
        if !writes || status.st_nlink < 2 && !removes {
            return false;
        }
        let mut met = self.lock();
        if status.st_nlink < 2 && !met.has_removed {
            return false;
        }
        let name = Name::of(directory, item);
        let state = FileState::of(status);
        match met.by_state.get(&state).copied() {
            None if status.st_nlink < 2 => false,
            // It changed while it was read, and is read again.
            None if item.changes > 0 && met.knows(&name) => {
                met.moved(&name, state);
                false
            }
            None => {
                let number = met.first.len();
                met.first.push(First { name, state, output: None });
                met.by_state.insert(state, number);
                false
            }
            // An engine failed this file before.
            Some(number) if met.first[number].name == name => false,
            Some(first) => {
                met.further.push(Further { name, first });
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

    /// Notes that a name of this file was removed, which has changed its state.
    pub(super) fn removed(&self, source: &Source) -> Result<(), FileError> {
        if source.status().st_nlink < 2 {
            return Ok(());
        }
        let mut met = self.lock();
        met.has_removed = true;
        let now = fstat(source).map_err(FileError::system("read its status"))?;
        let known = met.by_state.get(&FileState::of(source.status())).copied();
        if let Some(number) = known {
            met.by_state.insert(FileState::of(&now), number);
            met.first[number].state = FileState::of(&now);
        }
        Ok(())
    }

    fn lock(&self) -> MutexGuard<'_, Met> {
        self.met.lock().unwrap_or_else(PoisonError::into_inner)
    }
}

impl TreeWork<'_> {
    /// Links every further name to its first; returns how many there are.
    pub(super) fn make_links(&self, root: &Arc<Directory>) -> u64 {
        let Met { mut first, further, .. } = std::mem::take(&mut *self.links.lock());
        if self.options.dry_run {
            return self.plan_links(root, &further);
        }
        let Some(target) = &root.target else { return 0 };
        let mut linked = Vec::with_capacity(further.len());
        let way = || Descent::new(target.as_fd(), false);
        let (from, into) = (&mut way(), &mut way());
        for further in further {
            let Some(first) = first.get(further.first) else { continue };
            match self.make_link(from, into, &further.name, first) {
                Ok(()) => {
                    self.record.linked(|| further.name.source());
                    linked.push(further);
                }
                Err(error) => self.record.failed(&further.name.source(), error),
            }
        }
        self.options.control.done_files(linked.len() as u64);
        if self.options.remove_source && !linked.is_empty() {
            self.remove_further_names(root, target.as_fd(), &linked, &mut first);
        }
        linked.len() as u64
    }

    /// The dry run of [`TreeWork::make_links`].
    fn plan_links(&self, root: &Directory, further: &[Further]) -> u64 {
        let target = root.target.as_ref();
        let mut targets = target.map(|target| Descent::new(target.as_fd(), false));
        let mut exists = |name: &Name| {
            let directory = targets.as_mut()?.to(&name.location).ok()?;
            let there = statat(directory, &name.target, AtFlags::SYMLINK_NOFOLLOW).ok()?;
            Some(refuse_directory(&there, &name.target))
        };
        let mut links = 0;
        for Further { name, .. } in further {
            match exists(name) {
                Some(Err(error)) => self.record.failed(&name.source(), error),
                Some(Ok(())) if !self.may_replace() => {
                    let target = shown(&name.target()).to_string();
                    self.record.failed(&name.source(), FileError::Taken(target));
                }
                _ => {
                    self.record.linked(|| name.source());
                    self.options.control.done_files(1);
                    links += 1;
                }
            }
        }
        links
    }

    fn make_link(
        &self,
        from: &mut Descent<'_>,
        into: &mut Descent<'_>,
        name: &Name,
        first: &First,
    ) -> Result<(), FileError> {
        // Another file may have the output's name if this one's could not be made.
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
        let gone = || FileError::OutputGone(shown(&first.name.target()).to_string());
        if !leads_to(from, existing, output)? {
            return Err(gone());
        }
        // The link is made under a name of its own first where it is to replace a file.
        let replaces = match linkat(from, existing, into, new, AtFlags::empty()) {
            Ok(()) => false,
            Err(Errno::EXIST) if self.may_replace() && leads_to(into, new, output)? => {
                return Ok(());
            }
            Err(Errno::EXIST) if self.may_replace() => {
                self.refuse_replacing(into, new, from, existing, name)?;
                true
            }
            Err(Errno::EXIST) => {
                if let Ok(there) = statat(into, new, AtFlags::SYMLINK_NOFOLLOW) {
                    refuse_directory(&there, new)?;
                }
                return Err(FileError::Taken(shown(&name.target()).to_string()));
            }
            Err(errno) => return Err(system(errno)),
        };
        let temporary = temporary_name();
        let made = if replaces { &*temporary } else { new };
        if replaces {
            linkat(from, existing, into, made, AtFlags::empty()).map_err(&system)?;
        }
        // Somebody may have put another file in the output's place meanwhile.
        let is_ours = leads_to(into, made, output);
        if is_ours != Ok(true) {
            let _ = unlinkat(into, made, AtFlags::empty());
            return Err(is_ours.err().unwrap_or_else(gone));
        }
        if replaces { rename_over(into, made, new).map_err(&system) } else { Ok(()) }
    }

    fn may_replace(&self) -> bool {
        self.may_find_outputs()
    }

    /// Refuses to put a link in the place of `new` if that may not be replaced.
    fn refuse_replacing(
        &self,
        into: BorrowedFd<'_>,
        new: &OsStr,
        from: BorrowedFd<'_>,
        existing: &OsStr,
        name: &Name,
    ) -> Result<(), FileError> {
        let system = FileError::system("link its output");
        let status = |directory, name| statat(directory, name, AtFlags::SYMLINK_NOFOLLOW);
        let there = status(into, new).map_err(&system)?;
        refuse_directory(&there, new)?;
        self.outputs.refuse_protected(into, new)?;
        if self.options.update && !self.options.overwrite {
            self.refuse_foreign(into, new, &there)?;
        }
        // An earlier run may have met this name first and made an output of its own for it.
        if !self.options.overwrite && !self.options.update {
            let wanted = status(from, existing).map_err(&system)?;
            let length = wanted.st_size as u64;
            if let Some(difference) = difference(&there, &wanted, iter::once(length..=length)) {
                let name = shown(&name.target()).to_string();
                return Err(FileError::Differs { name, difference });
            }
        }
        // Where two names are one, it may be an output of this very run.
        if !has_entry(into, new).map_err(&system)? {
            return Err(FileError::SameName(shown(&name.target()).to_string()));
        }
        Ok(())
    }

    /// Removes the sources of links, when the links are on the device. What they link to was
    /// verified before its own source was removed.
    fn remove_further_names(
        &self,
        root: &Directory,
        target: BorrowedFd<'_>,
        linked: &[Further],
        first: &mut [First],
    ) {
        let synced =
            syncfs(target).map_err(FileError::system("sync its output, so its source was kept"));
        let sources = &mut Descent::new(root.source.as_fd(), false);
        let targets = &mut Descent::new(target, false);
        for further in linked {
            let first = &mut first[further.first];
            let removed =
                synced.clone().and_then(|()| remove_name(sources, targets, &further.name, first));
            if let Err(error) = removed {
                self.record.failed(&further.name.source(), error);
            }
        }
    }
}

/// Removes the source of a link, if both are what they were.
fn remove_name(
    sources: &mut Descent<'_>,
    targets: &mut Descent<'_>,
    name: &Name,
    first: &mut First,
) -> Result<(), FileError> {
    let system = FileError::system("remove the source");
    let into = targets.to(&name.location).map_err(&system)?;
    if first.output.is_none() || Identity::of_name(into, &*name.target)? != first.output {
        return Err(FileError::OutputGone(shown(&name.target()).to_string()));
    }
    let directory = sources.to(&name.location).map_err(&system)?;
    // While it is open its inode can't become another file's.
    let flags = OFlags::PATH | OFlags::NOFOLLOW | OFlags::CLOEXEC;
    let file = openat(directory, &name.source, flags, Mode::empty()).map_err(&system)?;
    if FileState::of(&fstat(&file).map_err(&system)?) != first.state {
        return Err(FileError::ChangedSince);
    }
    unlinkat(directory, &name.source, AtFlags::empty()).map_err(&system)?;
    first.state = FileState::of(&fstat(&file).map_err(&system)?);
    Ok(())
}

/// Refuses a name that a directory has: nothing takes its place.
fn refuse_directory(there: &Stat, name: &OsStr) -> Result<(), FileError> {
    match FileType::from_raw_mode(there.st_mode) {
        kind @ FileType::Directory => {
            Err(FileError::Special { name: shown(name).to_string(), kind: noun_of(kind) })
        }
        _ => Ok(()),
    }
}

fn leads_to(directory: BorrowedFd<'_>, name: &OsStr, file: Identity) -> Result<bool, FileError> {
    Ok(Identity::of_name(directory, name)? == Some(file))
}

/// Whether a directory has an entry of exactly this name, and not only one that its file system
/// takes for the same.
fn has_entry(directory: BorrowedFd<'_>, name: &OsStr) -> Result<bool, Errno> {
    for entry in Dir::read_from(directory)? {
        if entry?.file_name().to_bytes() == name.as_encoded_bytes() {
            return Ok(true);
        }
    }
    Ok(false)
}
