//! A whole file's content in memory, on all cores.

use facade::buffer;

use super::FileKeyHandle;
use crate::parallel::PoolHandle;
use crate::session::default_engine;
use crate::status::Trouble;

impl FileKeyHandle {
    pub(crate) fn sealed_length(&self, length: usize) -> Result<usize, Trouble> {
        let sealed = buffer::sealed_length(&self.key_ring(&[])?, length as u64)?;
        usize::try_from(sealed).map_err(|_| Trouble::argument("no memory holds so much"))
    }

    pub(crate) fn seal(
        &self,
        pool: &PoolHandle,
        context: &[u8],
        plaintext: &[u8],
        sealed: &mut [u8],
    ) -> Result<usize, Trouble> {
        let (keys, engine) = (self.key_ring(context)?, default_engine()?);
        Ok(buffer::seal(&keys, pool.pool(), engine, plaintext, sealed)?)
    }

    pub(crate) fn unseal(
        &self,
        pool: &PoolHandle,
        context: &[u8],
        sealed: &[u8],
        plaintext: &mut [u8],
    ) -> Result<usize, Trouble> {
        let (keys, engine) = (self.key_ring(context)?, default_engine()?);
        Ok(buffer::open(&keys, pool.pool(), engine, sealed, plaintext)?)
    }
}
