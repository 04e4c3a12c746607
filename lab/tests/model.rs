//! Engines and a processor that take their times from a profile.

use std::io::Write;
use std::sync::Arc;
use std::time::Duration;

use evener_core::{Engine, EngineError};
use evener_lab::model::{Processor, find};
use rustix::time::{ClockId, clock_gettime};

fn profile(engines: &str) -> tempfile::NamedTempFile {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let head = r#""machine": "board", "cores": 1, "cipher": "aes-128-cbc""#;
    write!(file, r#"{{{head}, "engines": [{engines}]}}"#).unwrap();
    file
}

fn find_here(parameters: &str) -> Result<Arc<dyn Engine>, EngineError> {
    find(parameters, evener_engines::find("openssl")?, |text| println!("{text}"))
}

const ENGINES: &str = r#"
    {"name": "cpu", "kind": "cpu", "depth": 1, "points": [
        {"bytes": 16, "wall_us": 20, "cpu_us": 20},
        {"bytes": 65536, "wall_us": 200, "cpu_us": 200}]},
    {"name": "module", "kind": "module", "depth": 2, "points": [
        {"bytes": 16, "wall_us": 60, "cpu_us": 25},
        {"bytes": 65536, "wall_us": 200, "cpu_us": 60}],
        "points_at_depth": [{"bytes": 16, "wall_us": 90, "cpu_us": 25}]}"#;

#[test]
fn modelled_engines_conform() {
    let file = profile(ENGINES);
    for name in ["cpu", "module"] {
        let selector = format!("model:{}#{name}", file.path().display());
        let engine = find_here(selector.strip_prefix("model:").unwrap()).unwrap();
        assert_eq!(engine.description().name, selector);
        assert_eq!(engine.description().detail, format!("model of board's {name}"));
        evener_engines::conformance::run(&*engine).assert_passed();
    }
}

#[test]
fn what_is_not_in_the_profile_is_not_there() {
    let file = profile(ENGINES);
    let path = file.path().display();
    let reason = |parameters: String| match find_here(&parameters) {
        Ok(_) => panic!("found {parameters}"),
        Err(error) => error.to_string(),
    };
    assert!(reason(format!("{path}#gpu")).contains("cpu, module"));
    assert!(reason(path.to_string()).contains("FILE#NAME"));
    assert!(reason("/nowhere#cpu".to_owned()).contains("/nowhere"));
    let empty = profile("");
    assert!(reason(format!("{}#cpu", empty.path().display())).contains("malformed"));
}

#[test]
fn work_takes_the_profiles_time() {
    let mut file = tempfile::NamedTempFile::new().unwrap();
    let points = r#"{"bytes": 16, "wall_us": 900, "cpu_us": 1}, {"bytes": 32, "wall_us": 2500, "cpu_us": 1}"#;
    write!(
        file,
        r#"{{"machine": "board", "cores": 1, "cipher": "aes-128-cbc", "engines": [
            {{"name": "cpu", "kind": "cpu", "depth": 1, "points": [{points}]}}]}}"#
    )
    .unwrap();
    let processor = Processor::find(&format!("{}#cpu", file.path().display())).unwrap();
    let at_least = |micros, run: &dyn Fn() -> u8| {
        let begun = thread_time();
        assert_eq!(run(), 7);
        assert!(thread_time() - begun >= Duration::from_micros(micros));
    };
    at_least(900, &|| processor.message(16, || 7));
    at_least(2500, &|| processor.message(32, || 7));
    at_least(1600, &|| processor.part(16, || 7));
    assert!(Processor::find("/nowhere#cpu").is_err());
}

fn thread_time() -> Duration {
    clock_gettime(ClockId::ThreadCPUTime).try_into().unwrap()
}
