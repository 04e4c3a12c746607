//! The provider as a whole: what OpenSSL knows of it, and what it knows of OpenSSL.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Mode};
use evener_lanes::{Kernel, available};

#[allow(unsafe_code)]
mod sys;

pub(crate) use sys::Core;

use crate::cipher::{Context, confidential};
use crate::config::{Counting, warn};
use crate::counters;

/// A provider that is loaded.
pub(crate) struct Provider {
    core: Arc<Core>,
    /// What does GCM, and so all, on this CPU; without it there are no ciphers, and OpenSSL's own
    /// serve.
    kernel: Option<Kernel>,
}

impl Provider {
    /// Reads the configuration.
    fn new(core: Core) -> Provider {
        match Counting::parse(core.setting(crate::config::COUNTERS)) {
            Ok(counting) => counters::configure(counting),
            Err(trouble) => warn(&trouble),
        }
        let does_gcm = |kernel: &Kernel| {
            [Direction::Encrypt, Direction::Decrypt]
                .into_iter()
                .all(|direction| kernel.does(Cipher::Aes128Gcm, direction))
        };
        Provider { core: Arc::new(core), kernel: available().into_iter().find(does_gcm) }
    }

    /// A context of GCM for keys of so many bytes.
    pub(crate) fn context(&self, key_length: usize) -> Option<Context> {
        Some(Context::new(Arc::clone(&self.core), self.kernel?, key_length))
    }

    /// A context of ECB, CBC or CTR for keys of so many bytes.
    pub(crate) fn confidential(
        &self,
        mode: Mode,
        key_length: usize,
    ) -> Option<confidential::Context> {
        let core = Arc::clone(&self.core);
        Some(confidential::Context::new(core, self.kernel?, mode, key_length))
    }
}
