//! The engine with which the guard compares results: AES in CTR and CBC on the CPU, computed by its
//! code for GCM and CBC.

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Key, Mode, Offer, Outcome, Session,
    SessionRequest,
};
use evener_lanes::Kernel;
use evener_lanes::stream::{Chain, Confidential, Gcm, Text};

use super::message::Work;
use super::route::BLOCK;

pub(super) struct Reference {
    description: Description,
    kernel: Kernel,
}

impl Reference {
    pub(super) fn new(kernel: Kernel) -> Reference {
        let detail = kernel.title().to_owned();
        let description = Description::cpu(NAME).detail(detail);
        Reference { description, kernel }
    }
}

impl Engine for Reference {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        let is_it = |work: &Work| work.cipher(cipher.key_length()) == Some(cipher);
        let is_offered = Work::ALL.iter().any(is_it);
        is_offered.then_some(Offer::new(1))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        if self.offer(cipher, direction).is_none() {
            return Err(EngineError::not_offered(cipher, direction).of(NAME));
        }
        request.check_key()?;
        let of_session = match key {
            Some(key) => Some(Keyed::new(self.kernel, cipher, direction, key)?),
            None => None,
        };
        Ok(Box::new(ReferenceSession { cipher, direction, kernel: self.kernel, of_session }))
    }
}

struct ReferenceSession {
    cipher: Cipher,
    direction: Direction,
    kernel: Kernel,
    /// The mode with the session's key, if the session has one.
    of_session: Option<Keyed>,
}

impl Session for ReferenceSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
            if let Err(rejection) = job.check(self.cipher, self.direction) {
                job.outcome = Outcome::Rejected(rejection);
                continue;
            }
            let mut of_job = match job.key {
                Some(key) => Some(Keyed::new(self.kernel, self.cipher, self.direction, key)?),
                None => None,
            };
            let Some(keyed) = of_job.as_mut().or(self.of_session.as_mut()) else {
                return Err(EngineError::no_key().of(NAME));
            };
            keyed.transform(job)?;
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }
}

/// A mode with a key.
enum Keyed {
    Ctr(Box<Gcm>),
    /// Always contains a key.
    Cbc(Box<Option<Confidential>>),
}

impl Keyed {
    fn new(
        kernel: Kernel,
        cipher: Cipher,
        direction: Direction,
        key: &Key,
    ) -> Result<Keyed, EngineError> {
        let key = key.bytes();
        match cipher.mode() {
            Mode::Cbc => {
                let mut place = Box::new(None);
                Confidential::put(&mut place, kernel, Mode::Cbc, direction, key)
                    .map(|()| Keyed::Cbc(place))
            }
            _ => Gcm::new(kernel, key).map(|gcm| Keyed::Ctr(Box::new(gcm))),
        }
        .ok_or_else(|| failed("it can't use this key"))
    }

    /// Computes a job that has been checked.
    fn transform(&mut self, job: &mut Job<'_>) -> Result<(), EngineError> {
        let iv = *job.iv.bytes().first_chunk().ok_or_else(|| failed("there is no IV"))?;
        match self {
            Keyed::Ctr(gcm) => {
                let mut counter = u128::from_be_bytes(iv);
                for (input, output) in job.input.chunks(BLOCK).zip(job.output.chunks_mut(BLOCK)) {
                    let pad = gcm.pad(counter.to_be_bytes());
                    for ((output, input), pad) in output.iter_mut().zip(input).zip(pad) {
                        *output = input ^ pad;
                    }
                    counter = counter.wrapping_add(1);
                }
                Ok(())
            }
            Keyed::Cbc(cipher) => {
                let mut chain = Chain::new(iv);
                let text = Text::Apart(job.input, job.output);
                let done = cipher.as_ref().as_ref().and_then(|it| it.transform(&mut chain, text));
                done.ok_or_else(|| failed("these are no blocks"))
            }
        }
    }
}

fn failed(reason: &str) -> EngineError {
    EngineError::failed(reason).of(NAME)
}

const NAME: &str = "processor";

#[cfg(test)]
mod tests {
    use evener_core::Iv;

    use super::*;

    /// NIST SP 800-38A, F.5.1, with a shortened last block.
    #[test]
    fn it_gives_the_standards_example() {
        let key = Key::new(&0x2b7e1516_28aed2a6_abf71588_09cf4f3c_u128.to_be_bytes()).unwrap();
        let iv = Iv::new(&0xf0f1f2f3_f4f5f6f7_f8f9fafb_fcfdfeff_u128.to_be_bytes()).unwrap();
        let input = [
            0x6bc1bee2_2e409f96_e93d7e11_7393172a_u128.to_be_bytes(),
            0xae2d8a57_1e03ac9c_9eb76fac_45af8e51_u128.to_be_bytes(),
        ];
        let expected = [
            0x874d6191_b620e326_1bef6864_990db6ce_u128.to_be_bytes(),
            0x9806f66b_7970fdff_8617187b_b9fffdff_u128.to_be_bytes(),
        ];
        let engine = Reference::new(Kernel::portable());
        let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
        for (of_session, of_job) in [(Some(&key), None), (None, Some(&key))] {
            let mut session =
                engine.open(&SessionRequest { cipher, direction, key: of_session }).unwrap();
            let mut output = [0; 30];
            let mut batch =
                [Job { key: of_job, ..Job::new(iv, &input.as_flattened()[..30], &mut output) }];
            session.process(&mut batch).unwrap();
            assert_eq!(batch[0].outcome, Outcome::Done { written: 30 });
            assert_eq!(output, expected.as_flattened()[..30]);
        }
    }
    /// NIST SP 800-38A, F.2.1 and F.2.2.
    #[test]
    fn it_gives_the_standards_example_of_cbc() {
        let key = Key::new(&0x2b7e1516_28aed2a6_abf71588_09cf4f3c_u128.to_be_bytes()).unwrap();
        let iv = Iv::new(&0x00010203_04050607_08090a0b_0c0d0e0f_u128.to_be_bytes()).unwrap();
        let plain = [
            0x6bc1bee2_2e409f96_e93d7e11_7393172a_u128.to_be_bytes(),
            0xae2d8a57_1e03ac9c_9eb76fac_45af8e51_u128.to_be_bytes(),
        ];
        let sealed = [
            0x7649abac_8119b246_cee98e9b_12e9197d_u128.to_be_bytes(),
            0x5086cb9b_507219ee_95db113a_917678b2_u128.to_be_bytes(),
        ];
        let engine = Reference::new(Kernel::portable());
        let cipher = Cipher::Aes128Cbc;
        for (direction, from, to) in
            [(Direction::Encrypt, plain, sealed), (Direction::Decrypt, sealed, plain)]
        {
            let request = SessionRequest { cipher, direction, key: Some(&key) };
            let mut output = [0; 32];
            let mut batch = [Job::new(iv, from.as_flattened(), &mut output)];
            engine.open(&request).unwrap().process(&mut batch).unwrap();
            assert_eq!(batch[0].outcome, Outcome::Done { written: 32 });
            assert_eq!(output, to.as_flattened());
        }
        for other in [Cipher::Camellia128Cbc, Cipher::Aes128Gcm] {
            assert!(engine.offer(other, Direction::Encrypt).is_none());
        }
    }
}
