//! Memory with the alignment that a driver needs, and the buffers for a part of a message.

use evener_core::WipedBuffer;
use evener_core::parts::Part;

use super::sys::Data;

/// Aligned memory, wiped when dropped.
pub(super) struct Bounce {
    bytes: WipedBuffer,
    alignment: usize,
}

impl Bounce {
    pub(super) fn new(length: usize, alignment: usize) -> Bounce {
        Bounce { bytes: WipedBuffer::zeros(length + alignment), alignment }
    }

    /// The first bytes of the memory, in the requested length. The content is kept, unless the
    /// memory must grow.
    pub(super) fn take(&mut self, length: usize) -> &mut [u8] {
        if self.bytes.len() < length + self.alignment {
            *self = Bounce::new(length, self.alignment);
        }
        let start = self.bytes.as_ptr().align_offset(self.alignment);
        &mut self.bytes[start..start + length]
    }
}

pub(super) fn is_aligned(data: &[u8], alignment: usize) -> bool {
    data.as_ptr().addr().is_multiple_of(alignment)
}

/// The number of requests at once: every ring has at least this many slots.
pub(super) const TOGETHER: usize = 16;

/// Buffers for requests with unaligned data.
pub(super) struct Slots(pub(super) Vec<Bounce>);

impl Slots {
    pub(super) fn new(alignment: usize) -> Slots {
        Slots((0..TOGETHER).map(|_| Bounce::new(0, alignment)).collect())
    }
}

/// The buffers for a part: its own input and output if their alignment suits the driver. A padded
/// last block is first joined to the message.
pub(super) fn place<'d>(
    part: &'d mut Part<'_>,
    bounce: &'d mut Bounce,
    alignment: usize,
) -> Data<'d> {
    if !is_aligned(part.output, alignment) {
        let data = bounce.take(part.output.len());
        part.copy_input(data);
        Data::InPlace(data)
    } else if is_aligned(part.message, alignment) && !part.is_padded() {
        Data::Between(part.message, part.output)
    } else {
        part.copy_input_to_output();
        Data::InPlace(part.output)
    }
}

/// Copies a part's result to its output, if [`place`] used another buffer.
pub(super) fn collect(part: &mut Part<'_>, bounce: &mut Bounce, alignment: usize) {
    if !is_aligned(part.output, alignment) {
        part.output.copy_from_slice(bounce.take(part.output.len()));
    }
}

/// The longest part of a message in one request, in bytes. OCF's drivers accept at most 65,535
/// bytes; this is the largest multiple of a page below that.
pub(super) const PART_LENGTH: usize = 15 * 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn bounced_data_is_aligned() {
        let mut bounce = Bounce::new(10, 64);
        for length in [0, 10, 11, 5000, 7] {
            let data = bounce.take(length);
            assert_eq!(data.len(), length);
            assert!(is_aligned(data, 64));
        }
    }
}
