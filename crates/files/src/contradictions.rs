//! Options that contradict each other or the operation. An operation with such options does not
//! begin.

use evener_core::Cipher;
use evener_pipeline::Courtesy;

use crate::{FileError, Operation, Options};

/// Checks the options of an operation on a file or a tree.
pub(crate) fn in_tree(
    operation: Operation,
    cipher: Cipher,
    options: &Options,
) -> Result<(), FileError> {
    in_general(options)?;
    let suffix = options.suffix.as_encoded_bytes();
    let is_no_suffix = suffix.is_empty() || suffix.iter().any(|byte| matches!(byte, b'/' | 0));
    let lacks_proof = operation == Operation::Decrypt && !cipher.is_authenticated();
    let may_delete = operation == Operation::Encrypt && cipher.is_authenticated();
    let removes = options.remove_source;
    refuse(&[
        (is_no_suffix, Contradiction::Suffix),
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
    in_general(options)?;
    refuse(&[
        (options.remove_source, Contradiction::TransferRemoves),
        (options.existing.updates(), Contradiction::TransferUpdates),
        (options.dry_run, Contradiction::TransferDryRun),
        (options.base64.is_some() || !options.head.is_empty(), Contradiction::TransferForm),
    ])
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

/// Options that contradict each other or the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// The CPU limit is no percentage.
    #[error("a CPU limit is a percentage from 1 to 100")]
    CpuLimit,
    /// The suffix can't be a part of a name.
    #[error("a suffix has at least one character, and neither a slash nor a zero byte")]
    Suffix,
    /// Sources are to be removed, and outputs of this format can't be authenticated.
    #[error(
        "nothing authenticates files of this format, so a wrong key can go unnoticed: decrypting \
         does not remove them"
    )]
    RemoveWithoutProof,
    /// Sources are to be removed, and links to be followed.
    #[error(
        "a symbolic link can lead to files anywhere, so following links does not go with removing \
         sources"
    )]
    RemoveBehindLinks,
    /// Sources are to be removed without [`Options::reference`].
    #[error("there is no engine to read outputs back with, so no source is removed")]
    RemoveWithoutReference,
    /// Sources are to be removed, and outputs updated.
    #[error(
        "where sources are removed nothing is left to compare with, so outputs can't be updated"
    )]
    RemoveAndUpdate,
    /// The operation can't delete outputs.
    #[error(
        "outputs are deleted only by an encryption that updates a tree, in a format other than \
         that of `openssl enc`: there Evener knows its own files by their headers"
    )]
    Delete,
    /// A tree has no head.
    #[error("only a stream begins with a head: the files of a tree have their keys beside them")]
    HeadOfTree,
    /// A stream's source is to be removed.
    #[error("a stream can't be read back, so its source is not removed")]
    StreamRemoves,
    /// A stream is to be resumed.
    #[error("a stream can't be resumed: it is processed from beginning to end")]
    StreamResumes,
    /// A stream's output is to be updated.
    #[error("a stream's output can't be updated")]
    StreamUpdates,
    /// A dry run of a stream.
    #[error("there is no dry run of a stream: it can be read only once")]
    StreamDryRun,
    /// A transfer between places is to remove sources.
    #[error("a transfer between places removes no sources")]
    TransferRemoves,
    /// A transfer between places is to update outputs.
    #[error("a transfer between places updates nothing")]
    TransferUpdates,
    /// A dry run of a transfer between places.
    #[error("there is no dry run of a transfer between places")]
    TransferDryRun,
    /// A transfer between places is to make or read the form of a stream.
    #[error("only a stream has another form")]
    TransferForm,
    /// The operation lacks a store, or is a verification and has one.
    #[error("a store is what encrypting and decrypting take, and verifying does not")]
    TransferStore,
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
