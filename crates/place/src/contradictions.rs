//! Options that contradict each other or the operation. An operation with such options does not
//! begin.

use evener_core::Cipher;

use crate::{Contradiction, FileError, KeyRing, Operation, Refusal, RunSettings, TreeOptions};

/// Checks the options of an operation on a file or a tree.
pub(crate) fn in_tree(
    operation: Operation,
    cipher: Cipher,
    run: &RunSettings,
    options: &TreeOptions,
) -> Result<(), FileError> {
    in_run(run)?;
    let lacks_proof = operation == Operation::Decrypt && !cipher.is_authenticated();
    let may_delete = operation == Operation::Encrypt && cipher.is_authenticated();
    let removes = options.remove_source;
    refuse(&[
        (removes && lacks_proof, Contradiction::RemoveWithoutProof),
        (removes && options.follow_symlinks, Contradiction::RemoveBehindLinks),
        (removes && run.reference.is_none(), Contradiction::RemoveWithoutReference),
        (removes && options.existing.updates(), Contradiction::RemoveAndUpdate),
        (options.existing.delete().is_some() && !may_delete, Contradiction::Delete),
    ])
}

/// Refuses to encrypt many files with a recipe that takes long for each.
pub(crate) fn of_many_files(operation: Operation, keys: &KeyRing) -> Result<(), FileError> {
    match keys.primary().for_one_file().filter(|_| operation == Operation::Encrypt) {
        Some(reason) => Err(Refusal::SlowForMany(reason).into()),
        None => Ok(()),
    }
}

/// Checks the settings that all operations share.
pub(crate) fn in_run(run: &RunSettings) -> Result<(), FileError> {
    let most_cpu = run.courtesy.most_cpu;
    let is_no_percentage = most_cpu.is_some_and(|percent| !(1..=100).contains(&percent));
    refuse(&[(is_no_percentage, Contradiction::CpuLimit)])
}

fn refuse(contradictions: &[(bool, Contradiction)]) -> Result<(), FileError> {
    match contradictions.iter().find(|(is_so, _)| *is_so) {
        Some((_, contradiction)) => Err((*contradiction).into()),
        None => Ok(()),
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::Existing;

    fn is_refused(change: impl FnOnce(&mut RunSettings, &mut TreeOptions)) -> bool {
        let (mut run, mut options) = (RunSettings::default(), TreeOptions::default());
        change(&mut run, &mut options);
        in_tree(Operation::Encrypt, Cipher::Aes256Gcm, &run, &options).is_err()
    }

    #[test]
    fn options_that_make_sense_pass() {
        assert!(!is_refused(|_, _| {}));
        for percent in [1, 50, 100] {
            assert!(!is_refused(|run, _| run.courtesy.most_cpu = Some(percent)));
        }
        assert!(!is_refused(|_, options| options.existing = Existing::resume()));
        assert!(!is_refused(|_, options| options.existing = Existing::update()));
        assert!(!is_refused(|_, options| options.dry_run = true));
    }

    #[test]
    fn options_that_contradict_each_other_do_not() {
        for percent in [0, 101, u8::MAX] {
            assert!(is_refused(|run, _| run.courtesy.most_cpu = Some(percent)));
        }
        assert!(is_refused(|_, options| options.remove_source = true));
    }
}
