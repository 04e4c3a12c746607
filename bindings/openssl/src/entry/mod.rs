//! The provider as a whole: OpenSSL's view of it, and its view of OpenSSL.

use std::sync::Arc;

use evener_core::{Cipher, Direction, Mode};
use evener_lanes::{Kernel, available};

#[allow(unsafe_code)]
mod sys;

use crate::cipher::{Context, confidential};
use crate::config::{Counting, Routing};
use crate::counters::warn_once;
use crate::upcalls::Core;
use crate::{counters, module};

/// A loaded provider.
pub(crate) struct Provider {
    core: Arc<Core>,
    /// The kernel that computes all ciphers on this CPU. The portable one, which serves only with a
    /// module, computes just the ciphers that the module is for. Without a kernel there are no
    /// ciphers, and OpenSSL's own serve.
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
            // A record belongs to one provider, whatever its length: the CPU computes what the
            // module leaves.
            let kernel = *kernel.get_or_insert_with(Kernel::portable);
            module::configure(routing, kernel);
            evener_engines::expect_end();
        }
        Provider { core: Arc::new(core), kernel }
    }

    /// A GCM context for keys of this many bytes.
    pub(crate) fn context(&self, key_length: usize) -> Option<Context> {
        Some(Context::new(Arc::clone(&self.core), self.kernel?, key_length))
    }

    /// An ECB, CBC or CTR context for keys of this many bytes.
    pub(crate) fn confidential(
        &self,
        mode: Mode,
        key_length: usize,
    ) -> Option<confidential::Context> {
        let core = Arc::clone(&self.core);
        Some(confidential::Context::new(core, self.kernel?, mode, key_length))
    }
}
