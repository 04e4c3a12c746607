//! intel-ipsec-mb, if it is installed.

mod sys;

use std::time::{Duration, Instant};

use evener_core::{Direction, Mode, Padding};

use super::load::Load;
use crate::LabError;
use sys::{Keys, Manager, Task};

/// The interface for submitting messages.
#[derive(Clone, Copy, PartialEq, Eq)]
pub(super) enum Interface {
    /// `IMB_GET_NEXT_JOB`, `IMB_SUBMIT_JOB`, and `IMB_FLUSH_JOB` at the end.
    Job,
    /// `IMB_SUBMIT_CIPHER_BURST`, 128 at a time.
    Burst,
}

/// A manager of the library, with a key.
pub(super) struct Ipsec {
    manager: Manager,
    keys: Keys,
    interface: Interface,
}

impl Ipsec {
    pub(super) fn new(load: &Load, interface: Interface) -> Result<Ipsec, LabError> {
        let unavailable = |reason: &str| Err(LabError::Unavailable(reason.to_owned()));
        if load.padding == Padding::Pkcs7 {
            return unavailable("ipsec-mb does not pad, and these messages need it");
        }
        match load.cipher.mode() {
            Mode::Cbc | Mode::Ctr => {}
            Mode::Gcm if interface == Interface::Job => {}
            _ => return unavailable("this interface of ipsec-mb does not have the cipher"),
        }
        let manager = Manager::new().map_err(LabError::Unavailable)?;
        let keys = manager.expand(load.cipher, load.key.bytes());
        Ok(Ipsec { manager, keys, interface })
    }

    /// Processes all messages.
    pub(super) fn run(&mut self, load: &mut Load) -> Result<Duration, LabError> {
        let (cipher, direction, iv) = (load.cipher, load.direction, load.iv);
        let mut messages: Vec<_> = load.messages().collect();
        let count = messages.len();
        let mut tags = vec![[0; 16]; if cipher.is_authenticated() { count } else { 0 }];
        let task = Task { cipher, direction, iv: iv.bytes(), keys: &self.keys };
        let (done, time) = match self.interface {
            Interface::Job => {
                let start = Instant::now();
                let done = self.manager.run_jobs(&task, &mut messages, &mut tags);
                (done, start.elapsed())
            }
            Interface::Burst => {
                let mut jobs = task.jobs(&mut messages);
                let start = Instant::now();
                let done = self.manager.run_bursts(&task, &mut jobs);
                (done, start.elapsed())
            }
        };
        let genuine = direction == Direction::Encrypt
            || tags.iter().zip(&messages).all(|(tag, message)| message.input.ends_with(tag));
        if done != count || !genuine {
            let reason = "ipsec-mb did not process all messages";
            return Err(LabError::Unavailable(reason.to_owned()));
        }
        Ok(time)
    }
}
