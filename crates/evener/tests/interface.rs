//! Promises of the types besides their methods.

use std::fmt::Debug;

use evener::hazmat::{ParallelCipher, RecordCipher};
use evener::keys::{KeyFormat, KeyMaterial};
use evener::{
    Aead, Cipher, Control, Evener, EvenerBuilder, Key, KeyRing, NonceSequence, Opening, Options,
    Pool, RandomAccess, Report, Sealer, Sealing,
};

fn is_shared<T: Send + Sync + Debug>() {}
fn is_sent<T: Send + Debug>() {}

#[test]
fn threads_can_share_what_they_use_together() {
    is_shared::<Aead>();
    is_shared::<Evener>();
    is_shared::<Key>();
    is_shared::<KeyRing>();
    is_shared::<Pool>();
    is_shared::<ParallelCipher>();
    is_shared::<Control>();
    is_shared::<Report>();
    is_shared::<Options>();
    is_shared::<RandomAccess>();
    is_sent::<EvenerBuilder>();
    is_sent::<RecordCipher>();
    is_sent::<NonceSequence>();
    is_sent::<Sealer<'_>>();
    is_sent::<Sealing<'_>>();
    is_sent::<Opening<'_>>();
}

#[test]
fn no_secret_is_printed() {
    let secret = [0xC7; 32];
    let (hex, decimal) = ("c7", "199");
    let key = Key::new(&secret).unwrap();
    let keys = || {
        let material = KeyMaterial::generate(KeyFormat::default()).unwrap();
        material.key_ring(b"").unwrap()
    };
    let mut sealed = [0; 48];
    let printed = [
        format!("{key:?}"),
        format!("{:?}", Aead::new(Cipher::Aes256Gcm, &key).unwrap()),
        format!("{:?}", Sealing::new(&secret, &mut sealed)),
        format!("{:?}", RecordCipher::new(Cipher::Aes256Cbc, &key).unwrap()),
    ];
    for text in printed {
        let text = text.to_lowercase();
        assert!(!text.contains(hex) && !text.contains(decimal), "{text}");
    }
    let evener = format!("{:?} {:?}", Evener::new(keys()).unwrap(), Evener::builder(keys()));
    assert!(!evener.to_lowercase().contains("key: ["), "{evener}");
}

#[test]
fn workers_are_chosen_in_one_place() {
    let seats = vec![evener::engines::find("openssl").unwrap()];
    let builder = || {
        let keys = KeyMaterial::generate(KeyFormat::default()).unwrap().key_ring(b"").unwrap();
        let seats = seats.clone();
        Evener::builder(keys).options(|options| options.seats = seats)
    };
    let home = tempfile::tempdir().unwrap();
    let file = home.path().join("file");
    std::fs::write(&file, "text").unwrap();
    let sealed = home.path().join("sealed");
    for builder in [
        builder().engines(&["cpu"]),
        builder().workers(2.try_into().unwrap()),
        builder().verify_engine(1),
        builder().on_wait(|_| ()),
    ] {
        let refused = builder.build().unwrap().encrypt(&file, &sealed).unwrap_err();
        assert!(refused.to_string().contains("`Options::seats`"), "{refused}");
        assert!(!sealed.exists());
    }
    let report = builder().build().unwrap().encrypt(&file, &sealed).unwrap();
    assert_eq!((report.files, report.workers.len()), (1, 1));
}
