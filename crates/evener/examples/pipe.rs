//! Encrypts or decrypts standard input to standard output. Only authentic data is written.
//!
//!     tar c photos | cargo run --example pipe encrypt KEY > photos.tar.enc

use std::env;
use std::error::Error;
use std::io;
use std::os::fd::AsFd;
use std::path::Path;

use evener::keys::{self, KeyFile, KeyFormat, KeyMaterial, NoUnlock};
use evener::{Evener, Operation, StreamSource, StreamTarget};

fn main() -> Result<(), Box<dyn Error>> {
    let arguments: Vec<String> = env::args().skip(1).collect();
    let (operation, path) = match arguments.iter().map(String::as_str).collect::<Vec<_>>()[..] {
        ["encrypt", path] => (Operation::Encrypt, Path::new(path)),
        ["decrypt", path] => (Operation::Decrypt, Path::new(path)),
        _ => return Err("usage: pipe encrypt|decrypt KEY".into()),
    };
    if operation == Operation::Encrypt && !path.exists() {
        let key = KeyMaterial::generate(KeyFormat::default())?;
        keys::create(path, key.to_text().as_bytes())?;
    }
    let key = KeyFile::read(path)?.open(&NoUnlock)?;
    let evener = Evener::new(key.key_ring(b"")?)?;
    let source = StreamSource::Descriptor(io::stdin().as_fd().try_clone_to_owned()?);
    let target = StreamTarget::Descriptor(io::stdout().as_fd().try_clone_to_owned()?);
    evener.process_stream(operation, source, target)?;
    Ok(())
}
