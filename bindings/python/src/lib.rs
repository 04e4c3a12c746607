//! Evener for Python: the extension module `evener._evener`, under a thin layer in Python.

#![deny(unsafe_code)]

mod aead;
mod buffers;
mod error;
mod files;
mod incremental;
mod keys;
mod options;
mod path;
mod reader;
mod source;
mod sys;
mod trees;
mod values;
mod watched;

use pyo3::prelude::*;

/// The extension module.
#[pymodule]
mod _evener {
    #[pymodule_export]
    use crate::aead::Aead;
    #[pymodule_export]
    use crate::buffers::{open_bytes, open_into, opened_size, seal_bytes, seal_into, sealed_size};
    #[pymodule_export]
    use crate::files::{list_place, process, seal_pieces};
    #[pymodule_export]
    use crate::incremental::Incremental;
    #[pymodule_export]
    use crate::keys::KeyRing;
    #[pymodule_export]
    use crate::reader::Reader;
}
