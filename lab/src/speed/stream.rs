//! Measures OpenSSL as `openssl speed -evp` does.
//!
//! One context with one key processes the same buffer in place again and again, without a new IV.
//! Only GCM sets the key and IV and makes or checks the tag for every message, as `openssl speed`
//! has done since 2024, in stable releases too.

use std::time::{Duration, Instant};

use evener_core::{Direction, Mode};
use openssl::cipher::Cipher as Algorithm;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::lib_ctx::LibCtx;
use openssl::provider::Provider;

use super::case::{Case, Done, Prepared, STRIDE};
use super::sys::{Gcm, InPlace};

/// The linked OpenSSL, in its own library context.
pub(super) struct Library {
    // Dropped in this order: a provider belongs to its context.
    _providers: Vec<Provider>,
    context: LibCtx,
}

impl Library {
    /// Loads the default provider and, if available, the legacy provider, for Blowfish.
    pub(super) fn load() -> Result<Library, ErrorStack> {
        let context = LibCtx::new()?;
        let mut providers = vec![Provider::load(Some(&context), "default")?];
        providers.extend(Provider::load(Some(&context), "legacy").ok());
        Ok(Library { _providers: providers, context })
    }

    /// Prepares a case on the calling thread.
    pub(super) fn prepare(&self, case: &Case) -> Result<Stream, ErrorStack> {
        let &Case { cipher, direction, ref key, .. } = case;
        let algorithm = Algorithm::fetch(Some(&self.context), cipher.name(), None)?;
        if cipher.mode() == Mode::Gcm {
            let gcm = Gcm::new(&algorithm, direction, key, case.iv, case.text())?;
            return Ok(Stream::new(Text::Gcm(gcm)));
        }
        let (key, iv) = (key.bytes(), case.iv.bytes());
        let mut context = CipherCtx::new()?;
        match direction {
            Direction::Encrypt => context.encrypt_init(Some(&algorithm), Some(key), Some(iv))?,
            Direction::Decrypt => context.decrypt_init(Some(&algorithm), Some(key), Some(iv))?,
        }
        Ok(Stream::new(Text::InPlace(InPlace::new(context, direction, case.text()))))
    }
}

/// OpenSSL prepared for one case.
pub(super) struct Stream {
    text: Text,
    /// Number of messages between two readings of the clock.
    stride: u64,
}

enum Text {
    InPlace(InPlace),
    Gcm(Gcm),
}

impl Stream {
    fn new(text: Text) -> Stream {
        Stream { text, stride: 1 }
    }

    fn repeat(&mut self, times: u64) -> Result<(), ErrorStack> {
        match &mut self.text {
            Text::InPlace(in_place) => in_place.update(times),
            Text::Gcm(gcm) => gcm.messages(times),
        }
    }

    fn bytes(&self) -> usize {
        match &self.text {
            Text::InPlace(in_place) => in_place.length(),
            Text::Gcm(gcm) => gcm.length(),
        }
    }
}

impl Prepared for Stream {
    fn work(&mut self, time: Duration) -> Result<Done, String> {
        let mut messages = 0;
        let start = Instant::now();
        let mut elapsed = Duration::ZERO;
        while elapsed < time {
            self.repeat(self.stride).map_err(|error| error.to_string())?;
            messages += self.stride;
            let before = std::mem::replace(&mut elapsed, start.elapsed());
            if elapsed - before < STRIDE {
                self.stride *= 2;
            }
        }
        Ok(Done { bytes: messages as f64 * self.bytes() as f64, time: elapsed })
    }
}

#[cfg(test)]
mod tests {
    use evener_core::{Cipher, Job, Outcome, SessionRequest};

    use super::*;

    #[test]
    fn it_encrypts_what_the_engine_encrypts() {
        let library = Library::load().unwrap();
        let engine = crate::find("openssl").unwrap();
        for cipher in [Cipher::Aes256Cbc, Cipher::BfCbc, Cipher::Aes128Ctr, Cipher::Aes128Xts] {
            let direction = Direction::Encrypt;
            if engine.offer(cipher, direction).is_none() {
                evener_core::skipped!("the linked OpenSSL has no {cipher}");
                continue;
            }
            let case = Case::new(cipher, direction, 64).unwrap();
            let Text::InPlace(mut stream) = library.prepare(&case).unwrap().text else {
                panic!("{cipher} is not processed in place")
            };
            let input = stream.text().to_vec();
            stream.update(1).unwrap();
            let request = SessionRequest { cipher, direction, key: Some(&case.key) };
            let mut output = [0; 64];
            let mut jobs = [Job::new(case.iv, &input, &mut output)];
            engine.open(&request).unwrap().process(&mut jobs).unwrap();
            assert!(matches!(jobs[0].outcome, Outcome::Done { .. }));
            assert_eq!(stream.text(), output, "{cipher}");
        }
    }

    #[test]
    fn every_cipher_can_go_on_and_on_both_ways() {
        let library = Library::load().unwrap();
        let engine = crate::find("openssl").unwrap();
        for &cipher in Cipher::ALL {
            for direction in [Direction::Encrypt, Direction::Decrypt] {
                if engine.offer(cipher, direction).is_none() {
                    evener_core::skipped!("the linked OpenSSL has no {cipher}");
                    continue;
                }
                let case = Case::new(cipher, direction, 64).unwrap();
                let mut stream = library.prepare(&case).unwrap();
                assert_eq!(stream.bytes(), 64);
                stream.repeat(1000).unwrap_or_else(|error| panic!("{direction} {cipher}: {error}"));
            }
        }
    }
}
