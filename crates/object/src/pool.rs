//! Buffers for parts that are being sent or read.
//!
//! The allocator would keep a freed part for each thread that has made one, so they are used again.

use std::sync::{Arc, Mutex};

use bytes::Bytes;
use evener_core::{IgnorePoison, WipedBuffer};
use evener_seal::Fault;
use opendal::Buffer;

use crate::objects::PART;

/// Buffers of one part each, which are free.
#[derive(Default)]
pub(crate) struct Pool {
    free: Mutex<Vec<WipedBuffer>>,
}

impl Pool {
    /// A copy of at most one part, which is sent however often that takes.
    pub(crate) fn copy(self: &Arc<Pool>, bytes: &[u8]) -> Result<Buffer, Fault> {
        let mut lent = self.lend(bytes.len())?;
        lent.bytes().copy_from_slice(bytes);
        Ok(lent.freeze())
    }

    /// Lends a buffer of `length` bytes. One for a part, or for most of a part, is used again.
    pub(crate) fn lend(self: &Arc<Pool>, length: usize) -> Result<Lent, Fault> {
        let is_part = length > LONG && length <= PART;
        let free = if is_part { self.free.lock().ignore_poison().pop() } else { None };
        let room = if is_part { PART } else { length };
        let buffer = match free {
            Some(buffer) => buffer,
            None => WipedBuffer::try_zeros(room)
                .ok_or_else(|| Fault::Failed(format!("there is no memory for {room} bytes")))?,
        };
        Ok(Lent { buffer: Some(buffer), length, pool: self.clone() })
    }
}

/// A buffer that goes back when everything with it is done.
pub(crate) struct Lent {
    buffer: Option<WipedBuffer>,
    length: usize,
    pool: Arc<Pool>,
}

impl Lent {
    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        self.buffer.as_mut().map_or(&mut [], |buffer| &mut buffer[..self.length])
    }

    pub(crate) fn freeze(self) -> Buffer {
        Buffer::from(Bytes::from_owner(self))
    }
}

impl AsRef<[u8]> for Lent {
    fn as_ref(&self) -> &[u8] {
        self.buffer.as_ref().map_or(&[], |buffer| &buffer[..self.length])
    }
}

impl Drop for Lent {
    fn drop(&mut self) {
        let mut free = self.pool.free.lock().ignore_poison();
        let buffer = self.buffer.take().filter(|it| it.len() == PART && free.len() < MOST_FREE);
        free.extend(buffer);
    }
}

/// Buffers for more bytes than this, up to a part, are used again.
pub(crate) const LONG: usize = PART / 8;

const MOST_FREE: usize = 8;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn long_buffers_are_used_again() {
        let pool = Arc::<Pool>::default();
        let part = vec![7; PART];
        let (one, other) = (pool.copy(&part).unwrap(), pool.copy(&part[..PART - 1]).unwrap());
        assert_eq!((one.to_vec().len(), other.to_vec().len()), (PART, PART - 1));
        drop(one.clone());
        assert_eq!(pool.free.lock().unwrap().len(), 0);
        drop((one, other));
        assert_eq!(pool.free.lock().unwrap().len(), 2);
        assert_eq!(pool.copy(b"short").unwrap().to_vec(), b"short");
        assert_eq!(pool.free.lock().unwrap().len(), 2);
        let again = pool.copy(&part).unwrap();
        assert!(again.to_vec() == part && pool.free.lock().unwrap().len() == 1);
        // More than a part fits no free buffer.
        let long = vec![7; PART + 1];
        assert!(pool.copy(&long).unwrap().to_vec() == long);
        assert_eq!(pool.free.lock().unwrap().len(), 1);
    }
}
