//! The provider as a whole: what OpenSSL knows of it, and what it knows of OpenSSL.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Mode};
use evener_lanes::{Kernel, available};

#[allow(unsafe_code)]
mod sys;

use crate::cipher::{Context, confidential};
use crate::config::{Counting, Routing, warn_once};
use crate::upcalls::Core;
use crate::{counters, module};

/// A provider that is loaded.
pub(crate) struct Provider {
    core: Arc<Core>,
    /// What does all ciphers on this CPU; the portable one, which is there with a module, only those
    /// that the module is for.
    /// Without any there are no ciphers, and OpenSSL's own serve.
    kernel: Option<Kernel>,
}

impl Provider {
    /// Reads the configuration.
    fn new(core: Core) -> Provider {
        match Counting::parse(core.setting(crate::config::COUNTERS)) {
            Ok(counting) => counters::configure(counting),
            Err(trouble) => warn_once(&trouble),
        }
        let does_gcm = |kernel: &Kernel| {
            [Direction::Encrypt, Direction::Decrypt]
                .into_iter()
                .all(|direction| kernel.does(Cipher::Aes128Gcm, direction))
        };
        let mut kernel = available().into_iter().find(does_gcm);
        if let Some(routing) =
            Routing::parse(|name| core.setting(name), &mut |text| warn_once(&text))
        {
            // A record is one provider's, whatever its length: what the module leaves is done here.
            let kernel = *kernel.get_or_insert_with(Kernel::portable);
            module::configure(routing, kernel);
            evener_engines::expect_end();
        }
        Provider { core: Arc::new(core), kernel }
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
