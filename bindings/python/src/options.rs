//! Options of operations on files and trees.

use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use facade::keys::signing::PublicKey;
use facade::sealed_trees::{At, SealedOptions, Trust, remembered, state_name};
use facade::{Control, Evener, Existing, Operation, Options, SealedNames, Selection, Update};
use pyo3::exceptions::PyTypeError;
use pyo3::prelude::*;
use pyo3::types::PyDict;

use crate::error::Trouble;
use crate::keys::KeyRing;
use crate::path::AnyPath;
use crate::values::{STRINGS, given};

/// The options of a call, with the names that they have in Python.
#[derive(Default)]
pub(crate) struct Wishes {
    engines: Vec<String>,
    workers: Option<usize>,
    memory: Option<usize>,
    max_cpu: Option<u8>,
    context: Vec<u8>,
    suffix: Option<PathBuf>,
    include: Vec<String>,
    exclude: Vec<String>,
    existing: Option<String>,
    overwrite: bool,
    /// Those of [`FLAGS`] that are set.
    flags: Vec<(&'static str, Set)>,
    /// True for a sealed tree, false for a plain one; `None` to detect it.
    pub(crate) sealed: Option<bool>,
    generation: Option<u64>,
    padding: Option<u64>,
    checksum: bool,
    state: Option<PathBuf>,
    signers: Option<String>,
    unsigned: bool,
    allow_rollback: bool,
    recipients_changed: bool,
}

type Set = fn(&mut Options);

impl Wishes {
    /// Takes the keyword arguments of a function.
    pub(crate) fn of(function: &str, options: &Bound<'_, PyDict>) -> PyResult<Wishes> {
        let mut wishes = Wishes::default();
        for (name, value) in options {
            let name: String = name.extract()?;
            if !wishes.take(&name, &value)? {
                let message = format!("{function}() got an unexpected keyword argument '{name}'");
                return Err(PyTypeError::new_err(message));
            }
        }
        Ok(wishes)
    }

    /// Returns whether there is an option of this name.
    fn take(&mut self, name: &str, value: &Bound<'_, PyAny>) -> PyResult<bool> {
        if let Some(flag) = FLAGS.iter().find(|(flag, _)| *flag == name) {
            if given(name, value, "a bool")? {
                self.flags.push(*flag);
            }
            return Ok(true);
        }
        match name {
            "engines" => self.engines = given(name, value, STRINGS)?,
            "workers" => self.workers = given(name, value, "a number from 1")?,
            "memory" => self.memory = given(name, value, "a number of bytes")?,
            "max_cpu" => self.max_cpu = given(name, value, "a percentage from 1 to 100")?,
            "context" => self.context = given(name, value, "bytes")?,
            "suffix" => self.suffix = Some(given::<AnyPath>(name, value, PATH)?.0),
            "include" => self.include = given(name, value, STRINGS)?,
            "exclude" => self.exclude = given(name, value, STRINGS)?,
            "existing" => self.existing = given(name, value, "a str")?,
            "overwrite" => self.overwrite = given(name, value, "a bool")?,
            "sealed" => self.sealed = given(name, value, "a bool or None")?,
            "generation" => self.generation = given(name, value, "a number from 1")?,
            "padding" => self.padding = given(name, value, "a number of bytes")?,
            "checksum" => self.checksum = given(name, value, "a bool")?,
            "state" => self.state = Some(given::<AnyPath>(name, value, PATH)?.0),
            "signers" => self.signers = given(name, value, "a str")?,
            "unsigned" => self.unsigned = given(name, value, "a bool")?,
            "allow_rollback" => self.allow_rollback = given(name, value, "a bool")?,
            "recipients_changed" => self.recipients_changed = given(name, value, "a bool")?,
            _ => return Ok(false),
        }
        Ok(true)
    }

    /// Evener with these options.
    pub(crate) fn evener(&self, keys: &KeyRing, control: &Arc<Control>) -> Result<Evener, Trouble> {
        let names = match &self.suffix {
            Some(suffix) => SealedNames::new(suffix).map_err(Trouble::usage)?,
            None => keys.names(),
        };
        let selection = Selection::new(&self.include, &self.exclude).map_err(Trouble::usage)?;
        let existing = self.existing()?;
        if self.max_cpu.is_some_and(|most| !(1..=100).contains(&most)) {
            return Err(Trouble::usage("max_cpu is a percentage from 1 to 100"));
        }
        if self.memory.is_some_and(|most| most < LEAST_MEMORY) {
            return Err(Trouble::usage("memory is at least 1 MiB"));
        }
        let mut builder = Evener::builder(keys.ring(&self.context)?).engines(&self.engines);
        if let Some(workers) = self.workers {
            let workers = NonZeroUsize::new(workers);
            builder = builder.workers(workers.ok_or_else(|| Trouble::usage("workers is 0"))?);
        }
        let evener = builder.options(|options| {
            options.run.control = Arc::clone(control);
            options.run.memory = self.memory.unwrap_or(options.run.memory);
            options.run.courtesy.most_cpu = self.max_cpu;
            options.transfer.names = names.clone();
            options.transfer.selection = selection.clone();
            options.transfer.resume = matches!(existing, Existing::Resume { .. });
            options.transfer.overwrite = self.overwrite || matches!(existing, Existing::Overwrite);
            options.stream.overwrite = options.transfer.overwrite;
            options.tree.names = names;
            options.tree.selection = selection;
            options.tree.existing = existing;
            self.flags.iter().for_each(|(_, set)| set(options));
        });
        evener.build().map_err(|error| match self.engines.iter().find(|name| !is_engine(name)) {
            Some(_) => Trouble::usage(error),
            None => error.into(),
        })
    }

    fn existing(&self) -> Result<Existing, Trouble> {
        let overwrite = self.overwrite;
        match self.existing.as_deref() {
            None | Some("refuse") if !overwrite => Ok(Existing::Refuse),
            None | Some("overwrite") => Ok(Existing::Overwrite),
            Some("resume") => Ok(Existing::Resume { overwrite }),
            Some("update") => Ok(Existing::Update(Update { overwrite, ..Update::default() })),
            Some(_) => Err(Trouble::usage(
                "existing is 'refuse', 'overwrite', 'resume' or 'update', and only the last two \
                 go together with overwrite=True",
            )),
        }
    }

    /// The options of an operation on the sealed tree at a path. Refuses those that it can't have.
    pub(crate) fn sealed(
        &self,
        operation: Operation,
        tree: &Path,
        keys: &KeyRing,
    ) -> Result<SealedOptions, Trouble> {
        if self.suffix.is_some() || !self.context.is_empty() {
            return Err(Trouble::usage("a sealed tree has neither suffix nor context"));
        }
        let existing = self.existing.iter().map(String::as_str);
        let overwrite = self.overwrite.then_some("overwrite");
        let given = existing.chain(overwrite).chain(self.flags.iter().map(|(name, _)| *name));
        let refused = if operation == Operation::Encrypt { NOT_TO_SEAL } else { NOT_TO_READ };
        let mut refused = given.filter(|name| NEVER.contains(name) || refused.contains(name));
        match refused.next() {
            Some(name) => Err(Trouble::Usage(format!("a sealed tree takes no {name} for this"))),
            None => self.of_tree(tree, keys),
        }
    }

    /// Refuses options that are for sealed trees alone.
    pub(crate) fn check_plain(&self) -> Result<(), Trouble> {
        let given = [
            (self.generation.is_some(), "generation"),
            (self.padding.is_some(), "padding"),
            (self.checksum, "checksum"),
            (self.signers.is_some(), "signers"),
            (self.unsigned, "unsigned"),
            (self.recipients_changed, "recipients_changed"),
        ];
        match given.iter().find(|(is_given, _)| *is_given) {
            Some((_, name)) => {
                Err(Trouble::Usage(format!("{name} is for sealed trees, and this is none")))
            }
            None => Ok(()),
        }
    }

    /// The options of the sealed tree at a path, for any operation.
    pub(crate) fn of_tree(&self, tree: &Path, keys: &KeyRing) -> Result<SealedOptions, Trouble> {
        let usual = remembered(tree);
        let state = self.state.clone().map(|all| (all, state_name(tree)));
        Ok(SealedOptions {
            keychain: keys.keychain()?,
            state: state.or(usual.state.clone()),
            trust: self.trust()?,
            at: self.generation.map_or(At::Newest, At::Number),
            padding: self.padding,
            compares: self.checksum,
            skip_changing: self.has("skip_changing"),
            dry_run: self.has("dry_run"),
            accepts_audience: self.recipients_changed,
            ..usual
        })
    }

    pub(crate) fn has(&self, flag: &str) -> bool {
        self.flags.iter().any(|(name, _)| *name == flag)
    }

    fn trust(&self) -> Result<Trust, Trouble> {
        let (unsigned, rollback) = (self.unsigned, self.allow_rollback);
        let trust = Trust { unsigned, rollback, ..Trust::default() };
        let Some(text) = &self.signers else {
            return Ok(trust);
        };
        if unsigned {
            return Err(Trouble::usage("an unsigned tree has no signers"));
        }
        let signers = text.lines().filter_map(|line| PublicKey::from_allowed(line).transpose());
        let signers = signers.collect::<Result<Vec<_>, _>>();
        let signers = signers.map_err(|fault| Trouble::Usage(format!("signers: {fault}")))?;
        if signers.is_empty() {
            return Err(Trouble::usage("signers has no public key"));
        }
        Ok(Trust { signers: Some(signers), ..trust })
    }
}

fn is_engine(selector: &str) -> bool {
    let name = selector.split(':').next().unwrap_or_default();
    facade::engines::names().any(|known| known == name)
}

/// Buffers of one worker fit into it.
const LEAST_MEMORY: usize = 1 << 20;

const PATH: &str = "a path without null bytes, and not empty";

/// The boolean options.
const FLAGS: &[(&str, Set)] = &[
    ("remove_source", |options| options.tree.remove_source = true),
    ("durable", |options| {
        options.tree.durable = true;
        options.transfer.durable = true;
    }),
    ("follow_symlinks", |options| options.tree.follow_symlinks = true),
    ("owner", |options| options.tree.owner = true),
    ("xattrs", |options| options.tree.xattrs = true),
    ("sparse", |options| options.tree.sparse = true),
    ("dry_run", |options| options.tree.dry_run = true),
    ("background", |options| options.run.courtesy.in_background = true),
    ("skip_changing", |options| options.tree.skip_changing = true),
    ("insecure_modes", |options| options.tree.insecure_modes = true),
    ("one_file_system", |options| options.tree.one_file_system = true),
    ("measure_total", |options| options.run.control.want_total()),
];

/// Options that a sealed tree does not have, among them values of `existing`.
const NEVER: &[&str] = &["remove_source", "follow_symlinks"];
const NOT_TO_SEAL: &[&str] = &["overwrite", "resume", "sparse"];
const NOT_TO_READ: &[&str] = &["update", "dry_run", "skip_changing", "one_file_system"];
