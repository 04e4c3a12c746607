//! The backend with a fake driver (`fake.c`), which reports errors that a real one would not
//! forgive.

mod sys;

use std::path::{Path, PathBuf};
use std::process::Command;
use std::sync::LazyLock;
use std::sync::atomic::{AtomicUsize, Ordering};
use std::time::{Duration, Instant};
use std::{env, fs, thread};

use evener_core::lacking;
use evener_core::{
    Cipher, Direction, Engine, EngineError, Iv, Job, Key, Outcome, SessionRequest, WipedBuffer,
};

use super::*;
use crate::device::{Buffer, Place};
use crate::lent::Lending;
use crate::sys::{Channel, Sizes, Stretch};
use sys::{Fake, Told, copy_beyond, flip, launch_unknown};

const PTX: &str = ".version 7.1\n.target sm_80\n.visible .entry flip(\n) {}\n.entry large(\n) {}\n";

const FINE: Told = Told { fail_at: 0, code: 0, is_sticky: false, memory: 1 << 30, lies: false };

/// Set when the tests run again with the sanitiser.
const SANITISED: &str = "EVENER_TEST_FAKE_CUDA_SANITISED";

/// The fake driver, compiled once; `None` if there is no compiler.
static COMPILED: LazyLock<Option<(tempfile::TempDir, PathBuf)>> = LazyLock::new(|| {
    let source = Path::new(env!("CARGO_MANIFEST_DIR")).join("src/cuda/tests/fake.c");
    let folder = tempfile::tempdir().unwrap();
    let library = folder.path().join("libcuda.so");
    let mut compiler = Command::new(env::var_os("CC").unwrap_or_else(|| "cc".into()));
    if env::var_os(SANITISED).is_some() {
        compiler.args(["-g", "-fsanitize=address"]);
    }
    compiler.args(["-O1", "-Wall", "-Wextra", "-Werror", "-shared", "-fPIC", "-o"]);
    let compiled = compiler.arg(&library).arg(source).arg("-lpthread").status();
    match compiled {
        Ok(status) => assert!(status.success(), "the fake driver does not compile"),
        Err(_) => return None,
    }
    Some((folder, library))
});

/// A copy of the fake driver with a state of its own.
fn fake() -> Option<Fake> {
    static COPIES: AtomicUsize = AtomicUsize::new(0);
    let Some((folder, library)) = &*COMPILED else {
        lacking!("a C compiler");
        return None;
    };
    let copy = folder.path().join(format!("{}.so", COPIES.fetch_add(1, Ordering::SeqCst)));
    fs::copy(library, &copy).unwrap();
    let fake = Fake::load(&copy);
    fake.begin(FINE);
    Some(fake)
}

/// A device of the fake with the engine's kernels, of which it knows `shared_chains`; and its
/// complaints when everything is closed. `None` if there is no compiler.
pub(crate) fn fake_gpu() -> Option<(Arc<dyn Device>, impl FnOnce() -> String)> {
    let fake = fake()?;
    let device = found(&fake.path, crate::kernels::PTX).unwrap().remove(0);
    Some((device, move || fake.end()))
}

fn text() -> Vec<u8> {
    (0..70_001_u32).map(|number| (number * 31 % 251) as u8).collect()
}

fn flipped(text: &[u8]) -> Vec<u8> {
    text.iter().map(|byte| byte ^ 0x5A).collect()
}

fn first(fake: &Fake) -> Arc<dyn Device> {
    found(&fake.path, PTX).unwrap().remove(0)
}

#[test]
fn a_batch_goes_there_and_back() {
    let Some(fake) = fake() else { return };
    let device = first(&fake);
    let expected = Properties {
        backend: "cuda",
        index: 0,
        name: "Fake 9000".to_owned(),
        driver: "CUDA 12.4".to_owned(),
        memory: 1 << 30,
        largest_allocation: 1 << 30,
        shared_memory: 227 << 10,
        largest_group: 1024,
        units: 132,
        clock: 1980,
        cache: 50 << 20,
        is_gpu: true,
    };
    assert_eq!(*device.properties(), expected);
    for _ in 0..3 {
        assert!(flip(&*device, &text()).unwrap() == flipped(&text()));
    }
    drop(device);
    assert_eq!(fake.end(), "");
}

#[test]
fn streams_of_several_threads_share_a_device() {
    let Some(fake) = fake() else { return };
    let device = first(&fake);
    thread::scope(|scope| {
        for number in 0..4 {
            let device = &device;
            scope.spawn(move || {
                let text = vec![number; 10_000 + usize::from(number)];
                assert!(flip(&**device, &text).unwrap() == flipped(&text));
            });
        }
    });
    drop(device);
    assert_eq!(fake.end(), "");
}

#[test]
fn every_call_that_fails_is_an_error_and_leaves_nothing_behind() {
    let Some(fake) = fake() else { return };
    let work = || -> Result<Vec<u8>, Option<DeviceError>> {
        let devices = found(&fake.path, PTX).map_err(|_| None)?;
        flip(&*devices[0], &text()).map_err(Some)
    };
    assert!(work().unwrap() == flipped(&text()));
    let calls = fake.calls();
    assert_eq!(fake.end(), "");
    assert!(calls > 50, "{calls}");
    let mut failed = 0;
    for fail_at in 1..=calls {
        for (code, is_sticky) in [(1, false), (2, false), (700, false), (700, true), (12345, true)]
        {
            let told = Told { fail_at, code, is_sticky, ..FINE };
            fake.begin(told);
            match (work(), code) {
                // The backend ignores failures to free memory or to set flags.
                (Ok(result), _) => assert!(result == flipped(&text()), "{told:?}"),
                (Err(None), _)
                | (Err(Some(DeviceError::OutOfMemory { .. })), 2)
                | (Err(Some(DeviceError::Lost { .. })), 700)
                | (Err(Some(DeviceError::Other { .. })), 1 | 12345) => failed += 1,
                (Err(error), _) => panic!("{told:?}: {error:?}"),
            }
            assert_eq!(fake.end(), "", "{told:?}");
        }
    }
    assert!(failed > 2 * calls, "{failed} of {calls} calls");
}

#[test]
fn too_little_memory_is_said() {
    let Some(fake) = fake() else { return };
    let device = first(&fake);
    for memory in [0, 70_000, 70_300] {
        fake.begin(Told { memory, ..FINE });
        let error = flip(&*device, &text()).map(|_| ()).unwrap_err();
        assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{memory}: {error:?}");
        assert!(error.to_string().contains("end other programs"), "{error}");
    }
    fake.begin(FINE);
    let error = device.open().unwrap().allocate(usize::MAX).unwrap_err();
    assert!(matches!(error, DeviceError::OutOfMemory { .. }), "{error:?}");
    drop(device);
    assert_eq!(fake.end(), "");
}

#[test]
fn a_driver_that_is_not_there_or_of_no_use_is_a_reason() {
    let reason = |path: &CStr, ptx| found(path, ptx).err().expect("a device was found");
    let missing = reason(c"/nowhere/libcuda.so.1", PTX);
    assert_eq!(missing, "/nowhere/libcuda.so.1 is not there; it comes with NVIDIA's driver");
    let other = reason(c"libc.so.6", PTX);
    assert!(other.contains("too old: it has no cuInit"), "{other}");
    let Some(fake) = fake() else { return };
    for (version, devices, capability, words) in [
        (12_040, 0, 90, "the driver failed while it was starting"),
        (10_020, 1, 90, "its driver is for CUDA 10.2; install one for CUDA 11 or later"),
        (12_040, 1, 75, "Fake 9000 has compute capability 7.5; the kernels need 8.0"),
    ] {
        fake.be(version, devices, capability);
        let reason = reason(&fake.path, PTX);
        assert!(reason.contains(words), "{reason}");
    }
    fake.be(11_000, 2, 80);
    assert_eq!(found(&fake.path, PTX).unwrap().len(), 2);
    assert_eq!(fake.end(), "");
}

#[test]
fn ptx_that_the_driver_refuses_is_an_error_with_its_words() {
    let Some(fake) = fake() else { return };
    let device = found(&fake.path, "nonsense").unwrap().remove(0);
    let mut stream = device.open().unwrap();
    let error = stream.prepare("flip", 0).err().unwrap().to_string();
    assert!(
        error.contains("compiling its kernels") && error.ends_with(": ptxas: no version"),
        "{error}"
    );
    drop((stream, device));
    assert_eq!(fake.end(), "");
}

#[test]
fn what_is_not_in_a_buffer_is_refused_before_the_driver_sees_it() {
    let Some(fake) = fake() else { return };
    let device = first(&fake);
    let mut stream = device.open().unwrap();
    let buffer = stream.allocate(64).unwrap();
    let calls = fake.calls();
    for (buffer, offset) in [(buffer, 193), (buffer, usize::MAX), (Buffer(99), 0)] {
        for refused in copy_beyond(&mut *stream, Place { buffer, offset }) {
            assert!(matches!(refused, Err(DeviceError::Other { .. })), "{buffer:?} {offset}");
        }
        assert!(stream.zero(Place { buffer, offset }, 64).is_err());
    }
    for (offset, length) in [(2, 4), (0, 6)] {
        assert!(stream.zero(Place { buffer, offset }, length).is_err(), "no whole words");
    }
    assert_eq!(fake.calls(), calls);
    let error = launch_unknown(&mut *stream).unwrap_err().to_string();
    assert!(error.contains("looking for a kernel: unknown"), "{error}");
    drop((stream, device));
    assert_eq!(fake.end(), "");
}

/// Its drop waits until all returned memory is freed.
struct Settled(Arc<Lending>);

impl Drop for Settled {
    fn drop(&mut self) {
        self.0.settle();
    }
}

/// The engine on the fake driver, whose kernels of ciphers do nothing.
fn engine(fake: &Fake) -> Arc<crate::GpuEngine> {
    let device = found(&fake.path, crate::kernels::PTX).unwrap().remove(0);
    Arc::new(crate::GpuEngine::new("gpu:fake".to_owned(), device, || ()))
}

#[test]
fn a_device_that_fails_costs_no_job() {
    let Some(fake) = fake() else { return };
    let (cipher, direction) = (Cipher::Aes128Gcm, Direction::Encrypt);
    let key = Key::new(&[5; 16]).unwrap();
    let iv = Iv::new(&[6; 12]).unwrap();
    let texts: Vec<Vec<u8>> = (0..5).map(|number| text()[..100 * number + 1].to_vec()).collect();
    let work = || -> Result<(), EngineError> {
        let engine = engine(&fake);
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let mut session = engine.open(&request)?;
        let mut outputs: Vec<_> = texts.iter().map(|text| vec![0; text.len() + 16]).collect();
        let jobs = texts.iter().zip(&mut outputs);
        let mut batch: Vec<_> = jobs.map(|(text, output)| Job::new(iv, text, output)).collect();
        let result = session.process(&mut batch);
        let are_done = batch.iter().all(|job| matches!(job.outcome, Outcome::Done { .. }));
        assert!(are_done || result.is_err(), "a job was lost without a word");
        result
    };
    work().unwrap();
    let calls = fake.calls();
    assert_eq!(fake.end(), "");
    fake.begin(FINE);
    let before = found(&fake.path, PTX).map(|_| fake.calls()).unwrap();
    let mut failed = 0;
    for fail_at in before + 1..=calls {
        for (code, is_sticky) in [(1, false), (2, false), (719, true)] {
            let told = Told { fail_at, code, is_sticky, ..FINE };
            fake.begin(told);
            failed += usize::from(work().is_err());
            assert_eq!(fake.end(), "", "{told:?}");
        }
    }
    assert!(failed > 50, "{failed}");
    assert!(texts.iter().all(|kept| text().starts_with(kept)), "an input was changed");
}

/// Batches of the engine on the fake, with most messages in lent memory; OpenSSL processes the jobs
/// that it fails to process.
#[test]
fn a_device_that_fails_costs_no_job_in_lent_memory() {
    let Some(fake) = fake() else { return };
    let cipher = Cipher::Aes128Gcm;
    let key = Key::new(&[5; 16]).unwrap();
    let iv = Iv::new(&[6; 12]).unwrap();
    let openssl = evener_engines::find("openssl").unwrap();
    let text: Vec<u8> = text()[..40_000].to_vec();
    let mut sealed = vec![0; text.len() + 16];
    let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key) };
    let mut batch = [Job::new(iv, &text, &mut sealed)];
    openssl.open(&request).unwrap().process(&mut batch).unwrap();
    let work = |direction| -> Result<(), EngineError> {
        let engine = engine(&fake);
        let _settled = Settled(Arc::clone(&engine.lending));
        let request = SessionRequest { cipher, direction, key: Some(&key) };
        let (message, result) = match direction {
            Direction::Encrypt => (&text, &sealed),
            Direction::Decrypt => (&sealed, &text),
        };
        let buffer = |bytes| engine.buffer(bytes).unwrap_or_else(|| WipedBuffer::zeros(bytes));
        let (mut input, mut output) = (buffer(3 * message.len()), buffer(3 * result.len()));
        input.chunks_exact_mut(message.len()).for_each(|place| place.copy_from_slice(message));
        let mut own = vec![0; result.len()];
        let mut session = engine.open(&request)?;
        let places = input.chunks_exact(message.len()).zip(output.chunks_exact_mut(result.len()));
        let mut batch: Vec<_> = places.map(|(input, output)| Job::new(iv, input, output)).collect();
        batch.push(Job::new(iv, message, &mut own));
        let done = session.process(&mut batch);
        let left: Vec<_> = batch.iter().map(|job| job.outcome == Outcome::Pending).collect();
        assert!(done.is_err() || !left.contains(&true), "a job was lost without a word");
        for (job, _) in batch.iter().zip(&left).filter(|(_, left)| **left) {
            assert!(job.output.iter().all(|&byte| byte == 0), "a result was left");
        }
        openssl.open(&request).unwrap().process(&mut batch).unwrap();
        drop(batch);
        let results = output.chunks_exact(result.len()).chain([&own[..]]);
        for (result_of, left) in results.zip(left) {
            assert!(!left || result_of == result, "another engine could not do it");
        }
        assert!(
            input.chunks_exact(message.len()).all(|place| place == message),
            "an input changed"
        );
        done
    };
    for direction in [Direction::Encrypt, Direction::Decrypt] {
        fake.begin(FINE);
        // All of the fake's tags are right, because its kernels do nothing.
        work(direction).unwrap();
        let calls = fake.calls();
        assert_eq!(fake.end(), "");
        fake.begin(FINE);
        let before = found(&fake.path, PTX).map(|_| fake.calls()).unwrap();
        let mut failed = 0;
        for fail_at in before + 1..=calls {
            for (code, is_sticky) in [(1, false), (2, false), (719, true)] {
                let told = Told { fail_at, code, is_sticky, ..FINE };
                fake.begin(told);
                failed += usize::from(work(direction).is_err());
                assert_eq!(fake.end(), "", "{told:?}");
            }
        }
        assert!(failed > 50, "{failed}");
    }
}

#[test]
fn memory_given_back_early_stays_until_its_copy_has_ended() {
    let Some(fake) = fake() else { return };
    let device = first(&fake);
    let lending = Lending::new(1, || ());
    let mut buffers = [(); 2].map(|()| lending.lend(device.pin(4_096).unwrap()));
    buffers[0].fill(7);
    let sizes = Sizes { host: 4_096, arena: 4_096, keys: 64, scratch: 64 };
    let mut channel = Channel::open(&*device, sizes).unwrap();
    channel.wait().unwrap();
    let leases = [0, 1].map(|number: usize| lending.now().find(&buffers[number]).cloned().unwrap());
    channel.upload_straight(&Stretch::up(&buffers[0], 0, &leases[0])).unwrap();
    channel.download_straight(&Stretch::down(&mut buffers[1], 0, &leases[1])).unwrap();
    // The list no longer has them, but the memory still exists: otherwise the fake would complain.
    drop(leases);
    drop(buffers);
    lending.settle();
    assert_eq!(lending.now().addresses().count(), 0);
    let calls = fake.calls();
    channel.wait().unwrap();
    assert!(fake.calls() > calls + 2, "nothing was freed");
    drop((channel, device));
    assert_eq!(fake.end(), "");
}

#[test]
fn a_device_that_computes_wrongly_is_found_by_the_guard() {
    let Some(fake) = fake() else { return };
    let (cipher, direction) = (Cipher::Aes128Gcm, Direction::Encrypt);
    let watch = evener_engines::Watch { retreats: false, ..evener_engines::Watch::default() };
    let engine: Arc<dyn Engine> = engine(&fake);
    let guarded = evener_engines::watched(&engine, watch).unwrap();
    let key = Key::new(&[5; 16]).unwrap();
    let request = SessionRequest { cipher, direction, key: Some(&key) };
    let error = guarded.open(&request).err().expect("it was believed");
    assert!(error.to_string().contains("it failed the test with known answers"), "{error}");
}

#[test]
fn a_device_that_hangs_is_waited_for_once() {
    use evener_engines::self_test::{self, SelfTest, SelfTestError};
    const PATIENCE: Duration = Duration::from_secs(1);
    let Some(fake) = fake() else { return };
    let engine: Arc<dyn Engine> = engine(&fake);
    fake.hang_in(c"cuEventSynchronize");
    let guarded = evener_engines::watched(&engine, evener_engines::Watch::default()).unwrap();
    let begun = Instant::now();
    let tests = self_test::run_within(PATIENCE, &*guarded);
    assert!(begun.elapsed() < 10 * PATIENCE, "every test waited for it");
    let words = |test: &SelfTest| test.result.as_ref().unwrap_err().to_string();
    assert!(words(&tests[0]).contains("did not open within 1 s"), "{}", words(&tests[0]));
    assert!(tests.len() > 20);
    assert!(tests[1..].iter().all(|test| test.result == Err(SelfTestError::Skipped)));
    // The hanging threads still use it.
    std::mem::forget((guarded, engine, fake));
}

#[test]
fn the_same_under_a_sanitiser() {
    if env::var_os(SANITISED).is_some() || COMPILED.is_none() {
        return;
    }
    let compiler = env::var_os("CC").unwrap_or_else(|| "cc".into());
    let named = Command::new(compiler).arg("-print-file-name=libasan.so").output().unwrap();
    let library = PathBuf::from(String::from_utf8_lossy(&named.stdout).trim());
    if !library.is_absolute() {
        return lacking!("AddressSanitizer of the C compiler (Debian: libgcc-12-dev)");
    }
    let tests = Command::new(env::current_exe().unwrap())
        .args(["cuda::tests::", "--skip", "the_same_under_a_sanitiser"])
        .envs([(SANITISED, "1"), ("ASAN_OPTIONS", "detect_leaks=0:abort_on_error=1")])
        .env("LD_PRELOAD", library)
        .output()
        .unwrap();
    let said = [tests.stdout, tests.stderr].concat();
    assert!(tests.status.success(), "{}", String::from_utf8_lossy(&said));
}
