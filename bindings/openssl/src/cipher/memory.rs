//! The input of a call, and the place for its result.

use evener_lanes::stream::Text;

/// Bytes and the place for their result.
pub(crate) enum Memory<'a> {
    /// They do not overlap.
    Apart(&'a [u8], &'a mut [u8]),
    /// They overlap: `length` bytes begin at `input`, and their result at `output`.
    Common { all: &'a mut [u8], input: usize, output: usize, length: usize },
}

impl Memory<'_> {
    /// The number of bytes.
    pub(crate) fn length(&self) -> usize {
        match self {
            Memory::Apart(input, _) => input.len(),
            Memory::Common { length, .. } => *length,
        }
    }

    /// Returns whether the bytes from `from` on can still be read once the result up to `to` is
    /// written.
    pub(crate) fn lasts(&self, from: usize, to: usize) -> bool {
        match self {
            Memory::Apart(..) => true,
            Memory::Common { input, output, length, .. } => {
                from == *length || input + from >= output + to
            }
        }
    }

    /// Copies bytes from `start` on, as many as `to` has room for.
    pub(crate) fn copy(&self, start: usize, to: &mut [u8]) {
        let input = match self {
            Memory::Apart(input, _) => input,
            Memory::Common { all, input, .. } => &all[*input..],
        };
        to.copy_from_slice(&input[start..][..to.len()]);
    }

    /// Writes a result to the beginning of the output.
    pub(crate) fn put(&mut self, bytes: &[u8]) {
        let output = match self {
            Memory::Apart(_, output) => output,
            Memory::Common { all, output, .. } => &mut all[*output..],
        };
        output[..bytes.len()].copy_from_slice(bytes);
    }

    /// The `length` bytes from `from` on, whose result goes to `to`; `None` if the result would
    /// overwrite them too early.
    pub(crate) fn text(&mut self, from: usize, to: usize, length: usize) -> Option<Text<'_>> {
        match self {
            Memory::Apart(input, output) => {
                Some(Text::Apart(&input[from..][..length], &mut output[to..][..length]))
            }
            Memory::Common { all, input, output, .. } => {
                let to = *output + to;
                let by = (*input + from).checked_sub(to)?;
                let all = &mut all[to..][..by + length];
                Some(if by == 0 { Text::InPlace(all) } else { Text::Down(all, by) })
            }
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    fn memory(input: usize, output: usize, all: &mut [u8]) -> Memory<'_> {
        Memory::Common { all, input, output, length: 30 }
    }

    #[test]
    fn bytes_that_are_still_to_be_read_are_not_replaced() {
        let mut bytes = [0; 40];
        assert!(memory(0, 5, &mut bytes).text(0, 0, 16).is_none());
        assert!(!memory(0, 5, &mut bytes).lasts(0, 0) && !memory(0, 0, &mut bytes).lasts(5, 16));
        assert!(memory(0, 0, &mut bytes).lasts(16, 16) && memory(0, 9, &mut bytes).lasts(30, 16));
        assert!(matches!(memory(5, 0, &mut bytes).text(11, 16, 16), Some(Text::InPlace(_))));
        assert!(matches!(memory(5, 0, &mut bytes).text(11, 0, 16), Some(Text::Down(_, 16))));
    }
}
