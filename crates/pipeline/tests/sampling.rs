//! The probability of finding an engine that is wrong now and then.
//!
//! `cargo test -p evener-pipeline --test sampling -- --ignored --nocapture` prints the table of
//! `docs/evidence/reliability.md`.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, Iv, Job, Key, Outcome, SessionRequest, Verification};
use evener_engines::faulty::{Fault, Faulty};
use evener_engines::{Watch, guard};

/// One setting of the experiment.
struct Trial {
    /// One job in this many is wrong.
    rate: u32,
    /// On average, one job in this many is verified.
    every: u64,
    /// Jobs that make a file, of which one asks to be verified; 0 for no files.
    file: usize,
}

/// The outcomes of the runs of a trial.
#[derive(Debug, Default)]
struct Tally {
    /// All results that were handed on are right, and the engine was not found out.
    right: u32,
    /// The engine was found out before a wrong result was handed on.
    prevented: u32,
    /// A wrong result was handed on, and the engine was found out: the run is no success.
    found: u32,
    /// A wrong result was handed on unnoticed.
    silent: u32,
}

impl Trial {
    fn run(&self, runs: u32, jobs: usize) -> Tally {
        let openssl = evener_engines::find("openssl").unwrap();
        let key = Key::new(&[5; 16]).unwrap();
        let (iv, input) = (Iv::new(&[1; 16]).unwrap(), [7; 16]);
        let right = alone(&*openssl, &key, iv, &input);
        let known_answers = 4;
        let mut tally = Tally::default();
        for _ in 0..runs {
            let faulty =
                Faulty::new(openssl.clone(), Fault::Rare(1_000_000 / self.rate), known_answers);
            let watch = Watch { verify_every: Some(self.every), deadline: None, retreats: false };
            let engine = guard(faulty as Arc<dyn Engine>, openssl.clone(), watch);
            let mut session = engine.open(&request(&key)).unwrap();
            let (mut left, mut is_wrong) = (jobs, false);
            while left > 0 {
                let batch = if self.file == 0 { 16 } else { self.file }.min(left);
                let mut outputs = vec![[0; 16]; batch];
                let mut list: Vec<_> =
                    outputs.iter_mut().map(|output| Job::new(iv, &input, output)).collect();
                if self.file > 0 {
                    // Which one makes no difference to an engine that is wrong at random.
                    list[left % batch].verification = Verification::Wanted;
                }
                if session.process(&mut list).is_err() {
                    break;
                }
                is_wrong |= list.iter().any(|job| *job.output != right);
                left -= batch;
            }
            drop(session);
            match (is_wrong, engine.account().unwrap().fault.is_some()) {
                (false, false) => tally.right += 1,
                (false, true) => tally.prevented += 1,
                (true, true) => tally.found += 1,
                (true, false) => tally.silent += 1,
            }
        }
        tally
    }

    /// The chance that a wrong result is handed on unnoticed.
    fn expected(&self, jobs: usize) -> f64 {
        let wrong = 1.0 / f64::from(self.rate);
        // The session's first and last job, and one of each file.
        let asked = if self.file == 0 { 2 } else { jobs.div_ceil(self.file) + 1 }.min(jobs) as f64;
        let drawn = jobs as f64 - asked;
        let unseen = (1.0 - wrong).powf(asked) * (1.0 - wrong / self.every as f64).powf(drawn);
        (unseen - (1.0 - wrong).powf(jobs as f64)).max(0.0)
    }
}

fn request(key: &Key) -> SessionRequest<'_> {
    let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
    SessionRequest { cipher, direction, key: Some(key) }
}

fn alone(engine: &dyn Engine, key: &Key, iv: Iv, input: &[u8; 16]) -> [u8; 16] {
    let mut output = [0; 16];
    let mut batch = [Job::new(iv, input, &mut output)];
    engine.open(&request(key)).unwrap().process(&mut batch).unwrap();
    assert_eq!(batch[0].outcome, Outcome::Done { written: 16 });
    output
}

/// Prints a table of the trials, with this many runs and jobs each. A trial that is off by more
/// than chance allows fails.
fn table(trials: &[Trial], runs: u32, jobs: usize) {
    println!("{runs} runs of {jobs} jobs each\n");
    println!(
        "| one job wrong in | verified by lot | jobs of a file | right | stopped in time | found | not found | expected not found |"
    );
    println!("|---|---|---|---|---|---|---|---|");
    for trial in trials {
        let tally = trial.run(runs, jobs);
        let expected = trial.expected(jobs) * f64::from(runs);
        let file = if trial.file == 0 { "no files".to_owned() } else { trial.file.to_string() };
        let Tally { right, prevented, found, silent } = tally;
        println!(
            "| {} | 1 in {} | {file} | {right} | {prevented} | {found} | {silent} | {expected:.1} |",
            trial.rate, trial.every
        );
        // Six standard deviations, and some for small numbers.
        let off = (f64::from(silent) - expected).abs();
        assert!(off <= 6.0 * expected.sqrt() + 6.0, "{silent} against {expected}");
        assert!(trial.every > 1 && trial.file != 1 || silent == 0);
    }
}

const RATES: [u32; 3] = [100, 1_000, 10_000];

fn trials() -> Vec<Trial> {
    let settings = [(1_000, 0), (100, 0), (10, 0), (1, 0), (1_000, 64), (1_000, 4), (1_000, 1)];
    let with = |rate| settings.map(|(every, file)| Trial { rate, every, file });
    RATES.into_iter().flat_map(with).collect()
}

#[test]
fn as_many_wrong_engines_are_found_as_should_be() {
    table(&trials(), 60, 400);
}

#[test]
#[ignore = "takes some minutes"]
fn the_documents_table() {
    table(&trials(), 1_000, 2_000);
}
