//! Values on the heap, for libraries in programs that go on where memory is short.

/// A value on the heap; `None`, and the value dropped, where there is no memory for it.
#[allow(unsafe_code)]
pub fn boxed<T>(value: T) -> Option<Box<T>> {
    let mut place = Vec::new();
    place.try_reserve_exact(1).ok()?;
    place.push(value);
    let slice: *mut [T] = Box::into_raw(place.into_boxed_slice());
    // SAFETY: it comes from a box, and a slice of one value has that value's layout.
    Some(unsafe { Box::from_raw(slice.cast()) })
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
    }
}
