//! Values on the heap, for libraries in programs that continue when memory is short.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) use aligned::{Aligned, zeros};

/// A value on the heap; `None`, with the value dropped, if there is no memory for it.
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    let mut place = Vec::new();
    place.try_reserve_exact(1).ok()?;
    place.push(value);
    let slice: *mut [T] = Box::into_raw(place.into_boxed_slice());
    // SAFETY: it comes from a box, and a slice of one value has that value's layout.
    Some(unsafe { Box::from_raw(slice.cast()) })
}

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
mod aligned {
    use std::alloc::{Layout, alloc, alloc_zeroed, dealloc};
    use std::marker::PhantomData;
    use std::ops::{Deref, DerefMut};
    use std::ptr::NonNull;

    /// A value on the heap, at an address aligned for its type. For a `Box` of a type that is more
    /// aligned than `malloc`'s memory, the C library cuts the place out of a larger one and frees
    /// the memory before and after it: with that, a TLS handshake, which has eight contexts, takes
    /// 0.5 % longer (`bindings/openssl/compare handshake`).
    #[repr(transparent)]
    pub(crate) struct Aligned<T>(NonNull<T>, PhantomData<T>);

    impl<T> Aligned<T> {
        /// The value on the heap; `None`, with the value dropped, if there is no memory for it.
        pub(crate) fn new(value: T) -> Option<Aligned<T>> {
            // SAFETY: the layout has a size.
            let place = Self::within(unsafe { alloc(Self::LAYOUT) })?;
            // SAFETY: there is room for it, and nothing in it.
            unsafe { place.write(value) }
            Some(Aligned(place, PhantomData))
        }

        /// The place for the value in an allocation. The allocation begins before it, and its
        /// address is written just before the value.
        fn within(allocation: *mut u8) -> Option<NonNull<T>> {
            let allocation = NonNull::new(allocation)?;
            let start = allocation.addr().get() + size_of::<Start>();
            let offset = start.next_multiple_of(align_of::<T>()) - allocation.addr().get();
            // SAFETY: the offset is at most the type's alignment, by which the allocation exceeds
            // the value, and there is room for a pointer before that; both are aligned.
            unsafe {
                let place = allocation.byte_add(offset).cast::<T>();
                place.cast::<Start>().sub(1).write(allocation);
                Some(place)
            }
        }

        const LAYOUT: Layout = {
            assert!(align_of::<T>() >= USUAL && size_of::<T>() > 0);
            match Layout::from_size_align(size_of::<T>() + align_of::<T>(), USUAL) {
                Ok(layout) => layout,
                Err(_) => panic!("the type is too large"),
            }
        };
    }

    /// A value of zeros on the heap that was never on the stack: room for it there would keep the
    /// remains of the caller's other calls far from where stacks are wiped. `None` if there is no
    /// memory for it.
    ///
    /// # Safety
    /// Zeros are a value of this type.
    pub(crate) unsafe fn zeros<T>() -> Option<Aligned<T>> {
        // SAFETY: the layout has a size; zeros are a valid value by the caller's promise.
        let place = Aligned::<T>::within(unsafe { alloc_zeroed(Aligned::<T>::LAYOUT) })?;
        Some(Aligned(place, PhantomData))
    }

    impl<T> Deref for Aligned<T> {
        type Target = T;

        fn deref(&self) -> &T {
            // SAFETY: the value exists, and only this owns it.
            unsafe { self.0.as_ref() }
        }
    }

    impl<T> DerefMut for Aligned<T> {
        fn deref_mut(&mut self) -> &mut T {
            // SAFETY: as above.
            unsafe { self.0.as_mut() }
        }
    }

    impl<T> Drop for Aligned<T> {
        fn drop(&mut self) {
            // SAFETY: the value exists, and is not used any more; the start of the allocation was
            // written before it.
            unsafe {
                self.0.drop_in_place();
                let start = self.0.cast::<Start>().sub(1).read();
                dealloc(start.as_ptr(), Self::LAYOUT);
            }
        }
    }

    // SAFETY: it owns its value alone, as a `Box` does.
    unsafe impl<T: Send> Send for Aligned<T> {}
    // SAFETY: as above.
    unsafe impl<T: Sync> Sync for Aligned<T> {}

    /// The start of an allocation.
    type Start = NonNull<u8>;

    /// The alignment of everything that `malloc` returns, in bytes.
    const USUAL: usize = 16;
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_value_is_kept_and_dropped_once() {
        let counted = std::rc::Rc::new(7);
        let kept = boxed(std::rc::Rc::clone(&counted));
        assert_eq!(
            (kept.as_deref().map(|kept| **kept), std::rc::Rc::strong_count(&counted)),
            (Some(7), 2)
        );
        drop(kept);
        assert_eq!(std::rc::Rc::strong_count(&counted), 1);
        assert_eq!(boxed(()).as_deref(), Some(&()));
    }

    #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
    #[test]
    fn values_lie_as_their_types_are_aligned() {
        #[repr(align(64))]
        struct Lines {
            bytes: [u8; 100],
            _counted: std::rc::Rc<()>,
        }
        #[repr(align(16))]
        struct Block([u8; 16]);
        let counted = std::rc::Rc::new(());
        let lines: Vec<_> = (0..50)
            .map(|number| Lines { bytes: [number; 100], _counted: counted.clone() })
            .collect();
        let mut lines: Vec<_> = lines.into_iter().map(|it| Aligned::new(it).unwrap()).collect();
        for (number, it) in lines.iter_mut().enumerate() {
            assert_eq!((it.bytes, (&raw const **it).addr() % 64), ([number as u8; 100], 0));
            it.bytes = [1; 100];
            // SAFETY: zeros are a valid `Block`.
            let zeros: Aligned<Block> = unsafe { zeros() }.unwrap();
            assert_eq!((zeros.0, (&raw const *zeros).addr() % 16), ([0; 16], 0));
        }
        assert_eq!(std::rc::Rc::strong_count(&counted), 51);
        drop(lines);
        assert_eq!(std::rc::Rc::strong_count(&counted), 1);
        // The null pointer stands for `None`.
        assert_eq!(size_of::<Option<Aligned<Block>>>(), size_of::<usize>());
    }
}
