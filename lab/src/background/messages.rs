//! Evener's work beside the foreground program: it encrypts messages in memory continuously.

use std::sync::Mutex;
use std::sync::atomic::{AtomicU64, Ordering};

use evener_core::{Cipher, Direction, Engine, EngineError, Iv, Job, Key, Kind, Outcome};
use evener_pipeline::{Load, Queue, Returned, Work, Worker};

/// Encrypts messages; each worker encrypts its own buffers again and again.
pub(super) struct Messages {
    cipher: Cipher,
    key: Key,
    iv: Iv,
    length: usize,
    /// Number of messages in a task.
    count: usize,
    bytes: [AtomicU64; 2],
    trouble: Mutex<Option<String>>,
}

/// Counts of the work done.
#[derive(Clone, Copy, Debug, Default, PartialEq, Eq)]
pub(super) struct Done {
    /// Bytes done by CPU engines.
    pub(super) by_cpu: u64,
    /// Bytes done by modules.
    pub(super) by_modules: u64,
}

/// A group of messages.
#[derive(Clone, Copy, Debug)]
pub(super) struct Task {
    load: Load,
}

/// A worker's buffers.
pub(super) struct Workspace {
    input: Vec<u8>,
    output: Vec<u8>,
}

impl Messages {
    /// Messages of `length` bytes, rounded up to whole blocks if the cipher requires that.
    pub(super) fn new(cipher: Cipher, length: usize) -> Messages {
        let length = length.next_multiple_of(cipher.block_length().max(1));
        // No cipher's time depends on the bytes, and they are never shown.
        let bytes = Vec::from_iter(0..=u8::MAX);
        let key = Key::new(&bytes[..cipher.key_length()]).expect("every cipher's key fits");
        let iv = Iv::new(&bytes[..cipher.iv_length()]).expect("every cipher's IV fits");
        let count = (TASK / length).clamp(1, MOST_MESSAGES);
        let (bytes, trouble) = (Default::default(), Mutex::default());
        Messages { cipher, key, iv, length, count, bytes, trouble }
    }

    pub(super) fn task(&self) -> Task {
        let count = self.count as u64;
        Task { load: Load::jobs(count, count * self.length as u64) }
    }

    pub(super) fn length(&self) -> usize {
        self.length
    }

    pub(super) fn done(&self) -> Done {
        let [by_cpu, by_modules] = [0, 1].map(|kind| self.bytes[kind].load(Ordering::Relaxed));
        Done { by_cpu, by_modules }
    }

    /// The error, if the work has failed.
    pub(super) fn trouble(&self) -> Option<String> {
        self.trouble.lock().ok().and_then(|trouble| trouble.clone())
    }

    fn complain(&self, trouble: String) {
        if let Ok(mut first) = self.trouble.lock() {
            first.get_or_insert(trouble);
        }
    }
}

impl Work for Messages {
    type Task = Task;
    type Workspace = Workspace;

    fn workspace(&self, _: &dyn Engine) -> Workspace {
        let input = vec![0x33; self.length * self.count];
        // Staggered, so that buffers a power of two apart do not collide in the cache.
        let room = self.length + self.cipher.tag_length() + STAGGER;
        Workspace { input, output: vec![0; room * self.count] }
    }

    fn load(task: &Task) -> Load {
        task.load
    }

    fn perform(
        &self,
        task: Task,
        workspace: &mut Workspace,
        worker: &mut Worker<'_>,
        queue: &Queue<'_, Task>,
    ) -> Result<(), Returned<Task>> {
        let room = workspace.output.len() / self.count;
        let inputs = workspace.input.chunks_exact(self.length);
        let mut jobs: Vec<_> = inputs
            .zip(workspace.output.chunks_exact_mut(room))
            .map(|(input, output)| Job { key: Some(&self.key), ..Job::new(self.iv, input, output) })
            .collect();
        worker
            .process(self.cipher, Direction::Encrypt, &mut jobs)
            .map_err(|cause| Returned { task, cause })?;
        if let Some(job) = jobs.iter().find(|job| !matches!(job.outcome, Outcome::Done { .. })) {
            let engine = &worker.engine().description().name;
            self.complain(format!("{engine} did not encrypt a message: {:?}", job.outcome));
            queue.stop();
        }
        let kind = usize::from(worker.engine().description().kind == Kind::Module);
        let bytes = task.load.bytes.unwrap_or_default();
        self.bytes[kind].fetch_add(bytes, Ordering::Relaxed);
        Ok(())
    }

    fn abandon(&self, _: Task, cause: Option<&EngineError>) {
        if let Some(cause) = cause {
            self.complain(cause.to_string());
        }
    }
}

/// Size of a task, in bytes: enough work to make the cost of the queue negligible, even at 20 GB/s.
const TASK: usize = 1 << 20;
/// The most messages in a task.
const MOST_MESSAGES: usize = 1024;
/// Gap between buffers, in bytes: a cache line.
const STAGGER: usize = 64;

#[cfg(test)]
mod tests {
    use std::sync::Arc;

    use evener_pipeline::{PolicyName, RunOptions, run};

    use super::*;

    #[test]
    fn what_each_kind_of_engine_does_is_counted() {
        let messages = Messages::new(Cipher::Aes128Cbc, 1000);
        assert_eq!(messages.length(), 1008);
        let seats = [crate::find("openssl").unwrap()].map(|engine| Arc::clone(&engine));
        let (cipher, direction) = (Cipher::Aes128Cbc, Direction::Encrypt);
        let options = RunOptions::new(PolicyName::Pull, cipher, direction, 4);
        run(&seats, &options, &messages, |queue| {
            for _ in 0..3 {
                queue.push(messages.task()).unwrap();
            }
        });
        let bytes = 3 * messages.count as u64 * 1008;
        assert_eq!(messages.done(), Done { by_cpu: bytes, by_modules: 0 });
        assert_eq!(messages.trouble(), None);
    }
}
