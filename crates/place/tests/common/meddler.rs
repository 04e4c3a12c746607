//! An engine that changes the tree during the work.

use std::sync::Arc;

use evener_engines::acting::Acting;

use super::{Options, options};

/// Options with one worker, of `openssl`, that changes the tree before each batch.
pub fn meddling(deed: impl Fn() + Send + Sync + 'static) -> Options {
    let openssl = evener_engines::find("openssl").unwrap();
    let meddler = Acting::new(openssl, move |session, batch| {
        deed();
        session.process(batch)
    });
    options().with(|it| it.run.seats = vec![Arc::new(meddler)])
}
