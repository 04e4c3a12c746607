//! Runs the rounds of contenders on one tree.

use std::path::{Path, PathBuf};
use std::time::Duration;

use super::contender::{Contender, copy};
use super::place::Place;
use super::walk::{Listing, first_difference, warm};
use crate::LabError;
use crate::done::{Amount, all_done};
use crate::process::Cost;
use crate::watch::Watch;

/// One tree at one place, with the number of rounds.
pub(super) struct Rounds<'a> {
    pub(super) place: &'a Place,
    /// The tree.
    pub(super) source: &'a Path,
    pub(super) rounds: u32,
    /// A contender's time limit, after which it takes part in no further round.
    pub(super) budget: Duration,
}

/// The times of one contender's turns.
#[derive(Default)]
pub(super) struct Turns {
    pub(super) encrypt: Vec<Turn>,
    pub(super) decrypt: Vec<Turn>,
    /// The failure that ended the contender's participation, if any.
    pub(super) failure: Option<LabError>,
    spent: Duration,
}

/// One measurement.
#[derive(Clone, Copy)]
pub(super) struct Turn {
    pub(super) cost: Cost,
    /// The time of `cp -r` in the same round.
    pub(super) copy: Duration,
}

impl Rounds<'_> {
    /// Runs all `contenders` in turns. Returns the cost of `cp -r` in each round, and each
    /// contender's turns.
    ///
    /// # Errors
    /// When the machine fails or Ctrl-C was pressed; a contender's own failure is in its turns.
    pub(super) fn run(
        &self,
        contenders: &[Box<dyn Contender>],
        watch: &mut Watch<'_>,
    ) -> Result<(Vec<Cost>, Vec<Turns>), LabError> {
        let mut copies = Vec::new();
        let mut turns: Vec<Turns> = contenders.iter().map(|_| Turns::default()).collect();
        for round in 0..self.rounds {
            watch.next(&format!("round {} of {}: cp -r", round + 1, self.rounds))?;
            let copied = self.measure(self.source, "copy", copy)?;
            self.check_whole("cp -r", &copied.1)?;
            self.place.discard(&copied.1)?;
            copies.push(copied.0);

            // Each round begins with a different contender, to vary the order.
            for index in
                (0..contenders.len()).map(|turn| (turn + round as usize) % contenders.len())
            {
                let (contender, turns) = (&*contenders[index], &mut turns[index]);
                if turns.failure.is_some() || turns.spent > self.budget {
                    continue;
                }
                let name = contender.facts().name;
                watch.next(&format!("round {} of {}: {name}", round + 1, self.rounds))?;
                match self.turn(contender, turns, copied.0.wall) {
                    Err(LabError::Interrupted) => return Err(LabError::Interrupted),
                    Err(error) => turns.failure = Some(error),
                    Ok(()) => {}
                }
                for output in [ENCRYPTED, DECRYPTED] {
                    self.place.discard(&self.place.path(output))?;
                }
            }
        }
        Ok((copies, turns))
    }

    /// Encrypts the tree and decrypts the result, which must have all files and bytes; the first
    /// time, also compares each file with the source's.
    fn turn(
        &self,
        contender: &dyn Contender,
        turns: &mut Turns,
        copy: Duration,
    ) -> Result<(), LabError> {
        let encrypt = |source: &Path, target: &Path| contender.encrypt(source, target);
        let decrypt = |source: &Path, target: &Path| contender.decrypt(source, target);
        let (encrypted, ciphertext) = self.measure(self.source, ENCRYPTED, encrypt)?;
        let (decrypted, plaintext) = self.measure(&ciphertext, DECRYPTED, decrypt)?;
        self.check_whole(contender.facts().name, &plaintext)?;

        if turns.decrypt.is_empty()
            && let Some(path) = first_difference(self.source, &plaintext)?
        {
            let contender = contender.facts().name.to_owned();
            return Err(LabError::NotRestored { contender, path });
        }
        turns.spent += encrypted.wall + decrypted.wall;
        turns.encrypt.push(Turn { cost: encrypted, copy });
        turns.decrypt.push(Turn { cost: decrypted, copy });
        Ok(())
    }

    /// Checks that a tree has as many files and bytes as the source.
    ///
    /// # Errors
    /// [`LabError::Undone`] when it does not.
    pub(super) fn check_whole(&self, contender: &str, tree: &Path) -> Result<(), LabError> {
        let amount = |tree| {
            let Listing { files, bytes, .. } = Listing::of(tree)?;
            Ok::<_, LabError>(Amount { files: files.len() as u64, bytes })
        };
        all_done(contender, amount(tree)?, amount(self.source)?)
    }

    /// Measures `operation` from `source` to a new tree, always from the same state: the source in
    /// the page cache, the output absent, nothing left to write, and free memory available.
    pub(super) fn measure(
        &self,
        source: &Path,
        output: &str,
        operation: impl FnOnce(&Path, &Path) -> Result<Cost, LabError>,
    ) -> Result<(Cost, PathBuf), LabError> {
        let target = self.place.path(output);
        self.place.discard(&target)?;
        let bytes = warm(source)?;
        self.place.settle()?;
        touch_memory(bytes);
        operation(source, &target).map(|cost| (cost, target))
    }
}

/// Takes as much memory as an output of `bytes` bytes needs, and releases it.
///
/// A virtual machine may have returned its free memory to its host (free page reporting, after some
/// seconds): the next program to use it would pay for fetching it, which takes up to six times as
/// long as encryption.
fn touch_memory(bytes: u64) {
    let mut memory = Vec::new();
    let length = usize::try_from(bytes + MARGIN).unwrap_or(usize::MAX);
    if memory.try_reserve_exact(length).is_ok() {
        memory.resize(length, 1_u8);
        std::hint::black_box(&memory);
    }
}

/// The memory that a program takes besides its output, in bytes.
const MARGIN: u64 = 64 << 20;

/// The output of encryption.
pub(super) const ENCRYPTED: &str = "encrypted";
/// The output of decryption.
pub(super) const DECRYPTED: &str = "decrypted";
