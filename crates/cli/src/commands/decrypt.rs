//! `evener decrypt`

use std::ffi::OsString;

use clap::Args;
use evener::Operation;

use crate::keys::{Intent, Keyholder, opening};
use crate::options::{Choosing, EngineOptions, OpeningKeys, Telling, Writing};
use crate::plan::{Ends, Plan, warnings};
use crate::progress;
use crate::run::run;
use crate::signals::Signals;
use crate::trouble::{Ending, Trouble};

/// Decrypt a file, a tree or a pipe
///
/// SRC and DST are files, trees, or `-` for standard input and output. SRC may also be a FIFO, such
/// as the shell's `<(command)`, or a device. In a tree, the files with the suffix `.enc` are
/// decrypted. A file gets its name only after all of it was authenticated, and a pipe gets only
/// authenticated bytes.
///
/// --identity and --passphrase open the wrapped keys that lie in SRC or, for a file, beside it
/// (evener-key.age), or at the head of a pipe; with --key they open that. A key further up is used only if --key names it.
#[derive(Args)]
pub(crate) struct Decrypt {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    engines: EngineOptions,
    #[command(flatten)]
    telling: Telling,
    /// File or tree to decrypt, or `-` for standard input
    #[arg(value_name = "SRC")]
    source: OsString,
    /// File or tree to write, or `-` for standard output
    #[arg(value_name = "DST")]
    target: OsString,
}

impl Decrypt {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Decrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Decrypt;
        let mut ends = Ends::find(operation, self.source, Some(self.target), &self.telling)?;
        self.keys.complete()?;
        ends.check_stdin(&self.keys.that_read_stdin())?;
        self.writing.check(&ends)?;
        let armour = self.keys.openssl.armour();
        if armour.is_some() {
            ends.take_as_stream("--base64")?;
        }
        let head = ends.take_head(self.keys.look_for_one())?;
        self.writing.check(&ends)?;
        let mut key_files: Vec<_> = self.keys.files().cloned().collect();
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let asks = self.keys.name_a_key();
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, Some(origins), asks)?;
        let ring = opening(&self.keys, &ends.source, head.as_ref(), Intent::Decrypt, &keyholder)?;
        key_files.extend(keyholder.found());
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, ends.source_is_tree);
        warnings.extend(keyholder.warnings());
        warnings.extend(self.writing.warning(evener.key_ring(), false));
        let measure_total = ends.source_is_tree && progress::is_watched(&self.telling);
        let (choosing, writing) = (self.choosing, self.writing);
        Plan::new(operation, evener, ends, warnings, |options| {
            options.measure_total = measure_total;
            options.base64 = armour;
            key_files.iter().for_each(|path| options.protected.add(path));
            writing.apply(options);
            choosing.apply(options)
        })
    }
}
