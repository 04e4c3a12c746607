//! Layouts, without a device.

use evener_core::{Cipher, Direction};

use super::*;

const LIMITS: Limits = Limits { host: 1 << 20, arena: 1 << 20, keys: 8, scratch: 1 << 20 };

fn plan(cipher: Cipher, direction: Direction) -> Plan {
    Plan::new(Shape::of(cipher, direction), LIMITS)
}

fn word(table: &[u8], message: usize, number: usize) -> u64 {
    let start = message * MESSAGE + number * 8;
    u64::from_le_bytes(table[start..start + 8].try_into().unwrap())
}

#[test]
fn nothing_overlaps_and_all_is_aligned() {
    let mut plan = plan(Cipher::Aes256Gcm, Direction::Encrypt);
    let iv = Iv::new(&[1; 12]).unwrap();
    for (job, length) in [0, 1, 15, 16, 17, 1_000].into_iter().enumerate() {
        let choice = if job % 2 == 0 { KeyChoice::New } else { KeyChoice::Same };
        assert!(plan.add(job, length, job * 7, iv, choice, Way::PACKED));
    }
    let (keys, raw) = plan.keys();
    let mut regions = vec![0..plan.items().len() * MESSAGE, raw..raw + keys * 32];
    for item in plan.items() {
        regions.push(plan.aad_at(item));
        regions.push(plan.text_at(item));
        assert!(plan.aad_at(item).start.is_multiple_of(BLOCK));
        assert!(plan.text_at(item).start.is_multiple_of(BLOCK));
        assert!(plan.texts().contains(&plan.text_at(item).start));
    }
    regions.sort_by_key(|region| (region.start, region.end));
    assert!(regions.windows(2).all(|pair| pair[0].end <= pair[1].start), "{regions:?}");
    assert!(regions.iter().all(|region| region.end <= plan.used()));
    assert_eq!(plan.key_at(0), None);
    assert_eq!(plan.key_at(2), Some(raw + 32..raw + 64));
}

#[test]
fn the_table_counts_what_came_before() {
    let mut plan = plan(Cipher::Aes128Gcm, Direction::Decrypt);
    let iv = Iv::new(&[2; 12]).unwrap();
    let lengths = [0, 1, 16, 17, 255, 4_096];
    for (job, length) in lengths.into_iter().enumerate() {
        assert!(plan.add(job, length, 20, iv, KeyChoice::Session, Way::PACKED));
    }
    let mut arena = vec![0xEE; plan.used()];
    plan.write_table(&mut arena);
    let (mut units, mut stripes) = (0, 0);
    for (number, item) in plan.items().iter().enumerate() {
        assert_eq!(word(&arena, number, 0), plan.text_at(item).start as u64);
        assert_eq!(word(&arena, number, 2), lengths[number] as u64);
        assert_eq!(word(&arena, number, 3), units);
        assert_eq!(word(&arena, number, 4), plan.aad_at(item).start as u64);
        assert_eq!(word(&arena, number, 6), stripes);
        let blocks = lengths[number].div_ceil(16) as u64;
        units += blocks;
        stripes += (blocks + 2 + 1).div_ceil(16);
        assert_eq!(arena[number * MESSAGE + 64..][..16], [[2; 12].as_slice(), &[0; 4]].concat());
    }
    assert_eq!((plan.units(), plan.stripes()), (units, stripes));
    assert_eq!(plan.folds().count(), 0);
    // 33 stripes become 3 values, and these the message's value.
    assert!(plan.add(9, 16 * 16 * 32, 0, iv, KeyChoice::Session, Way::PACKED));
    let (all, messages) = (plan.stripes(), plan.items().len() as u64);
    let passes = [(0, all / 16 + messages), (4, all / 256 + messages)];
    assert_eq!(plan.folds().collect::<Vec<_>>(), passes);
}

#[test]
fn chains_come_longest_first() {
    let mut plan = plan(Cipher::Aes128Cbc, Direction::Encrypt);
    for (job, length) in [16, 64, 32, 64].into_iter().enumerate() {
        assert!(plan.add(job, length, 0, Iv::NONE, KeyChoice::Session, Way::PACKED));
    }
    plan.order();
    let jobs: Vec<_> = plan.items().iter().map(|item| item.job).collect();
    assert_eq!((jobs, plan.units()), (vec![1, 3, 2, 0], 4));
}

#[test]
fn large_parts_of_long_messages_are_sliced() {
    let limits = Limits { host: 4 << 20, arena: 4 << 20, ..LIMITS };
    for (length, messages, is_sliced) in
        [(1 << 20, 1, true), ((1 << 20) - 8, 1, false), (1_000, 1_100, true), (120, 9_000, false)]
    {
        let shape = Shape::of(Cipher::DesEde3Cbc, Direction::Decrypt);
        let mut plan = Plan::new(shape, limits);
        for job in 0..messages {
            assert!(plan.add(job, length, 0, Iv::NONE, KeyChoice::Session, Way::PACKED));
        }
        assert_eq!(plan.is_sliced(), is_sliced, "{messages} of {length}");
        let unit = if is_sliced { 256 } else { 8 };
        assert_eq!(plan.units(), (length.div_ceil(unit) * messages) as u64);
        let mut arena = vec![0; plan.used()];
        plan.write_table(&mut arena);
        let last = word(&arena, messages - 1, 3);
        assert_eq!(last, (length.div_ceil(unit) * (messages - 1)) as u64);
    }
}

#[test]
fn units_are_those_of_the_cipher() {
    for (cipher, length, units) in [
        (Cipher::Aes128Xts, 16, 1),
        (Cipher::Aes128Xts, 47, 2),
        (Cipher::Aes128Ctr, 47, 3),
        (Cipher::ChaCha20Poly1305, 65, 2),
        (Cipher::DesEde3Cbc, 64, 8),
    ] {
        let shape = Shape::of(cipher, Direction::Decrypt);
        assert_eq!(shape.units(length), units, "{cipher} {length}");
    }
}

#[test]
fn what_does_not_fit_is_left_for_the_next_part() {
    let mut plan = plan(Cipher::Aes128Ctr, Direction::Encrypt);
    assert!(
        !plan.add(0, LIMITS.arena, 0, Iv::NONE, KeyChoice::Session, Way::PACKED) && plan.is_empty()
    );
    for length in [usize::MAX, usize::MAX - 15, usize::MAX / 2] {
        assert!(!plan.add(0, length, 0, Iv::NONE, KeyChoice::Session, Way::PACKED), "{length}");
        assert!(!plan.add(0, 16, length, Iv::NONE, KeyChoice::Session, Way::PACKED), "{length}");
    }
    let mut added = 0;
    while plan.add(added, 1_000, 0, Iv::NONE, KeyChoice::Session, Way::PACKED) {
        added += 1;
    }
    assert!(added > 900 && plan.used() <= LIMITS.arena);
    plan.clear(LIMITS);
    for key in 0..LIMITS.keys {
        assert!(plan.add(key, 16, 0, Iv::NONE, KeyChoice::New, Way::PACKED));
    }
    assert!(!plan.add(8, 16, 0, Iv::NONE, KeyChoice::New, Way::PACKED));
    assert!(plan.add(8, 16, 0, Iv::NONE, KeyChoice::Same, Way::PACKED));
}

#[test]
fn a_message_of_the_needed_arena_fits() {
    for cipher in [Cipher::Aes256Gcm, Cipher::ChaCha20Poly1305, Cipher::Aes256Xts] {
        for length in [16, 1_000, 100_000, 3_000_001] {
            let shape = Shape::of(cipher, Direction::Encrypt);
            let arena = shape.need(length, 333).unwrap();
            let limits = Limits { host: arena, arena, keys: 1, scratch: scratch_of(arena) };
            let mut plan = Plan::new(shape, limits);
            assert!(
                plan.add(0, length, 333, Iv::NONE, KeyChoice::New, Way::PACKED),
                "{cipher} {length}"
            );
        }
    }
}
