//! The store's limits of requests a second.

use evener_format::index::directory;

use super::scenario::Limits;

/// The prefixes of source and target, each with its own limit.
pub(super) struct Store {
    limits: Limits,
    /// When each prefix of the target, and all of the source together, have served all requests so
    /// far, in seconds.
    target: Vec<f64>,
    source: f64,
}

/// The limit that a wait is for.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(super) enum Gate {
    Reads,
    Writes,
}

impl Store {
    pub(super) fn new(limits: Limits) -> Store {
        let prefixes = limits.target_prefixes.clamp(1, DIRECTORIES);
        Store { limits, target: vec![0.0; prefixes as usize], source: 0.0 }
    }

    /// Takes requests at a time, for the files of the shard in this place. Returns when it has served
    /// them all, and the limit that decides that.
    pub(super) fn serve(&mut self, now: f64, place: u64, reads: u64, writes: u64) -> (f64, Gate) {
        let Limits { reads: read_rate, writes: write_rate, source_prefixes, .. } = self.limits;
        let read_rate = read_rate * source_prefixes.max(1) as f64;
        self.source = self.source.max(now) + reads as f64 / read_rate;
        let prefixes = self.target.len() as u64;
        let mut until = (self.source, Gate::Reads);
        if let Some(prefix) = self.target.get_mut((u64::from(directory(place)) % prefixes) as usize)
        {
            *prefix = prefix.max(now) + writes as f64 / write_rate;
            if *prefix > until.0 {
                until = (*prefix, Gate::Writes);
            }
        }
        until
    }
}

/// The requests that are answered with 503 where a worker wants to have `lanes` of them in flight, and
/// the store's rate has room for `share` of that.
///
/// A worker halves its limit when it is refused, and raises it by one each time that as many requests
/// are answered (`crates/object/src/window.rs`). So between two refusals the limit rises from a half of
/// what fits to what fits, and 3/8 of its square are answered.
pub(super) fn refused(requests: u64, lanes: f64, share: f64) -> u64 {
    let fits = lanes * share;
    (requests as f64 / (1.0 + 0.375 * fits * fits)) as u64
}

/// The directories of `data/`.
const DIRECTORIES: u64 = 256;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn each_prefix_has_its_own_limit() {
        let limits = Limits { writes: 10.0, reads: 100.0, target_prefixes: 2, ..Limits::default() };
        let mut store = Store::new(limits);
        let mut serve = |now, place, reads, writes| store.serve(now, place, reads, writes);
        assert_eq!(serve(0.0, 0, 0, 10), (1.0, Gate::Writes));
        assert_eq!(serve(0.0, 2, 0, 10), (2.0, Gate::Writes));
        assert_eq!(serve(0.0, 1, 0, 10), (1.0, Gate::Writes));
        assert_eq!(serve(0.0, 1, 500, 10), (5.0, Gate::Reads));
        // A quiet time is not saved up.
        assert_eq!(serve(9.0, 1, 100, 10), (10.0, Gate::Reads));
    }

    #[test]
    fn fewer_fit_the_more_are_refused() {
        assert_eq!(refused(1000, 32.0, 0.0), 1000);
        assert_eq!(refused(1000, 32.0, 0.5), 10);
    }
}
