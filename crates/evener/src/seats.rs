//! Assigns workers to engines.

use std::num::NonZeroUsize;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine, Kind};

/// Returns one entry for each worker.
///
/// A module that offers the cipher gets as many workers as its depth. CPU engines share the cores:
/// one worker per core, assigned to the engines in turn, and at least one for each engine. With
/// `jobs`, exactly that many workers are assigned in total, in the same order. Neither an engine nor
/// all engines together ever get more than [`MOST_WORKERS`], whatever an engine offers.
pub(crate) fn seats(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    jobs: Option<NonZeroUsize>,
) -> Vec<Arc<dyn Engine>> {
    let able = engines.iter().filter_map(|engine| {
        Some((engine, engine.offer(cipher, direction)?.depth.clamp(1, MOST_WORKERS)))
    });
    let (on_cores, modules): (Vec<_>, Vec<_>) =
        able.partition(|(engine, _)| engine.description().kind == Kind::Cpu);
    let cores = on_cores.iter().map(|(_, depth)| *depth).max().unwrap_or(0).max(on_cores.len());
    let on_cores: Vec<_> = on_cores.iter().cycle().take(cores).map(|(engine, _)| *engine).collect();
    // CPU workers and the workers of each module alternate.
    let mut queues = vec![on_cores.into_iter()];
    queues.extend(modules.iter().map(|(engine, depth)| vec![*engine; *depth].into_iter()));
    let mut dealt = Vec::new();
    loop {
        let before = dealt.len();
        dealt.extend(queues.iter_mut().filter_map(Iterator::next));
        if dealt.len() == before {
            break;
        }
    }
    match jobs {
        None => dealt.into_iter().take(MOST_WORKERS).cloned().collect(),
        Some(jobs) => {
            let jobs = jobs.get().min(MOST_WORKERS);
            dealt.iter().cycle().take(jobs).copied().cloned().collect()
        }
    }
}

/// Each worker is a thread with buffers.
const MOST_WORKERS: usize = 1024;

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
            (cipher == Cipher::Aes256Gcm).then_some(Offer::new(self.1))
        }

        fn open(&self, request: &SessionRequest<'_>) -> Result<Box<dyn Session>, EngineError> {
            let &SessionRequest { cipher, direction, .. } = request;
            Err(EngineError::not_offered(cipher, direction).of(&self.0.name))
        }
    }

    fn names(engines: &[(&str, Kind, usize)], jobs: Option<usize>) -> String {
        let fake = |&(name, kind, depth): &(&str, Kind, usize)| -> Arc<dyn Engine> {
            Arc::new(Fake(Description::new(name, kind), depth))
        };
        let engines: Vec<_> = engines.iter().map(fake).collect();
        let jobs = jobs.and_then(NonZeroUsize::new);
        let none = seats(&engines, Cipher::Aes128Cbc, Direction::Encrypt, jobs);
        assert!(none.is_empty(), "none of them does this");
        seats(&engines, Cipher::Aes256Gcm, Direction::Encrypt, jobs)
            .iter()
            .map(|engine| engine.description().name.as_str())
            .collect()
    }

    #[test]
    fn each_module_gets_as_many_as_it_likes_and_a_core_one() {
        assert_eq!(names(&[("c", Kind::Cpu, 2), ("m", Kind::Module, 3)], None), "cmcmm");
        assert_eq!(names(&[("m", Kind::Module, 3), ("n", Kind::Module, 1)], None), "mnmm");
    }

    #[test]
    fn engines_that_compute_share_the_cores() {
        let both = [("a", Kind::Cpu, 3), ("b", Kind::Cpu, 3)];
        assert_eq!(names(&both, None), "aba");
        assert_eq!(names(&[("a", Kind::Cpu, 1), ("b", Kind::Cpu, 1)], None), "ab");
    }

    #[test]
    fn no_offer_and_no_wish_is_boundless() {
        let greedy = [("c", Kind::Cpu, usize::MAX), ("m", Kind::Module, usize::MAX)];
        assert_eq!(names(&greedy, None).len(), MOST_WORKERS);
        assert_eq!(names(&greedy, Some(usize::MAX)).len(), MOST_WORKERS);
    }

    #[test]
    fn jobs_are_dealt_in_turn() {
        let both = [("c", Kind::Cpu, 2), ("m", Kind::Module, 3)];
        assert_eq!(names(&both, Some(1)), "c");
        assert_eq!(names(&both, Some(2)), "cm");
        assert_eq!(names(&both, Some(7)), "cmcmmcm");
    }
}
