//! Options that contradict each other or the operation. An operation with such options does not
//! begin.

use evener_core::Cipher;
use evener_pipeline::Courtesy;

use crate::{Contradiction, FileError, KeyRing, Operation, Options, Refusal};

/// Checks the options of an operation on a file or a tree.
pub(crate) fn in_tree(
    operation: Operation,
    cipher: Cipher,
    options: &Options,
) -> Result<(), FileError> {
    in_names(options)?;
    let lacks_proof = operation == Operation::Decrypt && !cipher.is_authenticated();
    let may_delete = operation == Operation::Encrypt && cipher.is_authenticated();
    let removes = options.remove_source;
    refuse(&[
        (removes && lacks_proof, Contradiction::RemoveWithoutProof),
        (removes && options.follow_symlinks, Contradiction::RemoveBehindLinks),
        (removes && options.reference.is_none(), Contradiction::RemoveWithoutReference),
        (removes && options.existing.updates(), Contradiction::RemoveAndUpdate),
        (options.existing.delete().is_some() && !may_delete, Contradiction::Delete),
        (!options.head.is_empty(), Contradiction::HeadOfTree),
    ])
}

/// Checks the options of a stream.
pub(crate) fn in_stream(options: &Options) -> Result<(), FileError> {
    in_general(options)?;
    refuse(&[
        (options.remove_source, Contradiction::StreamRemoves),
        (options.existing.resumes(), Contradiction::StreamResumes),
        (options.existing.updates(), Contradiction::StreamUpdates),
        (options.dry_run, Contradiction::StreamDryRun),
    ])
}

/// Checks the options of a transfer between two places.
pub(crate) fn in_places(options: &Options) -> Result<(), FileError> {
    in_names(options)?;
    refuse(&[
        (options.remove_source, Contradiction::TransferRemoves),
        (options.existing.updates(), Contradiction::TransferUpdates),
        (options.dry_run, Contradiction::TransferDryRun),
        (options.base64.is_some() || !options.head.is_empty(), Contradiction::TransferForm),
    ])
}

/// Refuses to encrypt many files with a recipe that takes long for each.
pub(crate) fn of_many_files(operation: Operation, keys: &KeyRing) -> Result<(), FileError> {
    match keys.primary().for_one_file().filter(|_| operation == Operation::Encrypt) {
        Some(reason) => Err(Refusal::SlowForMany(reason).into()),
        None => Ok(()),
    }
}

/// Checks the options of operations that give outputs names.
fn in_names(options: &Options) -> Result<(), FileError> {
    in_general(options)?;
    let suffix = options.suffix.as_encoded_bytes();
    let is_no_suffix = suffix.is_empty() || suffix.iter().any(|byte| matches!(byte, b'/' | 0));
    refuse(&[(is_no_suffix, Contradiction::Suffix)])
}

/// Checks the options that all operations share.
pub(crate) fn in_general(options: &Options) -> Result<(), FileError> {
    let Courtesy { most_cpu, .. } = options.courtesy;
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

    fn told(change: impl FnOnce(&mut Options)) -> (bool, bool) {
        let mut options = Options::default();
        change(&mut options);
        let in_tree = in_tree(Operation::Encrypt, Cipher::Aes256Gcm, &options);
        (in_tree.is_err(), in_stream(&options).is_err())
    }

    #[test]
    fn options_that_make_sense_pass() {
        assert_eq!(told(|_| {}), (false, false));
        for percent in [1, 50, 100] {
            assert_eq!(told(|options| options.courtesy.most_cpu = Some(percent)), (false, false));
        }
        assert_eq!(told(|options| options.existing = Existing::resume()), (false, true));
        assert_eq!(told(|options| options.existing = Existing::update()), (false, true));
        assert_eq!(told(|options| options.dry_run = true), (false, true));
        assert_eq!(told(|options| options.head = vec![1]), (true, false));
    }

    #[test]
    fn options_that_contradict_each_other_do_not() {
        for percent in [0, 101, u8::MAX] {
            assert_eq!(told(|options| options.courtesy.most_cpu = Some(percent)), (true, true));
        }
        assert_eq!(told(|options| options.remove_source = true), (true, true));
        assert_eq!(told(|options| options.suffix = "a/b".into()), (true, false));
    }
}
