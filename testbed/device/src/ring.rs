//! Asynchronous requests of one open file.

use std::collections::VecDeque;

use crate::abi::{Caller, Errno, Operation};
use crate::faults::Fault;

/// Requests between CIOCASYNCCRYPT and CIOCASYNCFETCH, in order of arrival.
#[derive(Default)]
pub(crate) struct Ring {
    entries: VecDeque<Entry>,
    /// The number of requests that may be fetched.
    done: usize,
}

/// A request. Its IV was read on arrival; its data is read when it is performed.
pub(crate) struct Entry {
    pub(crate) caller: Caller,
    pub(crate) operation: Operation,
    pub(crate) iv: Option<Vec<u8>>,
    pub(crate) fault: Option<Fault>,
    pub(crate) result: Result<(), Errno>,
}

impl Ring {
    /// Adds a request, if fewer than `most` are there.
    pub(crate) fn push(&mut self, entry: Entry, most: u64) -> Result<(), Errno> {
        if self.is_full(most) {
            return Err(libc::EBUSY);
        }
        self.entries.push_back(entry);
        Ok(())
    }

    /// Performs all requests before the first one that hangs.
    pub(crate) fn work(&mut self, mut perform: impl FnMut(&Entry) -> Result<(), Errno>) {
        while let Some(entry) = self.entries.get_mut(self.done)
            && entry.fault != Some(Fault::Hang)
        {
            entry.result = perform(entry);
            self.done += 1;
        }
    }

    /// Removes and returns the first completed request.
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

    fn entry(session: u32, fault: Option<Fault>) -> Entry {
        let operation = Operation {
            session,
            decrypts: false,
            iv_address: 0,
            input_address: 0,
            length: 0,
            output_address: 0,
            structure: Vec::new(),
        };
        let caller = Caller { thread: 0, argument: 0 };
        Entry { caller, operation, iv: None, fault, result: Ok(()) }
    }

    #[test]
    fn results_come_in_order_up_to_what_hangs() {
        let mut ring = Ring::default();
        for (session, fault) in [(1, None), (2, None), (3, Some(Fault::Hang)), (4, None)] {
            ring.push(entry(session, fault), 4).unwrap();
        }
        assert_eq!(ring.push(entry(5, None), 4), Err(libc::EBUSY));
        assert!(!ring.has_result() && ring.pop().is_err());
        let refuse_second = |entry: &Entry| match entry.operation.session {
            2 => Err(libc::EINVAL),
            _ => Ok(()),
        };
        ring.work(refuse_second);
        assert_eq!(ring.pop().unwrap().result, Ok(()));
        assert_eq!(ring.pop().unwrap().result, Err(libc::EINVAL));
        ring.work(refuse_second);
        assert!(!ring.has_result() && ring.pop().is_err());
    }
}
