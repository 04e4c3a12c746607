//! OpenSSL's ciphers on the calling core, over EVP, and those of other providers.
//!
//! `openssl` is the library that Evener is linked with. `openssl:provider=NAME`, with
//! `,path=DIRECTORY` where the provider is not in one of the system's own directories for them, is
//! a provider of that library, such as that of an accelerator.

mod probe;
mod provider;
mod selection;
mod session;
mod sys;

use std::fmt;
use std::sync::{Arc, OnceLock};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session, SessionRequest,
};

use crate::probing::Probe;
use crate::{cores, features, probing};
use probe::Library;
use selection::Selection;
use session::OpensslSession;

/// Finds the library's own ciphers, or the provider that the parameters name.
pub(crate) fn probe(parameters: &str) -> Probe {
    if parameters.is_empty() {
        return reference().map(|engine| vec![engine]).into();
    }
    let name = format!("{NAME}:{parameters}");
    let (engine, parameters) = (name.clone(), parameters.to_owned());
    probing::one(move |_| match provider::find(&engine, &parameters) {
        Ok((library, kind, detail)) => Ok(Arc::new(OpensslEngine::new(library, kind, detail))),
        Err(reason) => Err(unavailable(&engine, reason)),
    })
}

/// Returns whether the parameters name a provider that is not OpenSSL's own.
pub(crate) fn loads_foreign_code(parameters: &str) -> bool {
    Selection::parse(parameters).is_ok_and(|selection| !selection.is_openssls_own())
}

/// The library's own ciphers, with which other engines are compared. They are loaded once, because
/// loading takes most of the time of a short run.
///
/// # Errors
/// When the library has no ciphers.
pub(crate) fn reference() -> Result<Arc<dyn Engine>, EngineError> {
    static REFERENCE: OnceLock<Arc<OpensslEngine>> = OnceLock::new();
    if let Some(engine) = REFERENCE.get() {
        return Ok(Arc::clone(engine) as Arc<dyn Engine>);
    }
    let library = Library::load(NAME).map_err(|error| unavailable(NAME, error.to_string()))?;
    let engine = OpensslEngine::new(library, Kind::Cpu, version());
    Ok(Arc::clone(REFERENCE.get_or_init(|| Arc::new(engine))) as Arc<dyn Engine>)
}

struct OpensslEngine {
    description: Description,
    offer: Offer,
    library: Arc<Library>,
}

impl OpensslEngine {
    fn new(library: Library, kind: Kind, detail: String) -> OpensslEngine {
        let cores = cores::available_cores();
        let depth = if kind == Kind::Cpu { cores } else { cores.max(LEAST_MODULE_DEPTH) };
        OpensslEngine {
            description: Description::new(library.engine(), kind).detail(detail),
            offer: Offer::new(depth),
            library: Arc::new(library),
        }
    }
}

impl Engine for OpensslEngine {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        self.library.algorithm(cipher).map(|_| self.offer)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        Ok(Box::new(OpensslSession::open(&self.library, request)?))
    }
}

/// `OpenSSL 3.6.3`, without the date, and the features of an ARM processor.
fn version() -> String {
    let version =
        openssl::version::version().split_whitespace().take(2).collect::<Vec<_>>().join(" ");
    match features::of_this_processor() {
        Some(features) => format!("{version}; the processor has {features}"),
        None => version,
    }
}

fn failed(engine: &str, error: &dyn fmt::Display) -> EngineError {
    EngineError::failed(error.to_string()).of(engine)
}

fn unavailable(engine: &str, reason: String) -> EngineError {
    EngineError::unavailable(reason).of(engine)
}

/// A provider does not report how many requests its device serves at once. With two workers, one
/// prepares a request while the device works for the other.
const LEAST_MODULE_DEPTH: usize = 2;

pub(crate) const NAME: &str = "openssl";

#[cfg(test)]
mod tests {
    use evener_core::{EncCipher, Iv, Job, Key, Outcome};

    use super::*;

    #[test]
    fn every_cipher_but_a_legacy_one_is_offered_and_decrypts_what_it_encrypted() {
        let engine = probe("").wait().unwrap().remove(0);
        let enc = EncCipher::all().map(Cipher::Enc);
        for cipher in Cipher::ALL.iter().copied().chain(enc) {
            if engine.offer(cipher, Direction::Encrypt).is_none() {
                let legacy = ["bf-", "cast5-", "des-ecb", "des-cbc", "des-cfb", "des-ofb"];
                let is_legacy = legacy.iter().any(|start| cipher.name().starts_with(start));
                let may_be_absent = is_legacy && cfg!(feature = "system-openssl");
                assert!(may_be_absent, "{cipher} is not offered");
                evener_core::skipped!("{cipher}: the system's OpenSSL has no legacy provider");
                continue;
            }
            let bytes: Vec<u8> = (0..64).collect();
            let key = Key::new(&bytes[..cipher.key_length()]).unwrap();
            let iv = Iv::new(&bytes[..cipher.iv_length()]).unwrap();
            let transform = |direction, input: &[u8]| {
                let request = SessionRequest { cipher, direction, key: Some(&key) };
                let mut output = vec![0; input.len() + cipher.tag_length()];
                let mut batch = [Job::new(iv, input, &mut output)];
                engine.open(&request).unwrap().process(&mut batch).unwrap();
                let Outcome::Done { written } = batch[0].outcome else {
                    panic!("{cipher} {direction}: {:?}", batch[0].outcome)
                };
                output.truncate(written);
                output
            };
            let ciphertext = transform(Direction::Encrypt, &bytes);
            assert_ne!(ciphertext[..bytes.len()], bytes);
            assert_eq!(transform(Direction::Decrypt, &ciphertext), bytes, "{cipher}");
        }
    }

    #[test]
    fn xts_encrypts_nothing_with_two_equal_keys() {
        let engine = probe("").wait().unwrap().remove(0);
        let request = SessionRequest {
            cipher: Cipher::Aes128Xts,
            direction: Direction::Encrypt,
            key: Some(&Key::new(&[5; 32]).unwrap()),
        };
        let mut session = engine.open(&request).unwrap();
        let good_key = Key::new(&(0..32).collect::<Vec<u8>>()).unwrap();
        let iv = Iv::new(&[0; 16]).unwrap();
        let mut outputs = [[0; 32]; 3];
        let mut batch = outputs.each_mut().map(|output| Job::new(iv, &[1; 32], output));
        batch[0].key = Some(&good_key);
        batch[2].key = Some(&good_key);
        session.process(&mut batch).unwrap();
        assert_eq!(batch[0].outcome, Outcome::Done { written: 32 });
        assert!(matches!(batch[1].outcome, Outcome::Rejected(_)));
        assert_eq!(batch[2].outcome, Outcome::Done { written: 32 });
        assert_eq!((outputs[0], outputs[1]), (outputs[2], [0; 32]));
    }

    #[test]
    fn it_takes_no_other_parameters() {
        assert!(probe("fast").wait().is_err());
    }
}
