//! Encrypts a tree, verifies it and decrypts it. When run again, it encrypts new files.
//!
//!     cargo run --example encrypt_tree KEY SOURCE SEALED BACK

use std::env;
use std::error::Error;
use std::path::PathBuf;
use std::sync::Arc;
use std::thread;
use std::time::Duration;

use evener::keys::{self, KeyFile, KeyFormat, KeyMaterial, NoUnlock};
use evener::{Control, Evener, Existing, OperationError, Report};

fn main() -> Result<(), Box<dyn Error>> {
    let paths: Vec<PathBuf> = env::args_os().skip(1).map(PathBuf::from).collect();
    let [key_file, source, sealed, back] = &paths[..] else {
        return Err("usage: encrypt_tree KEY SOURCE SEALED BACK".into());
    };
    if !key_file.exists() {
        // Without this file the data can't be decrypted.
        let key = KeyMaterial::generate(KeyFormat::default())?;
        keys::create(key_file, key.to_text().as_bytes())?;
    }
    let key = KeyFile::read(key_file)?.open(&NoUnlock)?;

    let control = Arc::new(Control::default());
    let evener = Evener::builder(key.key_ring(b"")?)
        .options(|options| {
            options.run.control = Arc::clone(&control);
            options.tree.existing = Existing::resume();
        })
        .build()?;

    // Another thread can watch the operation, or stop it with `control.stop()`.
    let watcher = thread::spawn({
        let control = Arc::clone(&control);
        move || {
            thread::sleep(Duration::from_millis(100));
            eprintln!("{} files so far", control.progress().done_files);
        }
    });
    told(evener.encrypt(source, sealed))?;
    told(evener.verify(sealed))?;
    told(evener.decrypt(sealed, back))?;
    let _ = watcher.join();
    Ok(())
}

/// If files failed, the error's report lists them; all others are done.
fn told(result: Result<Report, OperationError>) -> Result<(), OperationError> {
    if let Err(OperationError::Incomplete(report)) = &result {
        report.failures.iter().for_each(|failure| eprintln!("{failure}"));
    }
    let report = result?;
    println!("{}: {} files, {} bytes", report.operation, report.files, report.bytes);
    Ok(())
}
