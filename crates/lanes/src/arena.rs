//! Buffers for many messages, placed so that they don't compete for cache sets.
//!
//! Messages at distances of a power of two map to the same few sets of a cache: 32 lanes that read
//! and write there constantly evict each other's lines. The arena gives every buffer whole cache
//! lines, and one extra line between two buffers whose distance would be a multiple of the smallest
//! page. Outputs that begin on a line can also be written past the cache.

use zeroize::Zeroize;

/// Memory for the buffers of successive batches. It is reused, grows when necessary, and is wiped
/// on drop.
#[derive(Default)]
pub struct Arena {
    memory: Vec<u8>,
}

impl Arena {
    /// An arena without memory yet.
    pub fn new() -> Arena {
        Arena::default()
    }

    /// Lays out one buffer for each length, in order. The buffers begin on cache lines; their
    /// content is undefined.
    pub fn buffers<'a>(
        &'a mut self,
        lengths: impl Iterator<Item = usize> + Clone + 'a,
    ) -> impl Iterator<Item = &'a mut [u8]> {
        let needed: usize = lengths.clone().map(Arena::stride).sum::<usize>() + LINE;
        if self.memory.len() < needed {
            // A new allocation has untouched pages, and the old content is not needed.
            self.memory.zeroize();
            self.memory = vec![0; needed];
        }
        let start = self.memory.as_ptr().align_offset(LINE).min(LINE);
        let mut rest = &mut self.memory[start..];
        lengths.map(move |length| {
            let (buffer, others) = std::mem::take(&mut rest).split_at_mut(Arena::stride(length));
            rest = others;
            &mut buffer[..length]
        })
    }

    /// The distance in bytes from a buffer of this length to the next.
    pub fn stride(length: usize) -> usize {
        let lines = length.next_multiple_of(LINE);
        if lines.is_multiple_of(PAGE) { lines + LINE } else { lines }
    }
}

impl Drop for Arena {
    fn drop(&mut self) {
        self.memory.zeroize();
    }
}

/// Length of a cache line, in bytes.
const LINE: usize = 64;

/// Length of the smallest page, and of one way of an L1 cache, in bytes.
const PAGE: usize = 4096;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn buffers_begin_on_lines_and_not_a_page_apart() {
        let mut arena = Arena::new();
        for length in [0, 1, 64, 100, 4095, 4096, 16384] {
            let starts: Vec<_> = arena
                .buffers(std::iter::repeat_n(length, 5))
                .map(|buffer| {
                    assert_eq!(buffer.len(), length);
                    buffer.as_ptr().addr()
                })
                .collect();
            assert!(starts.iter().all(|start| start.is_multiple_of(LINE)));
            assert!(starts.windows(2).all(|pair| !(pair[1] - pair[0]).is_multiple_of(PAGE)));
        }
    }

    #[test]
    fn memory_is_reused() {
        let mut arena = Arena::new();
        let mut first = |lengths: &[usize]| {
            arena.buffers(lengths.iter().copied()).next().map(|buffer| buffer.as_ptr().addr())
        };
        let large = first(&[5000, 5000]);
        assert_eq!(first(&[100, 9000, 7]), large);
    }

    #[test]
    fn buffers_do_not_overlap() {
        let mut arena = Arena::new();
        let lengths = [3, 64, 0, 4096, 17];
        for (index, buffer) in arena.buffers(lengths.into_iter()).enumerate() {
            buffer.fill(index as u8);
        }
        for (index, buffer) in arena.buffers(lengths.into_iter()).enumerate() {
            assert!(buffer.iter().all(|&byte| byte == index as u8));
        }
    }
}
