use evener::*;
use std::{sync::Arc, thread, time::Instant};
fn main() {
    let key = Aead::generate_key(Cipher::Aes256Gcm).unwrap();
    let two = Aead::new(Cipher::Aes256Gcm, &key).unwrap();
    let one = Aead::new(Cipher::Aes256Gcm, &key)
        .unwrap()
        .pool(Arc::new(Pool::new(1.try_into().unwrap())));
    for (count, len) in [
        (500usize, 1500usize),
        (1000, 1500),
        (2000, 1500),
        (4000, 1500),
        (16000, 1500),
        (64, 16384),
        (256, 16384),
        (1024, 16384),
        (4096, 16384),
    ] {
        let messages: Vec<Vec<u8>> = (0..count).map(|n| vec![n as u8; len]).collect();
        let mut sealed = vec![vec![0u8; len + 16]; count];
        let mut times = [vec![], vec![], vec![]];
        for _ in 0..201 {
            let t = Instant::now();
            let mut b: Vec<_> =
                messages.iter().zip(&mut sealed).map(|(m, s)| Sealing::new(m, s)).collect();
            two.sealer(NonceSequence::counter([0; 4])).seal_batch(&mut b).unwrap();
            times[0].push(t.elapsed());
            let t = Instant::now();
            let mut b: Vec<_> =
                messages.iter().zip(&mut sealed).map(|(m, s)| Sealing::new(m, s)).collect();
            let (x, y) = b.split_at_mut(count / 2);
            thread::scope(|s| {
                s.spawn(|| one.sealer(NonceSequence::counter([1; 4])).seal_batch(x).unwrap());
                one.sealer(NonceSequence::counter([2; 4])).seal_batch(y).unwrap();
            });
            times[1].push(t.elapsed());
            let t = Instant::now();
            let mut b: Vec<_> =
                messages.iter().zip(&mut sealed).map(|(m, s)| Sealing::new(m, s)).collect();
            one.sealer(NonceSequence::counter([0; 4])).seal_batch(&mut b).unwrap();
            times[2].push(t.elapsed());
        }
        let m: Vec<_> = times
            .iter_mut()
            .map(|t| {
                t.sort();
                t[100].as_secs_f64() * 1e6
            })
            .collect();
        println!(
            "{count:6} x {len:6}: pool {:8.1} us, scope {:8.1}, one {:8.1}; scope/pool {:.3}",
            m[0],
            m[1],
            m[2],
            m[1] / m[0]
        );
    }
}
