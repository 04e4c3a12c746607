//! Settings of a gate.

use std::fmt;
use std::path::PathBuf;
use std::str::FromStr;
use std::time::Duration;

use crate::error::GateError;
use crate::layout::Layout;

/// Settings of a gate. All processes at one gate must have the same.
#[derive(Clone, Debug, PartialEq, Eq)]
pub struct GateOptions {
    /// The engine's name, which is also the gate's. 1 to 80 bytes.
    pub engine: String,
    /// Number of processes admitted at once: 1 to [`GateOptions::MAX_PERMITS`]. `lists` admits at
    /// most 64, one for each list.
    pub permits: usize,
    /// The order in which processes are admitted.
    pub discipline: Discipline,
    /// The processes that share the gate.
    pub scope: Scope,
    /// The time for which a process may be stopped (`SIGSTOP`) while it holds a permit or is the
    /// next to get one, before it loses it. A holder that continues later still uses the engine, so
    /// for a while there may be one session too many. With `None`, the default, it keeps its permit
    /// or place.
    pub lease: Option<Duration>,
    /// Number of processes that can wait: 2 to [`GateOptions::MAX_PLACES`], rounded up to a power
    /// of two. For the discipline `lists`, over all lists.
    pub places: usize,
    /// The directory for the shared file, instead of the usual ones; for tests and unusual systems.
    pub directory: Option<PathBuf>,
}

impl GateOptions {
    /// The most permits that a gate can have.
    pub const MAX_PERMITS: usize = 1024;
    /// The most places that a gate can have.
    pub const MAX_PLACES: usize = 65_536;

    /// A gate for one user's processes, `fifo`, with 8,192 places and no lease.
    pub fn new(engine: impl Into<String>, permits: usize) -> GateOptions {
        GateOptions {
            engine: engine.into(),
            permits,
            discipline: Discipline::Fifo,
            scope: Scope::User,
            lease: None,
            places: 8192,
            directory: None,
        }
    }

    /// As [`GateOptions::new`], for an engine whose name may be too long for a gate, as a `pkcs11:`
    /// URI is. Then the gate's name is its beginning, and a hash of it (FNV-1a) makes it unique.
    pub fn of_engine(engine: &str, permits: usize) -> GateOptions {
        let mut name = engine.to_owned();
        if engine.len() > LONGEST_NAME {
            let hash = engine.bytes().fold(0xcbf2_9ce4_8422_2325_u64, |hash, byte| {
                (hash ^ u64::from(byte)).wrapping_mul(0x0000_0100_0000_01b3)
            });
            let mut starts = (0..LONGEST_NAME - 17).rev();
            let start = starts.find(|&at| engine.is_char_boundary(at)).unwrap_or(0);
            name = format!("{}~{hash:016x}", &engine[..start]);
        }
        GateOptions::new(name, permits)
    }

    /// The layout of the shared file; `None` for a gate that is off.
    pub(crate) fn layout(&self) -> Result<Option<Layout>, GateError> {
        let bounds = [
            ("permits", self.permits, 1, GateOptions::MAX_PERMITS),
            ("places", self.places, 2, GateOptions::MAX_PLACES),
        ];
        for (what, given, least, most) in bounds {
            if !(least..=most).contains(&given) {
                return Err(GateError::Bounds { what, given, most });
            }
        }
        let (queues, permits) = match self.discipline {
            Discipline::None => return Ok(None),
            Discipline::Fifo => (1, self.permits),
            Discipline::Lists => (self.permits.min(LISTS), 1),
        };
        let places = (self.places / queues).max(2).next_power_of_two();
        Ok(Some(Layout { queues, permits, places, lease: self.lease }))
    }
}

/// The order in which processes are admitted.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Discipline {
    /// One queue in order of arrival, with as many permits as the engine has contexts. No permit is
    /// idle while a process waits.
    #[default]
    Fifo,
    /// The control lists of the UltraSPARC paper: a process joins list number *process id mod
    /// number of lists*, and only the head of each list runs. A list may be idle while another has
    /// a queue. The paper has 64 lists for every engine. Here there is one list per permit, at most
    /// 64, because an engine with a fixed number of contexts rejects further sessions.
    Lists,
    /// No gate: all processes run at once.
    None,
}

impl Discipline {
    /// Every discipline, the default first.
    pub const ALL: &'static [Discipline] = &[Discipline::Fifo, Discipline::Lists, Discipline::None];

    /// Its name.
    pub fn name(self) -> &'static str {
        match self {
            Discipline::Fifo => "fifo",
            Discipline::Lists => "lists",
            Discipline::None => "none",
        }
    }

    /// The discipline of a file with this layout. One list is the same as `fifo`.
    pub(crate) fn of(layout: &Layout) -> Discipline {
        if layout.queues > 1 { Discipline::Lists } else { Discipline::Fifo }
    }
}

impl fmt::Display for Discipline {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.pad(self.name())
    }
}

impl FromStr for Discipline {
    type Err = UnknownDiscipline;

    fn from_str(name: &str) -> Result<Self, UnknownDiscipline> {
        let mut all = Discipline::ALL.iter().copied();
        all.find(|discipline| discipline.name() == name)
            .ok_or_else(|| UnknownDiscipline(name.to_owned()))
    }
}

/// An unknown name of a discipline.
#[derive(Clone, Debug, PartialEq, Eq, thiserror::Error)]
#[error("unknown gate discipline `{0}`: it is `fifo`, `lists` or `none`")]
pub struct UnknownDiscipline(pub String);

/// The processes that share a gate.
#[derive(Clone, Copy, Debug, PartialEq, Eq, Hash, Default)]
#[non_exhaustive]
pub enum Scope {
    /// The processes of the effective user. Other users can't join, read or block it.
    #[default]
    User,
    /// The processes of all members of this group (a group id). The members trust one another.
    Group(u32),
}

/// The greatest number of control lists.
pub(crate) const LISTS: usize = 64;

/// The longest name of an engine, in bytes: no file name is then longer than 255 bytes.
pub(crate) const LONGEST_NAME: usize = 80;

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn names_read_back() {
        for &discipline in Discipline::ALL {
            assert_eq!(discipline.name().parse(), Ok(discipline));
        }
        assert!("lifo".parse::<Discipline>().is_err());
    }

    #[test]
    fn long_names_stay_apart() {
        let name = |engine: &str| GateOptions::of_engine(engine, 1).engine;
        let (one, other) = (format!("{}1", "x".repeat(99)), format!("{}2", "x".repeat(99)));
        assert_eq!(name("openssl"), "openssl");
        assert!(name(&one).len() <= LONGEST_NAME && name(&one) != name(&other));
        assert!(name(&"ø".repeat(99)).len() <= LONGEST_NAME);
    }

    #[test]
    fn numbers_are_bounded() {
        let fine = GateOptions::new("module", 3);
        assert_eq!(fine.layout().unwrap().unwrap().permits, 3);
        assert!(GateOptions { permits: 0, ..fine.clone() }.layout().is_err());
        assert!(GateOptions { permits: 1025, ..fine.clone() }.layout().is_err());
        assert!(GateOptions { places: usize::MAX, ..fine.clone() }.layout().is_err());
        let lists = GateOptions { discipline: Discipline::Lists, ..fine.clone() };
        let layout = lists.layout().unwrap().unwrap();
        assert_eq!((layout.queues, layout.permits, layout.places), (3, 1, 4096));
        let paper = GateOptions { permits: 100, ..lists };
        let layout = paper.layout().unwrap().unwrap();
        assert_eq!((layout.queues, layout.permits, layout.places), (64, 1, 128));
        let none = GateOptions { discipline: Discipline::None, ..fine };
        assert_eq!(none.layout().unwrap(), None);
    }
}
