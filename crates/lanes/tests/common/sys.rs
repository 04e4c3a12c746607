//! Memory between two inaccessible pages.

use std::ffi::c_void;
use std::ptr;

use rustix::mm::{MapFlags, MprotectFlags, ProtFlags, mmap_anonymous, mprotect, munmap};

/// At least as many bytes as asked for, with unmapped pages right before and after.
pub(crate) struct Guarded {
    start: *mut c_void,
    length: usize,
}

impl Guarded {
    pub(crate) fn new(length: usize) -> Guarded {
        let page = rustix::param::page_size();
        let length = length.next_multiple_of(page);
        // SAFETY: a mapping at an address of the system's choice overlaps no other. All of its
        // middle becomes accessible and stays so until it is unmapped in `drop`.
        unsafe {
            let all = length + 2 * page;
            let flags = MapFlags::PRIVATE;
            let start = mmap_anonymous(ptr::null_mut(), all, ProtFlags::empty(), flags).unwrap();
            let access = MprotectFlags::READ | MprotectFlags::WRITE;
            mprotect(start.byte_add(page), length, access).unwrap();
            Guarded { start, length }
        }
    }

    pub(crate) fn bytes(&mut self) -> &mut [u8] {
        // SAFETY: these bytes are mapped, readable, writable and zeroed at first, and the
        // borrow of `self` keeps them so and unshared.
        unsafe {
            let start = self.start.byte_add(rustix::param::page_size());
            std::slice::from_raw_parts_mut(start.cast(), self.length)
        }
    }
}

impl Drop for Guarded {
    fn drop(&mut self) {
        // SAFETY: the whole mapping and nothing else, with no borrow left.
        unsafe { munmap(self.start, self.length + 2 * rustix::param::page_size()).unwrap() }
    }
}
