//! Verifies files that are chosen at random.

use std::collections::HashMap;
use std::ffi::OsString;
use std::os::unix::ffi::OsStringExt;
use std::path::PathBuf;

use evener_format::index::{EntryPath, Kind};

use super::depot::refused;
use super::origin::Sealed;
use super::reader::{GenerationInfo, any_ring, snapshot, wanted};
use super::snapshot::Snapshot;
use super::writer::SealedOptions;
use crate::place::{Origin, transfer};
use crate::report::SealedTree;
use crate::sealed_names::SealedNames;
use crate::{
    Failure, FileError, Notice, Operation, OperationError, Report, RunSettings, Selection,
    TransferOptions,
};

/// Verifies so many of a generation's selected files, which are chosen at random. A notice says with
/// which chance that finds damage.
///
/// # Errors
/// Those of [`open`](super::open).
pub fn verify_sample(
    origin: &dyn Origin,
    run: &RunSettings,
    options: &TransferOptions,
    sealed: &SealedOptions,
    files: u32,
) -> Result<(Report, GenerationInfo), OperationError> {
    let path = origin.label();
    let fail = |error| Failure { path: path.clone(), error };
    let (snapshot, info) = snapshot(origin, run, sealed).map_err(fail)?;
    let ring = any_ring(&snapshot).map_err(fail)?;
    let (chosen, all) = choose(&snapshot, &options.selection, files).map_err(fail)?;
    run.control.tell_total(chosen.len() as u64, chosen.values().sum());
    let options = TransferOptions { names: SealedNames::kept(), ..options.clone() };
    let reason = chance(chosen.len() as u64, all);
    let source =
        Sealed::new(&snapshot, wanted(&options.selection)).only(chosen.into_keys().collect());
    let done = transfer(Operation::Verify, &ring, &source, None, run, &options);
    let mut report = done.or_else(OperationError::into_report)?;
    report.sealed = Some(SealedTree::Read(info.clone()));
    report.notices.push(Notice { path, reason });
    Ok((report.into_result()?, info))
}

/// Chooses files, each with the same chance (Vitter's algorithm R). Returns their encrypted lengths
/// in bytes, and the number of all files.
fn choose(
    snapshot: &Snapshot<'_>,
    selection: &Selection,
    most: u32,
) -> Result<(HashMap<PathBuf, u64>, u64), FileError> {
    let (mut chosen, mut all) = (Vec::new(), 0_u64);
    let mut random = Random::default();
    // What can't be read is told when it is verified.
    for (directory, entry) in snapshot.lines(wanted(selection)).filter_map(Result::ok) {
        let path = EntryPath { directory, name: entry.name }.whole();
        let path = PathBuf::from(OsString::from_vec(path));
        let Kind::File(content) = entry.kind else { continue };
        if !selection.takes_file(&path) {
            continue;
        }
        all += 1;
        if all <= u64::from(most) {
            chosen.push((path, content.length));
            continue;
        }
        let at = random.below(all)?;
        if let Some(place) = usize::try_from(at).ok().and_then(|at| chosen.get_mut(at)) {
            *place = (path, content.length);
        }
    }
    Ok((chosen.into_iter().collect(), all))
}

/// Random numbers from the operating system.
#[derive(Default)]
struct Random(Vec<u8>);

impl Random {
    fn below(&mut self, limit: u64) -> Result<u64, FileError> {
        if self.0.len() < 8 {
            self.0.resize(4096, 0);
            getrandom::fill(&mut self.0).map_err(|error| refused(error.to_string()))?;
        }
        let rest = self.0.len() - 8;
        let number =
            self.0[rest..].iter().fold(0_u64, |number, byte| number << 8 | u64::from(*byte));
        self.0.truncate(rest);
        Ok(((u128::from(number) * u128::from(limit)) >> 64) as u64)
    }
}

/// The sentence about the chance to find damage.
fn chance(chosen: u64, all: u64) -> String {
    if chosen == all {
        return match all {
            1 => "the only file was read".to_owned(),
            all => format!("all {all} files were read"),
        };
    }
    let found = 100.0 * (1.0 - 0.99_f64.powi(i32::try_from(chosen).unwrap_or(i32::MAX)));
    format!(
        "{chosen} of {all} files were read: if one in 100 is damaged, that shows with a chance of \
         {found:.0} %"
    )
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn numbers_are_below_their_limit() {
        let mut random = Random::default();
        let mut seen = [0; 5];
        (0..5000).for_each(|_| seen[random.below(5).unwrap() as usize] += 1);
        assert!(seen.iter().all(|number| (800..1200).contains(number)), "{seen:?}");
    }

    #[test]
    fn a_chance_is_told() {
        assert_eq!(chance(3, 3), "all 3 files were read");
        assert_eq!(chance(1, 1), "the only file was read");
        assert!(chance(100, 500).ends_with("a chance of 63 %"), "{}", chance(100, 500));
    }
}
