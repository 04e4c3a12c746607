//! Inspects the provider's file without loading it.

use std::fs::{self, File};
use std::io::{self, Read};
use std::path::Path;

use evener::program::shown_error;

/// The reason why OpenSSL can't load a file as a provider, as far as the file shows it.
pub(super) fn unfit(path: &Path) -> Option<String> {
    let failed = |cause: io::Error| format!("can't read it: {}", shown_error(&cause));
    let reason = match fs::metadata(path) {
        Ok(found) if found.is_dir() => "it is a directory".to_owned(),
        Ok(found) if !found.is_file() => "it is no file".to_owned(),
        Ok(found) if found.len() == 0 => "it is empty".to_owned(),
        Ok(_) => match head(path) {
            Ok(head) if !head.starts_with(MAGIC) => "it is no shared library".to_owned(),
            Ok(head) if !is_for_this_machine(&head) => "it is for another processor".to_owned(),
            Ok(_) => match fs::read(path) {
                Ok(bytes) if !is_whole(&bytes) => "it is cut short".to_owned(),
                Ok(bytes) if !is_provider(&bytes) => {
                    "it is no provider: it has no OSSL_provider_init".to_owned()
                }
                Ok(_) => return None,
                Err(cause) => failed(cause),
            },
            Err(cause) => failed(cause),
        },
        Err(cause) => failed(cause),
    };
    Some(reason)
}

/// Reads the beginning of a file.
fn head(path: &Path) -> io::Result<Vec<u8>> {
    let mut head = Vec::new();
    File::open(path)?.take(HEAD).read_to_end(&mut head)?;
    Ok(head)
}

/// Returns whether class, byte order and machine are those of this program.
fn is_for_this_machine(library: &[u8]) -> bool {
    let Ok(own) = head(Path::new("/proc/self/exe")) else { return true };
    [4..6, 18..20].into_iter().all(|part| library.get(part.clone()) == own.get(part))
}

/// Returns whether the file contains everything that its headers refer to.
fn is_whole(bytes: &[u8]) -> bool {
    let is_wide = bytes.get(4) == Some(&WIDE);
    let half = |at: usize| bytes.get(at..at + 2)?.try_into().ok().map(u16::from_ne_bytes);
    let word = |at: usize| bytes.get(at..at + 4)?.try_into().ok().map(u32::from_ne_bytes);
    let long = |at: usize| bytes.get(at..at + 8)?.try_into().ok().map(u64::from_ne_bytes);
    let address = |at: usize| if is_wide { long(at) } else { word(at).map(u64::from) };
    let is_there = |begin: u64, length: u64| {
        begin.checked_add(length).is_some_and(|end| end <= bytes.len() as u64)
    };
    // The header fields with the offsets of the tables of segments and sections, and with the size
    // and number of their entries.
    let [segments, sections, sizes] = if is_wide { [32, 40, 54] } else { [28, 32, 42] };
    let table = |begin, sizes| {
        let (begin, size, number) = (address(begin)?, half(sizes)?, half(sizes + 2)?);
        is_there(begin, u64::from(size) * u64::from(number)).then_some((begin, size, number))
    };
    let look = || {
        table(sections, sizes + 4)?;
        let (begin, size, number) = table(segments, sizes)?;
        let [offset, length] = if is_wide { [8, 32] } else { [4, 16] };
        let is_whole = |segment: u16| {
            let segment = begin + u64::from(size) * u64::from(segment);
            let segment = usize::try_from(segment).ok()?;
            Some(is_there(address(segment + offset)?, address(segment + length)?))
        };
        Some((0..number).all(|segment| is_whole(segment) == Some(true)))
    };
    look() == Some(true)
}

fn is_provider(bytes: &[u8]) -> bool {
    bytes.windows(ENTRY.len()).any(|window| window == ENTRY)
}

/// The first bytes of an ELF file, and the greatest length of its header in bytes.
const MAGIC: &[u8] = b"\x7fELF";
const HEAD: u64 = 64;

/// The class of files with addresses of 64 bits.
const WIDE: u8 = 2;

/// The function that OpenSSL calls in it.
const ENTRY: &[u8] = b"OSSL_provider_init";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn what_cant_be_loaded_says_why() {
        let directory = tempfile::tempdir().unwrap();
        let path = directory.path().join("evener.so");
        let told = |bytes: &[u8]| {
            fs::write(&path, bytes).unwrap();
            unfit(&path).unwrap_or_default()
        };
        // This program contains the name of that function.
        let own = fs::read("/proc/self/exe").unwrap();
        assert_eq!(told(&own), "");
        assert_eq!(told(b""), "it is empty");
        assert_eq!(told(b"text\n"), "it is no shared library");
        for length in [20, 100, own.len() / 2, own.len() - 1] {
            assert_eq!(told(&own[..length]), "it is cut short", "{length}");
        }
        for place in [4, 5, 18] {
            let mut other = own.clone();
            other[place] ^= 0x55;
            assert_eq!(told(&other), "it is for another processor");
        }
        let mut other = own.clone();
        while let Some(at) = other.windows(ENTRY.len()).position(|window| window == ENTRY) {
            other[at] = b'x';
        }
        assert!(told(&other).starts_with("it is no provider"));
        assert_eq!(unfit(directory.path()).unwrap(), "it is a directory");
        assert!(
            unfit(&directory.path().join("none")).unwrap().starts_with("can't read it: No such")
        );
    }
}
