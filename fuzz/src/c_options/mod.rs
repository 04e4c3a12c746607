//! The options that a C program passes, and an operation on a small tree with them.

mod sys;

use std::ffi::CString;
use std::fs;
use std::path::Path;

use arbitrary::{Result, Unstructured};

use sys::{Direction, Wishes, process};

/// Any options at all. No call ends in an internal error; a call that reports success succeeded, so
/// decrypting with the same options restores the files; nothing appears beside the target, and no
/// source is removed unless the options ask for that.
pub fn c_options(data: &[u8]) {
    // With too few bytes there are no options.
    let _ = perform(&mut Unstructured::new(data));
}

fn perform(script: &mut Unstructured<'_>) -> Result<()> {
    let home = tempfile::tempdir_in("/dev/shm").or_else(|_| tempfile::tempdir()).expect("a home");
    let at = |name: &str| home.path().join(name);
    fs::create_dir_all(at("source/below")).expect("a directory");
    for (name, content) in FILES {
        fs::write(at("source").join(name), content).expect("a file");
    }
    let wishes = wishes(script)?;
    let flags = wishes.flags;
    let status = process(Direction::Encrypt, &at("source"), &at("target"), &wishes);
    assert_ne!(status, sys::INTERNAL, "{}", sys::last_error());
    for (name, content) in FILES {
        let there = fs::read(at("source").join(name)).ok();
        let is_removed = there.is_none() && flags & sys::REMOVE_SOURCE != 0 && status == sys::OK;
        assert!(is_removed || there.as_deref() == Some(content.as_bytes()), "{name} is lost");
    }
    assert_nothing_beside(home.path(), &["source", "target"]);
    if status != sys::OK || flags & sys::DRY_RUN != 0 {
        return Ok(());
    }
    let wishes = Wishes { flags: 0, ..wishes };
    let status = process(Direction::Decrypt, &at("target"), &at("back"), &wishes);
    assert_eq!(status, sys::OK, "{}", sys::last_error());
    for (name, content) in FILES {
        let back = fs::read(at("back").join(name)).expect("what was encrypted");
        assert!(back == content.as_bytes(), "{name} is another");
    }
    assert_nothing_beside(home.path(), &["source", "target", "back"]);
    Ok(())
}

fn wishes(script: &mut Unstructured<'_>) -> Result<Wishes> {
    let [flags_low, flags_high, jobs, size] = script.arbitrary::<[u8; 4]>()?;
    let memory = script.arbitrary::<u32>()?;
    let count = script.arbitrary::<u8>()? % 3;
    let mut engines = Vec::new();
    for _ in 0..count {
        engines.push(text(script)?.unwrap_or_default());
    }
    engines.retain(|name| !loads_code(name));
    let suffix = text(script)?;
    let context = script.bytes(script.len())?.to_vec();
    Ok(Wishes {
        flags: u32::from(flags_low) | u32::from(flags_high) << 8,
        jobs: usize::from(jobs % 9),
        // Only the fields of the struct's first version, all of it, or an invalid size.
        size: match size {
            0..=199 => size_of::<sys::Options>(),
            200..=219 => usize::from(size - 200) * 8,
            _ => usize::from(size) << 7,
        },
        memory: memory as usize,
        engines,
        suffix,
        context,
    })
}

/// Up to 20 bytes, or `None`.
fn text(script: &mut Unstructured<'_>) -> Result<Option<CString>> {
    let length = usize::from(script.arbitrary::<u8>()? % 22);
    let Some(length) = length.checked_sub(1) else { return Ok(None) };
    let mut bytes = script.bytes(length.min(script.len()))?.to_vec();
    bytes.retain(|&byte| byte != 0);
    Ok(CString::new(bytes).ok())
}

/// Returns whether an engine's name could make the program load a library of the fuzzer's choice.
fn loads_code(name: &CString) -> bool {
    let name = name.to_string_lossy();
    ["pkcs11", "provider", "model"].iter().any(|part| name.contains(part))
}

fn assert_nothing_beside(home: &Path, expected: &[&str]) {
    for entry in fs::read_dir(home).expect("the home") {
        let name = entry.expect("an entry").file_name();
        assert!(expected.iter().any(|known| name == **known), "{name:?} appeared");
    }
}

const FILES: &[(&str, &str)] = &[("one", "the content of one"), ("empty", ""), ("below/two", "2")];
