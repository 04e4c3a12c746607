//! Opens wrapped keys: with identities, and with a passphrase from any source.

use std::cell::{Cell, OnceCell, RefCell};
use std::os::fd::RawFd;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener::keys::age::{Dialogue, Identity};
use evener::keys::faults::PassphraseFault;
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
    /// True if a file of identities asked for the passphrase that the options mention.
    opens_identities: Cell<bool>,
    /// The files of wrapped keys that were found beside the files that they open.
    found: RefCell<Vec<PathBuf>>,
    /// True if the user is asked for the passphrase of a file although no option mentions one.
    asks_unbidden: bool,
    /// True if files of secrets that others may use are accepted.
    takes_insecure: bool,
    /// Warnings about files that were.
    warnings: RefCell<Vec<String>>,
}

/// The source of the passphrase.
enum Source {
    Terminal,
    File(PathBuf),
    Descriptor(RawFd),
}

impl<'a> Keyholder<'a> {
    /// Reads the identities. With `asks_unbidden`, the user is asked for the passphrase of a key
    /// file that needs one even if the options do not mention it.
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

    /// Records files of wrapped keys that were found.
    pub(super) fn note_found(&self, paths: &[PathBuf]) {
        self.found.borrow_mut().extend_from_slice(paths);
    }

    /// The files of wrapped keys that were found.
    pub(crate) fn found(&self) -> Vec<PathBuf> {
        self.found.borrow().clone()
    }

    /// Warnings for the user about the files that keys and passphrases were read from so far.
    pub(crate) fn warnings(&self) -> Vec<String> {
        self.warnings.borrow().clone()
    }

    /// Returns whether the options mention a passphrase.
    pub(crate) fn has_passphrase(&self) -> bool {
        self.source.is_some()
    }

    /// Returns whether the passphrase that the options mention is that of an identity.
    pub(crate) fn opens_identities(&self) -> bool {
        self.opens_identities.get()
    }

    /// Refuses a passphrase from the options that has opened nothing, now that all keys are open:
    /// the encryption would not be what the user expects.
    pub(super) fn refuse_idle_passphrase(&self) -> Result<(), Trouble> {
        let is_idle = self.given.get().is_none() && !self.opens_identities();
        match self.has_passphrase() && is_idle {
            true => Err(Trouble::usage(IDLE_PASSPHRASE)),
            false => Ok(()),
        }
    }

    /// Returns whether the options give anything that opens wrapped keys.
    pub(crate) fn opens_something(&self) -> bool {
        self.has_passphrase() || !self.identities.is_empty()
    }

    /// The passphrase from the options, for something that exists already.
    pub(crate) fn known_passphrase(&self, what: &str) -> Result<Option<Passphrase>, KeyError> {
        self.obtain(|| self.ask(&format!("Passphrase for {what}: ")))
    }

    /// The passphrase from the options, for something new: on the terminal it is typed twice.
    pub(crate) fn new_passphrase(&self, what: &str) -> Result<Option<Passphrase>, KeyError> {
        self.obtain(|| {
            let first = self.ask(&format!("New passphrase for {what}: "))?;
            first.check_new()?;
            let second = self.ask("The same again: ")?;
            if first.bytes() == second.bytes() {
                Ok(first)
            } else {
                Err(terminal(PassphraseFault::NotTheSame))
            }
        })
    }

    /// Warns of oddities in a new passphrase. In files of `openssl enc` the whole line is the
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

    /// Warns that a passphrase for files of `openssl enc` may not be the one that `openssl` took.
    pub(super) fn warn_of_length(&self, passphrase: &Passphrase) {
        let length = passphrase.bytes().len();
        if length > Passphrase::MAX_NEW_LENGTH {
            self.warnings.borrow_mut().push(format!(
                "the passphrase from {} has {length} bytes, and all of them count, as with `openssl \
                 enc -pass pass:`; with -pass file: only the first {} do, so cut it to those for \
                 such files",
                passphrase.origin(),
                Passphrase::MAX_NEW_LENGTH
            ));
        }
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
            Err(_) => Err(terminal(PassphraseFault::NoTerminal)),
        }
    }
}

const IDLE_PASSPHRASE: &str = "the key is not encrypted, so no passphrase opens it: give a key or a \
    passphrase, not both";

/// Opens files of identities. On the terminal, the user is asked for each one's passphrase, even
/// without an option.
struct OfIdentities<'a>(&'a Keyholder<'a>);

impl Unlock for OfIdentities<'_> {
    fn passphrase(&self, path: &Path) -> Result<Option<Passphrase>, KeyError> {
        let OfIdentities(keyholder) = self;
        keyholder.opens_identities.set(keyholder.has_passphrase());
        let path = shown(path).to_string();
        match keyholder.source {
            // Without a terminal, the error about the file is more informative.
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
            // Without a terminal, the error about the file is more informative.
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

fn terminal(fault: PassphraseFault) -> KeyError {
    KeyError::Passphrase { origin: "the terminal".to_owned(), fault }
}
