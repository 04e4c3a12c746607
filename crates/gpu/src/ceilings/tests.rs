//! On PoCL, whose figures mean nothing, and on the fake CUDA driver.

use evener_core::lacking;
use evener_core::{Cipher, Direction};

use super::*;
use crate::cuda::tests::fake_gpu;

fn pocl() -> Option<Bare> {
    match Bare::find("gpu:opencl:pocl") {
        Ok(bare) => Some(bare),
        Err(reason) => {
            lacking!("{reason} (Debian: pocl-opencl-icd)");
            None
        }
    }
}

#[test]
fn look_ups_are_counted_and_compared() {
    let Some(bare) = pocl() else { return };
    let Lookups { words_per_second, words_per_clock } = bare.lookups(2).unwrap();
    assert!(words_per_second > 1e6, "{words_per_second}");
    assert_eq!(words_per_clock, None);
}

#[test]
fn kernels_have_a_time_of_the_devices_own() {
    let Some(bare) = pocl() else { return };
    let reference = evener_engines::find("openssl").unwrap();
    for cipher in [Cipher::Aes128Ctr, Cipher::Aes256Gcm] {
        let direction = Direction::Encrypt;
        let texts = Texts { cipher, direction, length: 4_096, bytes: 40_960, rounds: 3 };
        let (bytes, seconds) = bare.kernel(&texts, &*reference).unwrap();
        assert_eq!(bytes, 40_960);
        assert!((1e-7..60.0).contains(&seconds), "{seconds}");
    }
}

#[test]
fn what_cuda_is_asked_for_is_right() {
    let Some((device, end)) = fake_gpu() else { return };
    let bare = Bare { device };
    let facts = bare.facts();
    assert_eq!((facts.clock_mhz, facts.cache), (1980, 50 << 20));
    // The fake's clock advances by a millisecond with each recording, and its units look up a word
    // a clock.
    let Lookups { words_per_second, words_per_clock } = bare.lookups(3).unwrap();
    assert!(words_per_second > 1e9, "{words_per_second}");
    assert_eq!(words_per_clock, Some(1.0));
    let copies = bare.copies(1 << 16, std::time::Duration::from_millis(1)).unwrap();
    assert!(copies.up > 0.0 && copies.down > 0.0 && copies.both > 0.0);
    let reference = evener_engines::find("openssl").unwrap();
    let (cipher, direction) = (Cipher::Aes128Ctr, Direction::Encrypt);
    let texts = Texts { cipher, direction, length: 4_096, bytes: 40_960, rounds: 3 };
    let error = bare.kernel(&texts, &*reference).unwrap_err().to_string();
    assert!(error.contains("computes wrongly"), "{error}");
    drop(bare);
    assert_eq!(end(), "");
}
