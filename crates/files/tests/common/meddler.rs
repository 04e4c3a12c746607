//! An engine that changes the tree during the work.

use std::sync::Arc;

use evener_engines::acting::Acting;
use evener_files::Options;

use super::options;

/// Options with one worker, of `openssl`, that changes the tree before each batch.
pub fn meddling(deed: impl Fn() + Send + Sync + 'static) -> Options {
    let openssl = evener_engines::find("openssl").unwrap();
    let meddler = Acting::new(openssl, move |session, batch| {
        deed();
        session.process(batch)
    });
    Options { seats: vec![Arc::new(meddler)], ..options() }
}
