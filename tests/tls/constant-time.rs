//! Whether the end of a TLS record that CBC has decrypted is taken off in a time, and by accesses
//! to memory, that tell nothing of the record: under valgrind's memcheck, for which the record is
//! memory that was never written. It then reports each branch and each address that depends on it.
//!
//! `rustc` compiles it by itself, with the file that does the work, as `tests/check-tls` says.

#[allow(dead_code, unreachable_pub)]
#[path = "../../bindings/openssl/src/cipher/tls_cbc.rs"]
mod tls_cbc;

use std::arch::asm;
use std::hint::black_box;
use std::process::exit;

use tls_cbc::{Padding, open};

fn main() {
    if request(RUNNING_ON_VALGRIND, 0, 0) == 0 {
        eprintln!("constant-time: to be run by valgrind");
        exit(2);
    }
    // What isn't done in constant time is noticed.
    let mut bytes = vec![1, 2, 3, 4];
    hide(&bytes);
    let before = request(COUNT_ERRORS, 0, 0);
    black_box(compare(black_box(&bytes), &[1, 2, 3, 5]));
    let found = request(COUNT_ERRORS, 0, 0) - before;
    show(&mut bytes);
    if found == 0 {
        eprintln!("constant-time: valgrind doesn't notice a comparison that ends early");
        exit(1);
    }

    let (before, mut records) = (request(COUNT_ERRORS, 0, 0), 0);
    for mac in [16, 20, 32, 48, 64] {
        for length in [65, 80, 96, 112, 256, 320, 336, 1024, 16_448] {
            for padded in [0, 1, 15, 16, 100, 255] {
                for padding in [Padding::Any, Padding::Short] {
                    watch(padding, length, mac, padded);
                    records += 1;
                }
            }
        }
    }
    let found = request(COUNT_ERRORS, 0, 0) - before;
    if found > 0 {
        eprintln!("constant-time: {found} places depend on what is in a record");
        exit(1);
    }
    println!("{records} records");
}

/// Opens a record with so much padding, where there is room for that; otherwise it is wrong.
fn watch(padding: Padding, length: usize, mac: usize, padded: u8) {
    let mut record = vec![padded; length];
    let mut mac = vec![0x77; mac];
    hide(&record);
    hide(&mac);
    let mut text = open(padding, black_box(&record), &mut mac).into_iter().collect::<Vec<_>>();
    show(&mut text);
    show(&mut mac);
    show(&mut record);
    let padding_fits = usize::from(padded) + 1 + mac.len() <= length;
    let is_good = padding_fits && (padding == Padding::Any || padded < 16);
    let taken = mac.len() + if is_good { usize::from(padded) + 1 } else { 0 };
    assert_eq!(text, [length - taken]);
    assert_eq!(mac[0], if is_good { padded } else { 0x77 });
}

#[inline(never)]
fn compare(one: &[u8], other: &[u8]) -> bool {
    one.iter().zip(other).all(|(one, other)| one == other)
}

/// Makes memory secret.
fn hide(bytes: &[u8]) {
    request(MAKE_MEM_UNDEFINED, bytes.as_ptr() as usize, bytes.len());
}

/// Makes it public again.
fn show<T>(values: &mut [T]) {
    request(MAKE_MEM_DEFINED, values.as_mut_ptr() as usize, size_of_val(values));
}

/// Asks valgrind (`valgrind/valgrind.h`, `valgrind/memcheck.h`); 0 where there is none.
fn request(number: usize, first: usize, second: usize) -> usize {
    let call = [number, first, second, 0, 0, 0];
    let mut answer = 0;
    // SAFETY: on a processor the instructions change nothing; valgrind knows them by their order,
    // and reads the array.
    unsafe {
        asm!(
            "rol rdi, 3",
            "rol rdi, 13",
            "rol rdi, 61",
            "rol rdi, 51",
            "xchg rbx, rbx",
            inout("rdx") answer,
            in("rax") call.as_ptr(),
        );
    }
    answer
}

const RUNNING_ON_VALGRIND: usize = 0x1001;
const COUNT_ERRORS: usize = 0x1201;
const MAKE_MEM_UNDEFINED: usize = (b'M' as usize) << 24 | (b'C' as usize) << 16 | 1;
const MAKE_MEM_DEFINED: usize = MAKE_MEM_UNDEFINED + 1;
