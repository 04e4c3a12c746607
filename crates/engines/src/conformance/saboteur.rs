//! Engines with one fault each, to prove that the suite detects it.

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Job, Key, Mode, Offer, Outcome, Rejection,
    Session, SessionRequest,
};

#[test]
fn an_engine_without_fault_passes() {
    saboteur(Fault::None, |report| assert!(report.passed(), "{report}"));
}

#[test]
fn every_fault_is_found_by_the_check_for_it() {
    let faults = [
        (Fault::OffersNothing, ""),
        (Fault::OpensAnything, "a cipher that it does not offer is refused"),
        (Fault::TakesAnyKey, "a session's key must have the cipher's length"),
        (Fault::IgnoresOwnKeys, "a session's key and jobs' own keys mix"),
        (Fault::KnowsKeysByAddress, "a key is known by its bytes, not by its address"),
        (Fault::ForgetsTheLast, "jobs of many lengths are done in batches of any size"),
        (Fault::RedoesSettledJobs, "a job that is settled already is left alone"),
        (Fault::WritesTooMuch, "outside of the output"),
        (Fault::CountsIn32Bits, "a counter carries through all of its 128 bits"),
        (Fault::IgnoresAdditionalData, "whatever is changed in an authenticated message"),
        (Fault::LeavesPlaintext, "left something in the output"),
        (Fault::AcceptsBadPadding, "malformed padding is rejected"),
        (Fault::RejectsEmptyMessages, "an empty message is done"),
    ];
    for (fault, complaint) in faults {
        saboteur(fault, |report| {
            assert!(!report.passed(), "{fault:?} was not found");
            assert!(report.to_string().contains(complaint), "{fault:?}: {report}");
        });
    }
}

fn saboteur(fault: Fault, judge: impl FnOnce(&super::Report)) {
    judge(&super::run(&Saboteur { inner: crate::find("openssl").unwrap(), fault }));
}

#[derive(Clone, Copy, Debug, PartialEq, Eq)]
enum Fault {
    None,
    OffersNothing,
    OpensAnything,
    TakesAnyKey,
    IgnoresOwnKeys,
    KnowsKeysByAddress,
    ForgetsTheLast,
    RedoesSettledJobs,
    WritesTooMuch,
    CountsIn32Bits,
    IgnoresAdditionalData,
    LeavesPlaintext,
    AcceptsBadPadding,
    RejectsEmptyMessages,
}

struct Saboteur {
    inner: Arc<dyn Engine>,
    fault: Fault,
}

impl Engine for Saboteur {
    fn description(&self) -> &Description {
        self.inner.description()
    }

    /// Few ciphers, to be quick.
    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        let offered = [Cipher::Aes128Cbc, Cipher::Aes128Ctr, Cipher::Aes128Gcm].contains(&cipher);
        self.inner
            .offer(cipher, direction)
            .filter(|_| offered && self.fault != Fault::OffersNothing)
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        let &SessionRequest { cipher, direction, key } = request;
        let opens = self.fault == Fault::OpensAnything || self.offer(cipher, direction).is_some();
        if !opens {
            return Err(EngineError::not_offered(cipher, direction));
        }
        let key =
            key.filter(|key| self.fault != Fault::TakesAnyKey || key.len() == cipher.key_length());
        let inner = self.inner.open(&SessionRequest { key, ..*request })?;
        let has_key = key.is_some();
        Ok(Box::new(Spoiled { inner, fault: self.fault, cipher, direction, has_key, seen: None }))
    }
}

struct Spoiled {
    inner: Box<dyn Session>,
    fault: Fault,
    cipher: Cipher,
    direction: Direction,
    has_key: bool,
    /// The first key, with its address.
    seen: Option<(usize, Key)>,
}

impl Session for Spoiled {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let last = batch.len().saturating_sub(1);
        for (index, job) in batch.iter_mut().enumerate() {
            if self.fault == Fault::RedoesSettledJobs {
                job.outcome = Outcome::Pending;
            }
            if job.outcome == Outcome::Pending
                && !(self.fault == Fault::ForgetsTheLast && index == last)
            {
                self.process_one(job)?;
            }
        }
        Ok(())
    }
}

impl Spoiled {
    fn process_one(&mut self, job: &mut Job<'_>) -> Result<(), EngineError> {
        let length = job.output_length(self.cipher, self.direction);
        let mut key = job.key.filter(|_| self.fault != Fault::IgnoresOwnKeys || !self.has_key);
        let first = match (&self.seen, job.key) {
            (Some((place, first)), Some(key)) if *place == address(key) => Some(first.clone()),
            _ => None,
        };
        if self.fault == Fault::KnowsKeysByAddress {
            key = first.as_ref().or(key);
        }
        let mut copy = vec![0xA5; job.output.len()];
        let ignores_data = self.fault == Fault::IgnoresAdditionalData;
        let aad = if ignores_data { &job.aad[..job.aad.len().min(1)] } else { job.aad };
        let mut inner =
            Job { key, aad, padding: job.padding, ..Job::new(job.iv, job.input, &mut copy) };
        self.inner.process(std::slice::from_mut(&mut inner))?;
        job.outcome = inner.outcome;
        let failed_tag = Outcome::Rejected(Rejection::Tag);
        match self.fault {
            Fault::LeavesPlaintext if job.outcome == failed_tag => copy[..length].fill(b'p'),
            Fault::WritesTooMuch if job.output.len() > length => copy[length] = 0,
            Fault::AcceptsBadPadding if job.outcome == Outcome::Rejected(Rejection::Padding) => {
                job.outcome = Outcome::Done { written: length - 1 };
            }
            Fault::CountsIn32Bits
                if self.cipher.mode() == Mode::Ctr
                    && job.check(self.cipher, self.direction).is_ok() =>
            {
                self.wrap_counter(job, &mut copy)?;
            }
            Fault::RejectsEmptyMessages if job.input.is_empty() => {
                job.outcome = Outcome::Rejected(Rejection::Malformed("nothing to do"));
            }
            _ => {}
        }
        job.output.copy_from_slice(&copy);
        self.seen = self.seen.take().or(job.key.map(|key| (address(key), key.clone())));
        Ok(())
    }

    /// Repeats the part after the wrap of the counter's low word, without the carry.
    fn wrap_counter(&mut self, job: &Job<'_>, copy: &mut [u8]) -> Result<(), EngineError> {
        let counter = u128::from_be_bytes(job.iv.bytes().try_into().unwrap_or_default());
        let blocks = (1 << 32) - (counter & 0xFFFF_FFFF);
        let start = usize::try_from(blocks * 16).unwrap_or(usize::MAX);
        if start < job.input.len() {
            let wrapped = counter & !0xFFFF_FFFF;
            let iv = evener_core::Iv::new(&wrapped.to_be_bytes()).unwrap_or(job.iv);
            let part = Job::new(iv, &job.input[start..], &mut copy[start..]);
            self.inner.process(&mut [Job { key: job.key, ..part }])?;
        }
        Ok(())
    }
}

/// The address of a key. A number, because a session with a pointer could not move between threads.
fn address(key: &Key) -> usize {
    std::ptr::from_ref(key).addr()
}
