//! Options of sealed trees.

use std::fs;
use std::path::{Path, PathBuf};

use clap::Args;
use evener::keys::signing::PublicKey;
use evener::sealed_trees::{At, RootDigest, SealedOptions, Signer, Trust};

use super::times;
use super::values;
use crate::sealed;
use crate::signals::Signals;
use crate::trouble::{Trouble, shown};

/// Options that make a sealed tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct Sealing {
    /// Make DST a sealed tree, or bring one up to date with a new generation
    ///
    /// A sealed tree hides the names, links and times of its files. Its readers detect files that
    /// were changed, exchanged, removed or replaced by those of an earlier run. SRC is one
    /// directory. For the first run, DST is new or empty; each later run adds a generation (a
    /// snapshot), and does not encrypt unchanged and moved files again. Earlier generations stay
    /// readable (`evener decrypt --generation`).
    ///
    /// The --key is for cobblestone-256, and serves all generations. With --recipient or a
    /// passphrase, each generation has a fresh key, wrapped in DST/keys, and Evener signs the tree.
    /// Evener keeps what later runs on this machine need in $XDG_STATE_HOME/evener/trees (default:
    /// ~/.local/state/evener/trees). If that is lost, updating a tree for recipients takes an
    /// --identity and --recipients-changed once, and an admitted key to --sign
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) sealed: bool,
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Hide the sizes of small files: pad each to at least BYTES, and larger ones by up to 12 %
    ///
    /// The option is for a new tree, and applies to all its generations. BYTES may have a suffix:
    /// 4K or 1M
    #[arg(long, value_name = "BYTES", value_parser = values::bytes,
        help_heading = "Sealed trees")]
    pub(crate) pad: Option<u64>,
    /// Find changed files by their content, not by size and times
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) checksum: bool,
    /// Take other recipients than in the last run here: another machine ran `evener rewrap`
    ///
    /// Only the recipients of a file's key can read it, and unchanged files keep theirs. `evener
    /// rewrap` wraps the keys of the tree for other recipients; on the machine where it runs, this
    /// option is not needed
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) recipients_changed: bool,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
}

/// The key that signs a sealed tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct Signing {
    /// Sign with this OpenSSH key, through `ssh-keygen`
    ///
    /// KEY is the file of a private key, or of a public one whose private key is in ssh-agent or a
    /// security key. Without this option, Evener signs a tree for recipients with a key that it
    /// makes and keeps on this machine
    #[arg(long, value_name = "KEY", help_heading = "Sealed trees")]
    pub(crate) sign: Option<PathBuf>,
}

impl Signing {
    /// What signs; `None` without the option.
    pub(crate) fn signer(&self, signals: &Signals) -> Result<Option<Signer>, Trouble> {
        self.sign.as_deref().map(|key| sealed::signer(key, signals)).transpose()
    }
}

/// Options that choose a generation of a sealed tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct Generations {
    /// Read this generation of a sealed tree [default: the newest]
    ///
    /// `evener list --generations` shows the numbers
    #[arg(long, value_name = "N", value_parser = clap::value_parser!(u64).range(1..),
        help_heading = "Sealed trees")]
    generation: Option<u64>,
    /// Read the newest generation of a sealed tree that was made by this time
    ///
    /// TIME is `2026-11-20`, which means the end of that day, or `2026-11-20T18:30:00Z`. It is in
    /// UTC unless it ends in an offset such as `+01:00`
    #[arg(long, value_name = "TIME", value_parser = times::parse, conflicts_with = "generation",
        help_heading = "Sealed trees")]
    at: Option<i64>,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
}

/// Options that say which roots of a sealed tree are believed.
#[derive(Args, Clone, Debug)]
pub(crate) struct TrustOptions {
    /// Accept a sealed tree only if a key in this file has signed it
    ///
    /// FILE has one OpenSSH public key per line, alone or as in OpenSSH's files of allowed signers,
    /// of whose options Evener knows `namespaces`.
    /// Without this option, Evener remembers on this machine the signers that the tree has at first
    /// use, and accepts no others later
    #[arg(long, value_name = "FILE", help_heading = "Sealed trees")]
    signers: Option<PathBuf>,
    /// Accept an unsigned sealed tree for recipients
    ///
    /// Recipients are not secret, so anybody could have made it
    #[arg(long, conflicts_with = "signers", help_heading = "Sealed trees")]
    unsigned: bool,
    /// Accept only a sealed tree whose generation N has this digest, or a later one
    ///
    /// Use it on a machine that has not seen the tree. `evener verify --json` shows the number and
    /// the digest
    #[arg(long, value_name = "N:DIGEST", value_parser = pin, help_heading = "Sealed trees")]
    pin: Option<(u64, RootDigest)>,
    /// Accept, and remember, an older generation or another tree than this machine has seen
    ///
    /// Give it after the tree was restored from a copy, or was replaced or removed. Of the same tree,
    /// Evener accepts only generations that were signed by those who might sign it before
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) allow_rollback: bool,
}

impl Sealing {
    /// Refuses the other options without `--sealed`.
    pub(crate) fn check(&self) -> Result<(), Trouble> {
        if self.sealed {
            return Ok(());
        }
        let reason = " is for sealed trees: give --sealed too";
        let given = [
            (self.signing.sign.is_some(), "--sign"),
            (self.pad.is_some(), "--pad"),
            (self.checksum, "--checksum"),
            (self.recipients_changed, "--recipients-changed"),
        ];
        refuse_first(&given, reason)?;
        self.trust.refuse(reason)
    }
}

impl Generations {
    /// Refuses the options if no sealed tree is read.
    pub(crate) fn refuse(&self) -> Result<(), Trouble> {
        let given = [(self.generation.is_some(), "--generation"), (self.at.is_some(), "--at")];
        let reason = " is for sealed trees, and SRC is none (it has no file evener-tree-v1)";
        refuse_first(&given, reason)?;
        self.trust.refuse(reason)
    }

    /// Applies them.
    pub(crate) fn apply(&self, options: &mut SealedOptions) -> Result<(), Trouble> {
        options.at = match (self.generation, self.at) {
            (Some(number), _) => At::Number(number),
            (None, Some(time)) => At::Time(time),
            (None, None) => At::Newest,
        };
        options.trust = self.trust.trust()?;
        Ok(())
    }
}

impl TrustOptions {
    /// Refuses the options for a reason.
    pub(crate) fn refuse(&self, reason: &str) -> Result<(), Trouble> {
        let given = [
            (self.signers.is_some(), "--signers"),
            (self.unsigned, "--unsigned"),
            (self.pin.is_some(), "--pin"),
            (self.allow_rollback, "--allow-rollback"),
        ];
        refuse_first(&given, reason)
    }

    pub(crate) fn trust(&self) -> Result<Trust, Trouble> {
        let signers = self.signers.as_deref().map(signers_in).transpose()?;
        let (unsigned, pin, rollback) = (self.unsigned, self.pin, self.allow_rollback);
        Ok(Trust { signers, unsigned, pin, rollback })
    }
}

/// Refuses the first option that was given.
pub(crate) fn refuse_first(given: &[(bool, &str)], reason: &str) -> Result<(), Trouble> {
    match given.iter().find(|(given, _)| *given) {
        Some((_, name)) => Err(Trouble::Usage(format!("{name}{reason}"))),
        None => Ok(()),
    }
}

/// The public keys in a file.
fn signers_in(path: &Path) -> Result<Vec<PublicKey>, Trouble> {
    let text = fs::read_to_string(path).map_err(|cause| Trouble::File {
        action: "read",
        path: path.to_owned(),
        cause,
    })?;
    let text = text.trim_start_matches('\u{feff}');
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys =
        lines.filter_map(|(number, line)| match PublicKey::from_allowed(line).transpose()? {
            Ok(key) => Some(Ok(key)),
            Err(fault) => {
                Some(Err(Trouble::Usage(format!("{}, line {number}: {fault}", shown(path)))))
            }
        });
    let keys = keys.collect::<Result<Vec<_>, _>>()?;
    match keys.is_empty() {
        true => Err(Trouble::Usage(format!("{} has no public key of a signer", shown(path)))),
        false => Ok(keys),
    }
}

/// Reads `N:DIGEST`.
fn pin(text: &str) -> Result<(u64, RootDigest), String> {
    let parts = text.split_once(':');
    let pin = parts.and_then(|(number, digest)| {
        Some((number.parse().ok().filter(|number| *number > 0)?, RootDigest::from_text(digest)?))
    });
    pin.ok_or_else(|| "not a generation and its digest, such as 12:5e8f… with 64 digits".to_owned())
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_pin_is_a_number_and_a_digest() {
        let digest = "5e".repeat(32);
        assert_eq!(pin(&format!("12:{digest}")).unwrap().0, 12);
        for text in ["", "12", &digest, &format!("0:{digest}"), &format!("12:{}", &digest[1..])] {
            assert!(pin(text).is_err(), "{text}");
        }
    }
}
