//! `evener signers`

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use evener::keys::signing::PublicKey;
use evener::place::Local;
use evener::program::shown_text;
use evener::sealed_trees::{At, SealedOptions, SignerChange, TreeSigner, own_signer};
use evener::{Failure, FileError};
use serde_json::json;

use crate::document::print_json;
use crate::options::{Output, Signing, TreeOptions};
use crate::sealed::{Tree, refuse_other, state_of};
use crate::signals::Signals;
use crate::stores::{AnyPlace, Stores};
use crate::trouble::{Ending, Trouble, complain};

/// Show or change who may sign a sealed tree
///
/// To write to a tree from a second machine, run `evener signers --own TREE` there, and admit the
/// line that it prints on the first machine: `evener signers --add 'ssh-ed25519 AAAA...
/// evener-chain:...' -i identity.txt TREE`.
///
/// SIGNER is that line, the public key in it, or its fingerprint (SHA256:...).
///
/// Without --sign, a machine signs with a key that Evener makes for it and keeps in
/// $XDG_STATE_HOME/evener/trees.
#[derive(Args)]
pub(crate) struct Signers {
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    /// Print this machine's line, which another machine admits with --add
    #[arg(long, conflicts_with_all = ["add", "remove", "revoke"])]
    own: bool,
    /// Admit the signer of this line; repeatable
    #[arg(long, value_name = "LINE", value_parser = line)]
    add: Vec<TreeSigner>,
    /// Accept no later generations from this signer; repeatable
    #[arg(long, value_name = "SIGNER")]
    remove: Vec<String>,
    /// Reject the generations that this signer made after --last-good
    ///
    /// Use it if the signer's machine was compromised. Readers skip the rejected generations
    #[arg(long, value_name = "SIGNER", requires = "last_good")]
    revoke: Option<String>,
    /// With --revoke: the last generation that you trust
    #[arg(long, value_name = "N", requires = "revoke")]
    last_good: Option<u64>,
    #[command(flatten)]
    pub(crate) output: Output,
    /// Sealed tree
    #[arg(value_name = "TREE")]
    path: PathBuf,
}

impl Signers {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let signer = self.signing.signer(signals)?;
        let fail = |error: FileError| Failure { path: self.path.clone(), error };
        if self.own {
            let stores = Stores::new(&self.tree.stores);
            refuse_other(&stores, &self.path)?;
            let mut options = state_of(&stores, &self.path, false)?;
            options.signer = signer;
            let tree = match Stores::address(self.path.as_os_str())? {
                Some(address) => AnyPlace::Objects(stores.open(&address)?),
                None => {
                    let tree = Local::new(&self.path, &evener::TreeOptions::default());
                    AnyPlace::Local(Box::new(tree))
                }
            };
            let own = own_signer(&tree, &options).map_err(fail)?;
            return match self.output.json {
                true => print(&[own], &[], &self.output),
                false => print_lines(&[own]).map(|()| Ending::Done),
            };
        }
        let mut tree = Tree::find(&self.path, self.tree, self.output.quiet, signals)?;
        tree.sealed.signer = signer;
        let place = tree.place()?;
        let signers = |at| {
            let sealed = SealedOptions { at, ..tree.sealed.clone() };
            tree.evener.signers_of_tree(&place, &sealed)
        };
        let (known, revoked, read) = match (signers(At::Newest), self.last_good) {
            // Nothing need open what was made later.
            (Err(failure), Some(last)) => signers(At::Number(last)).map_err(|_| failure)?,
            (read, _) => read?,
        };
        tree.tell_of(&read);
        if self.add.is_empty() && self.remove.is_empty() && self.revoke.is_none() {
            return print(&known, &revoked, &self.output);
        }
        let named = |text: &String| {
            let given = PublicKey::from_line(text).map(|(key, _)| key).ok();
            let is_it =
                |key: &&PublicKey| key.fingerprint() == *text || given.as_ref() == Some(key);
            let mut keys = known.iter().map(|signer| &signer.key);
            keys.find(is_it).cloned().ok_or_else(|| {
                Trouble::Usage(format!("{} is none of the tree's signers", shown_text(text)))
            })
        };
        let revoke = self.revoke.iter().zip(self.last_good);
        let revoke = revoke.map(|(signer, last)| Ok((named(signer)?, last)));
        let change = SignerChange {
            add: self.add,
            remove: self.remove.iter().map(named).collect::<Result<_, _>>()?,
            revoke: revoke.collect::<Result<_, Trouble>>()?,
        };
        let number = tree.evener.change_signers(&tree.place()?, &change, &tree.sealed)?;
        tree.say(&format!("the signers were changed; generation {number}"));
        tree.retain(true)?;
        let (known, revoked, _) = signers(At::Newest)?;
        match self.output.json {
            true => print(&known, &revoked, &self.output),
            false => Ok(Ending::Done),
        }
    }
}

fn print(
    signers: &[TreeSigner],
    revoked: &[(PublicKey, u64)],
    output: &Output,
) -> Result<Ending, Trouble> {
    if output.json {
        let signer =
            |it: &TreeSigner| json!({ "fingerprint": it.key.fingerprint(), "line": it.to_line() });
        let revocation = |(key, last): &(PublicKey, u64)| json!({ "fingerprint": key.fingerprint(), "last": last });
        let signers: Vec<_> = signers.iter().map(signer).collect();
        let revoked: Vec<_> = revoked.iter().map(revocation).collect();
        print_json(&json!({ "signers": signers, "revoked": revoked, "failures": [] }))?;
        return Ok(Ending::Done);
    }
    print_lines(signers)?;
    if output.quiet {
        return Ok(Ending::Done);
    }
    for signer in signers {
        complain(&format_args!("{} may sign", signer.key.fingerprint()));
    }
    for (key, last) in revoked {
        complain(&format_args!(
            "{} is revoked: its generations after {last} do not count",
            key.fingerprint()
        ));
    }
    if signers.is_empty() {
        complain(&"nobody has signed the tree");
    }
    Ok(Ending::Done)
}

fn print_lines(signers: &[TreeSigner]) -> Result<(), Trouble> {
    let write = |out: &mut dyn Write| -> io::Result<()> {
        for signer in signers {
            writeln!(out, "{}", signer.to_line())?;
        }
        out.flush()
    };
    write(&mut io::stdout().lock()).map_err(Trouble::Output)
}

/// Reads the line of a signer.
fn line(text: &str) -> Result<TreeSigner, String> {
    TreeSigner::from_line(text).map_err(|error| error.to_string())
}
