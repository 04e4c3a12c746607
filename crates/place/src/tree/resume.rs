//! Existing outputs, when an operation is resumed.

use std::ops::RangeInclusive;
use std::os::fd::AsFd;
use std::sync::Arc;

use evener_core::shown;
use evener_format::{Ending, Geometry, Layout, Recipe};
use evener_pipeline::Worker;
use rustix::fs::{AtFlags, FileType, Stat, statat};
use rustix::io::Errno;

use super::changed_since::modified;
use super::directory::{Directory, Item, Made};
use super::names::{folds, has_entry};
use super::work::TreeWork;
use crate::Operation;
use crate::identity::{FileState, Identity, status_of_name_now};
use crate::naming::refuse_special;
use crate::source::Source;
use crate::{FileError, Refusal};
use evener_seal::{
    Blob, Done, Prepared, ReadAt, ReadBack, Room, SegmentError, Segments, Workspace, bytes_to_know,
    bytes_to_prepare, check_key, compare, geometry_of, opens_header, prepare_sealed,
};

/// The kind of an existing output.
pub(super) enum Found {
    /// It is complete.
    Complete,
    /// There is none, or one that may be replaced.
    Undone,
    /// There is one of an older state of the source.
    Outdated,
    /// Checking it takes more room than the files already begun by the worker leave.
    Full,
}

impl TreeWork<'_> {
    /// With `Existing::Resume` or `Existing::Update`: finds out whether a file's output is
    /// complete. An output gets its final name only when it is complete, so an output of the right
    /// size and time counts as complete if its header fits the key. Its content is not examined.
    ///
    /// # Errors
    /// When another file has the output's name and may not be replaced, or the key is not the
    /// source's.
    pub(super) fn look_for_output(
        &self,
        directory: &Arc<Directory>,
        item: &Item,
        source: &Source,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<Found, SegmentError> {
        let looks = self.options.existing.resumes() || self.options.existing.updates();
        let Some(target) = directory.target.as_deref().filter(|_| looks) else {
            return Ok(Found::Undone);
        };
        let there = match status_of_name_now(target, &item.target) {
            Ok(there) => there,
            Err(Errno::NOENT) => return Ok(Found::Undone),
            Err(errno) => {
                let named = self.named(directory, item);
                return Err(named(FileError::system("look at its output")(errno)).into());
            }
        };
        refuse_special(target.as_fd(), &item.target)?;
        if self.options.existing.updates() {
            return self.look_for_change(directory, item, source, &there, room, worker);
        }
        let refused = if let Some(difference) = self.difference(target, item, &there, source)? {
            Some(FileError::Differs { name: shown(&item.target).to_string(), difference })
        } else {
            let is_all = room.is_all;
            match self.check_existing(target, item, source, &there, room, worker) {
                Ok(()) => None,
                Err(SegmentError::File(FileError::Memory { .. })) if !is_all => {
                    return Ok(Found::Full);
                }
                Err(SegmentError::File(error)) => Some(error),
                Err(error) => return Err(error),
            }
        };
        if let Some(error) = refused {
            // A source that the key does not open is no reason to replace its output.
            let is_of_output = matches!(error, FileError::Differs { .. } | FileError::OtherKey(_));
            return match self.options.existing.overwrites() && is_of_output {
                true => Ok(Found::Undone),
                false => Err(error.into()),
            };
        }
        // A source is removed only after this very run has verified its output, so the output is
        // made again.
        if self.options.remove_source {
            return Ok(Found::Undone);
        }
        directory.claims.claim(target.as_fd(), Identity::of(&there), &item.target)?;
        self.links.done(source, Identity::of(&there));
        self.record.skipped(|| directory.path_of(&item.name), source.length());
        Ok(Found::Complete)
    }

    /// Checks that the sealed file, source or output, was made with the key, as far as the format
    /// shows it.
    pub(super) fn check_existing(
        &self,
        target: &Made,
        item: &Item,
        source: &Source,
        there: &Stat,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        let seals = self.operation == Operation::Encrypt;
        if seals && self.options.program.has_closed_keys && self.options.existing.resumes() {
            return Ok(());
        }
        let opened =
            seals.then(|| Source::open(target.as_fd(), &item.target, false)).transpose()?;
        let sealed = opened.as_ref().unwrap_or(source);
        // The time of change also moves when another of its names is replaced.
        let is_same = match there.st_nlink {
            1 => FileState::of(sealed.status()) == FileState::of(there),
            _ => FileState::of(there).is_but_for_change_time(sealed.status()),
        };
        if seals && !is_same {
            let name = shown(&item.target).to_string();
            return Err(FileError::from(Refusal::OutputChanged(name)).into());
        }
        let checked = match seals && !self.keys.opens_files() {
            true if opens_header(self.keys, sealed)? => Ok(()),
            true => Err(FileError::OtherKey(shown(&item.target).to_string()).into()),
            false => self.check_header(sealed, room, worker),
        };
        checked.map_err(|error| match error {
            SegmentError::File(FileError::Format(_) | FileError::Rejected { .. }) if seals => {
                FileError::OtherKey(shown(&item.target).to_string()).into()
            }
            other => other,
        })
    }

    /// Checks that a sealed file's header fits a key, or its first chunk if the header does not
    /// show that. Files of `openssl enc` show nothing.
    pub(super) fn check_header(
        &self,
        sealed: &Source,
        room: Room<'_>,
        worker: &mut Worker<'_>,
    ) -> Result<(), SegmentError> {
        let Room { input, scratch, .. } = room;
        let length = sealed.length().min(bytes_to_know(self.keys));
        let beginning = usize::try_from(length).ok().and_then(|length| input.get_mut(..length));
        let beginning = beginning.ok_or(FileError::Memory { needed: length.saturating_mul(2) })?;
        sealed.read_exact_at(beginning, 0)?;
        check_key(self.keys, beginning, sealed, scratch, worker)
    }

    /// Refuses to replace an output of the right size and time that another source has made, which
    /// may be gone: it has other content.
    pub(super) fn compare_with_existing(
        &self,
        done: &Done<'_, Self>,
        workspace: &mut Workspace,
    ) -> Result<(), FileError> {
        let (name, existing) = (&done.item.target, &self.options.existing);
        let Some(target) = done.group.target.as_deref() else { return Ok(()) };
        let is_there = Identity::of_name(target, name)?.is_some();
        if !is_there || !existing.resumes() || existing.overwrites() {
            return Ok(());
        }
        let there = Source::open(target.as_fd(), name, false)?;
        let compared = match self.operation {
            Operation::Encrypt => self.compare_with_sealed(done, &there, workspace),
            _ if there.length() != done.length => Err(FileError::NotVerified),
            _ => self.compare_with(done, &there, workspace),
        };
        compared.map_err(|error| match error {
            FileError::NotVerified | FileError::Format(_) | FileError::Rejected { .. }
                if !self.opens_outputs() =>
            {
                Refusal::OutputUnopened(shown(name).to_string()).into()
            }
            // The file system takes other names for this one.
            FileError::NotVerified
                if folds(target.as_fd(), name) == Some(true)
                    || has_entry(target.as_fd(), name) == Ok(false) =>
            {
                FileError::SameName(shown(name).to_string())
            }
            FileError::NotVerified => Refusal::OutputDiffers(shown(name).to_string()).into(),
            FileError::Format(_) | FileError::Rejected { .. } => {
                FileError::OtherKey(shown(name).to_string())
            }
            error => error,
        })
    }

    /// Returns whether the keys open outputs of earlier runs, if these were made with them.
    pub(super) fn opens_outputs(&self) -> bool {
        self.keys.opens_files() && !self.options.program.has_closed_keys
    }

    fn compare_with_sealed(
        &self,
        done: &Done<'_, Self>,
        sealed: &Source,
        workspace: &mut Workspace,
    ) -> Result<(), FileError> {
        let beginning = sealed.beginning(bytes_to_prepare(self.keys))?;
        let scratch = &mut workspace.output;
        let reference = self.run.reference.as_deref().ok_or(FileError::NotVerified)?;
        let worker = &mut Worker::new(reference, 0);
        let prepared = prepare_sealed(self.keys, &beginning, sealed, scratch, worker);
        let Prepared { cipher, layout, .. } = prepared.map_err(|error| match error {
            SegmentError::File(error) => error,
            SegmentError::Engine(error) => error.into(),
        })?;
        let segments = &Segments::new(layout, cipher.geometry(), workspace.input.len())?;
        let existing =
            Done { cipher: &cipher, segments, header: None, length: sealed.length(), ..*done };
        self.compare_with(&existing, sealed, workspace)
    }

    pub(super) fn compare_with(
        &self,
        done: &Done<'_, Self>,
        output: &impl ReadBack,
        workspace: &mut Workspace,
    ) -> Result<(), FileError> {
        compare(self.operation, done, output, self.run.reference.as_deref(), workspace)
    }

    /// Refuses early what publishing would refuse after all the work.
    pub(super) fn refuse_existing(
        &self,
        directory: &Directory,
        target: &Made,
        item: &Item,
    ) -> Result<(), FileError> {
        let exists = statat(target, &item.target, AtFlags::SYMLINK_NOFOLLOW).is_ok();
        if exists && !self.outputs.replaces() {
            let error = self.outputs.taken(target.as_fd(), &item.target);
            return Err(directory.claims.explain(target.as_fd(), &item.target, error));
        }
        Ok(())
    }

    /// The difference in size or time, with both values, if a file is not the output of a source in
    /// its current state.
    pub(super) fn difference(
        &self,
        target: &Made,
        item: &Item,
        there: &Stat,
        source: &Source,
    ) -> Result<Option<String>, FileError> {
        let is_age = |recipe: &Recipe| matches!(recipe, Recipe::Age(_));
        let is_file = FileType::from_raw_mode(there.st_mode) == FileType::RegularFile;
        let reads_output = self.operation == Operation::Encrypt && is_file;
        let output = match reads_output && self.keys.recipes().any(is_age) {
            true => Some(Source::open(target.as_fd(), &item.target, false)?),
            false => None,
        };
        let sealed = output.as_ref().unwrap_or(source);
        let geometries = self.keys.recipes().map(|recipe| geometry_of(recipe, sealed));
        let geometries = geometries.collect::<Result<Vec<_>, _>>()?;
        let lengths = geometries.iter().filter_map(|geometry| self.lengths(geometry, source));
        Ok(difference(there, source.status(), lengths))
    }

    /// The length of a source's output; unread padding leaves several possible lengths.
    fn lengths(&self, geometry: &Geometry, source: &Source) -> Option<RangeInclusive<u64>> {
        match self.operation {
            Operation::Encrypt => {
                let length = Layout::for_plaintext(geometry, source.length()).ok()?.sealed_length();
                Some(length..=length)
            }
            Operation::Decrypt | Operation::Verify => {
                let longest = Layout::for_sealed(geometry, source.length()).ok()?.plain_length();
                let padding = match geometry.ending {
                    Ending::Padded { block } => block - 1,
                    _ => 0,
                };
                Some(longest.saturating_sub(padding)..=longest)
            }
        }
    }
}

/// The difference in size or time, if a file does not have the time of `source` and one of these
/// lengths.
pub(super) fn difference(
    there: &Stat,
    source: &Stat,
    lengths: impl Iterator<Item = RangeInclusive<u64>> + Clone,
) -> Option<String> {
    if FileType::from_raw_mode(there.st_mode) != FileType::RegularFile {
        return Some("is no file".to_owned());
    }
    let length = there.st_size as u64;
    let mut differences = Vec::new();
    if !lengths.clone().any(|lengths| lengths.contains(&length)) {
        let mut wanted = Vec::from_iter(lengths.map(|lengths| match lengths.into_inner() {
            (least, most) if least == most => most.to_string(),
            (least, most) => format!("{least} to {most}"),
        }));
        wanted.dedup();
        differences.push(match wanted.is_empty() {
            true => format!("has {length} bytes, and of the source's length nothing can come"),
            false => format!("has {length} bytes, not {}", wanted.join(" or ")),
        });
    }
    if !has_time_of(there, source) {
        let (there, source) = (shown_time(modified(there)), shown_time(modified(source)));
        differences.push(format!("was modified on {there} and its source on {source} (UTC)"));
    }
    (!differences.is_empty()).then(|| differences.join(", and "))
}

/// A time, in seconds and nanoseconds since 1970, as the date and time of UTC.
fn shown_time((seconds, nanoseconds): (i64, i64)) -> String {
    let (days, second) = (seconds.div_euclid(86_400), seconds.rem_euclid(86_400));
    // Years that begin in March, in cycles of 400, so that a leap day comes last.
    let since = days + 719_468;
    let (cycle, day) = (since.div_euclid(146_097), since.rem_euclid(146_097));
    let year = (day - day / 1_460 + day / 36_524 - day / 146_096) / 365;
    let day = day - (365 * year + year / 4 - year / 100);
    let month = (5 * day + 2) / 153;
    let day = day - (153 * month + 2) / 5 + 1;
    let year = 400 * cycle + year + i64::from(month >= 10);
    let month = if month < 10 { month + 3 } else { month - 9 };
    let (hour, minute, second) = (second / 3_600, second / 60 % 60, second % 60);
    format!("{year}-{month:02}-{day:02} {hour:02}:{minute:02}:{second:02}.{nanoseconds:09}")
}

/// Returns whether an output has its source's time of modification, as far as its file system keeps
/// it.
pub(super) fn has_time_of(output: &Stat, source: &Stat) -> bool {
    is_same_time(modified(source), modified(output))
}

/// Returns whether an output's time, in seconds and nanoseconds, is its source's as kept by one of
/// the kinds of file systems: each cuts off the part finer than its own times.
pub(crate) fn is_same_time(source: (i64, i64), output: (i64, i64)) -> bool {
    let (seconds, nanoseconds) = source;
    KEPT_NANOSECONDS.iter().any(|unit| output == (seconds, nanoseconds - nanoseconds % unit))
        || output == (seconds - seconds.rem_euclid(2), 0)
}

/// The units of times within a second: on most file systems, on NTFS, on those that keep
/// microseconds, on exFAT, and on those that keep whole seconds. FAT keeps every other second.
const KEPT_NANOSECONDS: [i64; 5] = [1, 100, 1_000, 10_000_000, 1_000_000_000];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn times_are_shown_as_dates() {
        for (seconds, shown) in [
            (0, "1970-01-01 00:00:00.000000005"),
            (-1, "1969-12-31 23:59:59.000000005"),
            (951_782_400, "2000-02-29 00:00:00.000000005"),
            (1_795_840_240, "2026-11-28 04:30:40.000000005"),
            (4_107_542_400, "2100-03-01 00:00:00.000000005"),
        ] {
            assert_eq!(shown_time((seconds, 5)), shown);
        }
    }

    #[test]
    fn a_time_is_the_same_if_only_what_is_not_kept_was_cut_off() {
        let source = (1_600_000_001, 123_456_789);
        for kept in [123_456_789, 123_456_700, 123_456_000, 120_000_000, 0] {
            assert!(is_same_time(source, (source.0, kept)), "{kept}");
        }
        assert!(is_same_time(source, (source.0 - 1, 0)));
        for other in [123_456_790, 123_456_800, 123_456_780, 123_000_000, 130_000_000, 100_000_000]
        {
            assert!(!is_same_time(source, (source.0, other)), "{other}");
        }
        let others = [(source.0 + 1, 0), (source.0 - 1, 123_456_700), (source.0 - 2, 0)];
        assert!(others.iter().all(|other| !is_same_time(source, *other)));
        // A part finer than the source's own time shows a different time.
        assert!(!is_same_time((source.0, 0), (source.0, 1)));
        assert!(is_same_time((-1, 5), (-2, 0)) && is_same_time((-1, 5), (-1, 0)));
    }
}
