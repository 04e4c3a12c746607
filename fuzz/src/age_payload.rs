//! Files of age's own format.

use std::sync::LazyLock;

use evener_keys::age::{self, FileHeaders};
use evener_place::KeyRing;

use crate::age_file::IDENTITIES;
use crate::readers::{open_in_parts, open_piped, open_whole};

/// An age file of any content. All ways of reading it agree, except that only a pipe may be in
/// armour.
pub fn age_payload(data: &[u8]) {
    let whole = open_whole(&RING, data);
    assert_eq!(whole, open_in_parts(&RING, data), "a whole file, and the same in parts");
    let (piped, complete) = open_piped(&RING, data);
    if age::is_armoured(data) {
        assert!(whole.is_none(), "armour has no chunks");
        return;
    }
    assert_eq!(whole.is_some(), complete, "a whole file, and the same from a pipe");
    if let Some(whole) = whole {
        assert!(whole == piped, "a whole file, and the same from a pipe");
    }
}

static RING: LazyLock<KeyRing> =
    LazyLock::new(|| KeyRing::new(FileHeaders::opened_by(IDENTITIES.clone(), None).recipe()));
