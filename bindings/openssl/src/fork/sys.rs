//! The page that a child gets empty.

use std::ptr;
use std::sync::atomic::{AtomicBool, AtomicPtr, Ordering};

use evener_lanes::boxed;

/// A value that belongs to one process.
pub(crate) struct OfProcess<T: 'static> {
    /// NULL or a page that begins with the pointer; it is never unmapped.
    page: AtomicPtr<AtomicPtr<T>>,
    /// True if the system can't provide such a page.
    has_failed: AtomicBool,
}

impl<T: Send + Sync> OfProcess<T> {
    pub(crate) const fn new() -> OfProcess<T> {
        OfProcess { page: AtomicPtr::new(ptr::null_mut()), has_failed: AtomicBool::new(false) }
    }

    /// The value, if this process has made one.
    pub(crate) fn get(&self) -> Option<&'static T> {
        let page = self.page.load(Ordering::Acquire);
        // SAFETY: a page is never unmapped, and holds NULL or the pointer that `set` stored in this
        // process and never frees.
        unsafe { page.as_ref()?.load(Ordering::Acquire).as_ref() }
    }

    /// Stores the value, unless another thread was faster. Returns the stored value, and whether it
    /// is this one; `None` if there is no memory for it, or no page that a child gets empty.
    pub(crate) fn set(&self, value: T) -> Option<(&'static T, bool)> {
        let page = self.page()?;
        let new = Box::into_raw(boxed(value)?);
        match page.compare_exchange(ptr::null_mut(), new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: it comes from a box, and nobody frees it.
            Ok(_) => Some((unsafe { &*new }, true)),
            // SAFETY: nobody else has the new one; the other one is as in `get`.
            Err(other) => unsafe {
                drop(Box::from_raw(new));
                Some((&*other, false))
            },
        }
    }

    fn page(&self) -> Option<&'static AtomicPtr<T>> {
        if self.has_failed.load(Ordering::Relaxed) {
            return None;
        }
        let known = self.page.load(Ordering::Acquire);
        if !known.is_null() {
            // SAFETY: as in `get`.
            return Some(unsafe { &*known });
        }
        let Some(new) = map() else {
            self.has_failed.store(true, Ordering::Relaxed);
            return None;
        };
        let new = new.cast();
        let none = ptr::null_mut();
        match self.page.compare_exchange(none, new, Ordering::AcqRel, Ordering::Acquire) {
            // SAFETY: the page is aligned for a pointer, holds zero, which is NULL, and is never
            // unmapped.
            Ok(_) => Some(unsafe { &*new }),
            // SAFETY: nobody else has the new page; the other one is as above.
            Err(other) => unsafe {
                libc::munmap(new.cast(), PAGE);
                Some(&*other)
            },
        }
    }
}

/// Maps a page of zeros, which a child gets as zeros again.
fn map() -> Option<*mut libc::c_void> {
    let access = libc::PROT_READ | libc::PROT_WRITE;
    let flags = libc::MAP_PRIVATE | libc::MAP_ANONYMOUS;
    // SAFETY: the system chooses an unused place; the advice is for that place.
    unsafe {
        let page = libc::mmap(ptr::null_mut(), PAGE, access, flags, -1, 0);
        if page == libc::MAP_FAILED {
            return None;
        }
        if libc::madvise(page, PAGE, libc::MADV_WIPEONFORK) != 0 {
            libc::munmap(page, PAGE);
            return None;
        }
        Some(page)
    }
}

/// In bytes; the system rounds it up to its page size.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_child_has_none_and_makes_its_own() {
        static VALUE: OfProcess<u32> = OfProcess::new();
        assert_eq!(VALUE.get(), None);
        assert_eq!(VALUE.set(1), Some((&1, true)));
        assert_eq!(VALUE.set(2), Some((&1, false)));
        // SAFETY: the child calls only functions that are safe after a fork, allocates, which glibc
        // allows, and ends.
        unsafe {
            let child = libc::fork();
            assert!(child >= 0);
            if child == 0 {
                let is_right = VALUE.get().is_none()
                    && VALUE.set(3) == Some((&3, true))
                    && VALUE.get() == Some(&3);
                libc::_exit(if is_right { 0 } else { 1 });
            }
            let mut status = -1;
            assert_eq!(libc::waitpid(child, &mut status, 0), child);
            assert_eq!(status, 0);
        }
        assert_eq!(VALUE.get(), Some(&1));
    }
}
