//! Tests of whole formats. OpenSSL encrypts the chunks here, one by one.

mod age;
mod geometry;
mod known_files;
mod recipes;
mod wycheproof;

use evener_core::{Cipher, Direction, Iv, Key, Padding};
use openssl::cipher::Cipher as Algorithm;
use openssl::cipher_ctx::CipherCtx;
use openssl::error::ErrorStack;
use openssl::provider::Provider;

use super::{Chunk, ChunkIv, FileCipher, FormatError, Layout, Recipe};

/// Makes a whole file.
pub(super) fn seal(recipe: &Recipe, plain: &[u8]) -> Vec<u8> {
    let (file, header) = recipe.create().unwrap();
    let layout = Layout::for_plaintext(file.geometry(), plain.len() as u64).unwrap();
    let mut sealed = header.bytes().to_vec();
    for chunk in (0..layout.chunks()).map(|index| layout.chunk(index)) {
        assert_eq!(sealed.len() as u64, chunk.sealed.start);
        let iv = iv(&file, &chunk, &sealed);
        let input = &plain[chunk.plain.start as usize..chunk.plain.end as usize];
        let padding = file.padding(chunk.last);
        let output =
            process(file.cipher(), Direction::Encrypt, file.key(), iv, padding, input).unwrap();
        assert_eq!(output.len() as u64, chunk.sealed.end - chunk.sealed.start);
        sealed.extend(output);
    }
    assert_eq!(sealed.len() as u64, layout.sealed_length());
    sealed
}

/// Reads a whole file, last chunk first, to check that any order works.
pub(super) fn open(recipe: &Recipe, sealed: &[u8]) -> Result<Vec<u8>, OpenError> {
    let file = recipe.open(sealed)?;
    let layout = Layout::for_sealed(file.geometry(), sealed.len() as u64)?;
    let mut plain = Vec::new();
    for chunk in (0..layout.chunks()).rev().map(|index| layout.chunk(index)) {
        let iv = iv(&file, &chunk, sealed);
        let input = &sealed[chunk.sealed.start as usize..chunk.sealed.end as usize];
        let padding = file.padding(chunk.last);
        let output = process(file.cipher(), Direction::Decrypt, file.key(), iv, padding, input)
            .map_err(|_| OpenError::Chunk)?;
        assert!(output.len() as u64 <= chunk.plain.end - chunk.plain.start);
        assert!(chunk.last || output.len() as u64 == chunk.plain.end - chunk.plain.start);
        plain.splice(..0, output);
    }
    Ok(plain)
}

#[derive(Debug, PartialEq, thiserror::Error)]
pub(super) enum OpenError {
    #[error(transparent)]
    Format(#[from] FormatError),
    #[error("a chunk does not decrypt")]
    Chunk,
}

fn iv(file: &FileCipher, chunk: &Chunk, sealed: &[u8]) -> Iv {
    match file.iv(chunk) {
        ChunkIv::Known(iv) => iv,
        ChunkIv::PreviousBlock => {
            let end = chunk.sealed.start as usize;
            Iv::new(&sealed[end - file.cipher().iv_length()..end]).unwrap()
        }
    }
}

/// OpenSSL processes one job.
fn process(
    cipher: Cipher,
    direction: Direction,
    key: &Key,
    iv: Iv,
    padding: Padding,
    input: &[u8],
) -> Result<Vec<u8>, ErrorStack> {
    let algorithm = Algorithm::fetch(None, cipher.name(), None)?;
    let (key, iv) = (Some(key.bytes()), Some(iv.bytes()));
    let mut context = CipherCtx::new()?;
    let mut output = Vec::new();
    let mut text = input;
    match direction {
        Direction::Encrypt => context.encrypt_init(Some(&algorithm), key, iv)?,
        Direction::Decrypt => context.decrypt_init(Some(&algorithm), key, iv)?,
    }
    context.set_padding(padding == Padding::Pkcs7);
    if direction == Direction::Decrypt {
        let (ciphertext, tag) = input.split_at(input.len() - cipher.tag_length());
        text = ciphertext;
        if !tag.is_empty() {
            context.set_tag(tag)?;
        }
    }
    context.cipher_update_vec(text, &mut output)?;
    context.cipher_final_vec(&mut output)?;
    if direction == Direction::Encrypt && cipher.is_authenticated() {
        let mut tag = [0; 16];
        context.tag(&mut tag)?;
        output.extend(tag);
    }
    Ok(output)
}

/// Returns whether this OpenSSL supports the cipher; Blowfish is in its legacy provider.
fn is_available(cipher: Cipher) -> bool {
    let legacy = (cipher == Cipher::BfCbc).then(|| Provider::try_load(None, "legacy", true));
    if let Some(Ok(provider)) = legacy {
        // Other tests run in parallel and need it, so it stays loaded.
        std::mem::forget(provider);
    }
    let available = Algorithm::fetch(None, cipher.name(), None).is_ok();
    if !available {
        evener_core::skipped!("this OpenSSL has no {cipher}");
    }
    available
}

/// Pseudorandom text.
fn text(length: usize) -> Vec<u8> {
    let mut state = 1_u64;
    std::iter::repeat_with(|| {
        state = scramble(state);
        (state >> 56) as u8
    })
    .take(length)
    .collect()
}

/// The next number of a linear congruential generator (Knuth's MMIX).
fn scramble(state: u64) -> u64 {
    state.wrapping_mul(6_364_136_223_846_793_005).wrapping_add(1_442_695_040_888_963_407)
}
