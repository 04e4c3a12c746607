//! The faults that errors of keys name. No message quotes a secret.

use std::fmt;
use std::io;
use std::path::{Path, PathBuf};

use evener_core::{shown, shown_error};

pub use crate::malformed::{JsonFault, KeysetFault, KeysetKeyFault};
pub use crate::text::NotText;

/// The fault in the head of a pipe.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PipeHeadFault {
    /// The pipe begins with something else.
    #[error(
        "it does not begin with a wrapped key, as encrypting for recipients or with a passphrase \
         writes to a pipe; name its key file"
    )]
    Absent,
    /// The pipe ends within the head.
    #[error("it ends before the wrapped key at its beginning is complete; restore it from a copy")]
    CutShort,
    /// The head's first line is malformed.
    #[error("the line before the wrapped key was changed; restore it from a copy")]
    Changed,
}

/// The reason why a plugin of age did not do its work.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum PluginFault {
    /// The plugin is not installed.
    #[error("there is no program `{program}` in PATH, which this age key needs; install it")]
    Missing {
        /// The plugin's program.
        program: String,
    },
    /// The plugin's name is malformed.
    #[error("this age key names a plugin that can't be the name of a program")]
    Name,
    /// The plugin reported errors.
    #[error("the age plugin failed: {messages}")]
    Failed {
        /// The plugin's messages, in one line.
        messages: String,
    },
    /// The plugin ended without a message.
    #[error(
        "the age plugin failed: it ended before it was done, or broke the protocol; \
         `AGEDEBUG=plugin` shows what it says, file keys too, which are secret"
    )]
    Ended,
}

/// The damage of an age file.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum AgeDamage {
    /// The header can't be read.
    #[error("its age header is malformed")]
    Header,
    /// The header's authentication code does not match.
    #[error("its age header was changed")]
    HeaderChanged,
    /// The ASCII armour can't be read.
    #[error(
        "its ASCII armour was changed: a line was wrapped or cut (all but the last have 64 \
         characters), or something follows its end"
    )]
    Armour,
    /// The first line names an unknown version.
    #[error("it is of a version of age not known here")]
    Version,
    /// The content can't be decrypted.
    #[error("it was cut short or changed")]
    Content,
}

/// The source of a recipient.
#[derive(Clone, Debug, PartialEq, Eq)]
#[non_exhaustive]
pub enum RecipientOrigin {
    /// The caller. The text may be an identity given by mistake, which must not be shown.
    Caller,
    /// A file of recipients.
    File(PathBuf),
    /// A line of a file.
    Line {
        /// The file.
        path: PathBuf,
        /// The number of the line, from 1.
        line: usize,
    },
}

impl RecipientOrigin {
    /// The file, if it is one.
    pub fn path(&self) -> Option<&Path> {
        match self {
            RecipientOrigin::Caller => None,
            RecipientOrigin::File(path) | RecipientOrigin::Line { path, .. } => Some(path),
        }
    }
}

impl fmt::Display for RecipientOrigin {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            RecipientOrigin::Caller => f.write_str("the recipient given"),
            RecipientOrigin::File(path) => write!(f, "those in `{}`", shown(path)),
            RecipientOrigin::Line { path, line } => write!(f, "line {line} of `{}`", shown(path)),
        }
    }
}

/// The fault in a recipient, or in a file of recipients.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum RecipientFault {
    /// The file is not text.
    #[error(transparent)]
    NotText(NotText),
    /// The line is not text.
    #[error("it is not text")]
    NotUtf8,
    /// The file has no recipients.
    #[error("the file holds no recipients")]
    NoneInFile,
    /// The text is of no known kind.
    #[error("it is no age recipient (`age1` and 58 characters)")]
    Unknown,
    /// A line of a file is of no known kind.
    #[error("it is no age recipient (`age1` and 58 characters), perhaps the end of a broken line")]
    UnknownLine,
    /// The text begins like an age recipient, and is none.
    #[error(
        "it is mistyped or broken into lines, or no X25519 recipient (`age1` and 58 characters)"
    )]
    Malformed,
    /// The text is an identity.
    #[error("this is an identity, which is secret; `age-keygen -y` shows its recipient")]
    Identity,
    /// The text is an identity of a plugin.
    #[error("this is a plugin's identity; its file or the plugin tells its recipient (`age1…`)")]
    PluginIdentity,
    /// Every secret opens data for this point.
    #[error(
        "it is a point of low order, for which anybody could open the key; have a proper one made"
    )]
    LowOrder,
    /// An RSA key that is too short to be safe.
    #[error("an RSA key of less than 2048 bits is too weak; have a longer one made")]
    RsaTooShort,
    /// An RSA key that age does not take.
    #[error("an RSA key of more than 4096 bits is not supported; have an ssh-ed25519 key made")]
    RsaTooLong,
    /// An SSH key of another kind.
    #[error(
        "of SSH keys only ssh-ed25519 and ssh-rsa can be encrypted for; give one of those, or an \
         age recipient"
    )]
    SshKind,
    /// An SSH key of a known kind that can't be read.
    #[error(
        "the SSH key is mistyped, cut short or broken into lines; give a line of a `.pub` file"
    )]
    MalformedSsh,
}

/// The fault in an identity, or in a file of identities.
#[derive(Clone, Copy, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum IdentityFault {
    /// The file is not text.
    #[error(transparent)]
    NotText(NotText),
    /// The line is not text.
    #[error("it is not text")]
    NotUtf8,
    /// The file has no identities.
    #[error("it holds none; `age-keygen` makes one")]
    NoneInFile,
    /// The file is encrypted for recipients.
    #[error(
        "age encrypted it for a recipient, and a file of identities opens only with a passphrase; \
         decrypt it with `age -d` first"
    )]
    ForRecipients,
    /// The line is of no known kind.
    #[error("this is no age identity (`AGE-SECRET-KEY-1…`), perhaps the end of a broken line")]
    Unknown,
    /// The file holds a recipient, which is public.
    #[error(
        "this is a public key (a recipient), which opens nothing; give the identity that belongs \
         to it"
    )]
    Public,
    /// The line begins like an age identity, and is none.
    #[error("the identity is mistyped, cut short or broken into lines")]
    Malformed,
    /// A post-quantum identity.
    #[error(
        "post-quantum identities are not built in; `age-plugin-pq -identity` makes one that its \
         plugin opens"
    )]
    PostQuantum,
    /// An SSH key among other identities.
    #[error("an SSH key stands alone in its file; give it by an argument of its own")]
    SshAmongOthers,
    /// The file begins like an SSH key, and is none.
    #[error(
        "it is no SSH key that Evener reads (ssh-ed25519 or ssh-rsa in OpenSSH's format, or an RSA \
         key in PEM), or it was cut short"
    )]
    MalformedSsh,
    /// An SSH key with a passphrase in the old format.
    #[error(
        "its SSH key has a passphrase in PEM's way, which is not supported; run `ssh-keygen -p` on \
         a copy, which writes OpenSSH's format"
    )]
    EncryptedPem,
    /// An SSH key encrypted with an unsupported cipher.
    #[error(
        "its SSH key is encrypted with a cipher that is not supported; run `ssh-keygen -p -Z \
         aes256-ctr` on a copy"
    )]
    SshCipher,
    /// An SSH key in hardware.
    #[error("an SSH key in hardware opens no files; a plugin of age for the device may")]
    SshInHardware,
    /// An SSH key of another kind.
    #[error("of SSH keys only ssh-ed25519 and ssh-rsa open files")]
    SshKind,
}

/// The reason why a text can't be used as a passphrase.
#[derive(Debug, thiserror::Error)]
#[non_exhaustive]
pub enum PassphraseFault {
    /// There is no text.
    #[error("it is empty")]
    Empty,
    /// The first line of a file or descriptor has no text.
    #[error("its first line is empty, and an empty passphrase protects nothing")]
    EmptyLine,
    /// The first line of a file or descriptor has only blanks.
    #[error("its first line is blank")]
    BlankLine,
    /// The text is longer than any passphrase.
    #[error("it is longer than 128 KiB; check what holds it")]
    TooLong,
    /// The text is too long for something new.
    #[error(
        "it is longer than 1023 bytes, and `openssl` ignores the rest of such a line; take a shorter \
         one"
    )]
    TooLongForNew,
    /// The text is in UTF-16.
    #[error("{}", NotText::Utf16)]
    Utf16,
    /// The text has a zero byte.
    #[error("it holds a zero byte, as text in UTF-16 does; save it as text in UTF-8")]
    ZeroByte,
    /// The text has several lines.
    #[error("it holds a newline")]
    Newline,
    /// The line has a carriage return before its end.
    #[error(
        "its line holds a carriage return within, as old Macs end lines; have it in a line of its \
         own"
    )]
    CarriageReturn,
    /// The text is not UTF-8, which age takes.
    #[error(
        "it is not UTF-8, and a passphrase of age is; convert it (from Latin-1: `iconv -f latin1 -t \
         utf-8`)"
    )]
    NotUtf8,
    /// The descriptor is not open.
    #[error("it is not open")]
    NotOpen,
    /// The descriptor can't be read.
    #[error("{}", shown_error(.0))]
    Unreadable(io::Error),
    /// There is no terminal to ask.
    #[error("there is none to ask")]
    NoTerminal,
    /// A passphrase for something new was typed twice, differently.
    #[error("the two are not the same; nothing was done")]
    NotTheSame,
}

/// The reason why age did not encrypt a key.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[non_exhaustive]
pub enum WrapFault {
    /// The recipients are of kinds that exclude each other.
    #[error(
        "some of the recipients do not go together with others (post-quantum ones only with their \
         like); give fewer"
    )]
    MixedRecipients,
    /// Another error, in age's words.
    #[error("{0}")]
    Age(String),
}
