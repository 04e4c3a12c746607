//! Names the shared library's binary interface, so that programs load only one that fits.

fn main() {
    println!("cargo:rerun-if-changed=build.rs");
    println!("cargo:rustc-cdylib-link-arg=-Wl,-soname,libevener.so.1");
}
