//! Messages in memory that the engine lends, which are copied straight to the device and back.

use std::ops::Range;
use std::panic::{AssertUnwindSafe, catch_unwind};
use std::sync::Arc;
use std::sync::atomic::{AtomicI64, Ordering::Relaxed};
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, Padding, Rejection,
    SessionRequest, WipedBuffer,
};

use super::Random;
use super::random::{FILL, Message, Pair, job, message, pairs};
use super::sys::{Failing, PANICS, never_freed};
use crate::lent::Lending;
use crate::straight::LEAST;
use evener_engines::{Watch, guard};

/// The lengths of copies within a buffer, copy by copy.
fn within(copies: &[Range<usize>], buffer: &[u8]) -> Vec<usize> {
    let memory = buffer.as_ptr_range();
    let is_in = |copy: &&Range<usize>| {
        memory.start.addr() <= copy.start && copy.end <= memory.end.addr() && !copy.is_empty()
    };
    copies.iter().filter(is_in).map(ExactSizeIterator::len).collect()
}

fn process(
    engine: &dyn Engine,
    request: &SessionRequest<'_>,
    batch: &mut [Job<'_>],
) -> Result<(), EngineError> {
    engine.open(request)?.process(batch)
}

#[test]
fn a_guard_with_a_deadline_hands_it_messages_in_its_own_memory() {
    let Some(device) = super::device() else { return };
    let failing = Failing::new(device, Arc::new(AtomicI64::new(i64::MAX)));
    let copies = failing.copies();
    let engine = super::straight_engine(Arc::new(failing));
    let reference = evener_engines::find("openssl").unwrap();
    let guarded = guard(engine, reference, Watch { retreats: false, ..Watch::default() });
    evener_engines::conformance::run(&*guarded).assert_passed();

    // 16 messages of 4 KiB with additional data: the guard packs them in one stretch each way.
    let key = Key::new(&[8; 16]).unwrap();
    let (cipher, direction) = (Cipher::Aes128Gcm, Direction::Encrypt);
    let mut session = guarded.open(&SessionRequest { cipher, direction, key: Some(&key) }).unwrap();
    copies.lock().unwrap().iter_mut().for_each(Vec::clear);
    let (text, mut output) = (vec![1; 4 << 10], vec![0; 16 * ((4 << 10) + 16)]);
    let iv = Iv::new(&[2; 12]).unwrap();
    let mut batch: Vec<_> = output
        .chunks_exact_mut((4 << 10) + 16)
        .map(|output| Job { aad: b"thirteen bytes"[..13].into(), ..Job::new(iv, &text, output) })
        .collect();
    session.process(&mut batch).unwrap();
    assert!(batch.iter().all(|job| job.outcome == Outcome::Done { written: (4 << 10) + 16 }));
    let copies = copies.lock().unwrap();
    let lengths: Vec<Vec<_>> =
        copies.iter().map(|copies| copies.iter().map(ExactSizeIterator::len).collect()).collect();
    assert!(lengths[0].contains(&(64 << 10)), "{lengths:?}");
    assert!(lengths[1].contains(&((64 << 10) + 256)), "{lengths:?}");
}

#[test]
fn lent_messages_are_not_packed() {
    let Some(device) = super::device() else { return };
    let failing = Failing::new(device, Arc::new(AtomicI64::new(i64::MAX)));
    let copies = failing.copies();
    let engine = super::engine(Arc::new(failing));
    let key = Key::new(&[8; 32]).unwrap();
    let iv = Iv::new(&[9; 12]).unwrap();
    // Two stretches, two long messages of odd lengths, and a short one; one is not lent.
    let lengths = [vec![16 << 10; 30], vec![(40 << 10) + 5, LEAST + 1, 1_000]].concat();
    let total: usize = lengths.iter().sum();
    let sealed = total + 16 * lengths.len();
    let (mut plain, mut ciphertext) =
        (engine.buffer(total).unwrap(), engine.buffer(sealed).unwrap());
    let mut again = engine.buffer(total).unwrap();
    plain.copy_from_slice(&Random(5).bytes(total));
    let apart = (20, plain[20 * (16 << 10)..][..16 << 10].to_vec());
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let (tag_in, tag_out) = if direction == Direction::Encrypt { (0, 16) } else { (16, 0) };
        let (input, output) = match direction {
            Direction::Encrypt => (&plain, &mut ciphertext),
            Direction::Decrypt => (&ciphertext, &mut again),
        };
        let addresses = output.as_ptr_range();
        copies.lock().unwrap().iter_mut().for_each(Vec::clear);
        let (mut rest_in, mut rest_out) = (&input[..], &mut output[..]);
        let mut batch = Vec::new();
        for (number, length) in lengths.iter().enumerate() {
            let (input, output);
            (input, rest_in) = rest_in.split_at(length + tag_in);
            (output, rest_out) = rest_out.split_at_mut(length + tag_out);
            let is_apart = number == apart.0 && direction == Direction::Encrypt;
            batch.push(Job::new(iv, if is_apart { &apart.1 } else { input }, output));
        }
        let request = SessionRequest { cipher: Cipher::Aes256Gcm, direction, key: Some(&key) };
        process(&*engine, &request, &mut batch).unwrap();
        let done = |(job, length): (&Job<'_>, &usize)| {
            job.outcome == Outcome::Done { written: length + tag_out }
        };
        assert!(batch.iter().zip(&lengths).all(done));
        let copies = copies.lock().unwrap();
        let ups = within(&copies[0], input);
        let wide = (16 << 10) + tag_in;
        let odd = [(40 << 10) + 5 + tag_in, LEAST + 1 + tag_in];
        let expected_ups = match direction {
            // The last message of a stretch may have any length.
            Direction::Encrypt => vec![20 * wide, 9 * wide + odd[0], odd[1]],
            Direction::Decrypt => vec![30 * wide + odd[0], odd[1]],
        };
        assert_eq!(ups, expected_ups, "{direction}");
        let downs: Vec<_> = copies[1]
            .iter()
            .filter(|copy| addresses.start.addr() <= copy.start && copy.end <= addresses.end.addr())
            .map(ExactSizeIterator::len)
            .collect();
        let wide = (16 << 10) + tag_out;
        let expected = vec![30 * wide + (40 << 10) + 5 + tag_out, LEAST + 1 + tag_out];
        assert_eq!(downs, expected, "{direction}");
        // The table, the short message, and the message that was not lent passed the arena.
        let bytes =
            |copies: &[Range<usize>]| copies.iter().map(ExactSizeIterator::len).sum::<usize>();
        let packed = bytes(&copies[0]) - ups.iter().sum::<usize>();
        assert!(
            packed < 5_000 + if direction == Direction::Encrypt { 16 << 10 } else { 0 },
            "{packed}"
        );
        let packed = bytes(&copies[1]) - downs.iter().sum::<usize>();
        assert!(packed < 2_000, "{packed}");
    }
    assert!(*again == *plain);
}

#[test]
fn random_batches_in_lent_memory_are_those_of_openssl() {
    let Some(device) = super::device() else { return };
    let failing = Failing::new(device, Arc::new(AtomicI64::new(i64::MAX)));
    let copies = failing.copies();
    let ours = super::straight_engine(Arc::new(failing));
    let theirs = evener_engines::find("openssl").unwrap();
    let mut random = Random(0x6C65_6E74);
    let mut pairs = pairs(&*ours, &*theirs, &mut random);
    let (mut rejected, mut straight) = (0, 0);
    for number in 0..BATCHES {
        let which = random.below(pairs.len());
        let batch: Vec<_> =
            (0..1 + random.below(12)).map(|_| message(&mut pairs[which], &mut random)).collect();
        copies.lock().unwrap().iter_mut().for_each(Vec::clear);
        let buffers = compare(&mut pairs[which], &*ours, &batch, number, &mut random);
        rejected += buffers.1;
        let copies = copies.lock().unwrap();
        straight += within(&copies[0], &buffers.0[0]).len();
        straight += within(&copies[1], &buffers.0[1]).len();
    }
    println!("{rejected} messages were rejected, and {straight} stretches went straight");
    assert!(rejected > 0 && straight > BATCHES, "{rejected} {straight}");
}

/// Processes a batch with both engines, for ours mostly in lent memory: some messages contiguous,
/// some apart. Returns the buffers, and the number of rejected messages.
fn compare(
    pair: &mut Pair,
    engine: &dyn Engine,
    messages: &[Message],
    number: usize,
    random: &mut Random,
) -> ([WipedBuffer; 2], usize) {
    let what = format!("{} {}, batch {number}", pair.cipher, pair.direction);
    let inputs = places(random, messages.iter().map(|message| message.input.len()));
    let outputs = places(random, messages.iter().map(|message| message.room));
    let end = |places: &[Range<usize>]| places.last().map_or(0, |place| place.end) + 40;
    let mut input = engine.buffer(end(&inputs)).unwrap();
    let mut output = engine.buffer(end(&outputs)).unwrap();
    output.fill(FILL);
    for (message, place) in messages.iter().zip(&inputs) {
        input[place.clone()].copy_from_slice(&message.input);
    }
    let before = input.to_vec();
    let is_lent: Vec<_> =
        messages.iter().map(|_| [random.below(4) > 0, random.below(4) > 0]).collect();
    let mut apart: Vec<_> = messages.iter().map(|message| vec![FILL; message.room]).collect();
    let mut expected = Vec::new();
    let mut batch = Vec::new();
    let memory = split(&mut output, &outputs).into_iter().zip(&mut apart);
    for (index, (message, (lent, own))) in messages.iter().zip(memory).enumerate() {
        let mut result = vec![0; message.room];
        let mut alone = [job(&pair.keys, message, &mut result)];
        pair.theirs.process(&mut alone).unwrap();
        expected.push((alone[0].outcome, result));
        let [up, down] = is_lent[index];
        let input = if up { &input[inputs[index].clone()] } else { &message.input };
        batch.push(Job { input, ..job(&pair.keys, message, if down { lent } else { own }) });
    }
    pair.ours.process(&mut batch).unwrap();
    let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
    let mut rejected = 0;
    for (index, (outcome, (due, result))) in outcomes.into_iter().zip(expected).enumerate() {
        assert_eq!(outcome, due, "{what}, job {index}");
        let [_, is_down] = is_lent[index];
        let bytes = if is_down { &output[outputs[index].clone()] } else { &apart[index][..] };
        match outcome {
            Outcome::Done { written } => assert!(bytes[..written] == result[..written], "{what}"),
            _ => {
                rejected += 1;
                let is_left = |fill| bytes.iter().all(|&byte| byte == fill);
                assert!(is_left(FILL) || is_left(0), "{what}, job {index}: left plaintext");
            }
        }
    }
    // The bytes between the results, and the whole input, are unchanged.
    let mut at = 0;
    for place in outputs.iter().chain([&(output.len()..output.len())]) {
        assert!(output[at..place.start].iter().all(|&byte| byte == FILL), "{what}: wrote around");
        at = place.end;
    }
    assert!(*input == *before, "{what}: an input was changed");
    ([input, output], rejected)
}

fn places(random: &mut Random, lengths: impl Iterator<Item = usize>) -> Vec<Range<usize>> {
    let mut end = random.below(40);
    let place = |length| {
        let start = end + random.one_of(&[0, 0, 0, 1, 16, 40]);
        end = start + length;
        start..end
    };
    lengths.map(place).collect()
}

/// The places of a buffer, in order.
fn split<'b>(mut rest: &'b mut [u8], places: &[Range<usize>]) -> Vec<&'b mut [u8]> {
    let mut at = 0;
    let mut part = |place: &Range<usize>| {
        let (_, after) = std::mem::take(&mut rest).split_at_mut(place.start - at);
        let (part, after) = after.split_at_mut(place.len());
        (rest, at) = (after, place.end);
        part
    };
    places.iter().map(&mut part).collect()
}

#[test]
fn a_forged_message_leaves_no_plaintext_in_lent_memory() {
    let Some(device) = super::device() else { return };
    let ours = super::engine(device);
    let theirs = evener_engines::find("openssl").unwrap();
    let direction = Direction::Decrypt;
    for (cipher, padding) in [
        (Cipher::Aes128Gcm, Padding::None),
        (Cipher::ChaCha20Poly1305, Padding::None),
        (Cipher::Aes256Cbc, Padding::Pkcs7),
    ] {
        let key = Key::new(&Random(1).bytes(cipher.key_length())).unwrap();
        let iv = Iv::new(&Random(2).bytes(cipher.iv_length())).unwrap();
        let text = Random(3).bytes((16 << 10) - 16);
        let mut sealed = ours.buffer(8 * (16 << 10)).unwrap();
        for output in sealed.chunks_exact_mut(16 << 10) {
            let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key) };
            let mut batch = [Job { padding, ..Job::new(iv, &text, output) }];
            process(&*theirs, &request, &mut batch).unwrap();
            assert_eq!(batch[0].outcome, Outcome::Done { written: 16 << 10 });
        }
        // With CBC, a change of the block before the last changes the padding.
        let forged = |number: usize| number % 3 == 1;
        for (number, message) in sealed.chunks_exact_mut(16 << 10).enumerate() {
            if forged(number) && padding == Padding::None {
                message[777 * number] ^= 1;
            } else if forged(number) {
                message[(16 << 10) - 17] ^= 0xF0;
            }
        }
        let room = (16 << 10) - cipher.tag_length();
        let mut output = ours.buffer(8 * room).unwrap();
        output.fill(FILL);
        let mut batch: Vec<_> = sealed
            .chunks_exact(16 << 10)
            .zip(output.chunks_exact_mut(room))
            .map(|(input, output)| Job { padding, ..Job::new(iv, input, output) })
            .collect();
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        process(&*ours, &request, &mut batch).unwrap();
        let outcomes: Vec<_> = batch.iter().map(|job| job.outcome).collect();
        for (number, result) in output.chunks_exact(room).enumerate() {
            match outcomes[number] {
                Outcome::Rejected(Rejection::Tag | Rejection::Padding) if forged(number) => {
                    assert!(result.iter().all(|&byte| byte == 0), "{cipher} {number}");
                }
                Outcome::Done { written } if !forged(number) => {
                    assert!(result[..written] == text, "{cipher} {number}");
                }
                other => panic!("{cipher} {number}: {other:?}"),
            }
        }
    }
}

#[test]
fn a_device_lost_in_the_middle_leaves_inputs_and_no_plaintext() {
    let Some(device) = super::device() else { return };
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let ours = super::engine(Arc::new(Failing::new(device, Arc::clone(&left))));
    let theirs = evener_engines::find("openssl").unwrap();
    let (cipher, length) = (Cipher::Aes256Gcm, 16 << 10);
    let key = Key::new(&[3; 32]).unwrap();
    let iv = Iv::new(&[4; 12]).unwrap();
    let text = Random(11).bytes(length);
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut sealed = vec![0; length + 16];
        let encryption = SessionRequest { direction: Direction::Encrypt, ..request };
        process(&*theirs, &encryption, &mut [Job::new(iv, &text, &mut sealed)]).unwrap();
        let (message, result) = match direction {
            Direction::Encrypt => (&text, &sealed),
            Direction::Decrypt => (&sealed, &text),
        };
        let mut input = ours.buffer(4 * message.len()).unwrap();
        input.chunks_exact_mut(message.len()).for_each(|place| place.copy_from_slice(message));
        let mut failures = 0;
        for calls in 1..60 {
            let mut session = ours.open(&request).unwrap();
            let mut output = ours.buffer(4 * result.len()).unwrap();
            output.fill(FILL);
            // A fifth message is not lent.
            let mut own = vec![FILL; result.len()];
            let places =
                output.chunks_exact_mut(result.len()).zip(input.chunks_exact(message.len()));
            let mut batch: Vec<_> =
                places.map(|(output, input)| Job::new(iv, input, output)).collect();
            batch.push(Job::new(iv, message, &mut own));
            left.store(calls, Relaxed);
            let lost = session.process(&mut batch).is_err();
            left.store(i64::MAX, Relaxed);
            for job in &batch {
                match job.outcome {
                    Outcome::Pending => {
                        let bytes = &job.output[..];
                        assert!(lost && bytes.iter().all(|&byte| byte == 0 || byte == FILL));
                    }
                    outcome => assert_eq!(outcome, Outcome::Done { written: result.len() }),
                }
            }
            failures += usize::from(lost);
            // Another engine processes the rest.
            process(&*theirs, &request, &mut batch).unwrap();
            drop(batch);
            assert!(output.chunks_exact(result.len()).all(|place| place == result), "{calls}");
            assert!(
                own == *result && input.chunks_exact(message.len()).all(|place| place == message)
            );
            if !lost {
                break;
            }
        }
        assert!(failures >= 10, "only {failures} calls failed");
    }
}

#[test]
fn nothing_is_copied_any_more_when_a_session_has_panicked() {
    let Some(device) = super::device() else { return };
    let left = Arc::new(AtomicI64::new(i64::MAX));
    let ours = super::engine(Arc::new(Failing::new(device, Arc::clone(&left))));
    let theirs = evener_engines::find("openssl").unwrap();
    let (cipher, length) = (Cipher::Aes256Ctr, 64 << 10);
    let key = Key::new(&[3; 32]).unwrap();
    let iv = Iv::new(&[4; 16]).unwrap();
    let request = SessionRequest { cipher, direction: Direction::Decrypt, key: Some(&key) };
    let mut input = ours.buffer(length).unwrap();
    input.copy_from_slice(&Random(12).bytes(length));
    let mut panics = 0;
    for calls in 1..60 {
        let mut session = ours.open(&request).unwrap();
        let mut output = ours.buffer(length).unwrap();
        output.fill(FILL);
        let mut batch = [Job::new(iv, &input, &mut output)];
        left.store(PANICS + calls, Relaxed);
        let run = AssertUnwindSafe(|| session.process(&mut batch));
        let has_panicked = catch_unwind(run).is_err();
        left.store(i64::MAX, Relaxed);
        if !has_panicked {
            break;
        }
        panics += 1;
        assert_eq!(batch[0].outcome, Outcome::Pending);
        batch[0].output.fill(1);
        drop(session);
        assert!(batch[0].output.iter().all(|&byte| byte == 1), "after {calls} calls");
        process(&*theirs, &request, &mut batch).unwrap();
    }
    assert!(panics >= 8, "only {panics} calls panicked");
}

#[test]
fn memory_that_was_given_back_is_not_taken_for_lent() {
    let Some(device) = super::device() else { return };
    let lending = Lending::new(1, || ());
    let mut buffer = lending.lend(device.pin(100).unwrap());
    let other = lending.lend(device.pin(100).unwrap());
    buffer.fill(1);
    let is_lent = |bytes: &[u8]| lending.now().find(bytes).is_some();
    assert!(is_lent(&buffer) && is_lent(&buffer[99..]) && is_lent(&other[1..50]));
    assert!(!is_lent(&buffer[100..]) && !is_lent(&[0; 10]));
    let address = buffer.as_ptr().addr();
    let lease = lending.now().find(&buffer).cloned().unwrap();
    assert!(lease.holds(&buffer) && !lease.holds(&other));
    drop(buffer);
    assert!(lending.now().addresses().all(|at| at != address), "it is on the list");
    drop(other);
    assert_eq!(lending.now().addresses().count(), 0);
    // The lease still keeps the memory, but `find` does not return it.
    drop(lease);
}

/// Fewer than for other tests: the kernels are the same.
const BATCHES: usize = 2_000;

/// A worker that ends gives its buffers back, and must not hang with the device.
#[test]
fn nobody_waits_for_a_driver_that_never_frees_memory() {
    let lending = Lending::new(LEAST, || ());
    let begun = Instant::now();
    for _ in 0..5 {
        drop(lending.lend(never_freed()));
    }
    let took = begun.elapsed();
    assert!(took < Duration::from_secs(2), "{took:?}");
    assert_eq!(lending.now().addresses().count(), 0);
}
