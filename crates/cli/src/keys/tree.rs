//! Keys of sealed trees.

use std::fs;
use std::io::Read;
use std::path::Path;
use std::sync::Arc;
use std::time::SystemTime;

use evener::keys::age::{self, Dialogue, Identity, Recipient};
use evener::keys::{CobblestoneSuite, KeyError, KeyFormat, KeyMaterial, Passphrase, Unlock};
use evener::sealed_trees::{Keychain, Opened, Wrap};
use evener::{FileError, Key, KeyRing};

use super::dialogue::AtTerminal;
use super::wrap::required;
use super::{Keyholder, Wrapping, named, wrapping};
use crate::hints;
use crate::options::{Exposure, JobKeys, OpeningKeys, PassphraseOptions, Recipients, SealingKeys};
use crate::signals::Signals;
use crate::stores::{LONGEST_KEY, Stores};
use crate::trouble::{Trouble, refused, shown};

/// The keys with which a sealed tree is written or read.
pub(crate) struct TreeKeys {
    pub(crate) keychain: Keychain,
    /// Wraps the fresh key of a generation.
    pub(crate) wrap: Option<Wrap>,
    /// A word for those for whom it wraps.
    pub(crate) audience: Option<String>,
    /// True if the generations of one machine share a key.
    pub(crate) keeps_key: bool,
    /// A key of the tree's format, which stands for all of them in the choice of engines.
    pub(crate) ring: KeyRing,
}

/// Finds the keys that seal a tree.
pub(crate) fn sealing_tree(
    options: &SealingKeys,
    tree: &Path,
    stores: &Stores,
    keyholder: &Keyholder<'_>,
) -> Result<TreeKeys, Trouble> {
    let named = named(options.key.as_deref(), options.origins.key_command.as_deref())?;
    let material = named.map(|key| key.load(None, keyholder)).transpose()?;
    let wrapping = match &material {
        Some(_) if !options.recipients.is_empty() => {
            return Err(Trouble::usage(
                "--key and --recipient exclude each other: a tree has one key of yours, or a fresh \
                 one for each generation",
            ));
        }
        Some(_) => {
            keyholder.refuse_idle_passphrase()?;
            None
        }
        None => Some(wrapping(&options.recipients, keyholder)?.ok_or_else(|| {
            Trouble::usage(
                "no key that could seal the tree: give --key, --recipient or --passphrase; \
                 --identity only opens earlier generations",
            )
        })?),
    };
    let audience = wrapping.as_ref().map(Wrapping::audience);
    let keeps_key = matches!(wrapping, Some(Wrapping::Passphrase));
    let opened = Opened::default();
    let wrap = match wrapping {
        None => None,
        Some(Wrapping::Recipients(recipients)) => Some(for_recipients(recipients, keyholder)),
        Some(Wrapping::Passphrase) => {
            let passphrase = of_generations(tree, stores, keyholder, &opened)?;
            Some(wrap(move |text| age::wrap_with_passphrase(text, &passphrase)))
        }
    };
    let keys = material.as_ref().map(of_tree).transpose()?;
    let mut keys = TreeKeys::new(keys.into_iter().collect(), wrap, keyholder)?;
    keys.keychain.opened = opened;
    Ok(TreeKeys { audience, keeps_key, ..keys })
}

/// Reads the key of a sealed tree from a file.
pub(crate) fn load_tree_key(
    path: &Path,
    takes_insecure: bool,
    signals: &Signals,
) -> Result<Key, Trouble> {
    let exposure = Exposure { insecure_key_file: takes_insecure };
    let passphrase = PassphraseOptions::default();
    let keyholder = Keyholder::new(signals, None, &passphrase, &exposure, true)?;
    let material = named(Some(path), None)?.map(|key| key.load(None, &keyholder)).transpose()?;
    of_tree(&material.ok_or_else(|| Trouble::usage("no key"))?)
}

/// Wraps keys for recipients; also returns a word for those.
pub(crate) fn recipients_wrap(
    recipients: &Recipients,
    takes_insecure: bool,
    signals: &Signals,
) -> Result<(Wrap, String), Trouble> {
    let exposure = Exposure { insecure_key_file: takes_insecure };
    let passphrase = PassphraseOptions::default();
    let keyholder = Keyholder::new(signals, None, &passphrase, &exposure, false)?;
    let wrapping = wrapping(recipients, &keyholder)?;
    let audience = wrapping.as_ref().map(Wrapping::audience).unwrap_or_default();
    match wrapping {
        Some(Wrapping::Recipients(recipients)) => {
            Ok((for_recipients(recipients, &keyholder), audience))
        }
        _ => Err(Trouble::usage("no recipient: give --recipient or --recipients-file")),
    }
}

/// Reads the key of a job; also returns it with what opens the tree to which the job adds.
pub(crate) fn of_job(
    options: &JobKeys,
    keyholder: &Keyholder<'_>,
) -> Result<(Key, TreeKeys), Trouble> {
    let named = named(options.key.as_deref(), options.origins.key_command.as_deref())?;
    let material = named.map(|key| key.load(None, keyholder)).transpose()?;
    let missing =
        || Trouble::usage("no key: give the key of the job with --key (`evener keygen` makes one)");
    let key = of_tree(&material.ok_or_else(missing)?)?;
    keyholder.refuse_idle_passphrase()?;
    let keys = TreeKeys::new(vec![key.clone()], None, keyholder)?;
    Ok((key, keys))
}

/// The recipients that options name, as they can be given again.
pub(crate) fn recipient_texts(
    recipients: &Recipients,
    takes_insecure: bool,
    signals: &Signals,
) -> Result<Vec<String>, Trouble> {
    let exposure = Exposure { insecure_key_file: takes_insecure };
    let passphrase = PassphraseOptions::default();
    let keyholder = Keyholder::new(signals, None, &passphrase, &exposure, false)?;
    Ok(match wrapping(recipients, &keyholder)? {
        Some(Wrapping::Recipients(recipients)) => {
            recipients.iter().map(Recipient::to_string).collect()
        }
        _ => Vec::new(),
    })
}

/// Finds the keys that open a tree.
pub(crate) fn opening_tree(
    options: &OpeningKeys,
    keyholder: &Keyholder<'_>,
) -> Result<TreeKeys, Trouble> {
    let mut keys = Vec::new();
    for path in &options.keys {
        let key = named(Some(path.as_path()), None)?.map(|key| key.load(None, keyholder));
        keys.extend(key.transpose()?.as_ref().map(of_tree).transpose()?);
    }
    let command = named(None, options.origins.key_command.as_deref())?;
    let command = command.map(|key| key.load(None, keyholder)).transpose()?;
    keys.extend(command.as_ref().map(of_tree).transpose()?);
    if !keys.is_empty() {
        keyholder.refuse_idle_passphrase()?;
    } else if !keyholder.opens_something() {
        return Err(Trouble::usage(
            "no key: give --key, --key-command, --identity or --passphrase",
        ));
    }
    TreeKeys::new(keys, None, keyholder)
}

impl TreeKeys {
    fn new(
        keys: Vec<Key>,
        wrap: Option<Wrap>,
        keyholder: &Keyholder<'_>,
    ) -> Result<TreeKeys, Trouble> {
        let ring = KeyMaterial::generate(KeyFormat::Cobblestone256)?.key_ring(b"")?;
        let unlock = Arc::new(Opener {
            identities: keyholder.identities().to_vec(),
            passphrase: match keyholder.opens_identities() {
                true => None,
                false => keyholder.known_passphrase("the tree")?,
            },
            signals: keyholder.signals.clone(),
        });
        let keychain = Keychain { keys, unlock, opened: Opened::default() };
        Ok(TreeKeys { keychain, wrap, audience: None, keeps_key: false, ring })
    }
}

/// Opens wrapped keys during the work, with what was asked for before it.
struct Opener {
    identities: Vec<Identity>,
    passphrase: Option<Passphrase>,
    signals: Signals,
}

impl Unlock for Opener {
    fn identities(&self) -> &[Identity] {
        &self.identities
    }

    fn passphrase(&self, _: &Path) -> Result<Option<Passphrase>, KeyError> {
        Ok(self.passphrase.clone())
    }

    fn dialogue(&self) -> Arc<dyn Dialogue> {
        Arc::new(AtTerminal { signals: self.signals.clone() })
    }
}

fn for_recipients(recipients: Vec<Recipient>, keyholder: &Keyholder<'_>) -> Wrap {
    let dialogue = keyholder.dialogue();
    wrap(move |text| age::wrap_with(text, &recipients, dialogue.clone()))
}

fn wrap(wrap: impl Fn(&[u8]) -> Result<Vec<u8>, KeyError> + Send + Sync + 'static) -> Wrap {
    Arc::new(move |text| wrap(text).map_err(|error| in_words(&error)))
}

fn in_words(error: &KeyError) -> FileError {
    refused(hints::of_key(error))
}

/// The passphrase of a tree's generations. One that is there already has to have it too.
fn of_generations(
    tree: &Path,
    stores: &Stores,
    keyholder: &Keyholder<'_>,
    opened: &Opened,
) -> Result<Passphrase, Trouble> {
    let newest = match Stores::address(tree.as_os_str())? {
        Some(address) => stores.newest_wrapping(&address)?,
        None => newest_wrapping(tree)?,
    };
    let Some((path, wrapped)) = newest else {
        let passphrase = required(keyholder.new_passphrase("the tree")?)?;
        keyholder.warn_of_oddities(&passphrase, false);
        return Ok(passphrase);
    };
    let passphrase = required(keyholder.known_passphrase("the tree")?)?;
    let opener = Opener {
        identities: Vec::new(),
        passphrase: Some(passphrase.clone()),
        signals: keyholder.signals.clone(),
    };
    let (keys, opened) = (Vec::new(), opened.clone());
    Keychain { keys, unlock: Arc::new(opener), opened }.open(&wrapped, &path)?;
    Ok(passphrase)
}

/// The wrapped key that was written last in a tree, and its path.
fn newest_wrapping(tree: &Path) -> Result<Option<(String, Vec<u8>)>, Trouble> {
    let entries = fs::read_dir(tree.join("keys")).into_iter().flatten().flatten();
    let time = |entry: &fs::DirEntry| -> Option<SystemTime> {
        entry.metadata().ok().filter(fs::Metadata::is_file)?.modified().ok()
    };
    let newest = entries.filter_map(|entry| Some((time(&entry)?, entry.path()))).max();
    let Some((_, path)) = newest else { return Ok(None) };
    let mut wrapped = Vec::new();
    fs::File::open(&path)
        .and_then(|file| file.take(LONGEST_KEY).read_to_end(&mut wrapped))
        .map_err(|cause| Trouble::File { action: "read", path: path.clone(), cause })?;
    Ok(Some((shown(&path).to_string(), wrapped)))
}

/// The key of a sealed tree.
fn of_tree(material: &KeyMaterial) -> Result<Key, Trouble> {
    match material {
        KeyMaterial::Cobblestone { suite: CobblestoneSuite::Aes256Gcm, key } => Ok(key.clone()),
        other => Err(Trouble::Usage(format!(
            "a sealed tree takes keys for {}, and this one is for {}: `evener keygen` makes one",
            KeyFormat::Cobblestone256,
            other.format()
        ))),
    }
}
