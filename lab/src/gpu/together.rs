//! The cores, the GPU and both: the same messages in runs under the adaptive policy.

use std::sync::atomic::{AtomicU64, Ordering};
use std::sync::{Arc, Mutex};
use std::thread;
use std::time::{Duration, Instant};

use evener_core::{
    Cipher, Direction, Engine, EngineError, IgnorePoison, Iv, Job, Key, Outcome, WipedBuffer,
};
use evener_pipeline::{Load, PolicyName, Queue, Returned, RunOptions, Work, Worker, run_filled};

use super::report::{Rate, Together};
use super::sessions::cpu_time;
use crate::LabError;
use crate::done::{Amount, all_done};

/// Measures runs of about this duration each.
pub(super) fn measure(
    cores: &Arc<dyn Engine>,
    gpu: &Arc<dyn Engine>,
    cipher: Cipher,
    message: usize,
    time: Duration,
) -> Result<Together, LabError> {
    let count = thread::available_parallelism().map_or(1, usize::from);
    let depth = gpu.offer(cipher, Direction::Encrypt).map_or(1, |offer| offer.depth.max(1));
    let on_cores = vec![Arc::clone(cores); count];
    let on_gpu = vec![Arc::clone(gpu); depth];
    let both = [on_cores.clone(), on_gpu.clone()].concat();
    Ok(Together {
        cipher: cipher.name().to_owned(),
        message,
        cores: rate(&on_cores, cipher, message, time)?,
        gpu: rate(&on_gpu, cipher, message, time)?,
        both: rate(&both, cipher, message, time)?,
    })
}

/// Measures the rate of a run of about this duration; shorter runs find the number of tasks.
fn rate(
    seats: &[Arc<dyn Engine>],
    cipher: Cipher,
    message: usize,
    time: Duration,
) -> Result<Rate, LabError> {
    let mut tasks = 4 * seats.len();
    let mut wall = perform(seats, cipher, message, tasks)?.0;
    while wall < time.as_secs_f64() / 4.0 && tasks < MOST_TASKS {
        tasks *= 4;
        wall = perform(seats, cipher, message, tasks)?.0;
    }
    let more = (time.as_secs_f64() / wall.max(1e-6)).clamp(1.0, 8.0);
    let tasks = (tasks as f64 * more) as usize;
    let (wall, cpu, bytes) = perform(seats, cipher, message, tasks)?;
    Ok(Rate { gb_per_second: bytes / wall / 1e9, cpu_milliseconds_per_gb: cpu * 1e12 / bytes })
}

/// Returns wall and CPU time of a run with `tasks` tasks, in seconds, and its bytes.
fn perform(
    seats: &[Arc<dyn Engine>],
    cipher: Cipher,
    message: usize,
    tasks: usize,
) -> Result<(f64, f64, f64), LabError> {
    let work = Messages::new(cipher, message);
    let options = RunOptions::new(PolicyName::Adaptive, cipher, Direction::Encrypt, tasks);
    let (begun, cpu) = (Instant::now(), cpu_time());
    let statistics = run_filled(seats, &options, &work, (0..tasks).map(|_| work.task()));
    let (wall, cpu) = (begun.elapsed().as_secs_f64(), cpu_time() - cpu);
    let wanted = Amount::of((tasks * work.count) as u64, message);
    let done = Amount::of(work.done.into_inner(), message);
    let trouble = work.trouble.into_inner().ignore_poison();
    // If an engine failed, the work that others did in its place is not its figure.
    let retired = statistics.workers.into_iter().find_map(|worker| worker.retired);
    if let Some(trouble) = trouble.or(retired.map(|cause| cause.to_string())) {
        return Err(LabError::Unavailable(trouble));
    }
    all_done(&format!("{cipher}, {message} bytes"), done, wanted)?;
    Ok((wall, cpu, done.bytes as f64))
}

/// Messages that are encrypted in the workers' buffers.
struct Messages {
    cipher: Cipher,
    key: Key,
    iv: Iv,
    message: usize,
    /// Messages of a task.
    count: usize,
    /// The number of messages encrypted.
    done: AtomicU64,
    trouble: Mutex<Option<String>>,
}

#[derive(Clone, Copy)]
struct Task(Load);

/// A worker's buffers, for the messages of some tasks.
struct Workspace {
    input: WipedBuffer,
    output: WipedBuffer,
    /// The number of tasks whose messages fit.
    tasks: usize,
}

impl Messages {
    fn new(cipher: Cipher, message: usize) -> Messages {
        let bytes = Vec::from_iter(1..=u8::MAX);
        let key = Key::new(&bytes[..cipher.key_length()]).expect("every cipher's key fits");
        let iv = Iv::new(&bytes[..cipher.iv_length()]).expect("every cipher's IV fits");
        let count = (TASK / message.max(1)).max(1);
        let (done, trouble) = (AtomicU64::new(0), Mutex::default());
        Messages { cipher, key, iv, message, count, done, trouble }
    }

    fn task(&self) -> Task {
        Task(Load::jobs(self.count as u64, (self.count * self.message) as u64))
    }

    fn room(&self) -> usize {
        self.message + self.cipher.tag_length()
    }

    fn complain(&self, trouble: String) {
        let mut first = self.trouble.lock().ignore_poison();
        first.get_or_insert(trouble);
    }

    fn encrypt(
        &self,
        tasks: usize,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
    ) -> Result<(), EngineError> {
        let inputs = workspace.input.chunks_exact(self.message).take(tasks * self.count);
        let outputs = workspace.output.chunks_exact_mut(self.room());
        let job =
            |(input, output)| Job { key: Some(&self.key), ..Job::new(self.iv, input, output) };
        let mut jobs: Vec<_> = inputs.zip(outputs).map(job).collect();
        worker.process(self.cipher, Direction::Encrypt, &mut jobs)?;
        let is_done = |job: &&Job<'_>| matches!(job.outcome, Outcome::Done { .. });
        let done = jobs.iter().filter(is_done).count();
        self.done.fetch_add(done as u64, Ordering::Relaxed);
        if done < jobs.len() {
            let engine = &worker.engine().description().name;
            self.complain(format!("{engine} did not encrypt a message"));
        }
        Ok(())
    }
}

impl Work for Messages {
    type Task = Task;
    type Workspace = Workspace;

    fn workspace(&self, engine: &dyn Engine) -> Workspace {
        let offer = engine.offer(self.cipher, Direction::Encrypt);
        let bytes = offer.map_or(0, |offer| offer.bytes);
        let tasks = (bytes / (self.count * self.message)).max(1);
        let buffer = |bytes| {
            let lent = (tasks > 1).then(|| engine.buffer(bytes)).flatten();
            lent.unwrap_or_else(|| WipedBuffer::zeros(bytes))
        };
        let count = tasks * self.count;
        Workspace {
            input: buffer(count * self.message),
            output: buffer(count * self.room()),
            tasks,
        }
    }

    fn load(task: &Task) -> Load {
        task.0
    }

    fn perform(
        &self,
        task: Task,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        _: &Queue<'_, Task>,
    ) -> Result<(), Returned<Task>> {
        self.encrypt(1, workspace, worker).map_err(|cause| Returned { task, cause })
    }

    fn perform_claim(
        &self,
        tasks: &mut std::collections::VecDeque<Task>,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        _: &Queue<'_, Task>,
    ) -> Result<(), EngineError> {
        while !tasks.is_empty() {
            let together = workspace.tasks.min(tasks.len());
            self.encrypt(together, workspace, worker)?;
            tasks.drain(..together);
        }
        Ok(())
    }

    fn abandon(&self, _: Task, cause: Option<&EngineError>) {
        if let Some(cause) = cause {
            self.complain(cause.to_string());
        }
    }
}

/// Bytes of a task: an amount that stays in a core's cache while the core encrypts it.
const TASK: usize = 256 << 10;

const MOST_TASKS: usize = 1 << 18;
