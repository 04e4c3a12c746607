//! Tests of the index.

mod hostile;
mod keys;
mod known;
mod order;
mod round_trips;
mod samples;

fn bytes(hexadecimal: &str) -> Vec<u8> {
    let digits = hexadecimal.as_bytes().chunks(2);
    digits.map(|it| u8::from_str_radix(str::from_utf8(it).unwrap(), 16).unwrap()).collect()
}
