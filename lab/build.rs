//! Tells the threads benchmark which OpenSSL this build links, so that its peer in C can link the
//! same one.

fn main() {
    println!("cargo::rerun-if-changed=build.rs");
    if let Ok(include) = std::env::var("DEP_OPENSSL_INCLUDE") {
        println!("cargo::rustc-env=EVENER_OPENSSL_INCLUDE={include}");
    }
}
