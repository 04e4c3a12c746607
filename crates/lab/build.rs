//! Tells the threads benchmark where the OpenSSL is that this build links, so that its peer in C
//! can be linked with the very same.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(include) = std::env::var("DEP_OPENSSL_INCLUDE") {
        println!("cargo::rustc-env=EVENER_OPENSSL_INCLUDE={include}");
    }
}
