//! The engine with which the guard compares: AES in CTR on the CPU, by what does GCM there.

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Key, Kind, Mode, Offer, Outcome,
    Session, SessionRequest,
};
use evener_lanes::Kernel;
use evener_lanes::stream::Gcm;

use super::route::BLOCK;

pub(super) struct Reference {
    description: Description,
    kernel: Kernel,
}

impl Reference {
    pub(super) fn new(kernel: Kernel) -> Reference {
        let detail = kernel.title().to_owned();
        let description = Description { name: NAME.to_owned(), kind: Kind::Cpu, detail };
        Reference { description, kernel }
    }
}

impl Engine for Reference {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
        let is_offered = cipher.mode() == Mode::Ctr;
        is_offered.then_some(Offer { depth: 1, batch: 1, holders: None })
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        if self.offer(cipher, direction).is_none() {
            return Err(EngineError::NotOffered { engine: NAME.to_owned(), cipher, direction });
        }
        request.check_key()?;
        let gcm = key.and_then(|key| Gcm::new(self.kernel, key.bytes()));
        Ok(Box::new(ReferenceSession { cipher, direction, kernel: self.kernel, gcm }))
    }
}

struct ReferenceSession {
    cipher: Cipher,
    direction: Direction,
    kernel: Kernel,
    /// With the session's key.
    gcm: Option<Gcm>,
}

impl Session for ReferenceSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch.iter_mut().filter(|job| job.outcome == Outcome::Pending) {
            if let Err(rejection) = job.check(self.cipher, self.direction) {
                job.outcome = Outcome::Rejected(rejection);
                continue;
            }
            let own = |key: &Key| Gcm::new(self.kernel, key.bytes());
            let mut own = job.key.and_then(own);
            let Some(gcm) = own.as_mut().or(self.gcm.as_mut()) else {
                return Err(EngineError::NoKey { engine: NAME.to_owned() });
            };
            let mut counter = [0; BLOCK];
            counter.copy_from_slice(job.iv.bytes());
            let mut counter = u128::from_be_bytes(counter);
            for (input, output) in job.input.chunks(BLOCK).zip(job.output.chunks_mut(BLOCK)) {
                let pad = gcm.pad(counter.to_be_bytes());
                for ((output, input), pad) in output.iter_mut().zip(input).zip(pad) {
                    *output = input ^ pad;
                }
                counter = counter.wrapping_add(1);
            }
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }
}

const NAME: &str = "processor";

#[cfg(test)]
mod tests {
    use evener_core::Iv;

    use super::*;

    /// NIST SP 800-38A, F.5.1, of which the last block is cut.
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
}
