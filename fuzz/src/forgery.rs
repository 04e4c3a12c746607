//! Files of the authenticated formats that were changed after sealing.

use std::sync::LazyLock;

use evener_core::Key;
use evener_format::{CobblestoneSuite, HkdfHash, Recipe, TinkKey};
use evener_place::{KeyRing, buffer};
use zeroize::Zeroizing;

use crate::readers::{open_in_parts, open_piped, open_whole, run};

/// Files in the formats of C2SP chunked encryption; see [`changed`].
pub fn cobblestone(data: &[u8]) {
    changed(&COBBLESTONE, data);
}

/// Tink's streams; see [`changed`].
pub fn tink(data: &[u8]) {
    changed(&TINK, data);
}

/// The first byte decides whether the rest is a whole file, which nobody can have sealed, or a
/// script that changes a sealed file. An unchanged file opens, everything else is refused, and no
/// byte comes out that was not sealed.
fn changed(rings: &[Ring], data: &[u8]) {
    let Some((&choice, rest)) = data.split_first() else { return };
    let ring = &rings[usize::from(choice >> 4) % rings.len()];
    let (original, sealed) = &ring.files[usize::from(choice >> 1) % ring.files.len()];
    let forged = match choice & 1 {
        0 => rest.to_vec(),
        _ => edit(sealed, &ring.files, rest),
    };
    // Another of the ring's files is also genuine.
    let genuine = ring.files.iter().find(|(_, sealed)| *sealed == forged);
    let genuine = genuine.map(|(original, _)| original);
    let whole = open_whole(&ring.keys, &forged);
    assert_eq!(whole.as_ref(), genuine, "in memory");
    assert_eq!(open_in_parts(&ring.keys, &forged).as_ref(), genuine, "in parts");
    let (piped, complete) = open_piped(&ring.keys, &forged);
    assert_eq!(complete, genuine.is_some(), "from a pipe");
    match genuine {
        Some(original) => assert!(piped == *original, "from a pipe"),
        // A file that changes in the middle yields the text before the change.
        None => assert!(
            piped.is_empty() || ring.files.iter().any(|(plain, _)| plain.starts_with(&piped)),
            "{} bytes that nobody sealed, beside a file of {}",
            piped.len(),
            original.len()
        ),
    }
}

/// Changes a file by a script of eight bytes a step: flips, cuts, doubles, removes and moves
/// pieces, and inserts pieces of other files.
fn edit(sealed: &[u8], others: &[(Vec<u8>, Vec<u8>)], script: &[u8]) -> Vec<u8> {
    let mut file = sealed.to_vec();
    for step in script.chunks_exact(8) {
        let place = |at: usize, length: usize| {
            let number = u32::from_le_bytes([step[at], step[at + 1], step[at + 2], 0]) as usize;
            number % (length + 1)
        };
        let at = place(1, file.len());
        let length = place(4, (file.len() - at).min(40_000));
        match step[0] % 7 {
            0 if at < file.len() => file[at] ^= step[7],
            1 => file.truncate(at),
            2 => drop(file.drain(at..at + length)),
            3 if file.len() < 100_000 => {
                let piece = file[at..at + length].to_vec();
                file.splice(at..at, piece);
            }
            4 => file[at..at + length].reverse(),
            5 => {
                let other = &others[usize::from(step[7]) % others.len()].1;
                let end = (at + length).min(other.len());
                let piece = other.get(at..end).unwrap_or_default();
                let until = (at + piece.len()).min(file.len());
                file.splice(at..until, piece.iter().copied());
            }
            6 => file.extend_from_slice(&step[1..]),
            _ => {}
        }
    }
    file
}

/// Keys, and some files sealed with them.
struct Ring {
    keys: KeyRing,
    files: Vec<(Vec<u8>, Vec<u8>)>,
}

impl Ring {
    /// A ring with files of these lengths, sealed with the first recipe.
    fn new(keys: KeyRing, lengths: &[usize]) -> Ring {
        let seal = |&length: &usize| {
            let plain: Vec<u8> = (0..length).map(|index| (index * 31 % 251) as u8).collect();
            let sealed = buffer::sealed_length(&keys, length as u64).expect("a length");
            let mut sealed = vec![0; sealed as usize];
            buffer::seal(&keys, &plain, &mut sealed, &run()).expect("sealed");
            (plain, sealed)
        };
        let files = lengths.iter().map(seal).collect();
        Ring { keys, files }
    }
}

static COBBLESTONE: LazyLock<Vec<Ring>> = LazyLock::new(|| {
    let recipe = |suite: CobblestoneSuite, context: &[u8]| {
        let key = Key::new(&[7; 32][..suite.key_length()]).expect("a key's length");
        KeyRing::new(Recipe::cobblestone(suite, &key, context).expect("a key of the suite"))
    };
    let lengths = [0, 1, 100, 16_383, 16_384, 16_385, 40_000];
    vec![
        Ring::new(recipe(CobblestoneSuite::Aes256Gcm, b"context"), &lengths),
        Ring::new(recipe(CobblestoneSuite::Aes128Gcm, b""), &lengths),
    ]
});

static TINK: LazyLock<Vec<Ring>> = LazyLock::new(|| {
    let recipe = |id: u8, hash: HkdfHash, derived_key_length, segment_length| {
        let value = Zeroizing::new(vec![id; 32]);
        let id = id.into();
        let key = TinkKey { id, value, hash, derived_key_length, segment_length };
        Recipe::tink(key, b"associated").expect("parameters that Tink takes")
    };
    let small = || KeyRing::new(recipe(1, HkdfHash::Sha256, 32, 57 + 100));
    let usual = || recipe(2, HkdfHash::Sha512, 16, 4096);
    vec![
        Ring::new(small(), &[0, 1, 99, 100, 101, 141, 142, 143, 1000]),
        Ring::new(KeyRing::new(usual()), &[0, 4000, 4056, 4057, 20_000]),
        // Only the first segment tells which of these keys it is.
        Ring::new(KeyRing::new(usual()).with(recipe(3, HkdfHash::Sha1, 16, 300)), &[0, 200, 5000]),
    ]
});
