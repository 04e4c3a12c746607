//! Keeps the library in the process once it is loaded: OpenSSL unloads providers when it cleans up,
//! and the process may still hold pointers into this one, such as its handler for `fork`.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-z,nodelete,-soname,evener.so");
}
