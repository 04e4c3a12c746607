//! A whole file's content in memory, on all cores.

use std::num::NonZeroUsize;
use std::sync::Arc;

use facade::{Evener, Options};

use super::FileKeyHandle;
use crate::parallel::PoolHandle;
use crate::session::default_engine;
use crate::status::Trouble;

impl FileKeyHandle {
    pub(crate) fn sealed_length(&self, length: usize) -> Result<usize, Trouble> {
        let sealed = evener(self, &[], NonZeroUsize::MIN)?.sealed_length(length as u64)?;
        usize::try_from(sealed).map_err(|_| Trouble::argument("no memory holds so much"))
    }

    pub(crate) fn seal(
        &self,
        pool: &PoolHandle,
        context: &[u8],
        plaintext: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, Trouble> {
        Ok(evener(self, context, pool.threads())?.seal(plaintext, sealed)?)
    }

    pub(crate) fn unseal(
        &self,
        pool: &PoolHandle,
        context: &[u8],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Result<usize, Trouble> {
        Ok(evener(self, context, pool.threads())?.open(sealed, plaintext)?)
    }
}

/// Makes an `Evener` with this many workers on the default engine.
fn evener(key: &FileKeyHandle, context: &[u8], workers: NonZeroUsize) -> Result<Evener, Trouble> {
    let engine = default_engine()?;
    let builder = Evener::builder(key.key_ring(context)?).engine(Arc::clone(engine));
    let reference = |options: &mut Options| options.run.reference = Some(Arc::clone(engine));
    Ok(builder.workers(workers).options(reference).build()?)
}
