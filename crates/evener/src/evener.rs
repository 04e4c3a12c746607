//! The facade: keys, engines and options of operations.

use std::fmt;
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_place::{KeyRing, Operation};

use crate::builder::Settings;
use crate::seats::seats;
use crate::{EvenerBuilder, Options};

/// Keys, engines and options, ready to encrypt and decrypt files, trees and pipes any number of
/// times.
///
/// ```
/// # use evener::{Evener, Existing, keys::{KeyFormat, KeyMaterial}};
/// # let keys = KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?;
/// let evener = Evener::builder(keys)
///     .engines(&["openssl"])
///     .workers(4.try_into()?)
///     .options(|options| {
///         options.tree.existing = Existing::resume();
///         options.tree.durable = true;
///     })
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evener {
    pub(crate) keys: KeyRing,
    /// All modules have a guard; if a module fails, the reference engine takes over its work.
    pub(crate) engines: Vec<Arc<dyn Engine>>,
    pub(crate) settings: Settings,
}

impl Evener {
    /// The reference: it has every cipher, and the results of other engines are compared with its
    /// own.
    pub const REFERENCE_ENGINE: &'static str = "openssl";

    /// The default engine: it uses the CPU cores and has every cipher of the reference engine.
    pub const CPU_ENGINE: &'static str = "cpu";

    /// Takes keys, for the engine `cpu` with one worker per core and the default [`Options`].
    ///
    /// # Errors
    /// When OpenSSL has no ciphers.
    pub fn new(keys: KeyRing) -> Result<Evener, EngineError> {
        Evener::builder(keys).build()
    }

    /// Takes keys, for custom settings.
    pub fn builder(keys: KeyRing) -> EvenerBuilder {
        EvenerBuilder::new(keys)
    }

    /// The same keys and engines with other options.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut Options)) -> Evener {
        change(&mut self.settings.options);
        self
    }

    /// The options of its operations.
    pub fn options(&self) -> &Options {
        &self.settings.options
    }

    /// The keys.
    pub fn key_ring(&self) -> &KeyRing {
        &self.keys
    }

    /// The selected engines that lack the cipher of the keys' format; they are not used.
    pub fn unable_engines(&self, operation: Operation) -> Vec<&str> {
        let cipher = self.keys.primary().cipher();
        let unable =
            |engine: &&Arc<dyn Engine>| engine.offer(cipher, operation.direction()).is_none();
        self.engines
            .iter()
            .filter(|_| self.settings.are_chosen)
            .filter(unable)
            .map(|engine| engine.description().name.as_str())
            .collect()
    }

    /// For the program: leaves the engines open when this is dropped, since it ends then, and
    /// logging out of a token may take long.
    #[doc(hidden)]
    pub fn keep_engines_open(&self) {
        std::mem::forget(self.engines.clone());
    }

    /// The selected engines that have the cipher but get no worker, because the builder sets fewer
    /// workers than engines; they are not used.
    pub fn engines_without_workers(&self, operation: Operation) -> Vec<&str> {
        if !self.settings.are_chosen {
            return Vec::new();
        }
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        let seats = seats(&self.engines, cipher, direction, self.settings.workers);
        let unable = self.unable_engines(operation);
        self.engines
            .iter()
            .filter(|engine| !seats.iter().any(|seat| Arc::ptr_eq(seat, engine)))
            .map(|engine| engine.description().name.as_str())
            .filter(|name| !unable.contains(name))
            .collect()
    }
}

impl fmt::Debug for Evener {
    /// Prints no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |engine: &Arc<dyn Engine>| engine.description().name.clone();
        f.debug_struct("Evener")
            .field("format", &self.keys.primary().format())
            .field("engines", &self.engines.iter().map(name).collect::<Vec<_>>())
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}
