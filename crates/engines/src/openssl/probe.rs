//! Finds the ciphers of the linked OpenSSL.

use std::sync::{Mutex, OnceLock};

use evener_core::{Cipher, EncCipher, IgnorePoison};
use openssl::cipher::{Cipher as Algorithm, CipherRef};
use openssl::error::ErrorStack;
use openssl::lib_ctx::LibCtx;
use openssl::provider::Provider;

use super::selection::{Selection, directory_of};
use super::sys::use_no_configuration;

/// A private library context with its providers, and the ciphers that were asked for, each fetched
/// once: the first fetch of a process takes longer than encrypting a small file.
///
/// It is private so that neither the program's own use of OpenSSL nor a configuration file can
/// change what this engine does, and it loads providers only from the system's directories: on
/// another machine, the directory where the library was built may belong to any user. A fetched
/// cipher is equally fast from any context.
pub(super) struct Library {
    // Dropped in this order: an algorithm belongs to its provider, a provider to its context.
    algorithms: Vec<(Cipher, OnceLock<Option<Algorithm>>)>,
    fetching: Mutex<()>,
    _providers: Vec<Provider>,
    context: LibCtx,
    engine: String,
    buffers: bool,
}

impl Library {
    /// Loads the default provider and, if there is one, the legacy provider, which holds
    /// Blowfish.
    pub(super) fn load(engine: &str) -> Result<Library, ErrorStack> {
        let context = context(&directory_of("legacy"))?;
        let mut providers = vec![Provider::load(Some(&context), "default")?];
        providers.extend(Provider::load(Some(&context), "legacy").ok());
        Ok(Library::new(engine, context, providers, false))
    }

    /// Loads only one provider, so that all fetched ciphers are that provider's.
    pub(super) fn load_provider(
        engine: &str,
        selection: &Selection,
    ) -> Result<Library, ErrorStack> {
        let directory = selection.directory.clone();
        let context = context(&directory.unwrap_or_else(|| directory_of(&selection.name)))?;
        let provider = Provider::load(Some(&context), &selection.name)?;
        Ok(Library::new(engine, context, vec![provider], !selection.is_openssls_own()))
    }

    fn new(engine: &str, context: LibCtx, providers: Vec<Provider>, buffers: bool) -> Library {
        let all = Cipher::ALL.iter().copied().chain(EncCipher::all().map(Cipher::Enc));
        let algorithms = all.map(|cipher| (cipher, OnceLock::new())).collect();
        let engine = engine.to_owned();
        let fetching = Mutex::new(());
        Library { algorithms, fetching, _providers: providers, context, engine, buffers }
    }

    /// The name of the engine that uses the library.
    pub(super) fn engine(&self) -> &str {
        &self.engine
    }

    /// Returns whether ciphers may have only the entry point that buffers and pads. The ciphers of
    /// OpenSSL's own providers have a more direct one, which is optional.
    pub(super) fn buffers(&self) -> bool {
        self.buffers
    }

    /// Returns whether the library lacks all of Evener's ciphers.
    pub(super) fn is_empty(&self) -> bool {
        Cipher::ALL.iter().all(|&cipher| self.algorithm(cipher).is_none())
    }

    /// The cipher, when the library has it.
    pub(super) fn algorithm(&self, cipher: Cipher) -> Option<&CipherRef> {
        let (_, algorithm) = self.algorithms.iter().find(|(known, _)| *known == cipher)?;
        algorithm.get_or_init(|| self.fetch(cipher)).as_deref()
    }

    /// Fetches one cipher at a time, and once more if that fails: a fetch of ChaCha20-Poly1305 beside
    /// another has failed on a busy machine, and the process would be without that cipher.
    fn fetch(&self, cipher: Cipher) -> Option<Algorithm> {
        let _one_at_a_time = self.fetching.lock().ignore_poison();
        let fetch = || Algorithm::fetch(Some(&self.context), cipher.name(), None);
        let algorithm = fetch().or_else(|_| fetch()).ok()?;
        has_expected_lengths(cipher, &algorithm).then_some(algorithm)
    }
}

/// A context that reads no configuration file, and loads providers from this directory.
fn context(directory: &str) -> Result<LibCtx, ErrorStack> {
    use_no_configuration();
    let context = LibCtx::new()?;
    Provider::set_default_search_path(Some(&context), directory)?;
    Ok(context)
}

/// Returns whether the library's cipher has the expected lengths.
fn has_expected_lengths(cipher: Cipher, algorithm: &CipherRef) -> bool {
    algorithm.key_length() == cipher.key_length()
        && algorithm.iv_length() == cipher.iv_length()
        && algorithm.block_size() == cipher.block_length()
}
