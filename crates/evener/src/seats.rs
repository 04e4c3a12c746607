//! How many workers each engine gets.

use std::num::NonZeroUsize;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, Kind};

/// One entry for each worker, and how many of those of CPU engines are to work at a time, if
/// not one a core.
///
/// Every engine that offers the cipher has as many as its depth says, or `jobs` are dealt to
/// them in turn, in the proportions of their depths. Engines that compute on the calling core
/// count as one then where `cores_are_shared`: each gets what they get together, since the
/// policy has only so many of them work.
pub(crate) fn seats(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    jobs: Option<NonZeroUsize>,
    cores_are_shared: bool,
) -> (Vec<Arc<dyn Engine>>, Option<usize>) {
    let able = engines
        .iter()
        .filter_map(|engine| Some((engine, engine.offer(cipher, direction)?.depth.max(1))));
    let is_cpu = |engine: &Arc<dyn Engine>| engine.description().kind == Kind::Cpu;
    // Those that take turns at a seat, and how often that is there.
    let mut places: Vec<(Vec<&Arc<dyn Engine>>, usize)> = Vec::new();
    for (engine, depth) in able {
        let shared = |place: &&mut (Vec<&Arc<dyn Engine>>, usize)| is_cpu(place.0[0]);
        match places.iter_mut().find(shared).filter(|_| cores_are_shared && is_cpu(engine)) {
            Some((sharing, deepest)) => {
                sharing.push(engine);
                *deepest = depth.max(*deepest);
            }
            None => places.push((vec![engine], depth)),
        }
    }
    let mut dealt = Vec::new();
    let mut left = places;
    while !left.is_empty() {
        for (sharing, times) in &mut left {
            dealt.push(sharing.clone());
            *times -= 1;
        }
        left.retain(|(_, times)| *times > 0);
    }
    let dealt: Vec<_> = match jobs {
        None => dealt,
        Some(jobs) => dealt.iter().cycle().take(jobs.get()).cloned().collect(),
    };
    let on_cores = dealt.iter().filter(|sharing| is_cpu(sharing[0])).count();
    let seats = dealt.into_iter().flatten().cloned().collect();
    (seats, jobs.map(|_| on_cores.max(1)))
}

#[cfg(test)]
mod tests {
    use evener_core::{Description, EngineError, Offer, Session, SessionRequest};

    use super::*;

    struct Fake(Description, usize);

    impl Engine for Fake {
        fn description(&self) -> &Description {
            &self.0
        }

        fn offer(&self, cipher: Cipher, _direction: Direction) -> Option<Offer> {
            (cipher == Cipher::Aes256Gcm).then_some(Offer {
                depth: self.1,
                batch: 1,
                holders: None,
            })
        }

        fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            let &SessionRequest { cipher, direction, .. } = request;
            Err(EngineError::NotOffered { engine: self.0.name.clone(), cipher, direction })
        }
    }

    fn names(cipher: Cipher, jobs: Option<usize>) -> String {
        shared_names(cipher, jobs, false)
    }

    fn shared_names(cipher: Cipher, jobs: Option<usize>, shared: bool) -> String {
        let fake = |name: &str, depth| -> Arc<dyn Engine> {
            let (name, detail) = (name.to_owned(), String::new());
            Arc::new(Fake(Description { name, kind: Kind::Cpu, detail }, depth))
        };
        let jobs = jobs.and_then(NonZeroUsize::new);
        seats(&[fake("a", 3), fake("b", 1)], cipher, Direction::Encrypt, jobs, shared)
            .0
            .iter()
            .map(|engine| engine.description().name.as_str())
            .collect()
    }

    #[test]
    fn each_engine_gets_as_many_as_it_likes() {
        assert_eq!(names(Cipher::Aes256Gcm, None), "abaa");
        assert_eq!(names(Cipher::Aes128Cbc, None), "");
    }

    #[test]
    fn jobs_are_dealt_in_turn() {
        assert_eq!(names(Cipher::Aes256Gcm, Some(1)), "a");
        assert_eq!(names(Cipher::Aes256Gcm, Some(2)), "ab");
        assert_eq!(names(Cipher::Aes256Gcm, Some(6)), "abaaab");
        assert_eq!(names(Cipher::Aes128Cbc, Some(2)), "");
    }

    #[test]
    fn engines_that_share_the_cores_are_there_as_often_as_each_other() {
        assert_eq!(shared_names(Cipher::Aes256Gcm, None, true), "ababab");
        assert_eq!(shared_names(Cipher::Aes256Gcm, Some(1), true), "ab");
    }
}
