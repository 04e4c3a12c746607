//! Prints the nanoseconds that sealing a message of 16 bytes takes.
//!
//!     cargo run --release -p evener --example one_message
//!
//! The binding for Python compares its own call with it (`bindings/python/examples/cost.py`), so
//! the result is a new buffer here too, with the nonce before the message.

use std::error::Error;
use std::hint::black_box;
use std::time::{Duration, Instant};

use evener::{Aead, Cipher, Nonce, NonceSequence};

fn main() -> Result<(), Box<dyn Error>> {
    let aead = Aead::new(Cipher::Aes256Gcm, &Aead::generate_key(Cipher::Aes256Gcm)?)?;
    let mut nonces = NonceSequence::random();
    let mut seal = || -> Result<Vec<u8>, Box<dyn Error>> {
        let mut sealed = vec![0; Nonce::LENGTH + aead.sealed_length(16)];
        let (head, rest) = sealed.split_at_mut(Nonce::LENGTH);
        let nonce = nonces.next_nonce()?;
        head.copy_from_slice(&aead.seal(nonce, b"", &[7; 16], rest)?);
        Ok(sealed)
    };
    let mut best = Duration::MAX;
    for _ in 0..50 {
        let begun = Instant::now();
        for _ in 0..CALLS {
            black_box(seal()?);
        }
        best = best.min(begun.elapsed());
    }
    println!("{:.0}", best.as_secs_f64() * 1e9 / f64::from(CALLS));
    Ok(())
}

const CALLS: u32 = 1_000;
