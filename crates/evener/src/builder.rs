//! Makes an [`Evener`]: its engines and settings.

use std::fmt;
use std::num::NonZeroUsize;
use std::path::PathBuf;
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_engines::{PinPrompt, Watch};
use evener_gate::Wait;
use evener_pipeline::{HearOfWait, Pool, Turns};
use evener_place::KeyRing;

use crate::{Evener, Options};

/// Makes an [`Evener`]. Every setting has a default; [`EvenerBuilder::build`] finds the engines.
///
/// ```
/// use std::time::Duration;
///
/// use evener::gate::{Discipline, Turns};
/// use evener::{Courtesy, Evener, PolicyName};
/// # use evener::keys::{KeyFormat, KeyMaterial};
/// # let keys = KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?;
///
/// let evener = Evener::builder(keys)
///     .engines(&["cpu", "openssl"])
///     .verify_engine(100)
///     .gate(Turns { discipline: Discipline::Fifo, ..Turns::default() })
///     .on_wait(|wait| eprintln!("waiting for {}", wait.engine))
///     .options(|options| {
///         options.run.policy = Some(PolicyName::Pull.into());
///         options.run.courtesy = Courtesy { in_background: true, ..Courtesy::default() };
///     })
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
#[must_use = "only `build` makes something of it"]
pub struct EvenerBuilder {
    keys: KeyRing,
    names: Vec<String>,
    own: Vec<Arc<dyn Engine>>,
    settings: Settings,
}

/// The settings of a builder besides the engines.
pub(crate) struct Settings {
    /// True if the caller chose the engines.
    pub(crate) are_chosen: bool,
    pub(crate) workers: Option<NonZeroUsize>,
    pub(crate) verify_every: Option<u64>,
    pub(crate) turns: Turns,
    pub(crate) on_wait: Option<Arc<HearOfWait>>,
    pub(crate) options: Options,
    /// The file with measured costs of the engines.
    pub(crate) profile: Option<PathBuf>,
}

impl Settings {
    /// Returns whether the builder chose the workers in any way.
    pub(crate) fn choose_workers(&self) -> bool {
        self.are_chosen
            || self.workers.is_some()
            || self.verify_every.is_some()
            || self.on_wait.is_some()
            || self.turns != Turns::default()
    }
}

impl EvenerBuilder {
    /// The builder for keys, with the defaults.
    pub(crate) fn new(keys: KeyRing) -> EvenerBuilder {
        let settings = Settings {
            are_chosen: false,
            workers: None,
            verify_every: None,
            turns: Turns::default(),
            on_wait: None,
            options: Options::default(),
            profile: None,
        };
        EvenerBuilder { keys, names: Vec::new(), own: Vec::new(), settings }
    }

    /// Selects engines by name, such as `openssl` or `af_alg:DRIVER`, instead of `cpu`. All of them
    /// work at once.
    pub fn engines<S: AsRef<str>>(mut self, names: &[S]) -> EvenerBuilder {
        self.names.extend(names.iter().map(|name| name.as_ref().to_owned()));
        self
    }

    /// Adds an engine object of the caller's, such as a custom engine. A module gets a guard, which
    /// checks its results.
    pub fn engine(mut self, engine: Arc<dyn Engine>) -> EvenerBuilder {
        self.own.push(engine);
        self
    }

    /// Sets the number of workers over all engines. By default each engine has as many as it
    /// recommends.
    pub fn workers(mut self, workers: NonZeroUsize) -> EvenerBuilder {
        self.settings.workers = Some(workers);
        self
    }

    /// Recomputes one in `every` jobs on OpenSSL and compares the results. The jobs are chosen at
    /// random, from every engine but `openssl`; two jobs of every file that one engine processes
    /// alone are added. 0 recomputes none. By default every job of a module is recomputed if that
    /// takes at most 5 % of the module's time, and otherwise one in 1,000.
    pub fn verify_engine(mut self, every: u64) -> EvenerBuilder {
        self.settings.verify_every = Some(every);
        self
    }

    /// Sets the file with measured costs from which the adaptive policy starts, as
    /// `evener engines --measure` writes it. (The program uses
    /// [`default_profile`](crate::default_profile).) A file that can't be read is named in the
    /// report and ignored.
    pub fn profile(mut self, path: PathBuf) -> EvenerBuilder {
        self.settings.profile = Some(path);
        self
    }

    /// Sets how processes share engines that only some of them may use at once. By default, the
    /// processes of the same user are admitted in the order of arrival. All processes at one gate
    /// must have the same settings.
    ///
    /// A process keeps its permit until its operation ends. If two processes are connected by a
    /// pipe, the engine must have permits for both, or the discipline must be
    /// [`Discipline::None`](crate::gate::Discipline::None). A process that was stopped for longer
    /// than the lease and continues still uses the engine, so for a while there is one session more
    /// than permits.
    pub fn gate(mut self, turns: Turns) -> EvenerBuilder {
        self.settings.turns = turns;
        self
    }

    /// Sets a function that is called on a worker's thread when an operation has waited for its
    /// permit for 1 s, 2 s, 4 s and so on.
    pub fn on_wait(mut self, tell: impl Fn(&Wait) + Send + Sync + 'static) -> EvenerBuilder {
        self.settings.on_wait = Some(Arc::new(tell));
        self
    }

    /// Changes options of the operations: which files, how outputs are written, the policy, memory,
    /// progress.
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> EvenerBuilder {
        change(&mut self.settings.options);
        self
    }

    /// Finds the engines.
    ///
    /// # Errors
    /// When an engine is not available, or OpenSSL has no ciphers.
    pub fn build(self) -> Result<Evener, EngineError> {
        self.build_with(&|_| None)
    }

    /// Like [`EvenerBuilder::build`], with a function that asks for a token's PIN.
    ///
    /// # Errors
    /// As [`EvenerBuilder::build`].
    pub fn build_with(self, prompt: &PinPrompt<'_>) -> Result<Evener, EngineError> {
        let EvenerBuilder { keys, names, own, mut settings } = self;
        let watch = Watch { verify_every: settings.verify_every, ..Watch::default() };
        let find = |name: &String| evener_engines::find_with(name, prompt, watch);
        let mut engines = names.iter().map(find).collect::<Result<Vec<_>, _>>()?;
        for engine in &own {
            engines.push(evener_engines::watched(engine, watch)?);
        }
        settings.are_chosen = !engines.is_empty();
        if engines.is_empty() {
            engines.push(evener_engines::find_with(Evener::CPU_ENGINE, prompt, watch)?);
        }
        if settings.options.run.reference.is_none() {
            settings.options.run.reference = Some(evener_engines::find(Evener::REFERENCE_ENGINE)?);
        }
        let run = &mut settings.options.run;
        let workers = settings.workers.or(NonZeroUsize::new(run.seats.len()));
        let pool = || workers.map_or_else(Pool::on_all_cores, Pool::new).into();
        run.pool.get_or_insert_with(pool);
        Ok(Evener { keys, engines, settings })
    }
}

impl fmt::Debug for EvenerBuilder {
    /// Prints no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        f.debug_struct("EvenerBuilder")
            .field("engines", &self.names)
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
}
