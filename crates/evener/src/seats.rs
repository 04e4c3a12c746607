//! How many workers each engine gets.

use std::num::NonZeroUsize;
use std::sync::Arc;

use evener_core::{Cipher, Direction, Engine};

/// One entry for each worker: every engine that offers the cipher as often as its depth says,
/// or `jobs` entries dealt to them in turn, in the proportions of their depths.
pub(crate) fn seats(
    engines: &[Arc<dyn Engine>],
    cipher: Cipher,
    direction: Direction,
    jobs: Option<NonZeroUsize>,
) -> Vec<Arc<dyn Engine>> {
    let mut depths: Vec<_> = engines
        .iter()
        .filter_map(|engine| Some((engine, engine.offer(cipher, direction)?.depth.max(1))))
        .collect();
    let mut seats = Vec::new();
    while !depths.is_empty() {
        for (engine, left) in &mut depths {
            seats.push(Arc::clone(engine));
            *left -= 1;
        }
        depths.retain(|(_, left)| *left > 0);
    }
    match jobs {
        None => seats,
        Some(jobs) => seats.iter().cycle().take(jobs.get()).cloned().collect(),
    }
}

#[cfg(test)]
mod tests {
    use evener_core::{Description, EngineError, Kind, Offer, Session, SessionRequest};

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
        let fake = |name: &str, depth| -> Arc<dyn Engine> {
            let (name, detail) = (name.to_owned(), String::new());
            Arc::new(Fake(Description { name, kind: Kind::Cpu, detail }, depth))
        };
        let jobs = jobs.and_then(NonZeroUsize::new);
        seats(&[fake("a", 3), fake("b", 1)], cipher, Direction::Encrypt, jobs)
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
}
