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
        (is_no_suffix, NO_SUFFIX),
        (removes && lacks_proof, NO_PROOF),
        (removes && options.follow_symlinks, NOT_BELOW),
        (removes && options.reference.is_none(), NO_REFERENCE),
        (removes && options.existing.updates(), NO_UPDATE),
        (options.existing.delete().is_some() && !may_delete, NO_DELETE),
        (!options.head.is_empty(), NO_HEAD),
    ])
}

/// Checks the options of a stream.
pub(crate) fn in_stream(options: &Options) -> Result<(), FileError> {
    in_general(options)?;
    refuse(&[
        (options.remove_source, "a stream can't be read back, so its source is not removed"),
        (
            options.existing.resumes(),
            "a stream can't be resumed: it is processed from beginning to end",
        ),
        (options.existing.updates(), "a stream's output can't be updated"),
        (options.dry_run, "there is no dry run of a stream: it can be read only once"),
    ])
}

/// Checks the options of a transfer between two places.
pub(crate) fn in_places(options: &Options) -> Result<(), FileError> {
    in_general(options)?;
    refuse(&[
        (options.remove_source, "a transfer between places removes no sources"),
        (options.existing.updates(), "a transfer between places updates nothing"),
        (options.dry_run, "there is no dry run of a transfer between places"),
        (options.base64.is_some() || !options.head.is_empty(), "only a stream has another form"),
    ])
}

/// Checks the options that all operations share.
pub(crate) fn in_general(options: &Options) -> Result<(), FileError> {
    let Courtesy { most_cpu, .. } = options.courtesy;
    refuse(&[(most_cpu.is_some_and(|percent| !(1..=100).contains(&percent)), NO_PERCENTAGE)])
}

fn refuse(contradictions: &[(bool, &str)]) -> Result<(), FileError> {
    match contradictions.iter().find(|(is_so, _)| *is_so) {
        Some((_, reason)) => Err(FileError::Refused((*reason).to_owned())),
        None => Ok(()),
    }
}

const NO_PERCENTAGE: &str = "a CPU limit is a percentage from 1 to 100";

const NO_SUFFIX: &str = "a suffix has at least one character, and neither a slash nor a zero byte";

const NO_PROOF: &str = "nothing authenticates files of this format, so a wrong key can go \
    unnoticed: decrypting does not remove them";

const NOT_BELOW: &str = "a symbolic link can lead to files anywhere, so following links \
    does not go with removing sources";

const NO_REFERENCE: &str = "there is no engine to read outputs back with, so no source is removed";

const NO_UPDATE: &str = "where sources are removed nothing is left to compare with, so outputs \
    can't be updated";

const NO_DELETE: &str = "outputs are deleted only by an encryption that updates a tree, in a format \
    other than that of `openssl enc`: there Evener knows its own files by their headers";

const NO_HEAD: &str = "only a stream begins with a head: the files of a tree have their keys beside \
    them";

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
