//! Parameters as OpenSSL passes them.

use std::ffi::{CStr, c_void};
use std::marker::PhantomData;
use std::{ptr, slice};

use super::Name;
use crate::sys::{INTEGER, OCTETS, OCTETS_POINTER, Param, TEXT_POINTER, UNSIGNED};

/// The parameters of a call, in their order.
pub(crate) struct Params<'a> {
    next: *mut Param,
    call: PhantomData<&'a mut Param>,
}

impl<'a> Params<'a> {
    /// # Safety
    /// The pointer is NULL or that of an OpenSSL list: the list ends with a parameter without a
    /// name, names are strings, and each parameter's data, if not NULL, are as many bytes as it
    /// says (or a pointer, if its type says so). They stay so during the call.
    pub(crate) unsafe fn new(first: *const Param) -> Params<'a> {
        Params { next: first.cast_mut(), call: PhantomData }
    }
}

impl<'a> Iterator for Params<'a> {
    type Item = Value<'a>;

    fn next(&mut self) -> Option<Value<'a>> {
        if self.next.is_null() {
            return None;
        }
        // SAFETY: the end of the list has not been reached, and names are strings.
        unsafe {
            let param = self.next;
            if (*param).key.is_null() {
                return None;
            }
            self.next = param.add(1);
            let name = Name::of(CStr::from_ptr((*param).key).to_bytes());
            Some(Value { name, param, call: PhantomData })
        }
    }
}

/// A parameter's value, or the place for it.
pub(crate) struct Value<'a> {
    pub(crate) name: Name,
    /// Sound, as [`Params`] was promised.
    param: *mut Param,
    call: PhantomData<&'a mut Param>,
}

impl<'a> Value<'a> {
    /// A number that was passed.
    pub(crate) fn number(&self) -> Option<u64> {
        // SAFETY: the data have the size that was checked; they need not be aligned.
        unsafe {
            let &Param { data_type, data, data_size, .. } = &*self.param;
            match (data_type, data_size) {
                _ if data.is_null() => None,
                (UNSIGNED, 4) => Some(u64::from(data.cast::<u32>().read_unaligned())),
                (UNSIGNED, 8) => Some(data.cast::<u64>().read_unaligned()),
                (INTEGER, 4) => u64::try_from(data.cast::<i32>().read_unaligned()).ok(),
                (INTEGER, 8) => u64::try_from(data.cast::<i64>().read_unaligned()).ok(),
                _ => None,
            }
        }
    }

    /// Bytes that were passed.
    pub(crate) fn octets(&self) -> Option<&'a [u8]> {
        // SAFETY: the data are as many bytes as they say, during the call.
        unsafe {
            let &Param { data_type, data, data_size, .. } = &*self.param;
            let are_there = data_type == OCTETS && !data.is_null() && data_size <= MOST;
            are_there.then(|| slice::from_raw_parts(data.cast(), data_size))
        }
    }

    /// Bytes that were passed with the length -1, which stands for a length that both sides know.
    pub(crate) fn octets_of_known_length(&self, length: usize) -> Option<&'a [u8]> {
        // SAFETY: a caller that passes that length for this parameter passes `length` bytes (EVP's
        // control EVP_CTRL_GCM_SET_IV_FIXED).
        unsafe {
            let &Param { data_type, data, data_size, .. } = &*self.param;
            let are_there = data_type == OCTETS && !data.is_null() && data_size == usize::MAX;
            are_there.then(|| slice::from_raw_parts(data.cast(), length))
        }
    }

    /// The place for requested bytes.
    pub(crate) fn place(&mut self) -> Option<&mut [u8]> {
        // SAFETY: as in `octets`; nobody else uses them during the call.
        unsafe {
            let &Param { data_type, data, data_size, .. } = &*self.param;
            let is_there = data_type == OCTETS && !data.is_null() && data_size <= MOST;
            is_there.then(|| slice::from_raw_parts_mut(data.cast(), data_size))
        }
    }

    /// The place for an IV of this length, or for its end. A place of length 0 has room for all of
    /// it.
    pub(crate) fn place_of_iv(&mut self, length: usize) -> Option<&mut [u8]> {
        // SAFETY: as in `place`; a caller that passes length 0 for this parameter has room for an
        // IV (EVP's control EVP_CTRL_GCM_IV_GEN with 0 or a negative number).
        unsafe {
            let &Param { data_type, data, data_size, .. } = &*self.param;
            let is_there = data_type == OCTETS && !data.is_null() && data_size <= MOST;
            let length = if data_size == 0 { length } else { data_size };
            is_there.then(|| slice::from_raw_parts_mut(data.cast(), length))
        }
    }

    /// Answers with a number; `None` if it does not fit its place.
    pub(crate) fn answer_number(&mut self, number: u64) -> Option<()> {
        // SAFETY: the data have the size that was checked; they need not be aligned.
        unsafe {
            let Param { data_type, data, data_size, return_size, .. } = &mut *self.param;
            if data.is_null() {
                *return_size = size_of::<u64>();
                return Some(());
            }
            match (*data_type, *data_size) {
                (UNSIGNED, 4) => data.cast::<u32>().write_unaligned(u32::try_from(number).ok()?),
                (UNSIGNED, 8) => data.cast::<u64>().write_unaligned(number),
                (INTEGER, 4) => data.cast::<i32>().write_unaligned(i32::try_from(number).ok()?),
                (INTEGER, 8) => data.cast::<i64>().write_unaligned(i64::try_from(number).ok()?),
                _ => return None,
            }
            *return_size = *data_size;
        }
        Some(())
    }

    /// Answers with bytes, or with a pointer to them if one is requested; `None` if there is no
    /// room for them. A pointer is valid as long as the bytes stay where they are.
    pub(crate) fn answer_octets(&mut self, octets: &[u8]) -> Option<()> {
        // SAFETY: there is room for as many bytes as were checked, or for a pointer; the bytes are
        // this library's, so they do not overlap the place.
        unsafe {
            let Param { data_type, data, data_size, return_size, .. } = &mut *self.param;
            match *data_type {
                OCTETS | OCTETS_POINTER if data.is_null() => {}
                OCTETS if *data_size >= octets.len() => {
                    ptr::copy_nonoverlapping(octets.as_ptr(), data.cast(), octets.len());
                }
                OCTETS_POINTER => {
                    data.cast::<*const c_void>().write_unaligned(octets.as_ptr().cast());
                }
                _ => return None,
            }
            *return_size = octets.len();
        }
        Some(())
    }

    /// Answers with a pointer to bytes, or NULL, and a length; `None` if the parameter has another
    /// type. The pointer is valid as long as the bytes stay where they are.
    pub(crate) fn answer_pointer(&mut self, octets: Option<&[u8]>, length: usize) -> Option<()> {
        // SAFETY: the type says that there is room for a pointer, where the data are not NULL.
        unsafe {
            let Param { data_type, data, return_size, .. } = &mut *self.param;
            *return_size = length;
            if *data_type != OCTETS_POINTER {
                return None;
            }
            if !data.is_null() {
                let start: *const u8 = octets.map_or(ptr::null(), <[u8]>::as_ptr);
                data.cast::<*const c_void>().write_unaligned(start.cast());
            }
        }
        Some(())
    }

    /// Answers with a text.
    pub(crate) fn answer_text(&mut self, text: &'static CStr) -> Option<()> {
        // SAFETY: the type says that there is room for a pointer.
        unsafe {
            let Param { data_type, data, return_size, .. } = &mut *self.param;
            if *data_type != TEXT_POINTER {
                return None;
            }
            if !data.is_null() {
                data.cast::<*const std::ffi::c_char>().write_unaligned(text.as_ptr());
            }
            *return_size = text.count_bytes();
        }
        Some(())
    }

    /// The name as it was passed.
    pub(crate) fn key(&self) -> &[u8] {
        // SAFETY: a name is a string.
        unsafe { CStr::from_ptr((*self.param).key).to_bytes() }
    }
}

/// The longest slice, in bytes.
const MOST: usize = isize::MAX as usize;
