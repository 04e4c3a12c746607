//! The engine passes the requirements for every engine, on devices of several kinds.

use std::sync::Arc;

use evener_core::{
    Cipher, Description, Direction, Engine, EngineError, Kind, Offer, Session, SessionRequest,
};

use crate::with_device;

#[test]
fn the_engine_conforms() {
    with_device("conformance::the_engine_conforms", &[], || {
        conforms(&[
            Cipher::Aes128Ecb,
            Cipher::Aes192Cbc,
            Cipher::Aes256Ctr,
            Cipher::Aes256Gcm,
            Cipher::Camellia128Cbc,
            Cipher::DesEde3Cbc,
        ]);
    });
}

#[test]
fn the_engine_conforms_on_a_busy_device_that_wants_its_data_aligned() {
    let name = "conformance::the_engine_conforms_on_a_busy_device_that_wants_its_data_aligned";
    with_device(name, &["--busy-every", "100", "--alignment", "64"], || {
        conforms(&[Cipher::Aes128Cbc, Cipher::Aes128Gcm]);
    });
}

#[test]
fn the_engine_conforms_with_several_requests_under_way() {
    let name = "conformance::the_engine_conforms_with_several_requests_under_way";
    // The ring has less room than the engine asks for, and is also busy. A request without an IV
    // continues with the last one's, as in the real module.
    let options = ["--ring", "5", "--lazy", "--busy-every", "100", "--alignment", "16"];
    with_device(name, &options, || {
        let engine = evener_engines::raw::find("cryptodev").unwrap();
        let batch = |cipher| engine.offer(cipher, Direction::Encrypt).unwrap().batch;
        assert_eq!((batch(Cipher::Aes128Cbc), batch(Cipher::Aes128Gcm)), (16, 1));
        conforms(&[Cipher::Aes128Cbc, Cipher::Aes128Ctr]);
    });
}

#[test]
fn software_is_used_only_when_named() {
    with_device("conformance::software_is_used_only_when_named", &["--software"], || {
        let Err(error) = evener_engines::raw::find("cryptodev") else {
            panic!("software was found")
        };
        assert!(error.to_string().contains("cbc-aes-generic (software)"), "{error}");
        let engine = evener_engines::raw::find("cryptodev:cbc-aes-generic").unwrap();
        assert_eq!(engine.description().kind, Kind::Cpu);
        assert!(engine.offer(Cipher::Aes128Cbc, Direction::Encrypt).is_some());
        assert!(engine.offer(Cipher::Aes128Ctr, Direction::Encrypt).is_none());
        let engine = evener_engines::find("cryptodev:any").unwrap();
        assert!(engine.description().detail.contains("cbc-aes-generic (software)"));
        assert!(engine.offer(Cipher::Aes128Ctr, Direction::Encrypt).is_some());
    });
}

/// Runs the conformance suite on the engine with these ciphers, one of each kind: every ioctl here
/// is several task switches of an emulated CPU.
fn conforms(ciphers: &'static [Cipher]) {
    let engine = evener_engines::raw::find("cryptodev").unwrap();
    assert_eq!(engine.description().kind, Kind::Module);
    let engine = Restricted { engine, ciphers };
    assert!(ciphers.iter().all(|&cipher| engine.offer(cipher, Direction::Encrypt).is_some()));
    evener_engines::conformance::run(&engine).assert_passed();
}

struct Restricted {
    engine: Arc<dyn Engine>,
    ciphers: &'static [Cipher],
}

impl Engine for Restricted {
    fn description(&self) -> &Description {
        self.engine.description()
    }

    fn offer(&self, cipher: Cipher, direction: Direction) -> Option<Offer> {
        self.engine.offer(cipher, direction).filter(|_| self.ciphers.contains(&cipher))
    }

    fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
        match self.offer(request.cipher, request.direction) {
            Some(_) => self.engine.open(request),
            None => Err(EngineError::not_offered(request.cipher, request.direction)
                .of(&self.description().name)),
        }
    }
}
