//! `evener encrypt`

use std::ffi::OsString;
use std::path::Path;

use clap::Args;
use evener::{Mode, Operation, takes_a_stream};

use crate::keys::{KeyPlace, Keyholder, sealing};
use crate::options::{Choosing, EngineOptions, SealingKeys, Telling, Writing};
use crate::plan::{Ends, Place, Plan, warnings};
use crate::progress;
use crate::run::run;
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble};

/// Encrypt a file, a tree or a pipe
///
/// SRC and DST are files, trees, or `-` for standard input and output. SRC may also be a FIFO, such
/// as the shell's `<(command)`, or a device. The files of a tree keep their names, with the suffix
/// `.enc`, and their modes and times. Links and empty directories are recreated; sockets, devices
/// and the key are skipped. SRC itself may be a symbolic link.
///
/// With --recipient or --passphrase, a fresh key is made and wrapped beside the output: in
/// DST/evener-key.age for a tree (evener-key-2.age and so on for what is added later), in
/// DST.evener-key.age for a file, at its head for a pipe (then it opens from the pipe alone, and
/// from a file that the pipe was written to). A key that lies there is used again if the passphrase opens it,
/// or if --identity opens it and you made it on this machine, for this very place and for the
/// recipients that you give now, if you give any ($XDG_STATE_HOME/evener/keys has a note of each
/// key that you make). Any other key there could be put there by whoever can write there, and is
/// left alone; so is that of a tree that was moved.
///
/// A key that nothing here needs any more, as after --overwrite of a file, stays: there may be copies
/// of what it encrypted elsewhere, and nothing shows that there are none.
///
/// --recipient keeps files from everybody but the recipients. It does not show who encrypted
/// them: recipients are not secret, so anybody can put files and keys of their own there.
#[derive(Args)]
pub(crate) struct Encrypt {
    #[command(flatten)]
    keys: SealingKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    engines: EngineOptions,
    #[command(flatten)]
    telling: Telling,
    /// File or tree to encrypt, or `-` for standard input
    #[arg(value_name = "SRC")]
    source: OsString,
    /// File or tree to write, or `-` for standard output
    #[arg(value_name = "DST")]
    target: OsString,
}

impl Encrypt {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Encrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Encrypt;
        let mut ends = Ends::find(operation, self.source, Some(self.target), &self.telling)?;
        self.keys.complete()?;
        ends.check_stdin(&self.keys.that_read_stdin())?;
        let armour = self.keys.openssl.armour();
        if armour.is_some() {
            ends.take_as_stream("--base64")?;
        }
        self.writing.check(&ends)?;
        let key_files: Vec<_> = self.keys.files().cloned().collect();
        let SealingKeys { key, origins, identities, passphrase, .. } = &self.keys;
        let asks = key.is_some() || origins.key_command.is_some();
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, Some(origins), asks)?;
        let sealing = sealing(&self.keys, key_place(&ends, &self.choosing), &keyholder)?;
        let recipe = sealing.ring.primary();
        let is_key_stream = !matches!(recipe.cipher().mode(), Mode::Ecb | Mode::Cbc);
        if ends.source_is_tree && recipe.repeats_ivs() && is_key_stream {
            return Err(Trouble::usage(
                "one key and IV encrypt one file with such a cipher, not a tree: two files under \
                 one key stream give each other away; use a passphrase, with salt",
            ));
        }
        let key_is_fresh = sealing.fresh.is_some();
        let head = sealing.head;
        let fresh_key = match sealing.fresh {
            Some(fresh) if self.writing.dry_run => {
                fresh.check()?;
                None
            }
            fresh => fresh,
        };
        let evener = self.engines.evener(sealing.ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, ends.source_is_tree);
        warnings.extend(keyholder.warnings());
        warnings.extend(self.writing.warning(evener.key_ring(), key_is_fresh));
        let measure_total = ends.source_is_tree && progress::is_watched(&self.telling);
        let (choosing, writing) = (self.choosing, self.writing);
        let plan = Plan::new(operation, evener, ends, warnings, |options| {
            options.measure_total = measure_total;
            options.key_is_fresh = key_is_fresh;
            options.head = head;
            options.base64 = armour;
            key_files.iter().for_each(|path| options.protected.add(path));
            writing.apply(options);
            choosing.apply(options)
        })?;
        Ok(Plan { fresh_key, reused_key: sealing.reused, said: sealing.said, ..plan })
    }
}

/// Where a wrapped key belongs; a pipe has no such place.
fn key_place(ends: &Ends, choosing: &Choosing) -> Option<KeyPlace> {
    let Some(Place::Path(target)) = &ends.target else { return None };
    if ends.source_is_tree {
        return Some(KeyPlace::in_tree(target));
    }
    if takes_a_stream(target) {
        return None;
    }
    match &ends.source {
        // A file goes into a directory under its own name.
        Place::Path(source) if target.is_dir() => {
            let mut name = source.file_name()?.to_owned();
            name.push(&choosing.suffix);
            Some(KeyPlace::beside(&target.join(Path::new(&name))))
        }
        _ => Some(KeyPlace::beside(target)),
    }
}
