//! Refusals: reasons of Evener's own not to do something.

use std::fmt;

use crate::{FileError, SystemError};

/// The reason that a file, or the whole operation, was refused. Names and paths are written as they
/// are shown to users.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Refusal {
    /// The options contradict each other or the operation, which did not begin.
    #[error(transparent)]
    Options(#[from] Contradiction),

    // Sources that can't be done.
    /// The source of an operation is neither a file nor a directory.
    #[error("is neither a file nor a tree")]
    NeitherFileNorTree,
    /// A file is not a regular one.
    #[error("is not a regular file")]
    NotRegular,
    /// The source of a stream is a socket.
    #[error("is a socket")]
    Socket,
    /// The path of a single source has no last name, as `/` or `..`.
    #[error("does not name a file")]
    NoFileName,
    /// The source is one of the files in `TreeOptions::protected`.
    #[error(
        "is a file that this run itself uses (a key, an identity, recipients or a passphrase, a \
         profile, or its progress), and is left alone"
    )]
    Protected,
    /// The source that is to be removed was named by a symbolic link.
    #[error("is a symbolic link; to have the source removed, name the file itself")]
    LinkToRemove,
    /// The source is to be removed, and its output can't be read back.
    #[error("is no regular file, so the output can't be read back, and the source is not removed")]
    NotReadBack,
    /// The cipher allows no reading at any place.
    #[error("can only be read from its beginning, being in OFB mode; decrypt it as a whole")]
    OnlyFromBeginning,
    /// Nothing usable remains of a name without this suffix.
    #[error("without `{0}` its name is none that a file can have; skipped")]
    NothingButSuffix(String),
    /// A path of `Selection::only` does not exist.
    #[error("nothing of this name was found in the source{}", suffix_hint(.suffix.as_ref()))]
    NotFound {
        /// The suffix, if the path has it and sealed files are chosen by their names without it.
        suffix: Option<String>,
    },

    // Links to directories that are not followed.
    /// A symbolic link leads to a directory that contains the link.
    #[error("is a symbolic link to a directory that contains it")]
    LinkUpwards,
    /// A symbolic link leads to a directory that contains the source.
    #[error("leads to a directory that contains the source, and was left out")]
    LinkAroundSource,
    /// A symbolic link leads to a directory that contains the outputs.
    #[error("leads to a directory that contains its outputs, and was left out")]
    LinkAroundOutputs,
    /// A symbolic link leads to a file system such as /proc.
    #[error(
        "leads into a file system of the kernel's own, as /proc and /sys are, and was left out"
    )]
    LinkIntoKernel,

    // Targets that can't be used.
    /// A part of the path is not a directory.
    #[error("`{name}` is no directory but {kind}")]
    NoDirectory {
        /// The path up to this part.
        name: String,
        /// Its kind, with an article.
        kind: &'static str,
    },
    /// A part of the path, this one, is a dangling symbolic link.
    #[error("`{0}` is a symbolic link to what is not there")]
    DanglingDirectory(String),
    /// A part of the path, this one, does not exist.
    #[error("there is no directory `{0}`")]
    MissingDirectory(String),
    /// The target is a dangling symbolic link.
    #[error("is a symbolic link to what is not there; name the output itself")]
    Dangling,
    /// The path leads to this file of a stranger in a common directory such as /tmp.
    #[error(
        "leads to `{0}`, which another user has put into a directory where everybody can; name \
         another place"
    )]
    Planted(String),
    /// The path leads through this link of a stranger in a common directory such as /tmp.
    #[error(
        "leads through the symbolic link `{0}`, which another user has put into a directory where \
         everybody can; name another place"
    )]
    PlantedLink(String),
    /// The target is the source.
    #[error("is the source itself")]
    IsSource,
    /// An output, this one, is the source.
    #[error("the output `{0}` is the source itself")]
    OutputIsSource(String),
    /// The target is inside this source.
    #[error("lies inside the source `{0}`")]
    InsideSource(String),
    /// The target contains this source.
    #[error(
        "contains the source `{0}`, so an output could replace a source; choose a directory beside \
         it"
    )]
    AroundSource(String),
    /// The target of a stream is a directory.
    #[error("is a directory; name a file in it")]
    IsDirectory,
    /// The target of a stream has no last name, as `/` or `..`.
    #[error("does not name a file; give the name of one")]
    NoOutputName,
    /// The target is a device in use.
    #[error("is in use: a file system on it is mounted, or another program has it")]
    DeviceInUse,

    // Outputs that would be confused with others.
    /// The output of this name would replace a file in
    /// `TreeOptions::protected`.
    #[error("the output `{0}` would replace a key of this operation, or what opens one")]
    ReplacesKey(String),
    /// The output of this name would replace a source of the same run.
    #[error(
        "the output `{0}` would replace a source of this run; choose an output directory apart \
         from the sources"
    )]
    ReplacesSource(String),
    /// The output of this name would replace a wrapped key.
    #[error("the output `{0}` would replace a wrapped key; name another output or suffix")]
    ReplacesWrappedKey(String),
    /// The output's name is that of the tree's wrapped key.
    #[error(
        "its output would have the name of the tree's wrapped key; rename it, or choose another suffix"
    )]
    NameOfWrappedKey,
    /// The output's name is that of the tree's list of mount points.
    #[error("its output would have the name of the tree's list of mount points")]
    NameOfMountList,
    /// The output's name is one of those of unfinished outputs.
    #[error(
        "its output would have a name that Evener gives to unfinished outputs, which later runs \
         remove; rename the source"
    )]
    NameOfUnfinished,
    /// The directory has the name of this file's output.
    #[error("has the name of the output of `{0}`")]
    NameOfOutput(String),
    /// A file or directory and a sealed file would be decrypted to one name.
    #[error(
        "`{plain}` and `{sealed}` among the outputs would both be decrypted to `{plain}`, and one \
         of them is of an older state of the source; remove it, or update with deletions"
    )]
    TwoKinds {
        /// The name of the first, and of both after decryption.
        plain: String,
        /// The name of the sealed file.
        sealed: String,
    },
    /// Two sealed files, of which this is one, would be decrypted to one name.
    #[error(
        "`{twin}`, in another format, would be decrypted to `{plain}` too, and one of the two may be \
         of an older state; remove or move that one"
    )]
    TwoFormats {
        /// The name of both after decryption.
        plain: String,
        /// The name of the other.
        twin: String,
    },
    /// The file is encrypted in another format than those of the run.
    #[error(
        "is encrypted in another format than this run decrypts (age's files end in `.age`, others \
         in `.enc`); decrypt it in a run of its own, or leave it out"
    )]
    OtherFormat,
    /// The directory holds outputs.
    #[error(
        "holds outputs of this run, so none of it is a source; choose an output directory apart \
         from the source"
    )]
    HoldsOutputs,
    /// The directory's output directory holds sources.
    #[error(
        "its output directory is one of the source; choose an output directory apart from the \
         source"
    )]
    HoldsSources,

    // Changes by others during the operation.
    /// The directory that holds the file is another one now.
    #[error("the directory that it is in was moved or replaced meanwhile")]
    DirectoryMoved,
    /// The directory of the source is another one now.
    #[error("was moved or replaced meanwhile, so its output did not get its times")]
    SourceDirectoryMoved,
    /// The output directory is another one now.
    #[error("was moved or replaced meanwhile, so its mode and times were not set")]
    OutputDirectoryMoved,
    /// A link that was made is another file now.
    #[error("its output was replaced meanwhile")]
    OutputReplaced,
    /// An existing output, this one, is another one now.
    #[error(
        "the output `{0}` was changed or replaced while it was looked at, perhaps by another run; \
         do it again"
    )]
    OutputChanged(String),

    /// An existing output, this one, does not have the content of its source.
    #[error(
        "the output `{0}` exists with other content than this source gives: it was damaged or \
         changed, or is another source's; look at it, and remove it if it is not needed"
    )]
    OutputDiffers(String),
    /// The keys of a resumed run do not open an existing output, this one.
    #[error(
        "the output `{0}` exists, and recipients do not show whether it holds this source, which was \
         kept; give an identity"
    )]
    OutputUnopened(String),

    // Deletions that were not done.
    /// The source is empty.
    #[error(
        "nothing was deleted, since the source is empty, as the directory of a disk that is not \
         mounted is; if all of it is to go, remove this tree yourself"
    )]
    SourceEmpty,
    /// The target has no output of the source.
    #[error(
        "nothing was deleted, since none of the outputs here is of this source as it is now: this \
         may be another source, or one that is not mounted; if all of it is to go, remove this \
         tree yourself"
    )]
    NoneOfSource,
    /// The output or its source has changed since the question.
    #[error("was changed meanwhile, or its source has come back, so it was kept")]
    ChangedKept,
    /// A tree's list of mount points can't be used.
    #[error("it is no list of mount points of this version")]
    UnknownMountList,

    // Requests that the outputs' file system did not fulfil, with its error, if it gave one.
    /// The outputs lack their owners.
    #[error("owners could not be kept{}; the outputs were stored all the same", in_brackets(*.0))]
    NoOwners(Option<SystemError>),
    /// The outputs lack extended attributes.
    #[error(
        "extended attributes could not be kept{}; the outputs were stored all the same",
        in_brackets(*.0)
    )]
    NoXattrs(Option<SystemError>),
    /// The outputs may not be on the device yet.
    #[error(
        "what was written could not be synced{}; the outputs were stored all the same",
        in_brackets(*.0)
    )]
    NotSynced(Option<SystemError>),

    // Faults.
    /// The system gave no random bytes, for this reason.
    #[error("the system has no randomness: {0}")]
    NoRandomness(String),
    /// An engine returned without having done all jobs.
    #[error("an engine left a job undone")]
    JobUndone,
    /// Parts of a file were lost or done twice.
    #[error(
        "not each part of it was processed once, which is a fault of Evener; it was not done, so \
         try again"
    )]
    Unaccounted,
    /// A part of a stream was lost.
    #[error("not all of it was done, and no engine said why")]
    StreamUnaccounted,
    /// A part of a stream was done twice.
    #[error(
        "a part of it was processed twice, which is a fault of Evener; what was written is not \
         whole, so try again"
    )]
    StreamTwice,
    /// So many files were lost.
    #[error(
        "{0} of its files were neither done nor refused, which is a fault of Evener; run it again"
    )]
    FilesLost(u64),

    /// The recipe takes long for each file; the text says why, and what to do instead.
    #[error("{0}")]
    SlowForMany(&'static str),

    /// No key that was given opens a sealed tree; the text names the missing one.
    #[error("{0}")]
    NoKey(String),

    /// A reason of the program that uses this library.
    #[error("{0}")]
    Other(String),
}

/// Options that contradict each other or the operation.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum Contradiction {
    /// The CPU limit is no percentage.
    #[error("a CPU limit is a percentage from 1 to 100")]
    CpuLimit,
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
    /// Sources are to be removed without `RunSettings::reference`.
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
    /// The operation lacks a store, or is a verification and has one.
    #[error("a store is what encrypting and decrypting take, and verifying does not")]
    TransferStore,
}

impl From<Contradiction> for FileError {
    fn from(contradiction: Contradiction) -> FileError {
        Refusal::from(contradiction).into()
    }
}

fn suffix_hint(suffix: Option<&String>) -> String {
    suffix.map(|suffix| without_suffix(suffix)).unwrap_or_default()
}

/// Tells the user how to name sealed files, behind other text.
pub fn without_suffix(suffix: &dyn fmt::Display) -> String {
    format!("; files are chosen by the names that they had before, without `{suffix}`")
}

/// An error as text behind other text, such as " (Operation not permitted)".
pub fn in_brackets(answer: Option<SystemError>) -> String {
    answer.map(|errno| format!(" ({errno})")).unwrap_or_default()
}

#[cfg(test)]
mod tests {
    use rustix::io::Errno;

    use super::*;
    use crate::error::IntoSystemError;

    #[test]
    fn texts_have_their_details() {
        let text = |refusal: Refusal| FileError::from(refusal).to_string();
        let found = "nothing of this name was found in the source";
        let hint = "files are chosen by the names that they had before, without `.enc`";
        assert_eq!(text(Refusal::NotFound { suffix: None }), found);
        let suffix = Some(".enc".to_owned());
        assert_eq!(text(Refusal::NotFound { suffix }), format!("{found}; {hint}"));
        let stored = "; the outputs were stored all the same";
        let kept = "owners could not be kept";
        assert_eq!(text(Refusal::NoOwners(None)), format!("{kept}{stored}"));
        let refused = text(Refusal::NoOwners(Some(Errno::PERM.system())));
        assert_eq!(refused, format!("{kept} (Operation not permitted){stored}"));
    }
}
