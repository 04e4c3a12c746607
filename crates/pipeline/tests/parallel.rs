//! One message on several threads, with engines that fail on the way.

use std::num::NonZeroUsize;
use std::sync::Arc;
use std::sync::atomic::{AtomicUsize, Ordering};

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, InPlaceJob, Iv, Job, Offer, Outcome,
    Session, SessionRequest,
};
use evener_pipeline::Pool;
use evener_pipeline::parallel::{process, process_batch, process_in_place};

/// Inverts every byte. Its sessions fail after some jobs, counted over all of them.
struct Inverter {
    description: Description,
    jobs_left: Arc<AtomicUsize>,
    /// True if it fails only once.
    recovers: bool,
    holders: Option<usize>,
    opened: AtomicUsize,
}

struct InverterSession {
    jobs_left: Arc<AtomicUsize>,
    recovers: bool,
}

fn inverter(jobs: usize, recovers: bool) -> Inverter {
    Inverter {
        description: Description::cpu("inverter"),
        jobs_left: Arc::new(AtomicUsize::new(jobs)),
        recovers,
        holders: None,
        opened: AtomicUsize::new(0),
    }
}

impl Engine for Inverter {
    fn description(&self) -> &Description {
        &self.description
    }

    fn offer(&self, _: Cipher, _: Direction) -> Option<Offer> {
        Some(Offer::new(1).holders(self.holders))
    }

    fn open(&self, _: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        self.opened.fetch_add(1, Ordering::SeqCst);
        let (jobs_left, recovers) = (self.jobs_left.clone(), self.recovers);
        Ok(Box::new(InverterSession { jobs_left, recovers }))
    }
}

impl Session for InverterSession {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch {
            let take = |left: usize| left.checked_sub(1);
            if self.jobs_left.fetch_update(Ordering::SeqCst, Ordering::SeqCst, take).is_err() {
                if self.recovers {
                    self.jobs_left.store(usize::MAX, Ordering::SeqCst);
                }
                return Err(EngineError::failed("gone"));
            }
            for (input, output) in job.input.iter().zip(&mut *job.output) {
                *output = !input;
            }
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }
}

const LENGTH: usize = (2 << 20) + 48;
const REQUEST: SessionRequest<'static> =
    SessionRequest { cipher: Cipher::Aes128Ecb, direction: Direction::Encrypt, key: None };

fn pool() -> Pool {
    Pool::new(NonZeroUsize::new(4).unwrap())
}

#[test]
fn a_failed_portion_is_done_by_another_session() {
    for jobs in [1, 2, 7, 20] {
        let (input, mut output) = (vec![0x0F; LENGTH], vec![0; LENGTH]);
        let mut job = Job::new(Iv::NONE, &input, &mut output);
        process(&pool(), &inverter(jobs, true), &REQUEST, &mut job).unwrap();
        assert_eq!(job.outcome, Outcome::Done { written: LENGTH });
        assert!(output.iter().all(|&byte| byte == 0xF0), "{jobs}");

        let mut data = vec![0x0F; LENGTH];
        let mut job = InPlaceJob::new(REQUEST.cipher, REQUEST.direction, Iv::NONE, &mut data);
        process_in_place(&pool(), &inverter(jobs, true), &REQUEST, &mut job).unwrap();
        assert_eq!((job.outcome, job.done), (Outcome::Done { written: LENGTH }, LENGTH));
        assert!(data.iter().all(|&byte| byte == 0xF0), "{jobs}");
    }
}

#[test]
fn when_every_session_fails_it_is_said() {
    for jobs in [0, 3, 20] {
        let (input, mut output) = (vec![0x0F; LENGTH], vec![0; LENGTH]);
        let mut job = Job::new(Iv::NONE, &input, &mut output);
        assert!(process(&pool(), &inverter(jobs, false), &REQUEST, &mut job).is_err());
        assert_eq!(job.outcome, Outcome::Pending);

        let mut data = vec![0x0F; LENGTH];
        let mut job = InPlaceJob::new(REQUEST.cipher, REQUEST.direction, Iv::NONE, &mut data);
        assert!(process_in_place(&pool(), &inverter(jobs, false), &REQUEST, &mut job).is_err());
        assert!(matches!(job.outcome, Outcome::Rejected(_)));

        let mut outputs = vec![vec![0; 100_000]; 30];
        let mut batch: Vec<_> = outputs
            .iter_mut()
            .map(|output| Job::new(Iv::NONE, &input[..100_000], output))
            .collect();
        assert!(
            process_batch(&pool(), &inverter(jobs, false), &REQUEST, &mut batch, &|| false)
                .is_err()
        );
        let done = batch.iter().filter(|job| job.outcome != Outcome::Pending).count();
        assert_eq!(done, jobs);
    }
}

#[test]
fn an_engine_with_room_for_one_is_asked_for_one_session() {
    let engine = Inverter { holders: Some(1), ..inverter(usize::MAX, false) };
    let (input, mut output) = (vec![1; LENGTH], vec![0; LENGTH]);
    let mut job = Job::new(Iv::NONE, &input, &mut output);
    process(&pool(), &engine, &REQUEST, &mut job).unwrap();
    assert_eq!(engine.opened.into_inner(), 1);
}
