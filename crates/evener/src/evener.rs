//! The way in.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evener_core::{Engine, EngineError};
use evener_engines::{PinPrompt, Watch};
use evener_files::{
    Failure, KeyRing, Notice, Operation, Options, Report, StreamSource, StreamTarget, process,
    process_stream,
};

use evener_gate::{Discipline, Scope, Wait};
use evener_pipeline::{Courtesy, HearOfWait, Patience, PolicyName, Turns, gated};

use crate::profile;
use crate::seats::seats;

/// Keys, engines and options, ready to encrypt and decrypt any number of times.
///
/// ```
/// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
/// # let keys = KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?;
/// let evener = Evener::new(keys)?
///     .engines(&["openssl"])?
///     .jobs(4.try_into()?)
///     .options(|options| {
///         options.resume = true;
///         options.durable = true;
///     });
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evener {
    keys: KeyRing,
    engines: Vec<Arc<dyn Engine>>,
    /// Whether somebody has named them.
    are_chosen: bool,
    jobs: Option<NonZeroUsize>,
    verify_every: Option<u64>,
    turns: Turns,
    on_wait: Option<Arc<HearOfWait>>,
    options: Options,
    /// `None` for what is usual with the engines that are able.
    policy: Option<PolicyName>,
    /// What was measured of the engines.
    profile: Option<PathBuf>,
}

impl Evener {
    /// The engine that does every cipher, and that others are compared with.
    pub const REFERENCE_ENGINE: &'static str = "openssl";

    /// The engine that is used when none is chosen: that of the processor's cores, which does
    /// every cipher that the reference engine does.
    pub const CPU_ENGINE: &'static str = "cpu";

    /// Takes keys, for the processor's engine with one worker a core, and the default
    /// [`Options`].
    ///
    /// # Errors
    /// When OpenSSL has no ciphers.
    pub fn new(keys: KeyRing) -> Result<Evener, EngineError> {
        let engines = vec![evener_engines::find(Evener::CPU_ENGINE)?];
        let mut options = Options::new(Vec::new());
        options.reference = Some(evener_engines::find(Evener::REFERENCE_ENGINE)?);
        Ok(Evener {
            keys,
            engines,
            are_chosen: false,
            jobs: None,
            verify_every: None,
            turns: Turns::default(),
            on_wait: None,
            options,
            policy: None,
            profile: None,
        })
    }

    /// Chooses the engines by their names, such as `openssl` or `af_alg:DRIVER`, instead of
    /// the processor's. All of them work at once.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn engines<S: AsRef<str>>(self, names: &[S]) -> Result<Evener, EngineError> {
        self.engines_with(names, &|_| None)
    }

    /// As [`Evener::engines`], with somebody to ask for a token's PIN.
    ///
    /// # Errors
    /// When one of them is not there.
    pub fn engines_with<S: AsRef<str>>(
        mut self,
        names: &[S],
        prompt: &PinPrompt<'_>,
    ) -> Result<Evener, EngineError> {
        let find = |name: &S| evener_engines::find_with(name.as_ref(), prompt, Watch::default());
        self.engines = names.iter().map(find).collect::<Result<_, _>>()?;
        self.are_chosen = true;
        Ok(self)
    }

    /// Chooses how workers come by their work, instead of what is [usual](PolicyName::usual) with
    /// the engines that can do the operation.
    #[must_use]
    pub fn policy(mut self, policy: PolicyName) -> Evener {
        self.policy = Some(policy);
        self
    }

    /// Shares the cores with other programs, instead of competing with them.
    #[must_use]
    pub fn courtesy(mut self, courtesy: Courtesy) -> Evener {
        self.options.courtesy = courtesy;
        self
    }

    /// Lets the adaptive policy begin with what a file says of the engines' costs, as
    /// `evener engines --measure` writes it; the program uses
    /// [`default_profile`](crate::default_profile). A file that can't be read is named in the
    /// report, and not used.
    #[must_use]
    pub fn profile(mut self, path: PathBuf) -> Evener {
        self.profile = Some(path);
        self
    }

    /// Has one in `every` jobs of every engine but `openssl`, drawn by lot, computed again on
    /// that and compared, besides two in every file that an engine does alone; 0 for none at
    /// all. Otherwise one in 1,000 of the modules' jobs is.
    #[must_use]
    pub fn verify_engine(mut self, every: u64) -> Evener {
        self.verify_every = Some(every);
        self
    }

    /// Sets how many workers there are, over all engines; otherwise each engine has as many as
    /// it likes.
    #[must_use]
    pub fn jobs(mut self, jobs: NonZeroUsize) -> Evener {
        self.jobs = Some(jobs);
        self
    }

    /// Sets how processes take turns at engines that serve only so many of them at once;
    /// otherwise in order of arrival.
    ///
    /// A process keeps its turn until its operation ends. Where two of them are the ends of one
    /// pipe, the engine must serve both at once, or the discipline be `none`.
    #[must_use]
    pub fn gate(mut self, discipline: Discipline) -> Evener {
        self.turns.discipline = discipline;
        self
    }

    /// Sets how many processes each engine serves at once, also for engines that have no such
    /// limit of their own. All processes that are there at one time must set the same.
    #[must_use]
    pub fn permits(mut self, permits: NonZeroUsize) -> Evener {
        self.turns.permits = Some(permits);
        self
    }

    /// Sets with which processes turns are taken: those of the same user, otherwise, or of all
    /// members of a group.
    #[must_use]
    pub fn gate_scope(mut self, scope: Scope) -> Evener {
        self.turns.scope = scope;
        self
    }

    /// Sets for how long a process may be stopped (`SIGSTOP`) before its turn is given on;
    /// otherwise others wait for as long as it takes. All processes that are there at one time
    /// must set the same. A process that goes on after longer still uses the engine, which
    /// then has one more than it should.
    #[must_use]
    pub fn gate_lease(mut self, lease: Duration) -> Evener {
        self.turns.lease = Some(lease);
        self
    }

    /// Has somebody told when an operation waits for its turn: after 1 s, 2 s, 4 s and so on,
    /// from a worker's thread.
    #[must_use]
    pub fn on_wait(mut self, tell: impl Fn(&Wait) + Send + Sync + 'static) -> Evener {
        self.on_wait = Some(Arc::new(tell));
        self
    }

    /// Changes options. [`Options::seats`] is not among them: it is made of the engines.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Evener {
        change(&mut self.options);
        self
    }

    /// The keys.
    pub fn key_ring(&self) -> &KeyRing {
        &self.keys
    }

    /// The engines chosen that can't do what the keys' format needs, and are left out.
    pub fn unable_engines(&self, operation: Operation) -> Vec<&str> {
        let cipher = self.keys.primary().cipher();
        let unable =
            |engine: &&Arc<dyn Engine>| engine.offer(cipher, operation.direction()).is_none();
        self.engines
            .iter()
            .filter(|_| self.are_chosen)
            .filter(unable)
            .map(|engine| engine.description().name.as_str())
            .collect()
    }

    /// Encrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn encrypt(&self, source: &Path, target: &Path) -> Result<Report, Failure> {
        self.process(Operation::Encrypt, source, Some(target))
    }

    /// Decrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn decrypt(&self, source: &Path, target: &Path) -> Result<Report, Failure> {
        self.process(Operation::Decrypt, source, Some(target))
    }

    /// Authenticates everything in a file or a tree and writes nothing.
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn verify(&self, source: &Path) -> Result<Report, Failure> {
        self.process(Operation::Verify, source, None)
    }

    /// Encrypts, decrypts or verifies a file or a tree.
    ///
    /// A tree goes to a tree: the same relative names, with [`Options::suffix`] added or
    /// stripped. A file goes to the file `target`, or into it under such a name if it is a
    /// directory. `target` is `None` exactly for [`Operation::Verify`].
    ///
    /// Files that can't be done are listed in the report, and all others are done.
    ///
    /// # Errors
    /// When the operation could not begin: the source is not there, the target can't be made
    /// or lies inside the source, or no chosen engine can do the cipher.
    pub fn process(
        &self,
        operation: Operation,
        source: &Path,
        target: Option<&Path>,
    ) -> Result<Report, Failure> {
        let (options, notice) =
            self.seated(operation).map_err(|error| cannot_begin(source, error))?;
        let mut report = process(operation, &self.keys, source, target, &options)?;
        report.notices.extend(notice);
        Ok(report)
    }

    /// Encrypts, decrypts or verifies one stream from beginning to end.
    ///
    /// Plaintext goes on only after its chunks were authenticated. What fails on the way is in
    /// the report, with the path `-` for a descriptor.
    ///
    /// # Errors
    /// When the operation could not begin: an end can't be opened, or no chosen engine can do
    /// the cipher.
    pub fn process_stream(
        &self,
        operation: Operation,
        source: StreamSource,
        target: StreamTarget,
    ) -> Result<Report, Failure> {
        let (options, notice) =
            self.seated(operation).map_err(|error| cannot_begin(Path::new("-"), error))?;
        let mut report = process_stream(operation, &self.keys, source, target, &options)?;
        report.notices.extend(notice);
        Ok(report)
    }

    /// The options with one entry for each worker, and what the user should know of them.
    fn seated(&self, operation: Operation) -> Result<(Options, Option<Notice>), EngineError> {
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        // As if they had done nothing yet: each operation has its own account.
        let watch = Watch::of_a_run(self.verify_every);
        let watched = |engine| evener_engines::watched(engine, watch);
        let engines: Vec<_> = self.engines.iter().map(watched).collect::<Result<_, _>>()?;
        let (recall, tell) = (self.options.control.recall().clone(), self.on_wait.clone());
        let patience = Patience { recall, tell };
        let engines = gated(&engines, cipher, direction, &self.turns, &patience)?;
        let mut options = self.options.clone();
        options.seats = seats(&engines, cipher, direction, self.jobs);
        let kinds = options.seats.iter().map(|engine| engine.description().kind);
        options.policy = self.policy.unwrap_or_else(|| PolicyName::usual(kinds));
        let mut notice = None;
        if let Some(path) = &self.profile {
            options.protected.add(path);
            if options.policy == PolicyName::Adaptive {
                let engines: Vec<_> = self.engines.iter().map(|engine| &**engine).collect();
                match profile::load(path, &engines, cipher, direction) {
                    Ok(costs) => options.costs = costs,
                    Err(error) if error.kind() == io::ErrorKind::NotFound => {}
                    Err(error) => {
                        let reason = format!("this profile of the engines is not used: {error}");
                        notice = Some(Notice { path: path.clone(), reason });
                    }
                }
            }
        }
        Ok((options, notice))
    }
}

fn cannot_begin(path: &Path, error: EngineError) -> Failure {
    Failure { path: path.to_owned(), error: error.into() }
}
