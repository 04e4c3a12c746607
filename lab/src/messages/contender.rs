//! The contenders that process the messages.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use evener_core::{Outcome, Session, SessionRequest};
use serde::Serialize;

use super::ipsec::{Interface, Ipsec};
use super::load::{Load, Message};
use crate::LabError;

/// A contender.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Contender {
    /// Evener's engine of this name.
    Lanes,
    /// The same, with the messages as records.
    LanesRecords,
    /// OpenSSL's EVP with a reused context: Evener's engine of this name.
    Openssl,
    /// intel-ipsec-mb, a job at a time.
    IpsecMbJob,
    /// intel-ipsec-mb, 128 jobs at a time.
    IpsecMbBurst,
    /// A copy of the input, as the lower bound.
    Memcpy,
}

impl Contender {
    /// The name, as in the report.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Lanes => "lanes",
            Contender::LanesRecords => "lanes-records",
            Contender::Openssl => "openssl",
            Contender::IpsecMbJob => "ipsec-mb-job",
            Contender::IpsecMbBurst => "ipsec-mb-burst",
            Contender::Memcpy => "memcpy",
        }
    }

    /// Returns whether the contender loads third-party code into the process.
    pub(super) fn is_foreign(self) -> bool {
        matches!(self, Contender::IpsecMbJob | Contender::IpsecMbBurst)
    }

    /// Prepares to process a load on the calling thread.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] with the reason why the contender can't take part.
    pub(super) fn prepare(self, load: &mut Load) -> Result<Prepared, LabError> {
        let unavailable = |reason: String| LabError::Unavailable(reason);
        Ok(match self {
            Contender::Lanes | Contender::Openssl => {
                Prepared::Session(open(self.name(), load).map_err(unavailable)?)
            }
            Contender::LanesRecords => {
                let session = open(Contender::Lanes.name(), load).map_err(unavailable)?;
                let ivs = load.ivs();
                load.records(&ivs).map_err(|rejection| unavailable(rejection.to_string()))?;
                Prepared::Records(session, ivs)
            }
            Contender::IpsecMbJob => Prepared::Ipsec(Ipsec::new(load, Interface::Job)?),
            Contender::IpsecMbBurst => Prepared::Ipsec(Ipsec::new(load, Interface::Burst)?),
            Contender::Memcpy => Prepared::Copy,
        })
    }
}

fn open(engine: &str, load: &Load) -> Result<Box<dyn Session>, String> {
    let &Load { cipher, direction, ref key, .. } = load;
    let request = SessionRequest { cipher, direction, key: Some(key) };
    let session = crate::find(engine).and_then(|engine| engine.open(&request));
    session.map_err(|error| error.to_string())
}

/// A contender prepared for one load.
pub(super) enum Prepared {
    Session(Box<dyn Session>),
    /// With an IV for each record.
    Records(Box<dyn Session>, Vec<u8>),
    Ipsec(Ipsec),
    Copy,
}

impl Prepared {
    /// Processes all messages once, and returns the time.
    ///
    /// # Errors
    /// When a message is not processed.
    pub(super) fn run(&mut self, load: &mut Load) -> Result<Duration, LabError> {
        match self {
            Prepared::Session(session) => {
                let mut jobs = load.jobs();
                let start = Instant::now();
                let result = session.process(&mut jobs);
                let time = start.elapsed();
                let done = jobs.iter().all(|job| matches!(job.outcome, Outcome::Done { .. }));
                match result {
                    Ok(()) if done => Ok(time),
                    Ok(()) => Err(LabError::Unavailable("it rejected a message".to_owned())),
                    Err(error) => Err(LabError::Unavailable(error.to_string())),
                }
            }
            Prepared::Records(session, ivs) => {
                let unavailable = |what: String| LabError::Unavailable(what);
                let mut records =
                    load.records(ivs).map_err(|rejection| unavailable(rejection.to_string()))?;
                let start = Instant::now();
                let result = session.process_records(&mut records);
                let time = start.elapsed();
                result.map_err(|error| unavailable(error.to_string()))?;
                match records.done() == records.layout().count && records.rejected().is_empty() {
                    true => Ok(time),
                    false => Err(unavailable("it rejected a message".to_owned())),
                }
            }
            Prepared::Ipsec(ipsec) => ipsec.run(load),
            Prepared::Copy => {
                let mut messages: Vec<_> = load.messages().collect();
                let start = Instant::now();
                for Message { input, output } in &mut messages {
                    let length = input.len().min(output.len());
                    output[..length].copy_from_slice(&input[..length]);
                }
                Ok(start.elapsed())
            }
        }
    }
}
