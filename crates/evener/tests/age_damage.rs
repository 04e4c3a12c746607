//! Random damage to files of age: no reader accepts one with other bytes.

use std::env;
use std::fs;
use std::io::Read;
use std::path::Path;

use evener::keys::age::{FileHeaders, Identity, Recipient};
use evener::{Base64, Evener, KeyRing, Operation, StreamSource, StreamTarget};

#[test]
fn whole_files_are_accepted() {
    let stock = Stock::new();
    let home = home();
    for file in &stock.files {
        for read in file.readers() {
            assert!(read(&stock.evener, &file.sealed, &file.plain, home.path()));
        }
    }
}

/// `EVENER_AGE_DAMAGES` sets the number of damaged files; 400 if it is not set.
#[test]
fn damaged_files_are_refused() {
    let wanted = env::var("EVENER_AGE_DAMAGES").ok().and_then(|number| number.parse().ok());
    let wanted: usize = wanted.unwrap_or(400);
    let mut random = Random(1);
    let stock = Stock::new();
    let home = home();
    let (mut counts, mut harmless) = ([0_usize; Damage::ALL.len()], 0);
    while counts.iter().sum::<usize>() < wanted {
        let kind = random.below(counts.len());
        let file = &stock.files[random.below(stock.files.len())];
        let other = &stock.files[random.below(stock.files.len())];
        let damaged = Damage::ALL[kind].apply(&mut random, file, other);
        if damaged == file.sealed || damaged == other.sealed {
            continue;
        }
        counts[kind] += 1;
        let readers = file.readers();
        let read = readers[random.below(readers.len())];
        let is_accepted = read(&stock.evener, &damaged, &file.plain, home.path());
        // Some armor differs in nothing but blanks.
        let what = Damage::ALL[kind];
        assert!(!is_accepted || file.is_armored, "{what:?}, damaged file {}", counts[kind]);
        harmless += usize::from(is_accepted);
    }
    for (kind, count) in Damage::ALL.iter().zip(counts) {
        println!("{count} files with {kind:?}");
    }
    println!("{harmless} of them, armored, were accepted with the bytes that were encrypted");
    assert!(harmless * 10 < wanted, "hardly any file was damaged");
}

#[derive(Clone, Copy, Debug)]
enum Damage {
    Flip,
    Cut,
    MissingPieces,
    SwappedPieces,
    RepeatedPieces,
    InsertedBytes,
    /// Pieces of another file of the same recipients.
    ForeignPieces,
    /// The other file's end after this one's beginning, both up to a piece.
    ForeignEnd,
}

impl Damage {
    const ALL: [Damage; 8] = [
        Damage::Flip,
        Damage::Cut,
        Damage::MissingPieces,
        Damage::SwappedPieces,
        Damage::RepeatedPieces,
        Damage::InsertedBytes,
        Damage::ForeignPieces,
        Damage::ForeignEnd,
    ];

    fn apply(self, random: &mut Random, file: &File, other: &File) -> Vec<u8> {
        let sealed = &file.sealed;
        let (from, to) = file.some_pieces(random);
        let (before, pieces, after) = (&sealed[..from], &sealed[from..to], &sealed[to..]);
        match self {
            Damage::Flip => {
                let mut damaged = sealed.clone();
                damaged[random.place(file)] ^= 1 << random.below(8);
                damaged
            }
            Damage::Cut => sealed[..random.place(file)].to_vec(),
            Damage::MissingPieces => [before, after].concat(),
            Damage::SwappedPieces => {
                let (next, end) = file.pieces_from(to, random);
                [before, &sealed[next..end], pieces, &sealed[end..]].concat()
            }
            Damage::RepeatedPieces => [before, pieces, pieces, after].concat(),
            Damage::InsertedBytes => {
                let length = [1, 16, 1 + random.below(100)][random.below(3)];
                let at = random.place(file);
                [&sealed[..at], &random.bytes(length), &sealed[at..]].concat()
            }
            Damage::ForeignPieces => {
                let (begin, end) = other.some_pieces(random);
                [before, &other.sealed[begin..end], after].concat()
            }
            Damage::ForeignEnd => {
                let (begin, _) = other.some_pieces(random);
                [before, &other.sealed[begin..]].concat()
            }
        }
    }
}

/// A file, and the places where its pieces begin: the lines of its header or armor, its nonce, and
/// its chunks.
struct File {
    plain: Vec<u8>,
    sealed: Vec<u8>,
    is_armored: bool,
    pieces: Vec<usize>,
}

impl File {
    fn new(evener: Evener, plain: Vec<u8>, is_armored: bool) -> File {
        let evener = evener.with_options(|options| {
            options.stream.base64 = is_armored.then_some(Base64::Armour);
        });
        let mut sealed = Vec::new();
        evener.encrypt_stream(&plain[..], &mut sealed).unwrap();
        let lines = (1..=sealed.len()).filter(|&end| sealed[end - 1] == b'\n');
        let mut pieces = vec![0];
        if is_armored {
            pieces.extend(lines);
        } else {
            let is_mac = |&end: &usize| sealed[..end].ends_with(b"\n--- ");
            let mac = (5..sealed.len()).find(is_mac).unwrap();
            let header = mac + sealed[mac..].iter().position(|&byte| byte == b'\n').unwrap() + 1;
            pieces.extend(lines.take_while(|&end| end <= header));
            pieces.extend((header + 16..sealed.len()).step_by(CHUNK + 16));
            pieces.push(sealed.len());
        }
        File { plain, sealed, is_armored, pieces }
    }

    /// Those who read it, as [`Reader`] says; armor is read from beginning to end only.
    fn readers(&self) -> &'static [Reader] {
        const ALL: [Reader; 4] = [as_stream, as_file, as_bytes, at_places];
        if self.is_armored { &ALL[..2] } else { &ALL }
    }

    /// The beginning and end of one to three pieces.
    fn some_pieces(&self, random: &mut Random) -> (usize, usize) {
        let first = random.below(self.pieces.len() - 1);
        self.pieces_from(self.pieces[first], random)
    }

    fn pieces_from(&self, begin: usize, random: &mut Random) -> (usize, usize) {
        let first = self.pieces.iter().position(|&place| place == begin).unwrap();
        let last = (first + 1 + random.below(3)).min(self.pieces.len() - 1);
        (begin, self.pieces[last])
    }
}

/// Files of each length, binary and armored, and the keys that open them.
struct Stock {
    evener: Evener,
    files: Vec<File>,
}

impl Stock {
    fn new() -> Stock {
        let lengths = [0, 1, 100, 1000, CHUNK - 1, CHUNK, CHUNK + 1, 2 * CHUNK, 3 * CHUNK + 7];
        let identities: Vec<_> = (0..4).map(|_| Identity::generate()).collect();
        let mut random = Random(2);
        let mut files = Vec::new();
        for (number, length) in lengths.into_iter().cycle().take(4 * lengths.len()).enumerate() {
            let recipients = &identities[..1 + number % identities.len()];
            let recipients = recipients.iter().filter_map(Identity::recipient).collect();
            let evener = evener(identities.clone(), recipients);
            files.push(File::new(evener, random.bytes(length), number >= 2 * lengths.len()));
        }
        Stock { evener: evener(identities, Vec::new()), files }
    }
}

fn evener(identities: Vec<Identity>, recipients: Vec<Recipient>) -> Evener {
    let headers = FileHeaders::opened_by(identities, None);
    let headers = match recipients.is_empty() {
        true => headers,
        false => headers.for_recipients(recipients).unwrap(),
    };
    Evener::builder(KeyRing::new(headers.recipe())).engines(&["openssl"]).build().unwrap()
}

/// Reads a file that may be damaged. Returns whether it was accepted, which it is with the right bytes only.
type Reader = fn(&Evener, &[u8], &[u8], &Path) -> bool;

/// Before a failure, whole chunks of the right bytes may have come out.
fn as_stream(evener: &Evener, damaged: &[u8], plain: &[u8], _: &Path) -> bool {
    let mut output = Vec::new();
    let is_accepted = evener.decrypt_stream(damaged, &mut output).is_ok();
    assert!(plain.starts_with(&output), "other bytes came out");
    assert!(!is_accepted || output == plain, "bytes are missing");
    assert!(is_accepted || output.len().is_multiple_of(CHUNK), "half a chunk came out");
    is_accepted
}

fn as_file(evener: &Evener, damaged: &[u8], plain: &[u8], home: &Path) -> bool {
    let (source, target) = (home.join("damaged.age"), home.join("opened"));
    fs::write(&source, damaged).unwrap();
    let result = match damaged.starts_with(b"age-encryption.org/v1\n") {
        true => evener.decrypt(&source, &target),
        false => evener.process_stream(
            Operation::Decrypt,
            StreamSource::File(source),
            StreamTarget::File(target.clone()),
        ),
    };
    assert_eq!(target.exists(), result.is_ok(), "what failed has no name");
    if result.is_ok() {
        assert!(fs::read(&target).unwrap() == plain, "other bytes came out");
        fs::remove_file(&target).unwrap();
    }
    result.is_ok()
}

fn as_bytes(evener: &Evener, damaged: &[u8], plain: &[u8], _: &Path) -> bool {
    let result = evener.open_bytes(damaged);
    assert!(result.as_ref().is_ok_and(|opened| **opened == plain) || result.is_err());
    result.is_ok()
}

/// The last chunk is checked first, the others as they are read.
fn at_places(evener: &Evener, damaged: &[u8], plain: &[u8], home: &Path) -> bool {
    let source = home.join("damaged.age");
    fs::write(&source, damaged).unwrap();
    let Ok(mut opened) = evener.open_at(&source) else { return false };
    let mut output = Vec::new();
    let is_accepted = opened.read_to_end(&mut output).is_ok();
    assert!(plain.starts_with(&output), "other bytes came out");
    assert!(!is_accepted || output == plain, "bytes are missing");
    is_accepted
}

fn home() -> tempfile::TempDir {
    tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).unwrap()
}

struct Random(u64);

impl Random {
    /// SplitMix64.
    fn next(&mut self) -> u64 {
        self.0 = self.0.wrapping_add(0x9E37_79B9_7F4A_7C15);
        let mixed = (self.0 ^ self.0 >> 30).wrapping_mul(0xBF58_476D_1CE4_E5B9);
        let mixed = (mixed ^ mixed >> 27).wrapping_mul(0x94D0_49BB_1331_11EB);
        mixed ^ mixed >> 31
    }

    fn below(&mut self, limit: usize) -> usize {
        (self.next() % limit as u64) as usize
    }

    fn bytes(&mut self, length: usize) -> Vec<u8> {
        (0..length).map(|_| self.next() as u8).collect()
    }

    /// A place in a file: anywhere, in its beginning, or near one where a piece begins.
    fn place(&mut self, file: &File) -> usize {
        let length = file.sealed.len();
        let place = match self.below(3) {
            0 => self.below(length),
            1 => self.below(length.min(500)),
            _ => {
                let piece = file.pieces[self.below(file.pieces.len())];
                (piece + self.below(40)).saturating_sub(20)
            }
        };
        place.min(length - 1)
    }
}

const CHUNK: usize = 65_536;
