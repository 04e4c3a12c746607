//! Processes a batch of messages repeatedly, so that `scripts/count-instructions` can count its
//! instructions.
//!
//! usage: `repeat KERNEL CIPHER encrypt|decrypt MESSAGES BYTES TIMES`

use std::env;

use evener_core::{Cipher, Direction, Iv, Job, Key, Outcome};
use evener_lanes::available;

fn main() {
    let arguments: Vec<_> = env::args().skip(1).collect();
    let [kernel, cipher, direction, messages, bytes, times] = &arguments[..] else {
        panic!("usage: repeat KERNEL CIPHER encrypt|decrypt MESSAGES BYTES TIMES");
    };
    let kernel = available().into_iter().find(|known| known.name() == kernel).expect("a kernel");
    let cipher: Cipher = cipher.parse().expect("a cipher");
    let direction = if direction == "encrypt" { Direction::Encrypt } else { Direction::Decrypt };
    let [messages, bytes, times] =
        [messages, bytes, times].map(|number| number.parse::<usize>().expect("a number"));

    let key = Key::new(&vec![7; cipher.key_length()]).expect("a key");
    let iv = Iv::new(&vec![1; cipher.iv_length()]).expect("an IV");
    let plain = vec![5; bytes];
    let mut sealed = vec![0; bytes + cipher.tag_length()];
    let mut encryption = kernel.prepare(cipher, Direction::Encrypt, Some(&key)).expect("a cipher");
    encryption.process(&mut [Job::new(iv, &plain, &mut sealed)]);

    let input = if direction == Direction::Encrypt { &plain } else { &sealed };
    let mut outputs = vec![vec![0; sealed.len()]; messages];
    let mut prepared = kernel.prepare(cipher, direction, Some(&key)).expect("a cipher");
    let mut batch: Vec<_> = outputs.iter_mut().map(|output| Job::new(iv, input, output)).collect();
    for _ in 0..times {
        for job in &mut batch {
            job.outcome = Outcome::Pending;
        }
        prepared.process(&mut batch);
        assert!(batch.iter().all(|job| matches!(job.outcome, Outcome::Done { .. })));
    }
}
