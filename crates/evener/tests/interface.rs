//! Promises of the types besides their methods.

use std::fmt::Debug;
use std::time::Duration;

use evener::engines::{
    EngineError, Guarded, InPlaceJob, Iv, Job, Outcome, Padding, Parcel, PlacedJob, RecordLayout,
    Records, Session, Shortcuts, WipedBuffer,
};
use evener::hazmat::{ParallelCipher, RecordCipher};
use evener::keys::{KeyFormat, KeyMaterial};
use evener::place::{Local, Memory};
use evener::{
    Aead, Cipher, Control, Direction, Evener, EvenerBuilder, Key, KeyRing, NonceSequence, Opening,
    Options, Pool, RandomAccess, Report, Sealer, Sealing,
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
    is_shared::<Local>();
    is_shared::<Memory>();
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
        Evener::builder(keys).options(|options| options.run.seats = seats)
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
        assert!(refused.to_string().contains("`RunSettings::seats`"), "{refused}");
        assert!(!sealed.exists());
    }
    let report = builder().build().unwrap().encrypt(&file, &sealed).unwrap();
    assert_eq!((report.files, report.workers.len()), (1, 1));
}

/// A session that copies jobs; it may have ways of its own, which do nothing.
#[derive(Default)]
struct Copier {
    has_own_ways: bool,
    jobs: usize,
    calls: Vec<&'static str>,
}

impl Session for Copier {
    fn process(&mut self, batch: &mut [Job<'_>]) -> Result<(), EngineError> {
        for job in batch {
            self.jobs += 1;
            job.output.copy_from_slice(job.input);
            job.outcome = Outcome::Done { written: job.input.len() };
        }
        Ok(())
    }

    fn shortcuts(&mut self) -> Option<&mut dyn Shortcuts> {
        if self.has_own_ways { Some(self) } else { None }
    }

    fn guarded(&mut self) -> Option<&mut dyn Guarded> {
        if self.has_own_ways { Some(self) } else { None }
    }
}

impl Shortcuts for Copier {
    fn process_in_place(&mut self, _: &mut InPlaceJob<'_>) -> Result<(), EngineError> {
        self.calls.push("in place");
        Ok(())
    }

    fn process_records(&mut self, _: &mut Records<'_>) -> Result<(), EngineError> {
        self.calls.push("records");
        Ok(())
    }

    fn expect_output(&mut self, _: usize) {
        self.calls.push("output");
    }
}

impl Guarded for Copier {
    fn process_parcel(&mut self, _: &mut Parcel) -> Result<(), EngineError> {
        self.calls.push("parcel");
        Ok(())
    }

    fn finish(&mut self) -> Result<(), EngineError> {
        self.calls.push("finish");
        Ok(())
    }

    fn cpu_elsewhere(&mut self) -> Duration {
        Duration::from_secs(1)
    }
}

/// Gives a session all kinds of work, for three jobs. Returns the CPU time of its threads.
fn work(session: &mut dyn Session) -> Duration {
    let (cipher, direction, iv) = (Cipher::Aes128Ecb, Direction::Encrypt, Iv::NONE);
    session.expect_output(48);
    let mut data = [1; 16];
    session.process_in_place(&mut InPlaceJob::new(cipher, direction, iv, &mut data)).unwrap();
    let layout = RecordLayout::packed(cipher, direction, Padding::None, 1, 16);
    let mut output = [0; 16];
    let mut records = Records::new(cipher, direction, layout, &[], &data, &mut output).unwrap();
    session.process_records(&mut records).unwrap();
    let mut parcel = Parcel::default();
    parcel.push(PlacedJob::new(iv, 0..16, 0..16));
    parcel.add(WipedBuffer::zeros(16), WipedBuffer::zeros(16));
    session.process_parcel(&mut parcel).unwrap();
    session.finish().unwrap();
    session.cpu_elsewhere()
}

#[test]
fn a_session_gets_jobs_unless_it_has_a_way_of_its_own() {
    let mut plain = Copier::default();
    assert_eq!(work(&mut plain), Duration::ZERO);
    assert_eq!((plain.jobs, plain.calls.len()), (3, 0));
    let mut own = Copier { has_own_ways: true, ..Copier::default() };
    assert_eq!(work(&mut own), Duration::from_secs(1));
    assert_eq!(own.jobs, 0);
    assert_eq!(own.calls, ["output", "in place", "records", "parcel", "finish"]);
}
