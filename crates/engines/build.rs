//! Exists so that the `openssl-src` build dependency can be named. Its features decide what the
//! vendored library contains.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
}
