//! Checks chunk arithmetic against a model that divides step by step.

use std::collections::HashMap;

use super::scramble;
use crate::{Chunk, Ending, FormatError, Geometry, Layout};

#[test]
fn every_small_geometry_agrees_with_the_model() {
    for geometry in small_geometries() {
        let mut files = HashMap::new();
        for plain_length in 0..=30 {
            let chunks = cut(&geometry, plain_length);
            let layout = Layout::for_plaintext(&geometry, plain_length).unwrap();
            assert_eq!(all(&layout), chunks, "{geometry:?} {plain_length}");
            assert_eq!(layout.plain_length(), plain_length);
            assert_eq!(layout.sealed_length(), chunks.last().unwrap().sealed.end);
            assert_eq!(layout.chunk(u64::MAX), layout.chunk(layout.chunks() - 1));
            check_random_access(&layout);
            // With padding, the longest plaintext of a sealed length comes last, and replaces the
            // others.
            files.insert(layout.sealed_length(), layout);
        }
        for sealed_length in 0..=30 {
            let expected = files.get(&sealed_length).cloned().ok_or(FormatError::Truncated);
            let layout = Layout::for_sealed(&geometry, sealed_length);
            assert_eq!(layout, expected, "{geometry:?} {sealed_length}");
        }
    }
}

#[test]
fn pipes_cut_as_files_do() {
    for geometry in small_geometries() {
        for length in 0..=30 {
            let layout = Layout::for_plaintext(&geometry, length).unwrap();
            for chunk in all(&layout) {
                let (index, plain) = (chunk.index, chunk.plain.end - chunk.plain.start);
                let sealed = chunk.sealed.end - chunk.sealed.start;
                if chunk.last {
                    assert_eq!(geometry.last_chunk_of_plaintext(index, plain).unwrap(), chunk);
                    let read = geometry.last_chunk_of_sealed(index, sealed).unwrap();
                    assert_eq!(read.sealed, chunk.sealed);
                } else {
                    assert_eq!(plain, geometry.full_plain_length(index));
                    assert_eq!(sealed, geometry.full_sealed_length(index));
                    assert_eq!(geometry.full_chunk(index).unwrap(), chunk);
                }
            }
        }
    }
}

#[test]
fn the_formats_agree_around_every_boundary() {
    for geometry in FORMATS {
        let full = |n: u64| geometry.first.saturating_add(n.saturating_mul(geometry.chunk));
        for boundary in [0, 1, 2, 3, 1_000, 1 << 31].map(full).into_iter().chain([0]) {
            for plain_length in boundary.saturating_sub(20)..=boundary + 20 {
                check_both_ways(&geometry, plain_length);
            }
        }
        let mut state = 7;
        for _ in 0..20_000 {
            state = scramble(state);
            check_both_ways(&geometry, state >> (21 + state % 40));
        }
    }
}

#[test]
fn the_formats_end_where_their_documents_say() {
    let [cobblestone, tink, ..] = FORMATS;
    let most = (1_u64 << 38) * 16_384 - 1;
    let layout = Layout::for_plaintext(&cobblestone, most).unwrap();
    assert_eq!(layout.chunks(), 1 << 38);
    assert_eq!(layout.sealed_length(), 56 + most + (1 << 42));
    assert_eq!(Layout::for_plaintext(&cobblestone, most + 1), Err(FormatError::TooLong));
    let longer = Layout::for_sealed(&cobblestone, layout.sealed_length() + 17);
    assert_eq!(longer, Err(FormatError::TooLong));
    assert!(cobblestone.full_chunk((1 << 38) - 2).is_ok());
    assert_eq!(cobblestone.full_chunk((1 << 38) - 1), Err(FormatError::TooLong));

    let most = tink.first + u64::from(u32::MAX) * tink.chunk;
    let layout = Layout::for_plaintext(&tink, most).unwrap();
    assert_eq!(layout.chunk(u64::MAX).index, u64::from(u32::MAX));
    assert_eq!(layout.sealed_length(), 4_096 << 32);
    assert_eq!(Layout::for_plaintext(&tink, most + 1), Err(FormatError::TooLong));
    assert_eq!(Layout::for_sealed(&tink, (4_096 << 32) + 17), Err(FormatError::TooLong));
}

#[test]
fn no_number_panics() {
    let mut state = 3;
    let mut number = || {
        state = scramble(state);
        let choice = state >> 60;
        state = scramble(state);
        match choice {
            0..4 => choice,
            4..6 => u64::MAX - choice,
            6 => i64::MAX as u64,
            _ => state >> (state % 64),
        }
    };
    for round in 0..200_000 {
        let ending = match round % 4 {
            0 => Ending::Shorter,
            1 => Ending::MayBeFull,
            2 => Ending::Padded { block: number() },
            _ => Ending::Exact,
        };
        let geometry = Geometry {
            header: number(),
            first: number(),
            chunk: number(),
            overhead: number(),
            ending,
            most_chunks: number(),
        };
        for layout in
            [Layout::for_plaintext(&geometry, number()), Layout::for_sealed(&geometry, number())]
                .into_iter()
                .flatten()
        {
            let chunk = layout.chunk(number());
            assert!(chunk.plain.start <= chunk.plain.end && chunk.sealed.start <= chunk.sealed.end);
            assert!(layout.chunk_at(number()).is_none_or(|index| index < layout.chunks()));
        }
        let _ = geometry.full_chunk(number());
        let _ = geometry.last_chunk_of_plaintext(number(), number());
        let _ = geometry.last_chunk_of_sealed(number(), number());
        let _ = geometry.full_sealed_length(number());
    }
}

fn check_both_ways(geometry: &Geometry, plain_length: u64) {
    let layout = Layout::for_plaintext(geometry, plain_length).unwrap();
    assert_eq!(layout.plain_length(), plain_length);
    let read = Layout::for_sealed(geometry, layout.sealed_length()).unwrap();
    assert_eq!(read.chunks(), layout.chunks());
    assert_eq!(read.sealed_length(), layout.sealed_length());
    let slack = match geometry.ending {
        Ending::Padded { block } => block - 1 - plain_length % block,
        _ => 0,
    };
    assert_eq!(read.plain_length(), plain_length + slack, "{geometry:?}");
    let count = layout.chunks();
    for index in [0, 1, count / 2, count.saturating_sub(2), count - 1] {
        let (chunk, next) = (layout.chunk(index), layout.chunk(index + 1));
        assert!(chunk.last || chunk.plain.end == next.plain.start);
        assert!(chunk.last || chunk.sealed.end == next.sealed.start);
        assert_eq!(chunk.sealed, read.chunk(index).sealed);
    }
    assert_eq!(layout.chunk_at(plain_length), None);
    if let Some(offset) = plain_length.checked_sub(1) {
        let chunk = layout.chunk(layout.chunk_at(offset).unwrap());
        assert!(chunk.plain.contains(&offset));
    }
}

fn check_random_access(layout: &Layout) {
    for chunk in all(layout) {
        for offset in chunk.plain {
            assert_eq!(layout.chunk_at(offset), Some(chunk.index));
        }
    }
    assert_eq!(layout.chunk_at(layout.plain_length()), None);
}

fn all(layout: &Layout) -> Vec<Chunk> {
    (0..layout.chunks()).map(|index| layout.chunk(index)).collect()
}

/// The model: cuts one chunk after another, as the documents describe it.
fn cut(geometry: &Geometry, plain_length: u64) -> Vec<Chunk> {
    let mut chunks: Vec<Chunk> = Vec::new();
    let (mut plain, mut sealed) = (0, geometry.header);
    loop {
        let full = if chunks.is_empty() { geometry.first } else { geometry.chunk };
        let left = plain_length - plain;
        let last = match geometry.ending {
            Ending::Shorter | Ending::Padded { .. } => left < full,
            Ending::MayBeFull | Ending::Exact => left <= full,
        };
        let length = if last { left } else { full };
        let mut sealed_length = length + geometry.overhead;
        if let (Ending::Padded { block }, true) = (geometry.ending, last) {
            sealed_length = (length / block + 1) * block;
        }
        chunks.push(Chunk {
            index: chunks.len() as u64,
            plain: plain..plain + length,
            sealed: sealed..sealed + sealed_length,
            last,
        });
        if last {
            return chunks;
        }
        (plain, sealed) = (plain + length, sealed + sealed_length);
    }
}

fn small_geometries() -> Vec<Geometry> {
    let mut geometries = Vec::new();
    for header in 0..3 {
        for first in 1..5 {
            for chunk in 1..5 {
                let geometry = Geometry { header, first, chunk, ..FORMATS[4] };
                for overhead in 0..4 {
                    for ending in [Ending::Shorter, Ending::MayBeFull] {
                        geometries.push(Geometry { overhead, ending, ..geometry });
                    }
                }
                geometries.push(geometry);
                for block in 1..4 {
                    let (first, chunk) = (first * block, chunk * block);
                    let ending = Ending::Padded { block };
                    geometries.push(Geometry { first, chunk, ending, ..geometry });
                }
            }
        }
    }
    geometries
}

/// Cobblestone, Tink with a 16-byte key and segments of 4 KiB, age, and `openssl enc` with CBC and
/// with CTR.
const FORMATS: [Geometry; 5] = [
    Geometry {
        header: 56,
        first: 16_384,
        chunk: 16_384,
        overhead: 16,
        ending: Ending::Shorter,
        most_chunks: 1 << 38,
    },
    Geometry {
        header: 24,
        first: 4_096 - 40,
        chunk: 4_096 - 16,
        overhead: 16,
        ending: Ending::MayBeFull,
        most_chunks: 1 << 32,
    },
    Geometry {
        header: 250,
        first: 65_536,
        chunk: 65_536,
        overhead: 16,
        ending: Ending::MayBeFull,
        most_chunks: u64::MAX,
    },
    Geometry {
        header: 16,
        first: 65_536,
        chunk: 65_536,
        overhead: 0,
        ending: Ending::Padded { block: 16 },
        most_chunks: u64::MAX,
    },
    Geometry {
        header: 0,
        first: 65_536,
        chunk: 65_536,
        overhead: 0,
        ending: Ending::Exact,
        most_chunks: u64::MAX,
    },
];
