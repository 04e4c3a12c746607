//! Options of operations on sealed trees.

use std::ffi::c_char;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use facade::keys::signing::{NoDialogue, PublicKey, UserKey};
use facade::sealed_trees::{
    At, CleanOptions, Keychain, RootDigest, SealedOptions, Signer, Trust, state_directory,
    state_name, typed_name,
};
use facade::{Evener, Operation, Refusal, SealedNames, Selection};

use crate::file::FileOptions;
use crate::file::options::{Flag, Wishes};
use crate::status::{Status, Trouble};

/// Options of operations on sealed trees. Zero in every field but the first is the default. An
/// operation ignores the fields that are for others.
#[repr(C)]
#[derive(Clone, Copy)]
pub struct SealedTreeOptions {
    /// `sizeof(evener_tree_options)`, set by the caller.
    pub size: usize,
    /// Engines, workers, memory, progress and flags; NULL for the defaults. Suffix and context are
    /// none of a sealed tree's, and neither are `EVENER_FLAG_REMOVE_SOURCE`,
    /// `EVENER_FLAG_FOLLOW_SYMLINKS`, `EVENER_FLAG_IGNORE_CTIME` and `EVENER_FLAG_ARMOR`. Sealing
    /// takes no `EVENER_FLAG_OVERWRITE`, `EVENER_FLAG_RESUME` and `EVENER_FLAG_SPARSE`, reading no
    /// `EVENER_FLAG_UPDATE`, `EVENER_FLAG_DRY_RUN`, `EVENER_FLAG_SKIP_CHANGING` and
    /// `EVENER_FLAG_ONE_FILE_SYSTEM`. Only operations that read or write files report progress.
    pub files: *const FileOptions,
    /// A sum of `evener_tree_flag`s.
    pub flags: u64,
    /// Directory for what this machine knows of its trees: roots, signing keys and the files last
    /// sealed. It is made if it is missing. NULL for the program's: `$XDG_STATE_HOME/evener/trees`,
    /// or `~/.local/state/evener/trees`.
    pub state: *const c_char,
    /// To write: the key of OpenSSH that signs, by `ssh-keygen`: a private key, or a public one
    /// whose private key is in ssh-agent. NULL for a key that is made for this machine and kept in
    /// `state`, where the tree is one for recipients or already signed.
    pub signer: *const c_char,
    /// Public keys of OpenSSH, one a line, of which one must have signed the tree; NULL for those
    /// that this machine saw at first use. Not with `EVENER_TREE_FLAG_UNSIGNED`.
    pub signers: *const c_char,
    /// Accept only a tree whose generation N has this digest, or a later one: `N:DIGEST` with 64
    /// hexadecimal digits, for machines that have not seen the tree. NULL for none.
    pub pin: *const c_char,
    /// To read: the number of the generation; 0 for the newest one.
    pub generation: u64,
    /// To read: the last generation made by this time, in seconds since 1970; 0 for the newest one.
    /// Not with `generation`.
    pub time: i64,
    /// To make a tree: pad each file to at least so many bytes, and larger ones by up to 12 %; 0 for
    /// no padding. A tree that is there keeps its own.
    pub padding: u64,
    /// To read: paths below the root of the tree that are taken; NULL for all.
    pub paths: *const *const c_char,
    /// Number of paths.
    pub path_count: usize,
    /// To clean: the number of generations to keep, the newest ones; 0 for all, or for the newest
    /// alone with `keep_within`.
    pub keep: u64,
    /// To clean: also keep the generations made in this many seconds before now; 0 for none.
    pub keep_within: u64,
    /// To clean: runs that are no more, one a line, by the names that the report's `writers` has;
    /// NULL for none.
    pub abandon: *const c_char,
}

/// Options of sealed trees that are on or off, to be added up.
#[repr(u32)]
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub enum TreeFlag {
    /// To seal: compare every file by its content, not by size and times.
    Checksum = 1,
    /// Accept a tree for recipients that nobody has signed. Recipients are not secret, so anybody
    /// could have made it.
    Unsigned = 2,
    /// Accept an older generation or another tree than this machine has seen, this once.
    AllowRollback = 4,
    /// To verify: read no content. This finds missing, cut and exchanged files, not decayed ones.
    Quick = 8,
    /// To list: only the entries of the directories in `paths`, not those below.
    Shallow = 16,
    /// To wrap keys for others: remove old wrappings also where nothing given opens the new ones.
    TrustUnopened = 32,
    /// To seal: accept other recipients or another passphrase than this machine last sealed for, as
    /// after `evener_tree_rewrap` on another machine. Otherwise that is an error, since others could not
    /// read unchanged files.
    RecipientsChanged = 64,
}

/// The options in Rust's types.
#[derive(Default)]
pub(crate) struct TreeWishes<'a> {
    pub(crate) files: Wishes<'a>,
    pub(crate) flags: u64,
    pub(crate) state: Option<&'a Path>,
    pub(crate) signer: Option<&'a Path>,
    pub(crate) signers: Option<&'a str>,
    pub(crate) pin: Option<&'a str>,
    pub(crate) generation: u64,
    pub(crate) time: i64,
    pub(crate) padding: u64,
    pub(crate) paths: Vec<&'a Path>,
    pub(crate) keep: u64,
    pub(crate) keep_within: u64,
    pub(crate) abandon: Option<&'a str>,
}

impl TreeWishes<'_> {
    pub(crate) fn has(&self, flag: TreeFlag) -> bool {
        self.flags & u64::from(flag as u32) != 0
    }

    /// The engines and the options of files, for a key of the format of all sealed trees.
    pub(crate) fn evener(&self, operation: Operation) -> Result<Evener, Trouble> {
        let files = &self.files;
        if files.suffix.is_some() || !files.context.is_empty() {
            return Err(Trouble::argument("a sealed tree has neither suffix nor context"));
        }
        let refused = if operation == Operation::Encrypt { NOT_TO_SEAL } else { NOT_TO_READ };
        let refused = NEVER.iter().chain(refused).fold(0, |all, flag| all | *flag as u32);
        if files.flags & refused != 0 {
            let flags = files.flags & refused;
            return Err(Trouble::argument(format!("the flags {flags:#x} are not for this")));
        }
        let ring = facade::keys::KeyMaterial::generate(facade::keys::KeyFormat::Cobblestone256)?
            .key_ring(b"")?;
        let nothing: &[&str] = &[];
        let selection = Selection::new(nothing, nothing)
            .map_err(|error| Trouble::argument(error.to_string()))?
            .only(&self.paths)
            .map_err(|error| Trouble::argument(error.to_string()))?;
        Ok(files.evener(ring, SealedNames::default())?.with_options(|options| {
            options.transfer.selection = selection;
            options.transfer.resume = files.has(Flag::Resume);
            options.transfer.overwrite = files.has(Flag::Overwrite);
            options.transfer.durable = files.has(Flag::Durable);
        }))
    }

    pub(crate) fn sealed(&self, tree: &Path, keychain: Keychain) -> Result<SealedOptions, Trouble> {
        let flags = u64::from(ALL.iter().fold(0, |all, flag| all | *flag as u32));
        if self.flags & !flags != 0 {
            let unknown = self.flags & !flags;
            return Err(Trouble::argument(format!("unknown flags {unknown:#x} of a tree")));
        }
        let at = match (self.generation, self.time) {
            (0, 0) => At::Newest,
            (number, 0) => At::Number(number),
            (0, time) => At::Time(time),
            _ => return Err(Trouble::argument("generation and time exclude each other")),
        };
        let state = self.state.map(PathBuf::from).or_else(|| state_directory("trees"));
        Ok(SealedOptions {
            keychain,
            state: state.map(|state| (state, state_name(tree))),
            alias: Some(typed_name(tree)),
            signer: self.signer.map(signer).transpose()?,
            trust: self.trust()?,
            at,
            padding: Some(self.padding).filter(|least| *least > 0),
            compares: self.has(TreeFlag::Checksum),
            skip_changing: self.files.has(Flag::SkipChanging),
            dry_run: self.files.has(Flag::DryRun),
            accepts_audience: self.has(TreeFlag::RecipientsChanged),
            ..SealedOptions::default()
        })
    }

    pub(crate) fn clean(&self) -> CleanOptions {
        let usual = if self.keep_within > 0 { 1 } else { u64::MAX };
        CleanOptions {
            keep: if self.keep > 0 { self.keep } else { usual },
            keep_within: Some(self.keep_within).filter(|seconds| *seconds > 0),
            abandon: lines(self.abandon).map(str::to_owned).collect(),
            dry_run: self.files.has(Flag::DryRun),
        }
    }

    fn trust(&self) -> Result<Trust, Trouble> {
        let (unsigned, rollback) =
            (self.has(TreeFlag::Unsigned), self.has(TreeFlag::AllowRollback));
        if unsigned && self.signers.is_some() {
            return Err(Trouble::argument("an unsigned tree has no signers"));
        }
        let key = |line| {
            let key = PublicKey::from_allowed(line).transpose()?;
            Some(key.map_err(|fault| Trouble::argument(format!("signers: {fault}"))))
        };
        let signers = self.signers.map(|text| lines(Some(text)).filter_map(key).collect());
        let signers = signers.transpose()?.map(|keys: Vec<_>| match keys.is_empty() {
            true => Err(Trouble::argument("signers has no public key")),
            false => Ok(keys),
        });
        let (signers, pin) = (signers.transpose()?, self.pin.map(pin).transpose()?);
        Ok(Trust { signers, unsigned, pin, rollback })
    }
}

/// The lines of a text that are neither empty nor comments.
pub(super) fn lines(text: Option<&str>) -> impl Iterator<Item = &str> {
    let lines = text.unwrap_or_default().lines().map(str::trim);
    lines.filter(|line| !line.is_empty() && !line.starts_with('#'))
}

fn signer(path: &Path) -> Result<Signer, Trouble> {
    let key =
        UserKey::new(path).map_err(|error| Trouble::new(Status::KeyFile, error.to_string()))?;
    let public = key.public().clone();
    let sign = move |message: &[u8]| {
        key.sign(message, &NoDialogue).map_err(|error| Refusal::Other(error.to_string()).into())
    };
    Ok(Signer { public, sign: Arc::new(sign) })
}

/// Reads `N:DIGEST`.
fn pin(text: &str) -> Result<(u64, RootDigest), Trouble> {
    let parts = text.split_once(':');
    let pin = parts.and_then(|(number, digest)| {
        Some((number.parse().ok().filter(|number| *number > 0)?, RootDigest::from_text(digest)?))
    });
    pin.ok_or_else(|| Trouble::argument("pin is not a generation and its digest of 64 digits"))
}

const ALL: [TreeFlag; 7] = [
    TreeFlag::Checksum,
    TreeFlag::Unsigned,
    TreeFlag::AllowRollback,
    TreeFlag::Quick,
    TreeFlag::Shallow,
    TreeFlag::TrustUnopened,
    TreeFlag::RecipientsChanged,
];

/// Flags of files that a sealed tree does not have.
const NEVER: &[Flag] = &[Flag::RemoveSource, Flag::FollowSymlinks, Flag::IgnoreCtime, Flag::Armor];
const NOT_TO_SEAL: &[Flag] = &[Flag::Overwrite, Flag::Resume, Flag::Sparse];
const NOT_TO_READ: &[Flag] = &[Flag::Update, Flag::DryRun, Flag::SkipChanging, Flag::OneFileSystem];

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn options_that_contradict_each_other_are_refused() {
        let refused = |wishes: TreeWishes<'_>| {
            wishes.sealed(Path::new("tree"), Keychain::default()).err().map(|it| it.message)
        };
        let digest = "5e".repeat(32);
        assert_eq!(refused(TreeWishes::default()), None);
        assert_eq!(
            refused(TreeWishes { pin: Some(&format!("1:{digest}")), ..Default::default() }),
            None
        );
        let unsigned = u64::from(TreeFlag::Unsigned as u32);
        for wishes in [
            TreeWishes { flags: 128, ..Default::default() },
            TreeWishes { generation: 1, time: 1, ..Default::default() },
            TreeWishes { pin: Some(&digest), ..Default::default() },
            TreeWishes { pin: Some(&format!("0:{digest}")), ..Default::default() },
            TreeWishes { signers: Some("# nobody"), ..Default::default() },
            TreeWishes { signers: Some("nobody"), ..Default::default() },
            TreeWishes { signers: Some("ssh"), flags: unsigned, ..Default::default() },
        ] {
            assert!(refused(wishes).is_some());
        }
    }

    #[test]
    fn flags_that_are_of_no_use_are_refused() {
        let status = |operation, flag: Flag| {
            let files = Wishes { flags: flag as u32, ..Wishes::default() };
            TreeWishes { files, ..TreeWishes::default() }.evener(operation).map(|_| ()).is_ok()
        };
        for flag in NEVER {
            assert!(!status(Operation::Encrypt, *flag) && !status(Operation::Decrypt, *flag));
        }
        assert!(status(Operation::Encrypt, Flag::DryRun));
        assert!(!status(Operation::Verify, Flag::DryRun));
        assert!(status(Operation::Decrypt, Flag::Overwrite));
        assert!(!status(Operation::Encrypt, Flag::Overwrite));
    }
}
