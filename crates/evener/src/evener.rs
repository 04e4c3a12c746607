//! The facade: keys, engines and options of an operation.

use std::fmt;
use std::io::{self, Read, Write};
use std::num::NonZeroUsize;
use std::path::{Path, PathBuf};
use std::sync::Arc;

use evener_core::{Engine, EngineError};
use evener_engines::{PinPrompt, Watch};
use evener_files::place::{Origin, Store, transfer};
use evener_files::{
    Failure, FileError, KeyRing, Listing, Notice, Operation, OperationError, Options, Refusal,
    Report, StreamSource, StreamTarget, Total, list, measure, process, process_stream,
};

use evener_gate::Wait;
use evener_pipeline::{HearOfWait, Patience, PolicyName, Turns, gated};

use crate::profile;
use crate::seats::seats;

/// Keys, engines and options, ready to encrypt and decrypt files, trees and pipes any number of
/// times.
///
/// ```
/// # use evener::{Evener, Existing, keys::{KeyFormat, KeyMaterial}};
/// # let keys = KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?;
/// let evener = Evener::builder(keys)
///     .engines(&["openssl"])
///     .workers(4.try_into()?)
///     .options(|options| {
///         options.existing = Existing::resume();
///         options.durable = true;
///     })
///     .build()?;
/// # Ok::<(), Box<dyn std::error::Error>>(())
/// ```
pub struct Evener {
    pub(crate) keys: KeyRing,
    /// All modules have a guard; if a module fails, the reference engine takes over its work.
    pub(crate) engines: Vec<Arc<dyn Engine>>,
    settings: Settings,
}

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
///         options.policy = Some(PolicyName::Pull.into());
///         options.courtesy = Courtesy { in_background: true, ..Courtesy::default() };
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
struct Settings {
    /// True if the caller chose the engines.
    are_chosen: bool,
    workers: Option<NonZeroUsize>,
    verify_every: Option<u64>,
    turns: Turns,
    on_wait: Option<Arc<HearOfWait>>,
    options: Options,
    /// The file with measured costs of the engines.
    profile: Option<PathBuf>,
}

impl EvenerBuilder {
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
        if settings.options.reference.is_none() {
            settings.options.reference = Some(evener_engines::find(Evener::REFERENCE_ENGINE)?);
        }
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

impl fmt::Debug for Evener {
    /// Prints no keys.
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        let name = |engine: &Arc<dyn Engine>| engine.description().name.clone();
        f.debug_struct("Evener")
            .field("format", &self.keys.primary().format())
            .field("engines", &self.engines.iter().map(name).collect::<Vec<_>>())
            .field("options", &self.settings.options)
            .finish_non_exhaustive()
    }
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
        Evener::builder(keys).build()
    }

    /// Takes keys, for custom settings.
    pub fn builder(keys: KeyRing) -> EvenerBuilder {
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

    /// The same keys and engines with other options.
    #[must_use]
    pub fn with_options(mut self, change: impl FnOnce(&mut Options)) -> Evener {
        change(&mut self.settings.options);
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
            .filter(|_| self.settings.are_chosen)
            .filter(unable)
            .map(|engine| engine.description().name.as_str())
            .collect()
    }

    /// Leaves the engines open when this is dropped, for a program that ends then: logging out of a
    /// token may take long.
    pub fn keep_engines_open(&self) {
        std::mem::forget(self.engines.clone());
    }

    /// The selected engines that have the cipher but get no worker, because the builder sets fewer
    /// workers than engines; they are not used.
    pub fn engines_without_workers(&self, operation: Operation) -> Vec<&str> {
        if !self.settings.are_chosen {
            return Vec::new();
        }
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        let seats = seats(&self.engines, cipher, direction, self.settings.workers);
        let unable = self.unable_engines(operation);
        self.engines
            .iter()
            .filter(|engine| !seats.iter().any(|seat| Arc::ptr_eq(seat, engine)))
            .map(|engine| engine.description().name.as_str())
            .filter(|name| !unable.contains(name))
            .collect()
    }

    /// Encrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn encrypt(
        &self,
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Report, OperationError> {
        self.process(Operation::Encrypt, source, Some(target.as_ref()))
    }

    /// Decrypts a file or a tree, see [`Evener::process`].
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn decrypt(
        &self,
        source: impl AsRef<Path>,
        target: impl AsRef<Path>,
    ) -> Result<Report, OperationError> {
        self.process(Operation::Decrypt, source, Some(target.as_ref()))
    }

    /// Authenticates everything in a file or a tree and writes nothing.
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn verify(&self, source: impl AsRef<Path>) -> Result<Report, OperationError> {
        self.process(Operation::Verify, source, None)
    }

    /// Encrypts, decrypts or verifies a file or a tree.
    ///
    /// A tree goes to a tree with the same relative names, with [`Options::suffix`] added or
    /// stripped. A file goes to the file `target`, or under such a name into `target` if it is a
    /// directory. `target` is `None` exactly for [`Operation::Verify`].
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when files failed: all other files are done, and its report
    /// lists the failed ones. [`OperationError::NotBegun`] when the operation could not begin: the
    /// source does not exist, the target can't be made or is inside the source, or no selected
    /// engine has the cipher.
    pub fn process(
        &self,
        operation: Operation,
        source: impl AsRef<Path>,
        target: Option<&Path>,
    ) -> Result<Report, OperationError> {
        let source = source.as_ref();
        let (options, notice) =
            self.seated(operation).map_err(|error| cannot_begin(source, error))?;
        noticed(process(operation, &self.keys, source, target, &options), notice)
    }

    /// Lists the encrypted files of a tree, or one, with their formats and sizes.
    ///
    /// # Errors
    /// When `path` does not exist, or is neither a file nor a tree.
    pub fn list(&self, path: impl AsRef<Path>) -> Result<Listing, Failure> {
        list(path.as_ref(), Some(&self.keys), &self.settings.options)
    }

    /// Encrypts, decrypts or verifies the objects of one [place](crate::place) into another, with
    /// their directories, links and metadata where the other has them. What it can't have is a
    /// failure or a notice of the report. `store` is `None` exactly for [`Operation::Verify`].
    ///
    /// ```
    /// use evener::place::{Local, Memory, Name};
    /// use evener::{Evener, Operation, Options};
    /// # use evener::keys::{KeyFormat, KeyMaterial};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// # let directory = tempfile::tempdir()?;
    /// # let path = |name: &str| directory.path().join(name);
    /// # std::fs::create_dir_all(path("letters/2026"))?;
    /// # std::fs::write(path("letters/2026/first"), "Dear Sir")?;
    ///
    /// let local = |name| Local::new(path(name), &Options::default());
    /// let sealed = Memory::new();
    /// evener.transfer(Operation::Encrypt, &local("letters"), Some(&sealed))?;
    /// assert!(sealed.get(&Name::new("2026/first.enc")?).is_some());
    /// evener.transfer(Operation::Decrypt, &sealed, Some(&local("restored")))?;
    /// assert_eq!(std::fs::read(path("restored/2026/first"))?, b"Dear Sir");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::process`].
    pub fn transfer(
        &self,
        operation: Operation,
        origin: &dyn Origin,
        store: Option<&dyn Store>,
    ) -> Result<Report, OperationError> {
        let (options, notice) =
            self.seated(operation).map_err(|error| cannot_begin(Path::new(""), error))?;
        noticed(transfer(operation, &self.keys, origin, store, &options), notice)
    }

    /// Adds up the files that [`Evener::process`] would take from a tree, and their bytes, so that
    /// a caller can tell how much is left. It takes about as long as `du`; run it on a thread
    /// beside the operation.
    ///
    /// Returns `None` if the tree can't be read, the operation was stopped, or `is_over` says that
    /// nobody needs the total any more.
    pub fn measure(
        &self,
        operation: Operation,
        source: impl AsRef<Path>,
        target: Option<&Path>,
        is_over: impl Fn() -> bool,
    ) -> Option<Total> {
        measure(operation, source.as_ref(), target, &self.settings.options, is_over)
    }

    /// Encrypts a stream, see [`Evener::process_stream`].
    ///
    /// ```
    /// # use evener::{Evener, keys::{KeyFormat, KeyMaterial}};
    /// # let evener = Evener::new(KeyMaterial::generate(KeyFormat::default())?.key_ring(b"")?)?;
    /// let mut sealed = Vec::new();
    /// evener.encrypt_stream(&b"a letter"[..], &mut sealed)?;
    /// # let mut opened = Vec::new();
    /// # evener.decrypt_stream(&sealed[..], &mut opened)?;
    /// # assert_eq!(opened, b"a letter");
    /// # Ok::<(), Box<dyn std::error::Error>>(())
    /// ```
    ///
    /// # Errors
    /// As [`Evener::process_stream`].
    pub fn encrypt_stream(
        &self,
        source: impl Read + Send,
        target: impl Write + Send,
    ) -> Result<Report, OperationError> {
        let source = StreamSource::Reader(Box::new(source));
        self.process_stream(Operation::Encrypt, source, StreamTarget::Writer(Box::new(target)))
    }

    /// Decrypts a stream, see [`Evener::process_stream`].
    ///
    /// # Errors
    /// As [`Evener::process_stream`].
    pub fn decrypt_stream(
        &self,
        source: impl Read + Send,
        target: impl Write + Send,
    ) -> Result<Report, OperationError> {
        let source = StreamSource::Reader(Box::new(source));
        self.process_stream(Operation::Decrypt, source, StreamTarget::Writer(Box::new(target)))
    }

    /// Encrypts, decrypts or verifies one stream from beginning to end.
    ///
    /// A chunk of plaintext is written only after it has been authenticated.
    ///
    /// # Errors
    /// [`OperationError::Incomplete`] when it failed later: its report has the failure, with the
    /// path `-` for a descriptor. [`OperationError::NotBegun`] when it could not begin: source or
    /// target can't be opened, or no selected engine has the cipher.
    pub fn process_stream(
        &self,
        operation: Operation,
        source: StreamSource<'_>,
        target: StreamTarget<'_>,
    ) -> Result<Report, OperationError> {
        let (options, notice) =
            self.seated(operation).map_err(|error| cannot_begin(Path::new("-"), error))?;
        noticed(process_stream(operation, &self.keys, source, target, &options), notice)
    }

    /// The options with one seat for each worker, and a notice for the user if the profile is
    /// ignored.
    pub(crate) fn seated(
        &self,
        operation: Operation,
    ) -> Result<(Options, Option<Notice>), FileError> {
        let Settings { workers, verify_every, turns, on_wait, options, profile, .. } =
            &self.settings;
        let (cipher, direction) = (self.keys.primary().cipher(), operation.direction());
        let mut options = options.clone();
        let is_set = self.settings.are_chosen
            || workers.is_some()
            || verify_every.is_some()
            || on_wait.is_some()
            || *turns != Turns::default();
        if !options.seats.is_empty() && is_set {
            return Err(Refusal::Other(SEATS.to_owned()).into());
        }
        if !options.seats.is_empty() {
            options.seats = guarded(&options.seats)?;
        } else {
            // New guards, so that each operation has its own count of jobs.
            let watch = Watch::of_a_run(*verify_every);
            let watched = |engine| evener_engines::watched(engine, watch);
            let engines: Vec<_> = self.engines.iter().map(watched).collect::<Result<_, _>>()?;
            let (recall, tell) = (options.control.recall().clone(), on_wait.clone());
            let patience = Patience { recall, tell };
            let engines = gated(&engines, cipher, direction, turns, &patience)?;
            options.seats = seats(&engines, cipher, direction, *workers);
        }
        let kinds = options.seats.iter().map(|engine| engine.description().kind);
        let policy = options.policy.clone().unwrap_or_else(|| PolicyName::usual(kinds).into());
        let mut notice = None;
        if let Some(path) = profile {
            options.protected.add(path);
            if policy.uses_costs() {
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

/// The caller's seats, with a guard for each module that has none.
fn guarded(seats: &[Arc<dyn Engine>]) -> Result<Vec<Arc<dyn Engine>>, EngineError> {
    let mut known: Vec<[Arc<dyn Engine>; 2]> = Vec::new();
    for engine in seats {
        if !known.iter().any(|[other, _]| Arc::ptr_eq(other, engine)) {
            let guarded = match evener_engines::is_watched(engine) {
                true => Arc::clone(engine),
                false => evener_engines::watched(engine, Watch::of_a_run(None))?,
            };
            known.push([Arc::clone(engine), guarded]);
        }
    }
    let of = |engine| known.iter().find(|[other, _]| Arc::ptr_eq(other, engine));
    Ok(seats.iter().filter_map(|engine| Some(Arc::clone(&of(engine)?[1]))).collect())
}

/// The result with one more notice in its report.
fn noticed(
    result: Result<Report, OperationError>,
    notice: Option<Notice>,
) -> Result<Report, OperationError> {
    let mut report = result.or_else(OperationError::into_report)?;
    report.notices.extend(notice);
    report.into_result()
}

fn cannot_begin(path: &Path, error: FileError) -> Failure {
    Failure { path: path.to_owned(), error }
}

const SEATS: &str = "`Options::seats` has the workers already: the builder can't choose engines, their \
    number, how they are verified or how they are shared";
