//! What was learnt of the engines, kept from one run to the next.
//!
//! A file of learnt costs is a JSON document with one [`Profile`] for each cipher and direction.
//! It holds names of engines, sizes and times, and nothing of keys or data. A single profile, as
//! `evener engines --measure` writes it, is read too.

use std::fs::{self, File};
use std::io::{self, Read, Write};
use std::path::{Path, PathBuf};

use evener_core::{Cipher, Direction, Engine, EngineProfile, Includes, Profile, Together};
use evener_pipeline::costs::{Costs, EngineCosts, Knowledge, TeamRate};
use serde::{Deserialize, Serialize};

/// Where learnt costs are kept if nobody says otherwise: below `XDG_CACHE_HOME`, or `.cache` in
/// the home directory. `None` where there is neither.
pub fn default_path() -> Option<PathBuf> {
    let absolute =
        |name: &str| std::env::var_os(name).map(PathBuf::from).filter(|path| path.is_absolute());
    let cache = absolute("XDG_CACHE_HOME").or_else(|| Some(absolute("HOME")?.join(".cache")))?;
    Some(cache.join("evener").join("profile.json"))
}

#[derive(Debug, Deserialize, Serialize)]
struct Document {
    version: u32,
    profiles: Vec<Profile>,
}

/// Reads what was learnt for those of `engines` that are still what they were.
///
/// # Errors
/// When the file can't be read or is no such document. Nothing is lost: costs are learnt anew.
pub(crate) fn load(path: &Path, engines: &[&dyn Engine], into: &Knowledge) -> io::Result<()> {
    for profile in read(path)?.profiles {
        let (Ok(cipher), Some(direction)) =
            (profile.cipher.parse::<Cipher>(), direction(&profile.direction))
        else {
            continue;
        };
        let mut costs = Costs::default();
        for known in &profile.engines {
            if engines.iter().any(|engine| is_same(*engine, known, cipher, direction)) {
                costs.insert(&known.name, EngineCosts::of(known));
            }
        }
        for together in &profile.together {
            if together.engines.keys().all(|name| costs.engine(name).is_some()) {
                costs.insert_together(TeamRate::of(together));
            }
        }
        into.learn(cipher, direction, &costs);
    }
    Ok(())
}

/// Writes what is known of `engines` into a file, beside what it says of others. The file is
/// replaced as a whole; of two programs that do so at once the later one's figures stay. Returns
/// whether there was anything to write.
///
/// # Errors
/// When the file can't be written, or what has its name can't be a file of learnt costs; that
/// stays as it is.
pub(crate) fn save(path: &Path, engines: &[&dyn Engine], from: &Knowledge) -> io::Result<bool> {
    check(path)?;
    // What else can't be read is replaced.
    let mut profiles = read(path).map(|document| document.profiles).unwrap_or_default();
    for (cipher, direction, costs) in from.all() {
        let learnt: Vec<_> = costs
            .points()
            .filter_map(|(name, batch, points)| {
                let engine = engines.iter().find(|engine| engine.description().name == name)?;
                let description = engine.description();
                Some(EngineProfile {
                    name: description.name.clone(),
                    kind: description.kind,
                    detail: description.detail.clone(),
                    depth: engine.offer(cipher, direction)?.depth.max(1),
                    batch,
                    points,
                    points_at_depth: Vec::new(),
                })
            })
            .collect();
        if learnt.is_empty() {
            continue;
        }
        let same = |profile: &&mut Profile| {
            profile.cipher == cipher.name() && profile.direction == direction.to_string()
        };
        let reliable = costs.together().iter().filter(|rate| rate.samples > 0.0);
        let together: Vec<_> = reliable.map(TeamRate::together).collect();
        let cores = std::thread::available_parallelism().map_or(1, usize::from);
        match profiles.iter_mut().find(same) {
            Some(known) => {
                known.engines.retain(|engine| learnt.iter().all(|new| new.name != engine.name));
                known.engines.extend(learnt);
                // Of engines that are others now, or that were seen in other numbers, it stays.
                let is_old = |rate: &Together| {
                    let rate = TeamRate::of(rate);
                    costs.together().iter().any(|new| rate.is_replaced_by(new))
                };
                known.together.retain(|rate| !is_old(rate));
                known.together.extend(together);
            }
            None => profiles.push(Profile {
                machine: "learnt while working".to_owned(),
                cores,
                cipher: cipher.name().to_owned(),
                direction: direction.to_string(),
                includes: Includes::Engine,
                engines: learnt,
                together,
            }),
        }
    }
    if profiles.is_empty() {
        return Ok(false);
    }
    write(path, &Document { version: VERSION, profiles })?;
    Ok(true)
}

/// Tells of a file that could not be read, and what became of it in the end.
pub(crate) fn notice(broken: &str, saved: &io::Result<bool>) -> String {
    match saved {
        Ok(true) => format!("learnt costs could not be read and were replaced: {broken}"),
        _ => format!("learnt costs could not be read and are not used: {broken}"),
    }
}

fn read(path: &Path) -> io::Result<Document> {
    check(path)?;
    let mut text = String::new();
    File::open(path)?.take(LONGEST).read_to_string(&mut text)?;
    let document = serde_json::from_str::<Document>(&text)
        .map_err(|error| error.to_string())
        .and_then(|document| {
            let known = document.version == VERSION;
            known.then_some(document).ok_or_else(|| "another version's".to_owned())
        })
        .or_else(|why| {
            let profile = text.parse::<Profile>().map_err(|_| why)?;
            Ok(Document { version: VERSION, profiles: vec![profile] })
        })
        .map_err(|why: String| io::Error::new(io::ErrorKind::InvalidData, why))?;
    // Each is checked as one that stands alone.
    let sound = |profile: &Profile| profile.to_json().parse::<Profile>().ok();
    let profiles = document.profiles.iter().filter_map(sound).collect();
    Ok(Document { profiles, ..document })
}

/// Refuses what is no regular file (a device or a pipe may have no end) or too long. Whatever
/// else is wrong is found when the file is read.
fn check(path: &Path) -> io::Result<()> {
    let why = match fs::metadata(path) {
        Ok(metadata) if !metadata.is_file() => "it is not a regular file",
        Ok(metadata) if metadata.len() > LONGEST => "it is longer than 1 MiB",
        _ => return Ok(()),
    };
    Err(io::Error::new(io::ErrorKind::InvalidInput, why))
}

fn write(path: &Path, document: &Document) -> io::Result<()> {
    let directory = path.parent().filter(|parent| !parent.as_os_str().is_empty());
    let directory = directory.unwrap_or(Path::new("."));
    fs::create_dir_all(directory)?;
    // In one piece: it is written at the end of every run, and a file has no buffer.
    let mut text = serde_json::to_vec_pretty(document)?;
    text.push(b'\n');
    let mut file = tempfile::NamedTempFile::new_in(directory)?;
    file.write_all(&text)?;
    file.persist(path).map_err(|error| error.error)?;
    Ok(())
}

/// Whether a profile is of this engine, as it is now.
fn is_same(
    engine: &dyn Engine,
    known: &EngineProfile,
    cipher: Cipher,
    direction: Direction,
) -> bool {
    let description = engine.description();
    let offer = engine.offer(cipher, direction);
    description.name == known.name
        && (known.detail.is_empty() || description.detail == known.detail)
        && offer.is_some_and(|offer| offer.batch.max(1) == known.batch)
}

fn direction(name: &str) -> Option<Direction> {
    [Direction::Encrypt, Direction::Decrypt]
        .into_iter()
        .find(|direction| direction.to_string() == name)
}

const VERSION: u32 = 1;

/// The longest file that is read, in bytes.
const LONGEST: u64 = 1 << 20;

#[cfg(test)]
mod tests {
    use std::thread;
    use std::time::Duration;

    use evener_pipeline::policy::Processed;

    use super::*;

    const CIPHER: Cipher = Cipher::Aes256Gcm;

    fn learnt() -> Knowledge {
        let mut engine = EngineCosts::new(1);
        let time = Duration::from_micros(10);
        let processed = Processed { batches: 1, jobs: 1, bytes: 4096, wall: time, cpu: time };
        engine.learn(&processed, false);
        let mut costs = Costs::default();
        costs.insert("openssl", engine);
        costs.insert_together(together(10.0));
        let knowledge = Knowledge::default();
        knowledge.learn(CIPHER, Direction::Encrypt, &costs);
        knowledge
    }

    fn together(jobs_per_ms: f64) -> TeamRate {
        let engines = [("openssl".to_owned(), 2)].into();
        TeamRate::of(&Together { engines, yields: false, bytes: 4096, jobs_per_ms })
    }

    #[test]
    fn what_engines_do_together_is_known_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        let openssl = evener_engines::find("openssl").unwrap();
        let knowledge = learnt();
        for rate in [together(10.0), together(20.0)] {
            let mut costs = knowledge.costs(CIPHER, Direction::Encrypt);
            costs.insert_together(rate.clone());
            knowledge.learn(CIPHER, Direction::Encrypt, &costs);
            save(&path, &[&*openssl], &knowledge).unwrap();
            let next = Knowledge::default();
            load(&path, &[&*openssl], &next).unwrap();
            assert_eq!(next.costs(CIPHER, Direction::Encrypt).together(), [rate]);
        }
    }

    fn known(knowledge: &Knowledge) -> Option<f64> {
        let costs = knowledge.costs(CIPHER, Direction::Encrypt);
        Some(costs.engine("openssl")?.cost(4096.0, 1.0)?.cpu)
    }

    #[test]
    fn what_was_learnt_is_known_the_next_time() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("cache/evener/profile.json");
        let openssl = evener_engines::find("openssl").unwrap();
        let engines = [&*openssl];
        save(&path, &engines, &learnt()).unwrap();
        let next = Knowledge::default();
        load(&path, &engines, &next).unwrap();
        assert_eq!(known(&next), Some(10.0));
        // Another version of the engine is another engine.
        let text = fs::read_to_string(&path).unwrap();
        let detail = &openssl.description().detail;
        fs::write(&path, text.replace(detail.as_str(), "OpenSSL 0.9.8")).unwrap();
        let next = Knowledge::default();
        load(&path, &engines, &next).unwrap();
        assert_eq!(known(&next), None);
    }

    #[test]
    fn a_broken_file_is_no_knowledge_and_is_replaced() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        let openssl = evener_engines::find("openssl").unwrap();
        let engines = [&*openssl];
        for broken in ["", "{", "[]", "\0\0", r#"{"version": 99, "profiles": []}"#] {
            fs::write(&path, broken).unwrap();
            assert!(load(&path, &engines, &Knowledge::default()).is_err(), "{broken}");
            save(&path, &engines, &learnt()).unwrap();
            load(&path, &engines, &Knowledge::default()).unwrap();
        }
        assert!(save(Path::new("/proc/no/such/place"), &engines, &learnt()).is_err());
    }

    #[test]
    fn what_can_be_no_such_file_is_neither_read_nor_replaced() {
        let place = tempfile::tempdir().unwrap();
        let openssl = evener_engines::find("openssl").unwrap();
        let engines = [&*openssl];
        let [long, pipe, device] = ["long", "pipe", "device"].map(|name| place.path().join(name));
        File::create(&long).unwrap().set_len(LONGEST + 1).unwrap();
        std::os::unix::fs::symlink("/dev/zero", &device).unwrap();
        let made = std::process::Command::new("mkfifo").arg(&pipe).status();
        assert!(made.unwrap().success());
        for path in [long.as_path(), &pipe, &device, place.path()] {
            let before = fs::symlink_metadata(path).unwrap().file_type();
            let broken = load(path, &engines, &Knowledge::default()).unwrap_err().to_string();
            let saved = save(path, &engines, &learnt());
            assert!(saved.is_err(), "{path:?}");
            assert_eq!(fs::symlink_metadata(path).unwrap().file_type(), before, "{path:?}");
            assert!(notice(&broken, &saved).contains("are not used: it is"), "{broken}");
        }
        assert_eq!(fs::metadata(&long).unwrap().len(), LONGEST + 1);
        assert!(notice("EOF", &Ok(true)).contains("were replaced"));
    }

    #[test]
    fn programs_that_save_at_once_leave_a_whole_file() {
        let place = tempfile::tempdir().unwrap();
        let path = place.path().join("profile.json");
        thread::scope(|scope| {
            for _ in 0..8 {
                scope.spawn(|| {
                    let openssl = evener_engines::find("openssl").unwrap();
                    for _ in 0..20 {
                        save(&path, &[&*openssl], &learnt()).unwrap();
                    }
                });
            }
        });
        let openssl = evener_engines::find("openssl").unwrap();
        let next = Knowledge::default();
        load(&path, &[&*openssl], &next).unwrap();
        assert_eq!((known(&next), fs::read_dir(place.path()).unwrap().count()), (Some(10.0), 1));
    }
}
