//! Values on the heap, for libraries in programs that go on where memory is short.

#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
use std::alloc::{Layout, alloc_zeroed};

/// A value on the heap; `None`, and the value dropped, where there is no memory for it.
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    let mut place = Vec::new();
    place.try_reserve_exact(1).ok()?;
    place.push(value);
    let slice: *mut [T] = Box::into_raw(place.into_boxed_slice());
    // SAFETY: it comes from a box, and a slice of one value has that value's layout.
    Some(unsafe { Box::from_raw(slice.cast()) })
}

/// A value of zeros on the heap, of which nothing is on the stack before: room for it there would keep
/// what the caller's other calls leave far from where stacks are wiped. `None` where there is no memory
/// for it.
///
/// # Safety
/// Zeros are a value of this type.
#[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
pub(crate) unsafe fn zeros<T>() -> Option<Box<T>> {
    let layout = Layout::new::<T>();
    assert!(layout.size() > 0);
    // SAFETY: the layout has a size; what is allocated with a type's layout is a box's, and it has a value by
    // the caller's promise.
    unsafe {
        let place = alloc_zeroed(layout);
        (!place.is_null()).then(|| Box::from_raw(place.cast()))
    }
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
        #[repr(align(64))]
        struct Aligned(u8);
        let aligned = boxed(Aligned(3)).unwrap();
        assert_eq!((aligned.0, (&raw const *aligned).addr() % 64), (3, 0));
        #[cfg(any(target_arch = "x86_64", target_arch = "aarch64"))]
        {
            // SAFETY: zeros are a value of it.
            let aligned: Box<Aligned> = unsafe { zeros() }.unwrap();
            assert_eq!((aligned.0, (&raw const *aligned).addr() % 64), (0, 0));
        }
    }
}
