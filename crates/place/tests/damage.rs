//! Damaged files of every format: they must give a one-line error that names the file, and never
//! wrong content under a final name.

mod common;

use std::fs;
use std::path::Path;

use common::{Options, bytes, cobblestone, every_key_ring, home, options, process, tink};
use evener_core::{Cipher, Iv, Key};
use evener_format::{CobblestoneSuite, Digest, OpensslSecret, Recipe};
use evener_place::{KeyRing, Operation, Report};
use zeroize::Zeroizing;

/// The structure of a format's files, as far as damaging them requires.
struct Anatomy {
    authenticated: bool,
    header: usize,
    /// The length of a sealed Tink or Cobblestone chunk; only Tink's is shorter than [`LENGTH`].
    chunk: usize,
}

/// More than two chunks of the shortest segments used here.
const LENGTH: usize = 1000;

/// Key rings with segments so short that a small file has several.
fn rings() -> Vec<(String, KeyRing, Anatomy)> {
    let mut rings: Vec<_> = every_key_ring()
        .into_iter()
        .filter(|(name, _)| !matches!(&**name, "tink" | "age"))
        .map(|(name, keys)| {
            let authenticated = name.starts_with("cobblestone");
            let header = keys.primary().bytes_to_open(&[]);
            (name, keys, Anatomy { authenticated, header, chunk: 16_400 })
        })
        .collect();
    let several = KeyRing::new(tink(1, 300)).with(tink(2, 400));
    for (name, keys) in [("tink", KeyRing::new(tink(1, 300))), ("tink, two keys", several)] {
        let anatomy = Anatomy { authenticated: true, header: 40, chunk: 300 };
        rings.push((name.to_owned(), keys, anatomy));
    }
    rings
}

/// Seals `content` in memory.
fn seal(keys: &KeyRing, content: &[u8]) -> Vec<u8> {
    let home = home();
    let [plain, sealed] = ["plain", "sealed"].map(|name| home.path().join(name));
    fs::write(&plain, content).unwrap();
    let report = process(Operation::Encrypt, keys, &plain, Some(&sealed), &options()).unwrap();
    assert!(report.is_success(), "{:?}", report.failures);
    fs::read(sealed).unwrap()
}

/// Decrypts all of `damaged` in one tree, beside an intact file, and checks the conditions that
/// hold for any damage. Returns each file's content, if decrypted.
fn open_all(
    name: &str,
    keys: &KeyRing,
    damaged: &[Vec<u8>],
    authenticated: bool,
) -> Vec<Option<Vec<u8>>> {
    open_all_with(&options(), name, keys, damaged, authenticated)
}

fn open_all_with(
    options: &Options,
    name: &str,
    keys: &KeyRing,
    damaged: &[Vec<u8>],
    authenticated: bool,
) -> Vec<Option<Vec<u8>>> {
    let whole = bytes(LENGTH);
    let home = home();
    let [sealed, back] = ["sealed", "back"].map(|name| home.path().join(name));
    fs::create_dir(&sealed).unwrap();
    fs::write(sealed.join("whole.enc"), seal(keys, &whole)).unwrap();
    for (number, content) in damaged.iter().enumerate() {
        fs::write(sealed.join(format!("{number:05}.enc")), content).unwrap();
    }
    let verified = process(Operation::Verify, keys, &sealed, None, options).unwrap();
    let report = process(Operation::Decrypt, keys, &sealed, Some(&back), options).unwrap();
    assert_eq!(fs::read(back.join("whole")).unwrap(), whole, "{name}: the good one");
    assert_eq!(report.files as usize + report.failures.len(), damaged.len() + 1, "{name}");
    assert_eq!(paths(&verified), paths(&report), "{name}: verify and decrypt disagree");
    for failure in &report.failures {
        let text = failure.error.to_string();
        assert!(!text.is_empty() && !text.contains('\n'), "{name}: {text:?}");
        assert!(failure.path.starts_with(&sealed), "{name}: {failure:?}");
    }
    assert_eq!(fs::read_dir(&back).unwrap().count() as u64, report.files, "{name}: leftovers");

    let outcomes: Vec<_> =
        (0..damaged.len()).map(|number| fs::read(back.join(format!("{number:05}"))).ok()).collect();
    for (number, outcome) in outcomes.iter().enumerate() {
        let failed = report.failures.iter().any(|f| is_number(&f.path, number));
        assert_eq!(outcome.is_none(), failed, "{name}: {number}");
    }
    if authenticated {
        for (number, outcome) in outcomes.iter().enumerate() {
            assert!(outcome.is_none(), "{name}: damage {number} went unnoticed");
        }
    }
    outcomes
}

fn paths(report: &Report) -> Vec<&Path> {
    report.failures.iter().map(|failure| &*failure.path).collect()
}

fn is_number(path: &Path, number: usize) -> bool {
    path.file_name().is_some_and(|name| *name == *format!("{number:05}.enc"))
}

#[test]
fn truncation_at_every_byte() {
    for (name, keys, anatomy) in rings() {
        for length in [0, 1, 300, LENGTH] {
            let whole = seal(&keys, &bytes(length));
            let damaged: Vec<_> = (0..whole.len()).map(|end| whole[..end].to_vec()).collect();
            let outcomes = open_all(&name, &keys, &damaged, anatomy.authenticated);
            for (end, outcome) in outcomes.iter().enumerate() {
                // Nothing authenticates `openssl enc`: at best its output is a prefix.
                let Some(content) = outcome else { continue };
                assert!(content.len() <= end, "{name}: {end}");
                assert!(end >= anatomy.header, "{name}: a header of {end} bytes was taken");
            }
        }
    }
}

#[test]
fn a_flipped_bit_in_every_byte() {
    for (name, keys, anatomy) in rings() {
        for length in [0, 40, 700] {
            let content = bytes(length);
            let whole = seal(&keys, &content);
            let damaged: Vec<_> = (0..whole.len())
                .map(|at| {
                    let mut damaged = whole.clone();
                    damaged[at] ^= 1 << (at % 8);
                    damaged
                })
                .collect();
            for outcome in open_all(&name, &keys, &damaged, anatomy.authenticated) {
                let same = outcome.as_deref() == Some(&*content);
                // Another salt gives another key, but in CTR an empty file encrypts nothing with it.
                assert!(!same || content.is_empty(), "{name}: no change was seen");
            }
        }
    }
}

/// All rearrangements of a file's chunks that are not the file itself.
fn rearranged(whole: &[u8], header: usize, chunk: usize, first: usize) -> Vec<Vec<u8>> {
    let (head, body) = whole.split_at(header);
    let (first, rest) = body.split_at(first);
    let mut chunks = vec![first];
    chunks.extend(rest.chunks(chunk));
    let count = chunks.len();
    assert!(count >= 3, "there is something to rearrange");
    let mut orders: Vec<Vec<usize>> = Vec::new();
    let identity: Vec<usize> = (0..count).collect();
    for a in 0..count {
        let dropped = identity.iter().copied().filter(|&index| index != a).collect();
        orders.push(dropped);
        orders.push((0..a).collect());
        for b in 0..count {
            let mut duplicated = identity.clone();
            duplicated.insert(b, a);
            orders.push(duplicated);
            let mut replaced = identity.clone();
            replaced[b] = a;
            orders.push(replaced);
            let mut swapped = identity.clone();
            swapped.swap(a, b);
            orders.push(swapped);
        }
    }
    orders.push(identity.iter().copied().chain(identity.iter().copied()).collect());
    orders.retain(|order| *order != identity);
    let build = |order: &Vec<usize>| {
        let mut file = head.to_vec();
        order.iter().for_each(|&index| file.extend(chunks[index]));
        file
    };
    let mut files: Vec<_> = orders.iter().map(build).collect();
    files.retain(|file| file != whole);
    files
}

#[test]
fn chunks_reordered_duplicated_and_dropped() {
    for (name, keys, anatomy) in rings().into_iter().filter(|ring| ring.2.authenticated) {
        let Anatomy { header, chunk, .. } = anatomy;
        let first = if chunk == 300 { chunk - header } else { chunk };
        let whole_chunks = seal(&keys, &bytes(3 * (chunk - 16) - (chunk - first)));
        for whole in [seal(&keys, &bytes(2 * chunk + 77)), whole_chunks] {
            let damaged = rearranged(&whole, header, chunk, first);
            open_all(&name, &keys, &damaged, true);
        }
    }
}

#[test]
fn chunks_of_another_file_with_the_same_key() {
    for (name, keys, anatomy) in rings().into_iter().filter(|ring| ring.2.authenticated) {
        let Anatomy { header, chunk, .. } = anatomy;
        let length = 2 * chunk;
        let (one, other) = (seal(&keys, &bytes(length)), seal(&keys, &bytes(length)));
        let second = if chunk == 300 { chunk } else { header + chunk };
        let mut damaged = Vec::new();
        for range in [0..header, header..second, second..one.len(), 0..second] {
            let mut mixed = one.clone();
            mixed[range.clone()].copy_from_slice(&other[range]);
            damaged.push(mixed);
        }
        open_all(&name, &keys, &damaged, true);
    }
}

#[test]
fn damage_in_every_segment_of_a_long_file() {
    for (name, keys, anatomy) in rings() {
        // Room for one chunk of Cobblestone or `openssl enc`.
        let room = if anatomy.chunk == 300 || !anatomy.authenticated { 65_600 } else { 16_500 };
        let segmented = options().with(|it| it.run.memory = 4 * room);
        let whole = seal(&keys, &bytes(3 * room));
        let middles = (room / 2..whole.len()).step_by(room);
        let mut damaged: Vec<_> = middles
            .map(|at| {
                let mut damaged = whole.clone();
                damaged[at] ^= 0x10;
                damaged
            })
            .collect();
        let ends = [room, 2 * room, whole.len() - 1, whole.len() - 16];
        damaged.extend(ends.map(|end| whole[..end].to_vec()));
        open_all_with(&segmented, &name, &keys, &damaged, anatomy.authenticated);
    }
}

#[test]
fn trailing_garbage() {
    for (name, keys, anatomy) in rings() {
        for length in [0, 1, 299, LENGTH, 16_383, 16_384] {
            let whole = seal(&keys, &bytes(length));
            let damaged: Vec<_> = (1..40)
                .chain([255, 256, 300, 16_384, 16_400])
                .flat_map(|extra| [vec![0; extra], bytes(extra)])
                .map(|garbage| [&whole[..], &garbage].concat())
                .collect();
            open_all(&name, &keys, &damaged, anatomy.authenticated);
        }
    }
}

#[test]
fn files_of_another_format_or_none() {
    let every: Vec<_> =
        rings().iter().map(|(name, keys, _)| (name.clone(), seal(keys, &bytes(500)))).collect();
    for (name, keys, anatomy) in rings() {
        let mut damaged: Vec<_> = every
            .iter()
            .filter(|(other, _)| kind(other) != kind(&name))
            .map(|(_, file)| file.clone())
            .collect();
        damaged.extend([
            Vec::new(),
            b"Salted__".to_vec(),
            b"plain text\n".repeat(30),
            vec![0; 600],
        ]);
        damaged.extend([vec![40; 700], vec![0xFF; 5000]]);
        open_all(&name, &keys, &damaged, anatomy.authenticated);
    }
}

/// The key rings of `tink` read each other's files; those of openssl can't detect each other's.
fn kind(name: &str) -> &str {
    name.split([' ', ',']).next().unwrap_or(name)
}

#[test]
fn wrong_keys_and_wrong_contexts() {
    let key = |byte, length| Key::new(&vec![byte; length]).unwrap();
    let cobblestone_with = |suite, byte, length, context: &[u8]| {
        KeyRing::new(Recipe::cobblestone(suite, &key(byte, length), context).unwrap())
    };
    let large = CobblestoneSuite::Aes256Gcm;
    let sealed = seal(&cobblestone(), &bytes(LENGTH));
    for wrong in [
        cobblestone_with(large, 8, 32, b"context"),
        cobblestone_with(large, 7, 32, b"other"),
        cobblestone_with(large, 7, 32, b""),
        cobblestone_with(CobblestoneSuite::Aes128Gcm, 7, 16, b"context"),
        KeyRing::new(tink(1, 300)),
    ] {
        open_all("cobblestone", &wrong, std::slice::from_ref(&sealed), true);
    }
    let sealed = seal(&KeyRing::new(tink(1, 300)), &bytes(LENGTH));
    for wrong in [
        KeyRing::new(tink(2, 300)),
        KeyRing::new(tink(1, 301)),
        KeyRing::new(tink(2, 300)).with(tink(3, 300)),
        cobblestone(),
    ] {
        open_all("tink", &wrong, std::slice::from_ref(&sealed), true);
    }
}

#[test]
fn a_wrong_passphrase_is_noticed_by_the_padding_alone() {
    let ring = |passphrase: &[u8]| {
        let passphrase = Zeroizing::new(passphrase.to_vec());
        let secret =
            OpensslSecret::Passphrase { passphrase, digest: Digest::Sha256, iterations: 1 };
        KeyRing::new(Recipe::openssl_enc(Cipher::Aes256Cbc, secret).unwrap())
    };
    let (right, wrong) = (ring(b"right"), ring(b"wrong"));
    let sealed: Vec<_> = (0..400).map(|length| seal(&right, &bytes(length))).collect();
    let outcomes = open_all("openssl", &wrong, &sealed, false);
    let noticed = outcomes.iter().filter(|outcome| outcome.is_none()).count();
    // Padding looks valid by chance once in 255 files.
    assert!(noticed > 380, "{noticed} of 400 were noticed");

    let raw = |byte| {
        let secret = OpensslSecret::Raw {
            key: Key::new(&[byte; 24]).unwrap(),
            iv: Iv::new(&[4; 8]).unwrap(),
        };
        KeyRing::new(Recipe::openssl_enc(Cipher::DesEde3Cbc, secret).unwrap())
    };
    // Lengths that are not whole blocks are refused before any decryption.
    for length in [1, 7, 9, 4097] {
        let outcomes = open_all("openssl, raw", &raw(3), &[bytes(length)], false);
        assert_eq!(outcomes, [None]);
    }
}

#[test]
fn keys_of_other_lengths_are_no_panic() {
    for length in [1, 15, 16, 31, 33, 64] {
        let key = Key::new(&vec![1; length]).unwrap();
        let recipe = Recipe::cobblestone(CobblestoneSuite::Aes256Gcm, &key, b"");
        assert!(recipe.is_err(), "{length}");
    }
}
