//! `evener encrypt`

use std::ffi::OsString;

use clap::Args;
use evener::{Mode, Operation};

use crate::ends::Place;
use crate::keys::{Keyholder, sealing};
use crate::options::{Choosing, EngineOptions, SealingKeys, Telling, Writing};
use crate::plan::{Plan, warnings};
use crate::route::Route;
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
/// One tree goes to DST itself: `evener encrypt -k my.key photos backup` makes
/// backup/2024/beach.jpg.enc of photos/2024/beach.jpg. Several sources go to a directory, each
/// under its own name: `evener encrypt -k my.key photos letters notes.txt backup/` makes
/// backup/photos, backup/letters and backup/notes.txt.enc. Two of one name are refused. One of several
/// trees is later brought up to date with its own directory as DST: backup/photos.
///
/// With --recipient or --passphrase, a fresh key is made and wrapped beside the output: in
/// DST/evener-key.age for a tree and for several sources (evener-key-2.age and so on for what is
/// added later), in DST.evener-key.age for a file, at its head for a pipe (then it opens from the
/// pipe alone, and from a file that the pipe was written to). A key that lies there is used again if
/// the passphrase opens it, or if --identity opens it and you made it on this machine, for this very
/// place and for the recipients that you give now, if you give any ($XDG_STATE_HOME/evener/keys has a
/// note of each key that you make). Any other key there may be from somebody else who can write there,
/// and is left alone; so is that of a tree that was moved.
///
/// With --update a tree keeps its one key, so what opens it has to be given: --identity,
/// --passphrase, or the key itself with --key.
///
/// Evener never deletes a wrapped key, since copies of the files that it opens may be elsewhere.
///
/// --recipient keeps files from everybody but the recipients. It does not show who encrypted
/// them: recipients are not secret, so anybody can put files and keys of their own there.
#[derive(Args)]
#[command(override_usage = "evener encrypt [OPTIONS] <SRC>... <DST>")]
pub(crate) struct Encrypt {
    #[command(flatten)]
    keys: SealingKeys,
    #[command(flatten)]
    choosing: Choosing,
    /// Leave out files that change each time they are read, four times in all. Otherwise what was
    /// read last is stored; its parts may be of different times. Either way the file is named and
    /// the exit status is 1
    #[arg(long, help_heading = "Trees")]
    skip_changing: bool,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// Files, trees, or `-` for standard input, one or more. The last name is DST: the file, the directory,
    /// or `-` for standard output. A DST that ends in a slash is a directory, made if it is missing
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
        let (paths, suffix) = (self.paths, self.choosing.suffix());
        let mut route = Route::find(operation, paths, suffix, &self.telling)?;
        self.keys.complete()?;
        route.first().check_stdin(&self.keys.that_read_stdin())?;
        let armour = self.keys.openssl.armour();
        if armour.is_some() {
            route.take_as_streams("--base64")?;
        }
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
        let sealing = sealing(&self.keys, route.key_place(suffix), &keyholder)?;
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
        let key_is_fresh = sealing.fresh.is_some();
        let head = sealing.head;
        let fresh_key = match sealing.fresh {
            Some(fresh) if self.writing.dry_run => {
                fresh.check()?;
                None
            }
            fresh => fresh,
        };
        if self.writing.dry_run {
            route.only_plan()?;
        }
        let evener = self.engines.evener(sealing.ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, has_many_files);
        warnings.extend(keyholder.warnings());
        warnings.extend(self.writing.warning(evener.key_ring(), key_is_fresh));
        let (choosing, writing) = (self.choosing, self.writing);
        let skip_changing = self.skip_changing;
        let plan = Plan::new(operation, evener, route, warnings, |options| {
            options.key_is_fresh = key_is_fresh;
            options.skip_changing = skip_changing;
            options.head = head;
            options.base64 = armour;
            key_files.iter().for_each(|path| options.protected.add(path));
            writing.apply(options);
            choosing.apply(options)
        })?;
        Ok(Plan { fresh_key, reused_key: sealing.reused, said: sealing.said, ..plan })
    }
}
