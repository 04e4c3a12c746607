//! Several requests at once, from one thread.
//!
//! Asynchronous requests are limited: a descriptor has a ring of 16 to 64, GCM has none, and data
//! must be aligned for the driver (cryptodev-linux would copy other data in a thread that can't
//! access it).

use std::{array, io};

use evener_core::parts::{Part, Parts};
use evener_core::{EngineError, Iv, Job, Key, Outcome};

use super::bounce::{PART_LENGTH, Slots, TOGETHER, collect, place};
use super::session::CryptodevSession;
use super::sys::{Data, Request};
use crate::serial::same;

impl CryptodevSession {
    /// Processes a batch. Jobs with the same key run at once, as many as the ring takes.
    ///
    /// The device does not report which of several requests failed. So after a failure these and
    /// all later jobs are processed one by one, which shows the job that fails.
    pub(super) fn process_together(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        let mut done = 0;
        while done < batch.len()
            && let Some(mut slots) = self.slots.take()
        {
            let length = group_length(&batch[done..]);
            match self.perform_group(&mut batch[done..done + length], &mut slots) {
                Ok(false) => break,
                result => {
                    self.slots = Some(slots);
                    result?;
                    done += length;
                }
            }
        }
        self.process_one_by_one(&mut batch[done..])
    }

    /// Processes jobs with the same key. Returns false after a failure, with all unsettled jobs
    /// pending.
    fn perform_group(
        &mut self,
        group: &mut [Job<'_>],
        slots: &mut Slots,
    ) -> Result<bool, EngineError> {
        let mut messages = [const { None }; TOGETHER];
        for (job, message) in group.iter_mut().zip(&mut messages) {
            if job.outcome == Outcome::Pending {
                match job.check(self.cipher, self.direction) {
                    Ok(()) => *message = Some(Parts::of(job, self.cipher, self.direction)),
                    Err(rejection) => job.outcome = Outcome::Rejected(rejection),
                }
            }
        }
        let Some(first) = group.iter().find(|job| job.outcome == Outcome::Pending) else {
            return Ok(true);
        };
        self.load_key(first)?;
        if self.perform_waves(group, &mut messages, slots).is_err() {
            let pending = group.iter_mut().filter(|job| job.outcome == Outcome::Pending);
            pending.for_each(|job| self.wipe(job));
            return Ok(false);
        }
        for (job, message) in group.iter_mut().zip(&messages) {
            job.outcome = match message.as_ref().map(|message| message.finish(job)) {
                None => continue,
                Some(Ok(written)) => Outcome::Done { written },
                Some(Err(rejection)) => {
                    self.wipe(job);
                    Outcome::Rejected(rejection)
                }
            };
        }
        Ok(true)
    }

    /// Processes the messages side by side, one part per slot at a time, until all are done.
    fn perform_waves(
        &mut self,
        group: &mut [Job<'_>],
        messages: &mut [Option<Parts>],
        slots: &mut Slots,
    ) -> io::Result<()> {
        loop {
            let mut wave = [const { None }; TOGETHER];
            let mut room = wave.iter_mut();
            let mut lengths = [0; TOGETHER];
            for ((job, message), length) in group.iter_mut().zip(&*messages).zip(&mut lengths) {
                let Some(message) = message else { continue };
                for (part, room) in message.ready(job, PART_LENGTH).zip(room.by_ref()) {
                    *length += part.output.len();
                    *room = Some(part);
                }
            }
            if lengths == [0; TOGETHER] {
                return Ok(());
            }
            self.perform_wave(&mut wave, slots)?;
            // Messages without a slot keep their position and IV.
            for ((job, message), length) in group.iter().zip(&mut *messages).zip(lengths) {
                message.iter_mut().for_each(|message| message.advance(job, length));
            }
        }
    }

    fn perform_wave(
        &mut self,
        wave: &mut [Option<Part<'_>>],
        Slots(bounces): &mut Slots,
    ) -> io::Result<()> {
        let idle = |_| Request::new(Iv::NONE, Data::InPlace(&mut []));
        let mut requests: [_; TOGETHER] = array::from_fn(idle);
        let mut count = 0;
        let parts = wave.iter_mut().flatten();
        for ((part, bounce), request) in parts.zip(&mut *bounces).zip(&mut requests) {
            let iv = part.iv;
            *request = Request::new(iv, place(part, bounce, self.alignment));
            count += 1;
        }
        self.device.transform_all(&mut requests[..count])?;
        for (part, bounce) in wave.iter_mut().flatten().zip(bounces) {
            collect(part, bounce, self.alignment);
        }
        Ok(())
    }
}

/// Number of leading jobs with the same key, up to the number that can run at once.
fn group_length(batch: &[Job<'_>]) -> usize {
    let Some(first) = batch.first() else { return 0 };
    let alike = batch.iter().take_while(|job| has_key(job, first.key));
    alike.take(TOGETHER).count()
}

fn has_key(job: &Job<'_>, key: Option<&Key>) -> bool {
    match (job.key, key) {
        (Some(one), Some(other)) => same(one.bytes(), other.bytes()),
        (one, other) => one.is_none() && other.is_none(),
    }
}
