//! The removal of sources with several names.
//!
//! Removing one name of a file changes the file's status, which then no longer shows that nobody
//! has written to it. So these sources stay until the end of the operation. Then all names of a
//! file are checked before one is removed.

use std::collections::HashMap;
use std::sync::Mutex;

use evener_core::{IgnorePoison, shown};
use rustix::fs::{AtFlags, syncfs, unlinkat};

use super::commit::Finished;
use super::descent::{Descent, Ways};
use super::endpoints::Endpoints;
use super::links::Name;
use super::work::TreeWork;
use crate::FileError;
use crate::identity::{FileState, Identity, status_of_name_now};
use evener_seal::Blob;

/// Sources whose outputs are verified and on the device, and their links.
#[derive(Default)]
pub(super) struct LinkedSources {
    /// The names of each file, by its state without its number.
    files: Mutex<HashMap<FileState, Vec<LinkedSource>>>,
}

/// One name of a file that is to be removed.
struct LinkedSource {
    name: Name,
    /// The state in which the file was read.
    state: FileState,
    /// The file that its output's name must lead to.
    output: Identity,
    counts_as: CountsAs,
}

/// The count to increase once it is removed.
enum CountsAs {
    File { bytes: u64, bytes_written: u64, updated: bool, is_unchanged: bool },
    Link,
}

impl LinkedSources {
    /// Adds another name of a file that was read in this state, whose link was made.
    pub(super) fn add_link(&self, name: Name, state: FileState, output: Identity) {
        self.add(LinkedSource { name, state, output, counts_as: CountsAs::Link });
    }

    /// Adds the source of a published output.
    pub(super) fn add_finished(&self, finished: &Finished, updated: bool, output: Identity) {
        let &Finished { length, is_unchanged, .. } = finished;
        let bytes = finished.source.length();
        self.add(LinkedSource {
            name: Name::of(&finished.directory, &finished.name, &finished.target),
            state: FileState::of(finished.source.status()),
            output,
            counts_as: CountsAs::File { bytes, bytes_written: length, updated, is_unchanged },
        });
    }

    fn add(&self, source: LinkedSource) {
        let mut files = self.files.lock().ignore_poison();
        files.entry(source.state.without_number()).or_default().push(source);
    }
}

impl TreeWork<'_> {
    /// Removes the sources with several names, when all outputs and links are on the device. After
    /// a stop they stay. Returns the number of links that this completes.
    pub(super) fn remove_linked_sources(&self, endpoints: &Endpoints) -> u64 {
        let (Endpoints::Tree { root, .. } | Endpoints::File { directory: root, .. }) = endpoints;
        let files = self.linked_sources.files.lock();
        let files = std::mem::take(&mut *files.ignore_poison());
        let Some(target) = &root.target else { return 0 };
        if files.is_empty() {
            return 0;
        }
        let mut links = 0;
        let mut count = |source: &LinkedSource| links += self.count_linked_source(source);
        if self.is_stopped() {
            files.into_values().flatten().for_each(|source| count(&source));
            return links;
        }
        let Some(Ways { sources, targets }) = &mut root.ways() else { return 0 };
        let synced =
            syncfs(target).map_err(FileError::system("sync its output, so its source was kept"));
        for names in files.into_values() {
            let mut check = |source: &LinkedSource| {
                let checked = synced.clone().and_then(|()| source.check(sources, targets));
                checked
                    .map_err(|error| self.record.failed_file(&source.name.source(), error))
                    .is_ok()
            };
            let removable: Vec<_> = names.into_iter().filter(|source| check(source)).collect();
            for source in removable {
                match source.remove(sources) {
                    Ok(()) => count(&source),
                    Err(error) => self.record.failed_file(&source.name.source(), error),
                }
            }
        }
        links
    }

    fn count_linked_source(&self, source: &LinkedSource) -> u64 {
        let path = || source.name.source();
        match source.counts_as {
            CountsAs::Link => {
                self.record.linked(path);
                1
            }
            CountsAs::File { bytes, bytes_written, updated, is_unchanged } => {
                self.record.done(path, bytes, bytes_written, updated);
                if !is_unchanged {
                    self.record.stored_changing(&path());
                }
                0
            }
        }
    }
}

impl LinkedSource {
    /// Checks that both names still lead to the same files.
    fn check(&self, sources: &mut Descent<'_>, targets: &mut Descent<'_>) -> Result<(), FileError> {
        let LinkedSource { name, state, output, .. } = self;
        let system = FileError::system("remove the source");
        let into = targets.to(&name.location).map_err(&system)?;
        if Identity::of_name(into, &*name.target)? != Some(*output) {
            return Err(FileError::OutputGone(shown(&name.target()).to_string()));
        }
        let from = sources.to(&name.location).map_err(&system)?;
        let there = status_of_name_now(from, &*name.source).map_err(&system)?;
        if FileState::of(&there) == *state { Ok(()) } else { Err(FileError::ChangedSince) }
    }

    fn remove(&self, sources: &mut Descent<'_>) -> Result<(), FileError> {
        let system = FileError::system("remove the source");
        let from = sources.to(&self.name.location).map_err(&system)?;
        // The removal of another name has changed the status.
        let there = status_of_name_now(from, &*self.name.source).map_err(&system)?;
        if !self.state.is_but_for_change_time(&there) {
            return Err(FileError::ChangedSince);
        }
        unlinkat(from, &*self.name.source, AtFlags::empty()).map_err(&system)
    }
}
