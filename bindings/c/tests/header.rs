//! The checked-in header is the one that the sources generate. With `EVENER_WRITE_HEADER` in the
//! environment, the test writes it.

use std::path::Path;
use std::{env, fs};

#[test]
fn the_header_is_fresh() {
    let root = Path::new(env!("CARGO_MANIFEST_DIR"));
    let configuration = cbindgen::Config::from_file(root.join("cbindgen.toml")).unwrap();
    let bindings = cbindgen::Builder::new()
        .with_crate(root)
        .with_config(configuration)
        .generate()
        .expect("the sources make a header");
    let mut header = Vec::new();
    bindings.write(&mut header);
    let path = root.join("include/evener.h");
    if env::var_os("EVENER_WRITE_HEADER").is_some() {
        fs::write(&path, &header).unwrap();
    }
    let checked_in = fs::read(&path).unwrap_or_default();
    assert!(
        header == checked_in,
        "include/evener.h is not what the sources give: write it with\n    \
         EVENER_WRITE_HEADER=1 cargo test -p evener-c --test header"
    );
}
