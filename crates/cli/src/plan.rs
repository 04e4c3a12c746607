//! The plan of an operation, made before anything runs.

use std::fs::File;
use std::sync::Arc;

use evener::format::{OpensslSecret, Recipe};
use evener::{Control, Evener, Existing, Mode, Operation, Options, Selection};

use crate::hints::Given;
use crate::keys::FreshKey;
use crate::plain::Rekeying;
use crate::progress::clear_bar;
use crate::route::Route;
use crate::sealed::{Kind, Work};
use crate::stores::Stores;
use crate::trouble::Trouble;

/// An operation with everything that it needs.
pub(crate) struct Plan {
    pub(crate) operation: Operation,
    pub(crate) evener: Evener,
    /// The options about the format that were given.
    pub(crate) given: Given,
    pub(crate) control: Arc<Control>,
    /// True if symbolic links below the source are followed.
    pub(crate) follows_links: bool,
    /// True if outputs are brought up to date.
    pub(crate) updates: bool,
    /// True if nothing is written.
    pub(crate) is_dry_run: bool,
    /// True if sources are removed once they are done.
    pub(crate) removes_sources: bool,
    /// The files of a tree to take.
    pub(crate) selection: Selection,
    pub(crate) route: Route,
    /// Opens the object stores among the ends.
    pub(crate) stores: Stores,
    /// The options of the sealed tree that is made or read.
    pub(crate) sealed: Option<Work>,
    /// The new key of a plain tree or file.
    pub(crate) rekeying: Option<Rekeying>,
    /// True if the source is a sealed tree.
    pub(crate) reads_sealed: bool,
    /// True if shards of the source are taken, and not all of it.
    pub(crate) takes_shards: bool,
    /// A new key, which must be on disk before the first output.
    pub(crate) fresh_key: Option<FreshKey>,
    /// A reused wrapped key, kept open so that it is not removed meanwhile.
    pub(crate) reused_key: Option<File>,
    /// A message about a choice that the user did not make explicitly.
    pub(crate) said: Option<String>,
    /// Warnings before the operation begins.
    pub(crate) warnings: Vec<String>,
}

impl Plan {
    /// The plan for work on a sealed tree.
    pub(crate) fn of_sealed(mut self, mut sealed: Work) -> Plan {
        self.given.only_looks = matches!(sealed.kind, Kind::Quick);
        self.given.seals = self.operation == Operation::Encrypt;
        self.reads_sealed = !self.given.seals || matches!(sealed.kind, Kind::Rekey(_));
        let selection = self.selection.clone();
        self.evener = self.evener.with_options(|options| options.transfer.selection = selection);
        if let Some(signer) = &mut sealed.options.signer {
            let (control, sign) = (self.control.clone(), signer.sign.clone());
            // It may ask on the terminal.
            signer.sign = Arc::new(move |message| {
                control.asking(|| {
                    clear_bar();
                    sign(message)
                })
            });
        }
        self.sealed = Some(sealed);
        self
    }

    /// The plan for a new key of a plain tree or file.
    pub(crate) fn of_rekeying(mut self, rekeying: Rekeying) -> Plan {
        self.given.rekeys = true;
        self.rekeying = Some(rekeying);
        self
    }

    /// A plan with its options, for existing keys.
    pub(crate) fn new(
        operation: Operation,
        evener: Evener,
        route: Route,
        warnings: Vec<String>,
        apply: impl FnOnce(&mut Options) -> Result<(), Trouble>,
    ) -> Result<Plan, Trouble> {
        let control = Arc::new(Control::default());
        let mut applied = Ok(());
        let (mut follows_links, mut updates) = (false, false);
        let (mut is_dry_run, mut removes_sources) = (false, false);
        let mut selection = Selection::default();
        let is_openssl = matches!(evener.key_ring().primary(), Recipe::OpensslEnc(_));
        let mut given = Given { openssl: is_openssl, ..Given::default() };
        let evener = evener.with_options(|options| {
            options.run.control = control.clone();
            // In a shared directory other users can exchange names.
            options.tree.program.shared = route.shared_target();
            applied = apply(options);
            given.base64 = options.stream.base64.is_some();
            follows_links = options.tree.follow_symlinks;
            updates = matches!(options.tree.existing, Existing::Update(_));
            is_dry_run = options.tree.dry_run;
            removes_sources = options.tree.remove_source;
            selection = options.tree.selection.clone();
            options.transfer.selection = selection.clone();
            options.transfer.names = options.tree.names.clone();
        });
        applied?;
        let (fresh_key, reused_key, said) = (None, None, None);
        Ok(Plan {
            operation,
            evener,
            given,
            control,
            follows_links,
            updates,
            is_dry_run,
            removes_sources,
            selection,
            route,
            stores: Stores::default(),
            sealed: None,
            rekeying: None,
            reads_sealed: false,
            takes_shards: false,
            fresh_key,
            reused_key,
            said,
            warnings,
        })
    }
}

/// Warnings for the user before the operation begins.
pub(crate) fn warnings(operation: Operation, evener: &Evener, is_tree: bool) -> Vec<String> {
    let mut warnings: Vec<String> = evener
        .unable_engines(operation)
        .into_iter()
        .map(|engine| {
            let cipher = evener.key_ring().primary().cipher();
            format!("engine {engine} can't {} {cipher} and is left out", operation.direction())
        })
        .collect();
    warnings.extend(evener.engines_without_workers(operation).into_iter().map(|engine| {
        format!("engine {engine} is left out: --jobs allows fewer workers than there are engines")
    }));
    let recipe = evener.key_ring().primary();
    if !recipe.cipher().is_authenticated() {
        warnings.push(
            match (operation, recipe.cipher().mode()) {
                (Operation::Verify, Mode::Cbc | Mode::Ecb) => {
                    "only the padding at the end of each file can be checked: nothing else in \
                     files of `openssl enc` shows that they were changed"
                }
                (Operation::Verify, _) => {
                    "nothing can be checked but that the files can be read: nothing in files of \
                     `openssl enc` with such a cipher shows that they were changed"
                }
                _ => "nothing authenticates files of `openssl enc`: changes go unnoticed",
            }
            .to_owned(),
        );
    }
    if let Some(iterations) = recipe.iterations()
        && iterations < OpensslSecret::RECOMMENDED_ITERATIONS
    {
        warnings.push(format!(
            "PBKDF2 with {iterations} iterations makes it quick to guess the passphrase; files \
             should be made with {} or more",
            OpensslSecret::RECOMMENDED_ITERATIONS
        ));
    }
    if operation == Operation::Encrypt && recipe.cipher().mode() == Mode::Ecb {
        warnings.push(
            "ECB shows which blocks of a file are equal; any other mode is better".to_owned(),
        );
    }
    if recipe.has_legacy_kdf() {
        warnings.push(
            "--kdf legacy makes it quick to guess the passphrase; files should be made without it"
                .to_owned(),
        );
    }
    if operation == Operation::Encrypt && is_tree && recipe.repeats_ivs() {
        warnings.push(
            "all files share one key and one IV, which shows where their beginnings are equal"
                .to_owned(),
        );
    }
    warnings
}
