//! The conformance suite, which every engine must pass for every cipher that it offers.
//!
//! [`run`] tests an engine with published vectors (NIST's and others from the folder `vectors`, and
//! Wycheproof's) and checks the contract of [`evener_core::Engine`]: partial batches, mixed keys,
//! malformed and forged messages, outputs that are longer than needed, unaligned buffers, chaining.
//! Without a vector, the expected result is that of the `openssl` engine, or the engine's own if
//! `openssl` lacks the cipher.
//!
//! The suite exists under the feature `conformance`, for the tests of other crates and of engines
//! elsewhere.

mod batches;
mod harness;
mod in_place;
mod lengths;
mod parcels;
mod records;
mod rejections;
mod report;
#[cfg(test)]
mod saboteur;
mod sessions;
mod vectors;
mod wycheproof;

pub use report::{Report, Row};

use std::time::Duration;

use evener_core::{Cipher, Direction, Engine};

use harness::{Subject, Verdict};
use vectors::Vector;

/// Runs the whole suite; [`Report::assert_passed`] panics if it failed.
///
/// A guard would hide failures by using the reference engine, so the engine is tested without one
/// that retreats.
pub fn run(engine: &dyn Engine) -> Report {
    let alone = crate::guard::alone(engine, Duration::MAX);
    let engine = alone.as_deref().unwrap_or(engine);
    let reference = crate::find("openssl").ok();
    let mut report = Report::new(engine.description());
    for (claim, check) in sessions::ENGINE_CHECKS {
        report.failures.extend(check(engine).err().map(|what| format!("{claim}: {what}")));
    }
    for &cipher in Cipher::ALL {
        let mut directions = vec![Direction::Encrypt, Direction::Decrypt];
        directions.retain(|&direction| engine.offer(cipher, direction).is_some());
        if directions.is_empty() {
            continue;
        }
        let vectors = [vectors::published(cipher), wycheproof::published(cipher)].concat();
        for direction in directions {
            let subject = Subject { engine, reference: reference.as_deref(), cipher, direction };
            report.rows.push(row(&subject, &vectors));
        }
    }
    report
}

fn row(subject: &Subject<'_>, vectors: &[Vector]) -> Row {
    let &Subject { cipher, direction, .. } = subject;
    let usable = vectors.iter().filter(|vector| vector.is_for(direction));
    let mut row = Row {
        cipher,
        direction,
        vectors: usable.clone().count(),
        forged: usable.filter(|vector| vector.is_forged()).count(),
        checks: 0,
        failures: vectors::run(subject, vectors),
    };
    if row.vectors == 0 {
        row.failures.push("no vector was run".to_owned());
    }
    let checks = [
        batches::CHECKS,
        in_place::CHECKS,
        lengths::CHECKS,
        parcels::CHECKS,
        records::CHECKS,
        rejections::CHECKS,
        sessions::CHECKS,
    ];
    for check in checks.into_iter().flatten().filter(|check| (check.applies)(subject)) {
        row.checks += 1;
        let verdict = (check.run)(subject);
        row.failures.extend(verdict.err().map(|what| format!("{}: {what}", check.claim)));
    }
    row
}

/// A check of the contract.
struct Check {
    /// The property that it checks.
    claim: &'static str,
    /// Returns whether the check applies to the cipher and direction.
    applies: fn(&Subject<'_>) -> bool,
    run: fn(&Subject<'_>) -> Verdict,
}

impl Check {
    const fn new(claim: &'static str, run: fn(&Subject<'_>) -> Verdict) -> Check {
        Check { claim, applies: |_| true, run }
    }

    const fn only(self, applies: fn(&Subject<'_>) -> bool) -> Check {
        Check { applies, ..self }
    }
}
