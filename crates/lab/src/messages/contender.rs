//! Those that process the messages.

use std::time::{Duration, Instant};

use clap::ValueEnum;
use evener_core::{Outcome, Session, SessionRequest};
use serde::Serialize;

use super::ipsec::{Interface, Ipsec};
use super::load::{Load, Message};
use crate::LabError;

/// Who processes the messages.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Serialize, ValueEnum)]
#[serde(rename_all = "kebab-case")]
#[non_exhaustive]
pub enum Contender {
    /// Evener's engine of this name.
    Lanes,
    /// OpenSSL's EVP with a reused context: Evener's engine of this name.
    Openssl,
    /// intel-ipsec-mb, a job at a time.
    IpsecMbJob,
    /// intel-ipsec-mb, 128 jobs at a time.
    IpsecMbBurst,
    /// A copy of the input, as the floor.
    Memcpy,
}

impl Contender {
    /// The name, as in the report.
    pub fn name(self) -> &'static str {
        match self {
            Contender::Lanes => "lanes",
            Contender::Openssl => "openssl",
            Contender::IpsecMbJob => "ipsec-mb-job",
            Contender::IpsecMbBurst => "ipsec-mb-burst",
            Contender::Memcpy => "memcpy",
        }
    }

    /// Gets ready to process a load on the calling thread.
    ///
    /// # Errors
    /// [`LabError::Unavailable`] says why it can't take part.
    pub(super) fn prepare(self, load: &Load) -> Result<Prepared, LabError> {
        let unavailable = |reason: String| LabError::Unavailable(reason);
        Ok(match self {
            Contender::Lanes | Contender::Openssl => {
                let &Load { cipher, direction, ref key, .. } = load;
                let request = SessionRequest { cipher, direction, key: Some(key) };
                let engine = evener_engines::find(self.name());
                let session = engine.and_then(|engine| engine.open(&request));
                Prepared::Session(session.map_err(|error| unavailable(error.to_string()))?)
            }
            Contender::IpsecMbJob => Prepared::Ipsec(Ipsec::new(load, Interface::Job)?),
            Contender::IpsecMbBurst => Prepared::Ipsec(Ipsec::new(load, Interface::Burst)?),
            Contender::Memcpy => Prepared::Copy,
        })
    }
}

/// A contender with what it needs for one load.
pub(super) enum Prepared {
    Session(Box<dyn Session>),
    Ipsec(Ipsec),
    Copy,
}

impl Prepared {
    /// Processes all messages once, and says how long it took.
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
