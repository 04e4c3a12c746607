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
    /// A sealed tree hides the names, links and times of its files, and shows whether any were
    /// changed, exchanged, removed or taken from an earlier run. SRC is one directory. DST is new or
    /// empty at first; a later run adds a generation, in which unchanged and moved files keep what
    /// was sealed. Earlier generations stay readable (`evener decrypt --generation`).
    ///
    /// --key seals with one key, for cobblestone-256. With --recipient or a passphrase, each
    /// generation has a fresh key, which is wrapped in DST/keys, and the tree is signed. What this
    /// machine needs for later runs is in $XDG_STATE_HOME/evener/trees, or ~/.local/state: without
    /// it, nobody can go on with a tree that only recipients can read
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) sealed: bool,
    #[command(flatten)]
    pub(crate) signing: Signing,
    /// Hide the sizes of small files: pad each to at least BYTES, and larger ones by up to 12 %
    ///
    /// For a new tree; all its generations are padded alike. BYTES may be 4K or 1M
    #[arg(long, value_name = "BYTES", value_parser = values::bytes,
        help_heading = "Sealed trees")]
    pub(crate) pad: Option<u64>,
    /// Compare every file by its content, not by size and times
    #[arg(long, help_heading = "Sealed trees")]
    pub(crate) checksum: bool,
    #[command(flatten)]
    pub(crate) trust: TrustOptions,
}

/// The key that signs a sealed tree.
#[derive(Args, Clone, Debug)]
pub(crate) struct Signing {
    /// Sign with this key of OpenSSH, by `ssh-keygen`
    ///
    /// KEY is a private key, or a public one whose private key is in ssh-agent or a security key.
    /// Otherwise a tree for recipients is signed with a key that Evener makes and keeps on this
    /// machine
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
    /// Read this generation of a sealed tree, not the newest one
    #[arg(long, value_name = "N", help_heading = "Sealed trees")]
    generation: Option<u64>,
    /// Read the last generation of a sealed tree that was made by this time
    ///
    /// TIME is `2026-11-20`, which means the end of that day, or `2026-11-20T18:30:00Z`. Without `Z`
    /// or an offset such as `+01:00` it is in UTC
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
    /// The file has public keys of OpenSSH, one a line, or is one of allowed signers. Without this
    /// option, the signers that the tree has at first use are kept on this machine
    #[arg(long, value_name = "FILE", help_heading = "Sealed trees")]
    signers: Option<PathBuf>,
    /// Accept a sealed tree for recipients that nobody has signed
    ///
    /// Recipients are not secret, so anybody could have made it
    #[arg(long, conflicts_with = "signers", help_heading = "Sealed trees")]
    unsigned: bool,
    /// Accept only a sealed tree whose generation N has this digest, or a later one
    ///
    /// For machines that have not seen the tree. `evener verify --json` shows both
    #[arg(long, value_name = "N:DIGEST", value_parser = pin, help_heading = "Sealed trees")]
    pin: Option<(u64, RootDigest)>,
    /// Accept an older generation or another tree than this machine has seen, this once
    #[arg(long, help_heading = "Sealed trees")]
    allow_rollback: bool,
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
    let lines = (1..).zip(text.lines().map(str::trim));
    let lines = lines.filter(|(_, line)| !line.is_empty() && !line.starts_with('#'));
    let keys = lines.map(|(number, line)| match PublicKey::from_line(line) {
        Ok((key, _)) => Ok(key),
        Err(fault) => Err(Trouble::Usage(format!("{}, line {number}: {fault}", shown(path)))),
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
