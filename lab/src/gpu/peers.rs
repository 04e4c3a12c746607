//! Other programs that measure themselves, such as third-party AES for GPUs.

use std::io::Read;
use std::path::Path;
use std::process::{Command, Stdio};
use std::sync::mpsc;
use std::thread;
use std::time::Duration;

use evener_core::shown;

use super::report::Peer;

/// Runs a program for texts of `bytes` bytes and returns its figures.
///
/// # Errors
/// The reason, as text, why there are none.
pub(super) fn measure(program: &Path, bytes: u64, most: Duration) -> Result<Vec<Peer>, String> {
    let name = shown(program);
    let mut child = Command::new(program)
        .arg(bytes.to_string())
        .stdin(Stdio::null())
        .stdout(Stdio::piped())
        .spawn()
        .map_err(|error| format!("{name} can't be started: {error}"))?;
    let mut pipe = child.stdout.take();
    let (send, printed) = mpsc::channel();
    thread::spawn(move || {
        let mut text = Vec::new();
        let read = pipe.as_mut().map(|pipe| pipe.take(LONGEST).read_to_end(&mut text));
        let _ = send.send((text, matches!(read, Some(Ok(_)))));
    });
    let answer = printed.recv_timeout(most);
    if answer.is_err() {
        let _ = child.kill();
    }
    let status = child.wait().map_err(|error| format!("{name} was lost: {error}"))?;
    let Ok((text, true)) = answer else {
        return Err(format!("{name} did not end within {} s", most.as_secs()));
    };
    if !status.success() {
        return Err(format!("{name} failed: {status}"));
    }
    let figures: Vec<_> = text
        .split(|&byte| byte == b'\n')
        .filter_map(|line| figure(std::str::from_utf8(line).ok()?))
        .map(|(cipher, gb_per_second)| Peer { program: name.to_string(), cipher, gb_per_second })
        .collect();
    match figures.is_empty() {
        true => Err(format!("{name} printed no line such as `aes-128-ctr 184.2`")),
        false => Ok(figures),
    }
}

/// Parses a line's cipher and rate, if it has that form.
fn figure(line: &str) -> Option<(String, f64)> {
    let mut words = line.split_ascii_whitespace();
    let (cipher, rate) = (words.next()?, words.next()?.parse().ok()?);
    let is_rate = f64::is_finite(rate) && rate > 0.0 && words.next().is_none();
    is_rate.then(|| (cipher.to_owned(), rate))
}

/// The most bytes read of a program's output.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn lines_with_a_cipher_and_a_rate_are_figures() {
        assert_eq!(figure("aes-128-ctr 184.2"), Some(("aes-128-ctr".to_owned(), 184.2)));
        assert_eq!(figure("  aes-256-ecb\t3e2\r"), Some(("aes-256-ecb".to_owned(), 300.0)));
        for line in ["", "aes-128-ctr", "aes 128 ctr", "aes-128-ctr fast", "x -1", "x NaN", "x inf"]
        {
            assert_eq!(figure(line), None, "{line}");
        }
    }
}
