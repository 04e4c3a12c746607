//! The limits of the wrapped keys of one place.
//!
//! Each key takes time to read and to try, and anybody who can write to the place can put more
//! there. No run makes more than a later one tries.

use std::path::{Path, PathBuf};

use evener::keys::{KeyError, KeyFile};

use super::place::KeyPlace;
use crate::trouble::{Trouble, shown};

/// The keys of a place that are tried.
pub(super) struct Readable {
    /// In the order of their names.
    pub(super) keys: Vec<(PathBuf, Result<KeyFile, KeyError>)>,
    /// The number of keys that are not tried: the longest.
    pub(super) left_out: usize,
    room: Room,
}

impl Readable {
    /// Reads the keys of a place, the shortest first, as long as there is room.
    pub(super) fn of(place: &KeyPlace) -> Readable {
        // A file that is too long for a key gives an error that costs nothing.
        let length = |path: &Path| Some(place.length(path)).filter(|it| *it <= LONGEST_KEY);
        let length = |path: &Path| length(path).unwrap_or(0);
        let mut sorted: Vec<_> = place.existing().into_iter().enumerate().collect();
        sorted.sort_by_cached_key(|(_, path)| length(path));
        let (mut room, mut keys) = (Room::default(), Vec::new());
        let all = sorted.len();
        sorted.retain(|(_, path)| room.takes_key(length(path)));
        let mut left_out = all - sorted.len();
        let files = place.read_all(&sorted);
        for ((number, path), file) in sorted.into_iter().zip(files) {
            let recipients = |file: &KeyFile| file.recipients().unwrap_or_default();
            match file {
                Ok(file) if !room.takes_recipients(recipients(&file)) => left_out += 1,
                file => keys.push((number, path, file)),
            }
        }
        keys.sort_unstable_by_key(|(number, ..)| *number);
        let keys = keys.into_iter().map(|(_, path, file)| (path, file)).collect();
        Readable { keys, left_out, room }
    }

    /// Refuses a further key in `directory` that a later run would not try.
    pub(super) fn refuse_more(mut self, key: &[u8], directory: &Path) -> Result<(), Trouble> {
        let file = KeyFile::read_from(&mut &*key, "the new key")?;
        let fits = self.room.takes_key(key.len() as u64)
            && self.room.takes_recipients(file.recipients().unwrap_or_default());
        match fits && self.left_out == 0 {
            true => Ok(()),
            false => Err(Trouble::Usage(format!(
                "another wrapped key in {} would not be tried again: {LIMITS}; give --identity or \
                 --passphrase for one that is there, fewer recipients, or another DST",
                shown(directory)
            ))),
        }
    }
}

/// The use of the limits so far.
#[derive(Default)]
struct Room {
    keys: usize,
    bytes: u64,
    recipients: usize,
}

impl Room {
    /// Takes room for a key, if there is enough.
    fn takes_key(&mut self, bytes: u64) -> bool {
        let bytes = self.bytes + bytes;
        let fits = self.keys < MOST_KEYS && bytes <= MOST_BYTES;
        if fits {
            (self.keys, self.bytes) = (self.keys + 1, bytes);
        }
        fits
    }

    /// Takes room for the recipients of a key, if there is enough.
    fn takes_recipients(&mut self, recipients: usize) -> bool {
        let recipients = self.recipients + recipients;
        let fits = recipients <= MOST_RECIPIENTS;
        if fits {
            self.recipients = recipients;
        }
        fits
    }
}

/// The limits, for messages.
pub(super) const LIMITS: &str =
    "the keys of one place may be 2,000, with 10,000 recipients and 2 MiB in all";

const MOST_KEYS: usize = 2_000;
const MOST_RECIPIENTS: usize = 10_000;
const MOST_BYTES: u64 = 2 << 20;
const LONGEST_KEY: u64 = 1 << 20;
