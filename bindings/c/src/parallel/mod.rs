//! One buffer on all cores.

pub(crate) mod sys;

use std::num::NonZeroUsize;
use std::sync::Arc;

use facade::hazmat::{BufferError, Iv, Padding, ParallelCipher};
use facade::{Cipher, Direction, Key, Mode, Pool};

use crate::status::{Status, Trouble};

/// A pool of threads, which sleep between buffers, for any number of ciphers. Any number of threads
/// may use it at once.
pub struct PoolHandle {
    pool: Arc<Pool>,
}

/// A cipher with its key and a pool, for single buffers. Any number of threads may use it at
/// once.
pub struct ParallelHandle {
    cipher: ParallelCipher,
    padding: Padding,
}

impl PoolHandle {
    /// 0 stands for the number of cores.
    pub(crate) fn new(threads: usize) -> PoolHandle {
        let pool = NonZeroUsize::new(threads).map_or_else(Pool::on_all_cores, Pool::new);
        PoolHandle { pool: Arc::new(pool) }
    }

    pub(crate) fn threads(&self) -> NonZeroUsize {
        self.pool.threads()
    }
}

impl ParallelHandle {
    pub(crate) fn open(
        pool: Option<&PoolHandle>,
        engine: Option<&str>,
        cipher: Cipher,
        key: &Key,
        padding: Padding,
    ) -> Result<ParallelHandle, Trouble> {
        let pool =
            pool.map_or_else(|| Arc::new(Pool::on_all_cores()), |pool| Arc::clone(&pool.pool));
        let opened = match engine {
            Some(engine) => ParallelCipher::with_engine(cipher, key, pool, engine),
            None => ParallelCipher::new(cipher, key, pool),
        }?;
        let pads = matches!(cipher.mode(), Mode::Ecb | Mode::Cbc);
        match padding {
            Padding::None => Ok(ParallelHandle { cipher: opened, padding }),
            Padding::Pkcs7 if pads => Ok(ParallelHandle { cipher: opened.padded(), padding }),
            Padding::Pkcs7 => Err(Trouble::argument(format!("{cipher} takes no padding"))),
        }
    }

    pub(crate) fn crypt(
        &self,
        direction: Direction,
        iv: Iv,
        input: &[u8],
        output: &mut [u8],
    ) -> Result<usize, Trouble> {
        Ok(match direction {
            Direction::Encrypt => self.cipher.encrypt(iv, input, output),
            Direction::Decrypt => self.cipher.decrypt(iv, input, output),
        }?)
    }

    pub(crate) fn crypt_in_place(
        &self,
        direction: Direction,
        iv: Iv,
        data: &mut [u8],
    ) -> Result<(), Trouble> {
        if self.padding == Padding::Pkcs7 {
            return Err(Trouble::argument("padding changes the length: it does not go in place"));
        }
        Ok(match direction {
            Direction::Encrypt => self.cipher.encrypt_in_place(iv, data),
            Direction::Decrypt => self.cipher.decrypt_in_place(iv, data),
        }?)
    }
}

impl From<BufferError> for Trouble {
    fn from(error: BufferError) -> Trouble {
        let message = error.to_string();
        match error {
            BufferError::Engine(error) => error.into(),
            BufferError::Rejected(rejection) => Trouble::new(rejection.into(), message),
            _ => Trouble::new(Status::NotOffered, message),
        }
    }
}
