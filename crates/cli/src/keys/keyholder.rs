//! What opens wrapped keys: identities, and a passphrase wherever it comes from.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::keys::age::{Dialogue, Identity};
use evener::keys::{Exposed, KeyError, Oddity, Passphrase, Unlock};

use super::dialogue::AtTerminal;
use crate::options::{Exposure, Identities, PassphraseOptions};
use crate::signals::Signals;
use crate::trouble::{Trouble, shown};

/// Supplies identities and passphrases, and asks for a passphrase at most once for each purpose.
pub(crate) struct Keyholder<'a> {
    pub(super) signals: &'a Signals,
    identities: Vec<Identity>,
    source: Option<Source>,
    given: OnceCell<Passphrase>,
    /// Whether the passphrase that the options speak of was asked for by a file of identities.
    opens_identities: Cell<bool>,
    /// The files of wrapped keys that were found beside what they open.
    found: RefCell<Vec<PathBuf>>,
    /// Whether to ask for the passphrase of a file although no option speaks of one.
    asks_unbidden: bool,
    /// Whether files of secrets that others may use are taken.
    takes_insecure: bool,
    /// What is to be said of those that were.
    warnings: RefCell<Vec<String>>,
}

/// Where the passphrase comes from.
enum Source {
    Terminal,
    File(PathBuf),
    Descriptor(RawFd),
}

impl<'a> Keyholder<'a> {
    /// Reads the identities. With `asks_unbidden`, the passphrase of a key file that needs one
    /// is asked for even if the options do not speak of it.
    pub(crate) fn new(
        signals: &'a Signals,
        identities: Option<&Identities>,
        passphrase: &PassphraseOptions,
        exposure: &Exposure,
        asks_unbidden: bool,
    ) -> Result<Keyholder<'a>, Trouble> {
        let source = match passphrase {
            PassphraseOptions { passphrase: true, .. } => Some(Source::Terminal),
            PassphraseOptions { passphrase_file: Some(path), .. } => {
                Some(Source::File(path.clone()))
            }
            PassphraseOptions { passphrase_fd, .. } => passphrase_fd.map(Source::Descriptor),
        };
        let keyholder = Keyholder {
            signals,
            identities: Vec::new(),
            source,
            given: OnceCell::new(),
            opens_identities: Cell::new(false),
            found: RefCell::default(),
            asks_unbidden,
            takes_insecure: exposure.insecure_key_file,
            warnings: RefCell::default(),
        };
        let identities = match identities {
            Some(options) => super::identities(options, &OfIdentities(&keyholder))?,
            None => Vec::new(),
        };
        Ok(Keyholder { identities, ..keyholder })
    }

    /// Notes files of wrapped keys that were found.
    pub(super) fn note_found(&self, paths: &[PathBuf]) {
        self.found.borrow_mut().extend_from_slice(paths);
    }

    /// The files of wrapped keys that were found.
    pub(crate) fn found(&self) -> Vec<PathBuf> {
        self.found.borrow().clone()
    }

    /// What the user should know of the files that keys and passphrases were read from so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Whether the options speak of a passphrase.
    pub(crate) fn has_passphrase(&self) -> bool {
        self.source.is_some()
    }

    /// Whether the passphrase that the options speak of is that of an identity.
    pub(crate) fn opens_identities(&self) -> bool {
        self.opens_identities.get()
    }

    /// Refuses a passphrase that the options speak of and that has opened nothing, now that all keys
    /// are open: what is encrypted would not be what the user takes it for.
    pub(super) fn refuse_idle_passphrase(&self) -> Result<(), Trouble> {
        let is_idle = self.given.get().is_none() && !self.opens_identities();
        match self.has_passphrase() && is_idle {
            true => Err(Trouble::usage(IDLE_PASSPHRASE)),
            false => Ok(()),
        }
    }

    /// Whether the options give anything to open wrapped keys with.
    pub(crate) fn opens_something(&self) -> bool {
        self.has_passphrase() || !self.identities.is_empty()
    }

    /// The passphrase that the options speak of, for what exists already.
    pub(crate) fn known_passphrase(&self, what: &str) -> Result<Option<Passphrase>, KeyError> {
        self.obtain(|| self.ask(&format!("Passphrase for {what}: ")))
    }

    /// The passphrase that the options speak of, for something new: on the terminal it is typed
    /// twice.
    pub(crate) fn new_passphrase(&self, what: &str) -> Result<Option<Passphrase>, KeyError> {
        self.obtain(|| {
            let first = self.ask(&format!("New passphrase for {what}: "))?;
            let second = self.ask("The same again: ")?;
            if first.bytes() == second.bytes() {
                Ok(first)
            } else {
                Err(terminal("the two are not the same; nothing was done"))
            }
        })
    }

    /// Warns of what is odd about a new passphrase. In files of `openssl enc` all of the line is the
    /// passphrase.
    pub(super) fn warn_of_oddities(&self, passphrase: &Passphrase, is_for_openssl: bool) {
        let warnings = passphrase.oddities().into_iter().map(|oddity| {
            let fate = match oddity {
                Oddity::FurtherLines => "no part of it",
                _ if is_for_openssl => "part of it, as for `openssl enc`",
                _ if passphrase.is_line() => "left out",
                _ => "part of it",
            };
            format!("the passphrase from {} has {oddity} ({fate})", passphrase.origin())
        });
        self.warnings.borrow_mut().extend(warnings);
    }

    fn obtain(
        &self,
        ask: impl FnOnce() -> Result<Passphrase, KeyError>,
    ) -> Result<Option<Passphrase>, KeyError> {
        if let Some(given) = self.given.get() {
            return Ok(Some(given.clone()));
        }
        let passphrase = match &self.source {
            None => return Ok(None),
            Some(Source::Terminal) => ask()?,
            Some(Source::File(path)) => Passphrase::from_file_with(path, self)?,
            Some(Source::Descriptor(number)) => Passphrase::from_descriptor(*number)?,
        };
        Ok(Some(self.given.get_or_init(|| passphrase).clone()))
    }

    fn ask(&self, prompt: &str) -> Result<Passphrase, KeyError> {
        match self.signals.ask(prompt) {
            Ok(typed) => Passphrase::new(&typed, "the terminal"),
            Err(_) => {
                Err(terminal("there is none to ask; give --passphrase-file or --passphrase-fd"))
            }
        }
    }
}

const IDLE_PASSPHRASE: &str = "the key is not encrypted, so no passphrase opens it: give a key or a \
    passphrase, not both";

/// Opens files of identities. On the terminal each is asked for, whatever the options say.
struct OfIdentities<'a>(&'a Keyholder<'a>);

impl Unlock for OfIdentities<'_> {
    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, KeyError> {
        let OfIdentities(keyholder) = self;
        keyholder.opens_identities.set(keyholder.has_passphrase());
        let path = shown(path).to_string();
        match keyholder.source {
            // Where there is no terminal, the error about the file says more.
            None => Ok(keyholder.ask(&format!("Passphrase for {path}: ")).ok()),
            Some(Source::Terminal) => keyholder.ask(&format!("Passphrase for {path}: ")).map(Some),
            Some(_) => keyholder.known_passphrase(&path),
        }
    }

    fn takes_exposed(&self, file: &Exposed<'_>) -> bool {
        self.0.takes_exposed(file)
    }
}

impl Unlock for Keyholder<'_> {
    fn identities(&self) -> &[Identity] {
        &self.identities
    }

    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, KeyError> {
        let path = shown(path).to_string();
        if self.source.is_none() && self.asks_unbidden {
            // Where there is no terminal, the error about the file says more.
            return Ok(self.ask(&format!("Passphrase for {path}: ")).ok());
        }
        self.known_passphrase(&path)
    }

    fn dialogue(&self) -> Arc<dyn Dialogue> {
        Arc::new(AtTerminal { signals: self.signals.clone() })
    }

    fn takes_exposed(&self, file: &Exposed<'_>) -> bool {
        let Exposed { path, mode, is_read_only, has_mode_of_mount } = *file;
        if !self.takes_insecure && !is_read_only {
            return false;
        }
        let path = shown(path);
        let rest = match (is_read_only, has_mode_of_mount) {
            (true, _) => "its file system is mounted read-only, so this can't be changed here",
            (false, true) => "its file system gives all files this mode",
            (false, false) => "run `chmod 600` on it",
        };
        let warning = format!(
            "the secret in {path} is not yours alone: its group or others may use it (mode \
             {mode:04o}); {rest}"
        );
        self.warnings.borrow_mut().push(warning);
        true
    }

    fn takes_recipients(&self, file: &Exposed<'_>) -> bool {
        if !self.takes_insecure && !file.is_read_only {
            return false;
        }
        let path = shown(file.path);
        let warning =
            format!("others may change the recipients in {path}, and so read what is encrypted");
        self.warnings.borrow_mut().push(warning);
        true
    }
}

fn terminal(reason: &str) -> KeyError {
    KeyError::Passphrase { origin: "the terminal".to_owned(), reason: reason.to_owned() }
}
