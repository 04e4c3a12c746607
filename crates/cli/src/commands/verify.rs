//! `evener verify`

use std::ffi::OsString;

use clap::Args;
use evener::Operation;

use crate::ends::Ends;
use crate::keys::{Intent, Keyholder, is_of_age, opening, recognise};
use crate::options::{
    Choosing, EngineOptions, Generations, OpeningKeys, Part, StoreOptions, Telling,
};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::run;
use crate::sealed::{Kind, Reading, find};
use crate::signals::Signals;
use crate::stores::{Stores, refuse_unused};
use crate::trouble::{Ending, Trouble};

/// Authenticate a file, a tree or a pipe without writing anything
///
/// SRC is a file, a tree, or `-` for standard input. Nothing authenticates files of `openssl enc`;
/// Evener checks only their padding.
#[derive(Args)]
pub(crate) struct Verify {
    #[command(flatten)]
    keys: OpeningKeys,
    #[command(flatten)]
    choosing: Choosing,
    #[command(flatten)]
    part: Part,
    /// Check only that each file of a sealed tree exists and is the one that the index names
    ///
    /// Evener reads a little of each file. It finds missing, truncated and exchanged files, but not
    /// damaged content
    #[arg(long, help_heading = "Sealed trees")]
    quick: bool,
    /// Verify only N files of a sealed tree, chosen at random
    ///
    /// Evener prints the chance that this finds damage
    #[arg(long, value_name = "N", conflicts_with = "quick",
        value_parser = clap::value_parser!(u32).range(1..), help_heading = "Sealed trees")]
    sample: Option<u32>,
    #[command(flatten)]
    generations: Generations,
    #[command(flatten)]
    stores: StoreOptions,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// File or tree to verify, or `-` for standard input
    #[arg(value_name = "SRC")]
    source: OsString,
}

impl Verify {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Verify, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Verify;
        self.keys.complete()?;
        let stores = Stores::new(&self.stores);
        if find(&stores, self.source.as_ref(), &mut self.generations.trust)? {
            return self.plan_sealed(&stores, signals);
        }
        self.generations.refuse()?;
        let only_sealed = [(self.quick, "--quick"), (self.sample.is_some(), "--sample")];
        if let Some((_, option)) = only_sealed.iter().find(|(is_given, _)| *is_given) {
            return Err(Trouble::Usage(format!(
                "{option} is for sealed trees, and SRC is none; leave it out"
            )));
        }
        recognise(&stores, &mut self.keys, &self.source)?;
        self.choosing.suffix.of_age = is_of_age(&self.keys, self.source.as_ref());
        let mut ends = Ends::find(operation, self.source, None, false, &self.telling)?;
        ends.check_stdin(&self.keys.that_read_stdin())?;
        refuse_unused(&self.stores, &ends)?;
        self.choosing.check(ends.source_is_tree, ends.source_is_tree)?;
        self.part.check(ends.source_is_tree)?;
        let armour = self.keys.openssl.armour(self.keys.format);
        if armour.is_some() {
            ends.take_as_stream("--base64")?;
        }
        let head = ends.take_head(self.keys.look_for_one())?;
        let mut key_files = self.keys.files();
        let OpeningKeys { origins, identities, passphrase, .. } = &self.keys;
        let asks = self.keys.name_a_key();
        let exposure = &origins.exposure;
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let ring = opening(
            &self.keys,
            &ends.source,
            head.as_ref(),
            Intent::Decrypt,
            (&stores, &keyholder),
        )?;
        key_files.extend(keyholder.found());
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, ends.source_is_tree);
        warnings.extend(keyholder.warnings());
        let (choosing, part) = (self.choosing, self.part);
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |options| {
            options.stream.base64 = armour;
            key_files.iter().for_each(|path| options.protect(path));
            choosing.apply(&mut options.tree)?;
            part.apply(&mut options.tree)
        })?;
        Ok(Plan { stores, ..plan })
    }

    fn plan_sealed(self, stores: &Stores, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Verify;
        let ends = Ends::find(operation, self.source, None, false, &self.telling)?;
        let reading = Reading {
            keys: &self.keys,
            generations: &self.generations,
            kind: match (self.quick, self.sample) {
                (true, _) => Kind::Quick,
                (false, Some(files)) => Kind::Sample(files),
                (false, None) => Kind::Whole,
            },
            choosing: self.choosing,
            part: self.part,
            engines: &self.engines,
            stores,
            telling: &self.telling,
        };
        reading.plan(operation, ends, signals, |_| ())
    }
}
