use evener_core::{Iv, Job, Key, Outcome, Padding};

use super::*;
use crate::conformance;

fn engine(change: impl Fn(Cipher, Direction) -> Crossover) -> CpuEngine {
    let mut crossovers = Crossovers::default();
    for &cipher in Cipher::ALL {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            crossovers.insert(cipher, direction, change(cipher, direction));
        }
    }
    CpuEngine::new(openssl::reference().unwrap(), find_lanes("").ok(), crossovers)
}

#[test]
fn it_conforms_where_batches_go_to_both() {
    let in_between = Crossover { least_messages: 3, most_bytes: 100 };
    conformance::run(&engine(|_, _| in_between)).assert_passed();
}

#[test]
fn it_offers_what_openssl_does() {
    let openssl = crate::registry::find("openssl").unwrap();
    let cpu = crate::registry::find("cpu").unwrap();
    for &cipher in Cipher::ALL {
        for direction in [Direction::Encrypt, Direction::Decrypt] {
            let offers = |engine: &dyn Engine| engine.offer(cipher, direction).is_some();
            assert_eq!(offers(&*cpu), offers(&*openssl), "{cipher} {direction}");
        }
    }
}

#[test]
fn each_batch_goes_where_the_crossover_says() {
    let crossover = Crossover { least_messages: 2, most_bytes: 64 };
    let key = Key::new(&[7; 16]).unwrap();
    let request = SessionRequest {
        cipher: Cipher::Aes128Cbc,
        direction: Direction::Encrypt,
        key: Some(&key),
    };
    // The session of `lanes` always fails here, so a batch that fails went to `lanes`.
    let openssl = crate::registry::find("openssl").unwrap().open(&request).unwrap();
    let mut session = CpuSession::new(openssl, Box::new(Failing), crossover);
    for (messages, length, goes_to_lanes) in
        [(1, 16, false), (2, 16, true), (2, 64, true), (2, 80, false), (9, 48, true)]
    {
        let input = vec![1; length];
        let mut outputs = vec![vec![0; length]; messages];
        let iv = Iv::new(&[0; 16]).unwrap();
        let mut batch: Vec<_> =
            outputs.iter_mut().map(|output| Job::new(iv, &input, output)).collect();
        let result = session.process(&mut batch);
        assert_eq!(result.is_err(), goes_to_lanes, "{messages} of {length}");
        let is_done = batch.iter().all(|job| job.outcome == Outcome::Done { written: length });
        assert_eq!(is_done, !goes_to_lanes);
        assert!(batch.iter().all(|job| job.padding == Padding::None));
    }
}

struct Failing;

impl Session for Failing {
    fn process(&mut self, _: &mut [Job<'_>]) -> Result<(), EngineError> {
        Err(EngineError::failed("as it is to"))
    }
}

#[test]
fn a_calibration_is_of_every_cipher_that_both_do() {
    let Ok(lanes) = find_lanes("") else {
        evener_core::skipped!("there is no engine lanes here");
        return;
    };
    let crossovers = calibrate("").unwrap();
    let offered = Cipher::ALL.iter().flat_map(|&cipher| {
        [Direction::Encrypt, Direction::Decrypt].map(|direction| (cipher, direction))
    });
    let offered = offered.filter(|&(cipher, direction)| lanes.offer(cipher, direction).is_some());
    assert_eq!(crossovers.iter().count(), offered.count());
    assert!(crossovers.iter().all(|(_, crossover)| crossover.least_messages > 0));
}
