//! The facade: keys, engines and options of an operation.

use std::io;
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;
use std::time::Duration;

use evener_core::{Engine, EngineError};
use evener_engines::{PinPrompt, Watch};
use evener_files::{
    Failure, KeyRing, Notice, Operation, Options, Report, StreamSource, StreamTarget, Total,
    measure, process, process_stream,
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
    /// Whether the caller chose them.
    are_chosen: bool,
    jobs: Option<NonZeroUsize>,
    verify_every: Option<u64>,
    turns: Turns,
    on_wait: Option<Arc<HearOfWait>>,
    options: Options,
    /// `None` for the usual policy with these engines.
    policy: Option<PolicyName>,
    /// The file with measured costs of the engines.
    profile: Option<PathBuf>,
}

impl Evener {
    /// The reference: it has every cipher, and the results of other engines are compared with its
    /// own.
    pub const REFERENCE_ENGINE: &'static str = "openssl";

    /// The default engine: it uses the CPU cores and has every cipher of the reference engine.
    pub const CPU_ENGINE: &'static str = "cpu";

    /// Takes keys, for the engine `cpu` with one worker per core and the default [`Options`].
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

    /// Selects engines by name, such as `openssl` or `af_alg:DRIVER`, instead of `cpu`. All of them
    /// work at once.
    ///
    /// # Errors
    /// When an engine is not available.
    pub fn engines<S: AsRef<str>>(self, names: &[S]) -> Result<Evener, EngineError> {
        self.engines_with(names, &|_| None)
    }

    /// As [`Evener::engines`], with a function that asks for a token's PIN.
    ///
    /// # Errors
    /// When an engine is not available.
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

    /// Selects the policy that assigns tasks to workers, instead of the [usual](PolicyName::usual)
    /// one for the engines.
    #[must_use]
    pub fn policy(mut self, policy: PolicyName) -> Evener {
        self.policy = Some(policy);
        self
    }

    /// Limits the use of the cores in favour of other programs.
    #[must_use]
    pub fn courtesy(mut self, courtesy: Courtesy) -> Evener {
        self.options.courtesy = courtesy;
        self
    }

    /// Sets the file with measured costs from which the adaptive policy starts, as
    /// `evener engines --measure` writes it. (The program uses
    /// [`default_profile`](crate::default_profile).) A file that can't be read is named in the
    /// report and ignored.
    #[must_use]
    pub fn profile(mut self, path: PathBuf) -> Evener {
        self.profile = Some(path);
        self
    }

    /// Recomputes one in `every` jobs on OpenSSL and compares. The jobs are chosen at random, from
    /// every engine but `openssl`; two jobs of every file that one engine does alone come on top. 0
    /// recomputes none. By default one in 1,000 jobs of modules is recomputed.
    #[must_use]
    pub fn verify_engine(mut self, every: u64) -> Evener {
        self.verify_every = Some(every);
        self
    }

    /// Sets the number of workers over all engines. By default each engine has as many as it
    /// recommends.
    #[must_use]
    pub fn jobs(mut self, jobs: NonZeroUsize) -> Evener {
        self.jobs = Some(jobs);
        self
    }

    /// Sets the order in which processes get permits for engines that only some of them may use at
    /// once. The default is the order of arrival.
    ///
    /// A process keeps its permit until its operation ends. If two processes are connected by a
    /// pipe, the engine must have permits for both, or the discipline must be `none`.
    #[must_use]
    pub fn gate(mut self, discipline: Discipline) -> Evener {
        self.turns.discipline = discipline;
        self
    }

    /// Sets the number of permits of each engine, also of engines without a limit of their own. All
    /// processes at one gate must set the same number.
    #[must_use]
    pub fn permits(mut self, permits: NonZeroUsize) -> Evener {
        self.turns.permits = Some(permits);
        self
    }

    /// Sets which processes share the gates: those of the same user (the default), or of all
    /// members of a group.
    #[must_use]
    pub fn gate_scope(mut self, scope: Scope) -> Evener {
        self.turns.scope = scope;
        self
    }

    /// Sets how long a process may be stopped (`SIGSTOP`) before its permit passes to another
    /// process. By default it keeps the permit. All processes at one gate must set the same time. A
    /// process that continues later still uses the engine, so for a while there is one session more
    /// than permits.
    #[must_use]
    pub fn gate_lease(mut self, lease: Duration) -> Evener {
        self.turns.lease = Some(lease);
        self
    }

    /// Sets a function that is called when an operation has waited for its permit for 1 s, 2 s, 4 s
    /// and so on, on a worker's thread.
    #[must_use]
    pub fn on_wait(mut self, tell: impl Fn(&Wait) + Send + Sync + 'static) -> Evener {
        self.on_wait = Some(Arc::new(tell));
        self
    }

    /// Changes options. A change of [`Options::seats`] has no effect: the engines determine it.
    #[must_use]
    pub fn options(mut self, change: impl FnOnce(&mut Options)) -> Evener {
        change(&mut self.options);
        self
    }

    /// The keys.
    pub fn key_ring(&self) -> &KeyRing {
        &self.keys
    }

    /// The selected engines that lack the cipher of the keys' format; they are not used.
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
    /// Failed files are listed in the report; all other files are done.
    ///
    /// # Errors
    /// When the operation could not begin: the source does not exist, the target can't be made or
    /// lies inside the source, or no selected engine has the cipher.
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

    /// Adds up the files of a tree that [`Evener::process`] would take, and their bytes, so that a
    /// caller can tell how much is left. It takes about as long as `du`; run it on a thread beside the
    /// operation.
    ///
    /// Returns `None` where the tree can't be read, and where the operation was stopped or `is_over`
    /// says that nobody needs the total any more.
    pub fn measure(
        &self,
        operation: Operation,
        source: &Path,
        is_over: impl Fn() -> bool,
    ) -> Option<Total> {
        measure(operation, source, &self.options, is_over)
    }

    /// Encrypts, decrypts or verifies one stream from beginning to end.
    ///
    /// A chunk of plaintext is written only after it was authenticated. Later failures are in the
    /// report, with the path `-` for a descriptor.
    ///
    /// # Errors
    /// When the operation could not begin: source or target can't be opened, or no selected engine
    /// has the cipher.
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

    /// The options with one seat for each worker, and a notice for the user if the profile is
    /// ignored.
    fn seated(&self, operation: Operation) -> Result<(Options, Option<Notice>), EngineError> {
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        // New guards, so that each operation has its own count of jobs.
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
