//! `evener encrypt`

use std::ffi::OsString;
use std::path::PathBuf;

use clap::Args;
use evener::sealed_trees::SealedOptions;
use evener::{Mode, Operation};

use crate::ends::Place;
use crate::keys::{Keyholder, sealing, sealing_tree};
use crate::options::{
    Choosing, EngineOptions, Format, Sealing, SealingKeys, StoreOptions, Telling, Writing,
};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::run;
use crate::sealed::{self, Kind, Work, is_sealed_in};
use crate::signals::Signals;
use crate::stores::{Stores, check};
use crate::trouble::{Ending, Trouble, shown};

/// Encrypt a file, a tree or a pipe
///
/// SRC and DST are files, trees, or `-` for standard input and output. A tree is a directory with
/// everything in it. SRC may also be a device or a FIFO, such as the shell's `<(command)`. The
/// files of a tree keep their names, with the suffix `.enc`, and their modes and times. Evener
/// recreates links and empty directories, and skips sockets, devices and the key. SRC itself may be
/// a symbolic link.
///
/// Evener encrypts a single tree to DST itself: `evener encrypt -k my.key photos backup` writes
/// photos/2024/beach.jpg to backup/2024/beach.jpg.enc. It encrypts several sources into a
/// directory, each under its own name: `evener encrypt -k my.key photos letters notes.txt backup/`
/// makes backup/photos, backup/letters and backup/notes.txt.enc. It refuses two sources with the
/// same name, and an output that would replace a source. To update one of several trees later, give
/// its own directory as DST: backup/photos.
///
/// With --recipient or --passphrase, Evener makes a fresh key and stores it encrypted (wrapped)
/// with the output: for a tree and for several sources in DST/evener-key.age (evener-key-2.age and
/// so on for later additions), for a file in DST.evener-key.age, for a pipe at its start. An
/// encrypted pipe, also one stored in a file, needs no other file to open.
///
/// Evener uses an existing wrapped key again if --identity or the passphrase opens it, and you made
/// it on this machine, for the same place, and for the recipients or a passphrase as you give them
/// now ($XDG_STATE_HOME/evener/keys records each key that you make). It uses no other key that it
/// finds there, such as that of a tree that you have moved, because anybody who can write there may
/// have put it there.
///
/// With --update, a tree keeps its key, so give something that opens it: --identity, --passphrase,
/// or the key itself with --key.
///
/// With --format age, each output is an age file, NAME.age, that `age -d` opens. No key lies beside
/// it: --recipient, or for one file --passphrase, determines who can open it.
///
/// `evener encrypt` never deletes a wrapped key, because there may be copies of its files
/// elsewhere: `evener rewrap` and `evener rekey` replace them.
///
/// With --recipient, only the recipients can read the files. Nothing shows who encrypted them:
/// recipients are not secret, so anybody can put files and keys of their own there.
#[derive(Args)]
#[command(override_usage = "evener encrypt [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Encrypt {
    #[command(flatten)]
    keys: SealingKeys,
    #[command(flatten)]
    choosing: Choosing,
    /// Leave out files that change while they are read
    ///
    /// Evener reads a changing file up to four times. Without this option, it stores the last
    /// reading, which may mix old and new content. In both cases, it names the file, and the exit
    /// status is 1
    #[arg(long, help_heading = "Trees")]
    skip_changing: bool,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    sealing: Sealing,
    #[command(flatten)]
    stores: StoreOptions,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// Files, trees, or `-` for standard input; the last name is the output
    ///
    /// The last name, DST, is a file, a directory, or `-` for standard output. A DST that ends in a
    /// slash is a directory; Evener makes it if it is missing
    #[arg(value_name = "SRC", required = true, num_args = 1..)]
    paths: Vec<OsString>,
}

impl Encrypt {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Encrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Encrypt;
        let stores = Stores::new(&self.stores);
        if let Some((target, [_, ..])) = self.paths.split_last().filter(|_| !self.sealing.sealed) {
            stores.prepare(target)?;
            sealed::find(&stores, target, &mut self.sealing.trust)?;
        }
        self.sealing.check()?;
        if self.sealing.sealed {
            return self.plan_sealed(signals);
        }
        self.choosing.suffix.of_age = self.keys.format == Some(Format::Age);
        let names = self.choosing.suffix.names();
        let mut route = Route::find(operation, self.paths, &self.choosing.suffix, &self.telling)?;
        self.keys.complete()?;
        route.targets().try_for_each(|it| sealed::refuse_as_target(operation, it))?;
        route.first().check_stdin(&self.keys.that_read_stdin())?;
        let armour = self.keys.openssl.armour(self.keys.format);
        if armour.is_some() {
            route.take_as_streams("--base64")?;
        } else {
            route.first().refuse_terminal()?;
        }
        check(&self.stores, &self.writing, &route)?;
        self.writing.check(operation, &route)?;
        self.choosing.check(route.has_tree(), route.has_suffixes())?;
        if self.skip_changing && route.ends.iter().all(|ends| ends.source == Place::Pipe) {
            return Err(Trouble::usage(
                "--skip-changing skips files that change while they are read, and SRC is a pipe",
            ));
        }
        let key_files = self.keys.files();
        let SealingKeys { key, origins, identities, passphrase, .. } = &self.keys;
        let asks = key.is_some() || origins.key_command.is_some();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let place = match self.keys.may_wrap() {
            true => route.key_place(&names, &stores)?,
            false => None,
        };
        let mut sealing = sealing(&self.keys, place, &keyholder)?;
        if self.writing.resume {
            sealing = sealing.with_earlier_keys(self.keys.context.as_deref(), &keyholder)?;
        }
        let recipe = sealing.ring.primary();
        let has_many_files = route.has_many_files();
        let is_key_stream = !matches!(recipe.cipher().mode(), Mode::Ecb | Mode::Cbc);
        if has_many_files && recipe.repeats_ivs() && is_key_stream {
            return Err(Trouble::usage(
                "one key and IV encrypt one file with such a cipher, not a tree: two files under \
                 one key stream give each other away; use a passphrase, with salt",
            ));
        }
        if let Some(fresh) = sealing.fresh.as_ref().filter(|_| self.writing.update) {
            fresh.refuse_second()?;
        }
        let has_closed_keys = sealing.has_closed_keys;
        let (head, reused) = (sealing.head, sealing.reused);
        // A device or a FIFO gets the key at its head.
        if !head.is_empty() && !self.writing.dry_run && !self.writing.remove_source {
            route.take_as_streams("--recipient")?;
        }
        let fresh_key = match sealing.fresh {
            Some(fresh) if self.writing.dry_run => {
                fresh.check()?;
                None
            }
            fresh => fresh,
        };
        if self.writing.dry_run {
            stores.check_target(route.first())?;
            route.only_plan()?;
        }
        let evener = self.engines.evener(sealing.ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, has_many_files);
        warnings.extend(keyholder.warnings());
        warnings.extend(self.writing.warning(evener.key_ring(), has_closed_keys));
        let (choosing, writing) = (self.choosing, self.writing);
        let skip_changing = self.skip_changing;
        let plan = Plan::new(operation, evener, route, warnings, |options| {
            options.tree.program.has_closed_keys = has_closed_keys;
            options.transfer.has_closed_keys = has_closed_keys;
            options.tree.program.wrapped_key =
                reused.as_ref().map(|key| (key.path.clone(), key.fingerprint));
            options.tree.skip_changing = skip_changing;
            options.stream.head = head;
            options.stream.base64 = armour;
            key_files.iter().for_each(|path| options.protect(path));
            writing.apply(options);
            choosing.apply(&mut options.tree)
        })?;
        let reused_key = reused.map(|key| key.file);
        Ok(Plan { fresh_key, reused_key, said: sealing.said, stores, ..plan })
    }

    fn plan_sealed(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Encrypt;
        self.keys.check_sealed()?;
        self.choosing.check_sealed(operation)?;
        self.writing.check_sealed(operation)?;
        let ends = sealed::ends_to_seal(self.paths, &self.telling)?;
        let stores = Stores::new(&self.stores);
        let tree = match &ends.target {
            Some(Place::Path(path)) => path.clone(),
            Some(Place::Objects(address)) => PathBuf::from(address.to_string()),
            _ => return Err(Trouble::usage("a sealed tree goes to a directory")),
        };
        stores.prepare(tree.as_os_str())?;
        self.keys.complete()?;
        ends.check_stdin(&self.keys.that_read_stdin())?;
        let mut key_files = self.keys.files();
        let SealingKeys { key, origins, identities, passphrase, .. } = &self.keys;
        let asks = key.is_some() || origins.key_command.is_some();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let keys = sealing_tree(&self.keys, &tree, &stores, &keyholder)?;
        let Sealing { signing, pad, checksum, recipients_changed, trust, .. } = self.sealing;
        if pad.is_some() && is_sealed_in(&stores, tree.as_os_str())? {
            return Err(Trouble::Usage(format!(
                "--pad is for a new tree, and {} is one already, whose padding stays; leave it out",
                shown(&tree)
            )));
        }
        key_files.extend(signing.sign.clone());
        let known = sealed::state_of(&stores, &tree, trust.allow_rollback)?;
        let options = SealedOptions {
            keychain: keys.keychain,
            wrap: keys.wrap,
            audience: keys.audience,
            keeps_key: keys.keeps_key,
            accepts_audience: recipients_changed,
            signer: signing.signer(signals)?,
            trust: trust.trust()?,
            padding: pad,
            compares: checksum,
            skip_changing: self.skip_changing,
            dry_run: self.writing.dry_run,
            ..known
        };
        let evener = self.engines.evener(keys.ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, true);
        warnings.extend(keyholder.warnings().into_iter().chain(sealed::forgetful(&options)));
        let (choosing, writing) = (self.choosing, self.writing);
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |options| {
            key_files.iter().for_each(|path| options.protect(path));
            writing.apply(options);
            choosing.apply(&mut options.tree)
        })?;
        Ok(Plan { stores, ..plan }.of_sealed(Work { options, kind: Kind::Whole }))
    }
}
