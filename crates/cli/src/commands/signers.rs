//! `evener signers`

use std::io::{self, Write};
use std::path::PathBuf;

use clap::Args;
use evener::keys::signing::PublicKey;
use evener::program::shown_text;
use evener::sealed_trees::{SignerChange, TreeSigner, own_signer};
use evener::{Failure, FileError};
use serde_json::json;

use crate::document::print_json;
use crate::options::{Output, Signing, TreeOptions};
use crate::sealed::{Tree, state_of};
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble, complain};

/// Show or change who may sign a sealed tree
///
/// To write to a tree from a second machine, take the line that `evener signers --own TREE` prints
/// there, and admit it on the first machine: `evener signers --add 'ssh-ed25519 AAAA...' TREE`.
///
/// A signer of the tree is named by that line, by the public key, or by the fingerprint.
///
/// A machine without --sign signs with a key that Evener makes for it and keeps in
/// $XDG_STATE_HOME/evener/trees.
#[derive(Args)]
pub(crate) struct Signers {
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    /// Print the line with which another machine admits this one
    #[arg(long, conflicts_with_all = ["add", "remove", "revoke"])]
    own: bool,
    /// Admit the signer of this line; repeatable
    #[arg(long, value_name = "LINE", value_parser = line)]
    add: Vec<TreeSigner>,
    /// Let this signer sign no later generation; repeatable
    #[arg(long, value_name = "SIGNER")]
    remove: Vec<String>,
    /// Believe nothing that this signer has made after the generation of --last-good
    ///
    /// For a machine that was taken over. What it made later is passed over
    #[arg(long, value_name = "SIGNER", requires = "last_good")]
    revoke: Option<String>,
    /// With --revoke: the last generation that is believed
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
            let mut options = evener::sealed_trees::SealedOptions::default();
            (options.signer, options.state) = (signer, state_of(&self.path));
            let own = own_signer(&options).map_err(fail)?;
            return print(&[own], &[], self.output.json);
        }
        let mut tree = Tree::find(&self.path, self.tree, self.output.quiet, signals)?;
        tree.sealed.signer = signer;
        let (known, revoked, read) = tree.evener.signers_of_tree(&tree.place(), &tree.sealed)?;
        tree.tell_of(&read);
        if self.add.is_empty() && self.remove.is_empty() && self.revoke.is_none() {
            return print(&known, &revoked, self.output.json);
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
        let number = tree.evener.change_signers(&tree.place(), &change, &tree.sealed)?;
        tree.say(&format!("the signers were changed; generation {number}"));
        let (known, revoked, _) = tree.evener.signers_of_tree(&tree.place(), &tree.sealed)?;
        match self.output.json {
            true => print(&known, &revoked, true),
            false => Ok(Ending::Done),
        }
    }
}

fn print(
    signers: &[TreeSigner],
    revoked: &[(PublicKey, u64)],
    json: bool,
) -> Result<Ending, Trouble> {
    if json {
        let signer =
            |it: &TreeSigner| json!({ "fingerprint": it.key.fingerprint(), "line": it.to_line() });
        let revocation = |(key, last): &(PublicKey, u64)| json!({ "fingerprint": key.fingerprint(), "last": last });
        let signers: Vec<_> = signers.iter().map(signer).collect();
        let revoked: Vec<_> = revoked.iter().map(revocation).collect();
        print_json(&json!({ "signers": signers, "revoked": revoked, "failures": [] }))?;
        return Ok(Ending::Done);
    }
    let write = |out: &mut dyn Write| -> io::Result<()> {
        for signer in signers {
            writeln!(out, "{}", signer.to_line())?;
        }
        out.flush()
    };
    write(&mut io::stdout().lock()).map_err(Trouble::Output)?;
    for signer in signers {
        complain(&format_args!("{} may sign", signer.key.fingerprint()));
    }
    for (key, last) in revoked {
        complain(&format_args!("{} is revoked from generation {last} on", key.fingerprint()));
    }
    if signers.is_empty() {
        complain(&"nobody has signed the tree");
    }
    Ok(Ending::Done)
}

/// Reads the line of a signer.
fn line(text: &str) -> Result<TreeSigner, String> {
    TreeSigner::from_line(text).map_err(|error| error.to_string())
}
