//! Tests of age's payload, with headers that hide nothing. `evener-keys` tests real ones.

use evener_core::Direction;
use sha2::{Digest, Sha256};
use zeroize::Zeroizing;

use super::{OpenError, open, process, seal, text};
use crate::header::random;
use crate::{Age, AgeFileKey, AgeHeaders, ChunkIv, FormatError, Layout, Recipe};

/// A recipe whose headers show the file key.
pub(super) fn recipe() -> Recipe {
    Recipe::age(Plain)
}

#[derive(Debug)]
struct Plain;

impl AgeHeaders for Plain {
    fn create(&self) -> Result<(AgeFileKey, Vec<u8>), FormatError> {
        let file_key = Zeroizing::new(random()?);
        let header = header(&file_key);
        Ok((file_key, header))
    }

    fn open(&self, header: &[u8]) -> Result<AgeFileKey, FormatError> {
        let changed = || FormatError::Age("its header was changed".to_owned());
        let text = std::str::from_utf8(header).map_err(|_| changed())?;
        let hex = text.get(START.len()..START.len() + 32).ok_or_else(changed)?;
        let mut file_key = Zeroizing::new([0; 16]);
        for (byte, at) in file_key.iter_mut().zip((0..32).step_by(2)) {
            let digits = hex.get(at..at + 2).ok_or_else(changed)?;
            *byte = u8::from_str_radix(digits, 16).map_err(|_| changed())?;
        }
        if header == self::header(&file_key) { Ok(file_key) } else { Err(changed()) }
    }

    fn longest(&self) -> usize {
        header(&[0; 16]).len()
    }
}

fn header(file_key: &[u8; 16]) -> Vec<u8> {
    let hex = |bytes: &[u8]| bytes.iter().map(|byte| format!("{byte:02x}")).collect::<String>();
    let stanza = format!("{START}{}", hex(file_key));
    let sum = hex(&Sha256::digest(&stanza));
    format!("{stanza}\n--- {sum}\n").into_bytes()
}

const START: &str = "age-encryption.org/v1\n-> plain\n";

/// C2SP age: the nonce is the chunk's number in 11 bytes, and 1 in the last chunk.
#[test]
fn a_chunk_has_the_nonce_of_stream() {
    let (file, _) = recipe().create().unwrap();
    let layout = Layout::for_plaintext(file.geometry(), 300 * CHUNK).unwrap();
    let iv = |index| match file.iv(&layout.chunk(index)) {
        ChunkIv::Known(iv) => iv.bytes().to_vec(),
        ChunkIv::PreviousBlock => panic!("chunks do not chain"),
    };
    assert_eq!(iv(0), [0; 12]);
    assert_eq!(iv(256), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 0, 0]);
    assert_eq!(iv(299), [0, 0, 0, 0, 0, 0, 0, 0, 0, 1, 43, 1]);
    assert!(file.is_committed());
}

#[test]
fn a_payload_of_an_impossible_length_is_refused() {
    let sealed = seal(&recipe(), &text(3 * CHUNK as usize));
    let header = Age::header_length(&sealed).unwrap() + 16;
    for chunks in 0..3 {
        let end = header + chunks * (CHUNK as usize + 16);
        for tail in 0..=16 {
            let cut = open(&recipe(), &sealed[..end + tail]).unwrap_err();
            let is_possible = tail == 0 && chunks > 0 || tail == 16 && chunks == 0;
            let expected = match is_possible {
                true => OpenError::Chunk,
                false => OpenError::Format(FormatError::Truncated),
            };
            assert_eq!(cut, expected, "{chunks} chunks and {tail} bytes");
        }
        let longer = [&sealed[..], &vec![0; 17 + chunks]].concat();
        assert_eq!(open(&recipe(), &longer), Err(OpenError::Chunk));
    }
}

/// An empty last chunk belongs to an empty payload only, even if it is authentic.
#[test]
fn an_empty_chunk_behind_others_is_refused() {
    let (file, header) = recipe().create().unwrap();
    let layout = Layout::for_plaintext(file.geometry(), CHUNK).unwrap();
    let mut sealed = header.bytes().to_vec();
    let plain = text(CHUNK as usize);
    for (index, plain) in [&plain[..], &[]].into_iter().enumerate() {
        let last = index == 1;
        let chunk = crate::Chunk { index: index as u64, last, ..layout.chunk(0) };
        let ChunkIv::Known(iv) = file.iv(&chunk) else { panic!("chunks do not chain") };
        let padding = file.padding(last);
        let (cipher, key) = (file.cipher(), file.key());
        sealed.extend(process(cipher, Direction::Encrypt, key, iv, padding, plain).unwrap());
    }
    assert_eq!(open(&recipe(), &sealed), Err(OpenError::Format(FormatError::Truncated)));
}

#[test]
fn a_header_is_read_to_its_end_and_no_further() {
    let recipe = recipe();
    let sealed = seal(&recipe, b"text");
    let end = Age::header_length(&sealed).unwrap() + 16;
    assert_eq!(recipe.bytes_to_open(&sealed), end);
    assert_eq!(recipe.bytes_to_open(&sealed[..end - 16]), end);
    assert!(recipe.bytes_to_open(&sealed[..end - 17]) > end - 17);
    assert!((1..1 << 16).contains(&recipe.bytes_to_open(b"")));
    assert!(recipe.bytes_to_open(b"age") > 3);
    // A file of another format shows at once that it is one.
    assert!(recipe.bytes_to_open(b"Salted__") <= 8);
    for length in 0..end {
        assert!(recipe.open(&sealed[..length]).is_err(), "{length}");
    }
    let mut endless = START.as_bytes().to_vec();
    endless.resize(2 * Age::LONGEST_HEADER, b'A');
    assert!(recipe.bytes_to_open(&endless) < endless.len());
    let error = recipe.open(&endless).unwrap_err().to_string();
    assert!(error.contains("longer than 1 MiB"), "{error}");
    let garbage = recipe.open(b"Salted__12345678").unwrap_err().to_string();
    assert!(garbage.contains("age-encryption.org"), "{garbage}");
}

#[test]
fn every_file_has_its_own_key_and_nonce() {
    let recipe = recipe();
    let files: Vec<_> = (0..100).map(|_| recipe.create().unwrap()).collect();
    let keys: std::collections::HashSet<_> =
        files.iter().map(|(file, _)| file.key().bytes().to_vec()).collect();
    let nonces: std::collections::HashSet<_> = files
        .iter()
        .map(|(_, header)| header.bytes()[header.bytes().len() - 16..].to_vec())
        .collect();
    assert_eq!((keys.len(), nonces.len()), (100, 100));
}

const CHUNK: u64 = 65_536;
