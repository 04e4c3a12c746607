//! Asynchronous requests of one open file.

use std::collections::VecDeque;

use crate::abi::Errno;

/// Requests between CIOCASYNCCRYPT and CIOCASYNCFETCH, in the order in which they came.
#[derive(Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    /// How many of them may be fetched.
    done: usize,
}

pub(crate) struct Entry {
    /// The caller's structure.
    pub(crate) structure: Vec<u8>,
    pub(crate) output_address: u64,
    /// `None` when it will never be done, nor any that come after it.
    pub(crate) result: Option<Result<Vec<u8>, Errno>>,
}

impl Ring {
    /// Takes a request, if it has room for `most` of them.
    pub(crate) fn push(&mut self, entry: Entry, most: u64) -> Result<(), Errno> {
        if self.is_full(most) {
            return Err(libc::EBUSY);
        }
        self.entries.push_back(entry);
        Ok(())
    }

    /// Lets everything be fetched that comes before what hangs.
    pub(crate) fn work(&mut self) {
        self.done = self.entries.iter().take_while(|entry| entry.result.is_some()).count();
    }

    /// The first that is done.
    pub(crate) fn pop(&mut self) -> Result<Entry, Errno> {
        self.done = self.done.checked_sub(1).ok_or(libc::EBUSY)?;
        self.entries.pop_front().ok_or(libc::EBUSY)
    }

    pub(crate) fn has_result(&self) -> bool {
        self.done > 0
    }

    pub(crate) fn is_full(&self, most: u64) -> bool {
        self.entries.len() as u64 >= most
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn results_come_in_order_up_to_what_hangs() {
        let entry = |result| Entry { structure: Vec::new(), output_address: 0, result };
        let mut ring = Ring::default();
        for result in [Some(Ok(vec![1])), Some(Err(libc::EINVAL)), None, Some(Ok(vec![3]))] {
            ring.push(entry(result), 4).unwrap();
        }
        assert_eq!(ring.push(entry(None), 4), Err(libc::EBUSY));
        assert!(!ring.has_result() && ring.pop().is_err());
        ring.work();
        assert_eq!(ring.pop().unwrap().result, Some(Ok(vec![1])));
        assert_eq!(ring.pop().unwrap().result, Some(Err(libc::EINVAL)));
        ring.work();
        assert!(!ring.has_result() && ring.pop().is_err());
    }
}
