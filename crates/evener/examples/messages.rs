//! Seals and opens a batch of messages on all cores.
//!
//!     cargo run --release --example messages

use std::error::Error;
use std::time::Instant;

use evener::{Aead, Cipher, NonceSequence, Opening, Sealing};

const COUNT: usize = 1_000;
const LENGTH: usize = 1_500;

fn main() -> Result<(), Box<dyn Error>> {
    let aead = Aead::new(Cipher::Aes256Gcm, &Aead::generate_key(Cipher::Aes256Gcm)?)?;
    // The prefix belongs to this sender; another sender with the same key takes another prefix.
    let mut sealer = aead.sealer(NonceSequence::counter(*b"ex-1"));

    let messages: Vec<Vec<u8>> = (0..COUNT).map(|number| vec![number as u8; LENGTH]).collect();
    let mut sealed = vec![vec![0; aead.sealed_length(LENGTH)]; COUNT];
    let begun = Instant::now();
    let pairs = messages.iter().zip(&mut sealed);
    let mut batch: Vec<_> =
        pairs.map(|(message, sealed)| Sealing::new(message, sealed).aad(b"example")).collect();
    sealer.seal_batch(&mut batch)?;
    let took = begun.elapsed();
    // The receiver needs each message's nonce, which is no secret.
    let sent: Vec<[u8; 12]> = batch.iter().filter_map(|sealing| sealing.nonce().copied()).collect();

    let mut opened = vec![vec![0; LENGTH]; COUNT];
    let triples = sent.iter().zip(&sealed).zip(&mut opened);
    let mut batch: Vec<_> = triples
        .map(|((nonce, sealed), opened)| Opening::new(nonce, sealed, opened).aad(b"example"))
        .collect();
    aead.open_batch(&mut batch)?;
    assert_eq!(opened, messages);
    println!("{COUNT} messages of {LENGTH} bytes in {took:?}");
    Ok(())
}
