//! Buffers of parts that are being sent.
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
        let is_long = bytes.len() > PART / 8;
        let free = if is_long { self.free.lock().ignore_poison().pop() } else { None };
        let length = if is_long { PART.max(bytes.len()) } else { bytes.len() };
        let mut buffer = match free {
            Some(buffer) => buffer,
            None => WipedBuffer::try_zeros(length)
                .ok_or_else(|| Fault::Failed(format!("there is no memory for {length} bytes")))?,
        };
        buffer[..bytes.len()].copy_from_slice(bytes);
        let lent = Lent { buffer: Some(buffer), length: bytes.len(), pool: self.clone() };
        Ok(Buffer::from(Bytes::from_owner(lent)))
    }
}

/// A buffer that goes back when everything with it is done.
struct Lent {
    buffer: Option<WipedBuffer>,
    length: usize,
    pool: Arc<Pool>,
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
    }
}
