//! Page-locked memory for workers' buffers.

use evener_core::Memory;

use super::device::Pinned;

impl Memory for Pinned {
    fn bytes(&self) -> &[u8] {
        self
    }

    fn bytes_mut(&mut self) -> &mut [u8] {
        self
    }
}
