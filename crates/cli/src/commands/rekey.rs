//! `evener rekey`

use std::path::{Path, PathBuf};

use clap::Args;
use evener::keys::{Fingerprint, KeyFormat, KeyMaterial, PipeHead};
use evener::{Heads, KeyRing, Operation, Protected};

use super::rewrap::new_wrapping;
use crate::ends::{Ends, Place};
use crate::keys::{
    FreshKey, KeyPlace, Keyholder, LastSteps, OldKeys, Wrapping, fresh_for_rekey, load_key,
    load_tree_key, recipients_wrap, ring,
};
use crate::options::{
    EngineOptions, Exposure, OpeningKeys, PassphraseOptions, Recipients, Signing, Telling,
    TreeOptions, refuse_first,
};
use crate::plain::{Plain, Rekeying};
use crate::plan::{Plan, warnings};
use crate::route::Route;
use crate::run::run;
use crate::sealed::{Kind, Work, find, open};
use crate::signals::Signals;
use crate::stores::Stores;
use crate::trouble::{Ending, Trouble, shown};

/// Encrypt a tree or a file again under another key
///
/// Evener decrypts the files and seals them again. --new-key names the new key; with --recipient,
/// Evener makes a fresh key and wraps it.
///
/// A sealed tree gets a new generation that holds everything anew. Afterwards, Evener accepts no new
/// generation under the old key. Until `evener clean` removes the earlier generations, the old key
/// still opens them: give both keys to read one, and to an `evener clean` that keeps one.
///
/// In a plain tree, Evener replaces each file when its successor is complete and synced. To go on after
/// an interruption, give the same command again; until then, each file opens with the old key or with
/// the new one. When all files have the new key, Evener removes the wrapped keys of the old one. It
/// leaves files that neither key opens as they are, and names them. Of several wrapped keys in a tree,
/// only those count that you made on this machine; --key names others.
///
/// Holders of the old key keep what they have already read.
#[derive(Args)]
pub(crate) struct Rekey {
    /// Key file of the new key, instead of --recipient
    #[arg(long, value_name = "KEYFILE")]
    new_key: Option<PathBuf>,
    #[command(flatten)]
    recipients: Recipients,
    #[command(flatten)]
    tree: TreeOptions,
    #[command(flatten)]
    signing: Signing,
    /// Text that the files are bound to, and stay bound to
    #[arg(long, value_name = "STRING", help_heading = "Keys")]
    context: Option<String>,
    /// Seal a plain tree also where nothing given opens the new wrapped key
    ///
    /// Without it, nobody could go on here after an interruption
    #[arg(long)]
    trust_unopened: bool,
    /// List the work, but do not do it
    #[arg(long, short = 'n', help_heading = "Outputs")]
    dry_run: bool,
    #[command(flatten)]
    pub(crate) engines: EngineOptions,
    #[command(flatten)]
    pub(crate) telling: Telling,
    /// Encrypted tree or file
    #[arg(value_name = "PATH")]
    path: PathBuf,
}

impl Rekey {
    pub(crate) fn perform(self, signals: &Signals) -> Result<Ending, Trouble> {
        let telling = self.telling.clone();
        run(Operation::Encrypt, &telling, signals, || self.plan(signals))
    }

    fn plan(mut self, signals: &Signals) -> Result<Plan, Trouble> {
        let stores = Stores::new(&self.tree.stores);
        if !find(&stores, self.path.as_os_str(), &mut self.tree.trust)? {
            return self.plan_plain(&stores, signals);
        }
        let given = [
            (self.context.is_some(), "--context: a sealed tree binds its files to itself"),
            (self.dry_run, "--dry-run: it is for plain trees"),
            (self.trust_unopened, "--trust-unopened: it is for plain trees"),
        ];
        refuse_first(&given, "; leave it out")?;
        let exposure = self.tree.exposure();
        let (key, wrap) = match (&self.new_key, self.recipients.is_empty()) {
            (Some(path), true) => (Some(load_tree_key(path, exposure, signals)?), None),
            (None, false) => (None, Some(recipients_wrap(&self.recipients, exposure, signals)?)),
            _ => {
                return Err(Trouble::usage(NEW_KEY));
            }
        };
        let (mut keys, trust) = self.tree.split();
        keys.complete()?;
        let path = self.path.clone();
        let operation = Operation::Encrypt;
        let ends = Ends::find(operation, self.path.into(), None, false, &self.telling)?;
        let known = (&*path, trust.allow_rollback);
        let (mut options, ring, key_warnings) = open(&keys, &stores, known, signals)?;
        options.trust = trust.trust()?;
        options.signer = self.signing.signer(signals)?;
        (options.wrap, options.audience) = wrap.unzip();
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, true);
        warnings.extend(key_warnings);
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |_| Ok(()))?;
        Ok(Plan { stores, ..plan }.of_sealed(Work { options, kind: Kind::Rekey(key) }))
    }

    /// Plans to seal a plain tree or file.
    fn plan_plain(self, stores: &Stores, signals: &Signals) -> Result<Plan, Trouble> {
        let operation = Operation::Encrypt;
        let (mut keys, trust) = self.tree.split();
        let reason = " is for sealed trees, and this is none";
        trust.refuse(reason)?;
        refuse_first(&[(self.signing.sign.is_some(), "--sign")], reason)?;
        keys.context = self.context;
        keys.complete()?;
        let ends = Ends::find(operation, self.path.clone().into(), None, false, &self.telling)?;
        if ends.source == Place::Pipe {
            return Err(Trouble::usage(
                "a pipe gets a new key as it is encrypted: evener decrypt ... - - | evener encrypt \
                 ... - -",
            ));
        }
        let mut readers = keys.that_read_stdin();
        readers.extend(self.recipients.that_read_stdin());
        ends.check_stdin(&readers)?;
        let plain = Plain::find(stores, &self.path, &keys)?;
        if matches!(plain, Plain::Age) {
            return Err(Trouble::usage(
                "each age file has a key of its own, which stays: `evener rewrap` changes its \
                 recipients; for another key, decrypt it, and encrypt it again",
            ));
        }
        let OpeningKeys { origins, identities, passphrase, .. } = &keys;
        let (exposure, asks) = (&origins.exposure, keys.name_a_key());
        let keyholder = Keyholder::new(signals, Some(identities), passphrase, exposure, asks)?;
        let new = NewKey::find(self.new_key.as_deref(), &self.recipients, exposure, signals)?;
        let given = Given { path: &self.path, plain: &plain, keys: &keys };
        let choice = given.choose(new, self.trust_unopened, &keyholder)?;
        let mut files = keys.files();
        files.extend(self.new_key.iter().chain(&self.recipients.recipient_files).cloned());
        let mut protected = Protected::default();
        files.iter().for_each(|path| protected.add(path));
        let Choice { ring, old, heads, fresh_key, said, last } = choice;
        let fresh_key = match fresh_key {
            Some(fresh) if self.dry_run => fresh.check().map(|()| None)?,
            fresh => fresh,
        };
        let evener = self.engines.evener(ring, &self.telling, signals)?;
        let mut warnings = warnings(operation, &evener, true);
        warnings.extend(keyholder.warnings());
        let plan = Plan::new(operation, evener, Route::of(vec![ends]), warnings, |_| Ok(()))?;
        let objects = match plain {
            Plain::Objects(objects) => Some(objects),
            _ => None,
        };
        let rekeying = Rekeying { old, heads, protected, dry_run: self.dry_run, last, objects };
        let (stores, is_dry_run) = (stores.clone(), self.dry_run);
        Ok(Plan { fresh_key, said, stores, is_dry_run, ..plan.of_rekeying(rekeying) })
    }
}

/// The options of the new key.
enum NewKey {
    Named(KeyMaterial),
    Wrapped(Wrapping),
}

impl NewKey {
    fn find(
        path: Option<&Path>,
        recipients: &Recipients,
        exposure: &Exposure,
        signals: &Signals,
    ) -> Result<NewKey, Trouble> {
        match (path, recipients.is_empty()) {
            (Some(path), true) => {
                let passphrase = PassphraseOptions::default();
                let keyholder = Keyholder::new(signals, None, &passphrase, exposure, true)?;
                load_key(path, &keyholder).map(NewKey::Named)
            }
            (None, false) => new_wrapping(recipients, exposure, signals).map(NewKey::Wrapped),
            _ => Err(Trouble::usage(NEW_KEY)),
        }
    }
}

/// The tree or file, and the options about what opens it.
struct Given<'g> {
    path: &'g Path,
    plain: &'g Plain,
    keys: &'g OpeningKeys,
}

/// The keys, and what goes with them.
struct Choice {
    /// The new key's.
    ring: KeyRing,
    old: KeyRing,
    heads: Heads,
    fresh_key: Option<FreshKey>,
    said: Option<String>,
    last: LastSteps,
}

impl Given<'_> {
    fn choose(
        &self,
        new: NewKey,
        trusts_unopened: bool,
        keyholder: &Keyholder<'_>,
    ) -> Result<Choice, Trouble> {
        let place = self.plain.key_place(self.path);
        let wrapping = match &new {
            NewKey::Wrapped(wrapping) => Some(wrapping),
            NewKey::Named(_) => None,
        };
        let (mut old, kept) = (self.old_keys(&place, wrapping, keyholder)?, place.clone());
        let said = old.said.take();
        let new = match (new, old.begun.take()) {
            (NewKey::Named(material), _) => New::of(material),
            (NewKey::Wrapped(wrapping), Some((material, path, fingerprint))) => {
                let path = shown(&path);
                let said = format!("goes on with the key in {path}, which an interrupted run made");
                let pin = Some((fingerprint, place, wrapping.audience()));
                New { said: Some(said), pin, ..New::of(material) }
            }
            (NewKey::Wrapped(wrapping), None) => {
                self.fresh(place, &wrapping, trusts_unopened, keyholder)?
            }
        };
        if !old.without(&new.material) && new.pin.is_none() {
            return Err(Trouble::usage("the new key is the one that the files have already"));
        }
        let context = self.keys.context.as_deref();
        let mut rings = old.materials.iter().map(|material| ring(material, context));
        // Without others, a run was killed when all files had the new key.
        let first = rings.next().unwrap_or_else(|| ring(&new.material, context))?;
        let old_ring =
            rings.try_fold(first, |joined, ring| Ok::<_, Trouble>(joined.joined_by(ring?)))?;
        let heads = match self.plain {
            Plain::Pipe(_, head) => Heads { old: head.len() as u64, new: new.head },
            _ => Heads::default(),
        };
        Ok(Choice {
            ring: ring(&new.material, context)?,
            old: old_ring,
            heads,
            fresh_key: new.fresh,
            said: new.said.or(said),
            last: LastSteps { place: kept, old: old.wrapped, new: new.pin },
        })
    }

    /// A fresh key.
    fn fresh(
        &self,
        place: KeyPlace,
        wrapping: &Wrapping,
        trusts_unopened: bool,
        keyholder: &Keyholder<'_>,
    ) -> Result<New, Trouble> {
        let material = KeyMaterial::generate(KeyFormat::default())?;
        let fresh =
            fresh_for_rekey(place.clone(), &material, wrapping, trusts_unopened, keyholder)?;
        let new = New::of(material);
        Ok(match self.plain {
            Plain::Pipe(..) => New { head: PipeHead::of(fresh.contents()), ..new },
            _ => {
                let fingerprint = Fingerprint::of(fresh.contents());
                let pin = Some((fingerprint, place, wrapping.audience()));
                New { pin, fresh: Some(fresh), ..new }
            }
        })
    }

    fn old_keys(
        &self,
        place: &KeyPlace,
        new: Option<&Wrapping>,
        keyholder: &Keyholder<'_>,
    ) -> Result<OldKeys, Trouble> {
        match self.plain {
            _ if self.keys.name_a_key() => OldKeys::named(self.keys, place, new, keyholder),
            _ if !keyholder.opens_something() => {
                Err(Trouble::usage("no key: give --key, --key-command, --identity or --passphrase"))
            }
            Plain::Pipe(key, _) => OldKeys::of_head(key, keyholder),
            _ => OldKeys::found(place, new, keyholder),
        }
    }
}

/// The new key, and what goes with it.
struct New {
    material: KeyMaterial,
    said: Option<String>,
    /// Its wrapped form, the place of that and those for whom it is.
    pin: Option<(Fingerprint, KeyPlace, String)>,
    fresh: Option<FreshKey>,
    head: Vec<u8>,
}

impl New {
    fn of(material: KeyMaterial) -> New {
        New { material, said: None, pin: None, fresh: None, head: Vec::new() }
    }
}

const NEW_KEY: &str = "give either --new-key or --recipient for the new key";
