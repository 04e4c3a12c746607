//! `evener decrypt`

use std::ffi::OsString;
use std::io::IsTerminal;

use clap::Args;
use evener::Operation;
use evener_cli::streams::output;

use crate::ends::{Ends, Place};
use crate::keys::{Intent, Keyholder, are_of_age, recognise};
use crate::options::{
    Choosing, EngineOptions, Format, Generations, OpeningKeys, Part, StoreOptions, Telling, Writing,
};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::run;
use crate::sealed::{self, Kind, Reading};
use crate::signals::Signals;
use crate::stores::{Stores, check};
use crate::trouble::{Ending, Trouble};

/// Decrypt a file, a tree or a pipe
///
/// SRC and DST are files, trees, or `-` for standard input and output. SRC may also be a device or
/// a FIFO, such as the shell's `<(command)`. In a tree, Evener decrypts the files with the suffix
/// `.enc`, or with `.age` if they are age's own; files of the other kind are errors. A file gets
/// its name only after Evener has authenticated all of it, and a pipe gets only authenticated
/// bytes.
///
/// `evener decrypt -k my.key --only report.txt --only letters backup restored` restores a part of a
/// tree: a file, and a directory with everything in it. From a sealed tree (TREE), Evener restores
/// everything, or only the PATHs after DST.
///
/// Evener decrypts a single tree to DST itself. It decrypts several sources into a directory, each
/// under its own name; end DST in a slash: `evener decrypt -k my.key photos letters notes.txt.enc
/// restored/`.
///
/// --identity and --passphrase open age files, and the wrapped key in SRC (evener-key.age), beside
/// a file (SRC.evener-key.age, or evener-key.age) or at the start of a pipe. With --key, they open
/// that key. Evener uses a key in a directory further up only if --key names it.
#[derive(Args)]
#[command(override_usage = "evener decrypt [OPTIONS] <SRC>... <DST>\n       \
                            evener decrypt [OPTIONS] <TREE> <DST> [PATH]...")]
pub(crate) struct Decrypt {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    part: Part,
    /// Show plaintext on a terminal even if it is binary
    #[arg(long, help_heading = "Outputs")]
    force: bool,
    /// Write plaintext even where others could read it
    ///
    /// Others can read it if the file system keeps no modes (FAT, exFAT, NTFS) and is not mounted
    /// for you alone. Without this option, Evener refuses to write there. If SRC is on such a file
    /// system, this option also gives the plaintext the modes that SRC shows; without it, only you
    /// can read the files
    #[arg(long, help_heading = "Outputs")]
    insecure_modes: bool,
    #[command(flatten)]
    writing: Writing,
    #[command(flatten)]
    generations: Generations,
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

impl Decrypt {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Decrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Decrypt;
        self.keys.complete()?;
        let stores = Stores::new(&self.stores);
        self.part.add(sealed::take_paths(&stores, &mut self.paths)?);
        let sources = self.paths.split_last().map_or(&[][..], |(_, sources)| sources);
        for source in sources {
            let is_tree = sealed::find(&stores, source, &mut self.generations.trust)?;
            if is_tree && sources.len() == 1 {
                return self.plan_sealed(&stores, signals);
            }
        }
        self.generations.refuse()?;
        if let [_, .., target] = &*self.paths {
            sealed::refuse_seen(&stores, target)?;
        }
        let sources = self.paths.split_last().map_or(&[][..], |(_, sources)| sources);
        sealed::refuse_among(sources.iter().map(|source| &**source))?;
        if let [source] = sources {
            recognise(&stores, &mut self.keys, source)?;
        }
        self.choosing.suffix.of_age = are_of_age(&self.keys, sources);
        if self.choosing.suffix.of_age && sources.len() > 1 {
            self.keys.format = Some(Format::Age);
        }
        let mut route = Route::find(operation, self.paths, &self.choosing.suffix, &self.telling)?;
        route.targets().try_for_each(|it| sealed::refuse_as_target(operation, it))?;
        route.first().check_stdin(&self.keys.that_read_stdin())?;
        check(&self.stores, &self.writing, &route)?;
        self.writing.check(operation, &route)?;
        self.choosing.check(route.has_tree(), route.has_suffixes())?;
        let armour = self.keys.openssl.armour(self.keys.format);
        if armour.is_some() {
            route.take_as_streams("--base64")?;
        }
        let heads = route.take_heads(self.keys.look_for_one())?;
        self.writing.check(operation, &route)?;
        if self.force && route.first().target != Some(Place::Pipe) {
            return Err(Trouble::usage(
                "--force shows plaintext on a terminal, and DST is none; --overwrite replaces outputs",
            ));
        }
        self.part.check(route.ends.len() == 1 && route.has_tree())?;
        if self.insecure_modes && route.ends.iter().all(|ends| ends.target == Some(Place::Pipe)) {
            return Err(Trouble::usage(
                "--insecure-modes is for files, and the output is a pipe or redirected by the shell",
            ));
        }
        let mut key_files = self.keys.files();
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let asks = self.keys.name_a_key();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let ring = route.opening(&self.keys, &heads, Intent::Decrypt, (&stores, &keyholder))?;
        key_files.extend(keyholder.found());
        if self.writing.dry_run {
            stores.check_target(route.first())?;
            route.only_plan()?;
        }
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, route.has_many_files());
        warnings.extend(keyholder.warnings());
        warnings.extend(self.writing.warning(evener.key_ring(), false));
        let is_shown = route.first().target == Some(Place::Pipe) && output().is_terminal();
        if is_shown && !self.force {
            route.show_only_text();
        }
        let insecure_modes = self.insecure_modes;
        let (choosing, part, writing) = (self.choosing, self.part, self.writing);
        let plan = Plan::new(operation, evener, route, warnings, |options| {
            options.stream.base64 = armour;
            options.stream.insecure_modes = insecure_modes;
            options.tree.insecure_modes = insecure_modes;
            key_files.iter().for_each(|path| options.protect(path));
            writing.apply(options);
            choosing.apply(&mut options.tree)?;
            part.apply(&mut options.tree)
        })?;
        Ok(Plan { stores, ..plan })
    }

    fn plan_sealed(self, stores: &Stores, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Decrypt;
        self.writing.check_sealed(operation)?;
        if self.force {
            return Err(Trouble::usage(
                "--force shows plaintext on a terminal, and a sealed tree goes to a directory",
            ));
        }
        let Ok([source, target]) = <[OsString; 2]>::try_from(self.paths) else {
            return Err(Trouble::usage("write `evener decrypt TREE DST [PATH]...`"));
        };
        sealed::refuse_as_target(operation, target.as_ref())?;
        let ends = Ends::find(operation, source, Some(target), false, &self.telling)?;
        let (insecure_modes, writing) = (self.insecure_modes, self.writing);
        let reading = Reading {
            keys: &self.keys,
            generations: &self.generations,
            kind: Kind::Whole,
            choosing: self.choosing,
            part: self.part,
            engines: &self.engines,
            stores,
            telling: &self.telling,
        };
        reading.plan(operation, ends, signals, |options| {
            options.tree.insecure_modes = insecure_modes;
            writing.apply(options);
        })
    }
}
