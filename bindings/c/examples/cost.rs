//! Measures the cost of calling Evener from C and from Java instead of from Rust.
//!
//! ```text
//! bindings/measure
//! ```
//!
//! Three workers do the same work, each a process of its own: this program with `--worker`,
//! `cost.c` and `Cost.java`. They are asked in turns, so that whatever else happens on the
//! machine happens to all, and there are several generations of them, because where the system
//! puts a process's memory matters too. What is shown is the median of all samples.
//!
//! A worker is started with the name of a work and a length in bytes. For each line that it
//! receives, a number, it repeats the work this number of times and answers with the time in
//! nanoseconds. Output follows input, each from a page's beginning on, with a page between them.

use std::env;
use std::error::Error;
use std::hint::black_box;
use std::io::{self, BufRead, BufReader, Write};
use std::process::{Child, ChildStdin, ChildStdout, Command, Stdio};
use std::sync::Arc;
use std::time::Instant;

use facade::engines::{self, Iv, Job, Session, SessionRequest};
use facade::hazmat::ParallelCipher;
use facade::{Cipher, Direction, Engine, Key, Pool};

type Failure = Box<dyn Error>;

fn main() -> Result<(), Failure> {
    let arguments: Vec<String> = env::args().collect();
    match &arguments[1..] {
        [flag, work, length] if flag == "--worker" => work_on_demand(work, length.parse()?),
        [c_program, java @ ..] => compare(&arguments[0], c_program, java),
        [] => Err("usage: cost C_PROGRAM [JAVA_COMMAND...]".into()),
    }
}

/// Asks all contenders in turns and prints a line for each work.
fn compare(itself: &str, c_program: &str, java: &[String]) -> Result<(), Failure> {
    let mut contenders = vec![
        ("Rust", vec![itself.to_owned(), "--worker".to_owned()]),
        ("C", vec![c_program.to_owned()]),
    ];
    if !java.is_empty() {
        contenders.push(("Java", java.to_vec()));
    }
    println!("| work | bytes | Rust, µs | C / Rust | Java / Rust |\n|---|---|---|---|---|");
    for (work, length) in WORKS {
        let mut samples = vec![Vec::new(); contenders.len()];
        for _ in 0..GENERATIONS {
            let workers =
                contenders.iter().map(|(_, command)| Worker::start(command, work, *length));
            sample(&mut workers.collect::<Result<Vec<_>, _>>()?, &mut samples)?;
        }
        let medians: Vec<f64> = samples.into_iter().map(median).collect();
        let ratios: Vec<String> =
            medians[1..].iter().map(|time| format!("{:.3}", time / medians[0])).collect();
        println!("| {work} | {length} | {:.2} | {} |", medians[0] / 1e3, ratios.join(" | "));
    }
    Ok(())
}

/// Adds one generation's samples, in nanoseconds per repetition.
fn sample(workers: &mut [Worker], samples: &mut [Vec<f64>]) -> Result<(), Failure> {
    let mut times = 1;
    while workers[0].ask(times)? < SAMPLE_NANOSECONDS {
        times *= 2;
    }
    for round in 0..WARMING_ROUNDS + ROUNDS {
        for (worker, samples) in workers.iter_mut().zip(samples.iter_mut()) {
            let time = worker.ask(times)?;
            if round >= WARMING_ROUNDS {
                samples.push(time / f64::from(times));
            }
        }
    }
    Ok(())
}

/// A contender's process, which ends with its standard input.
struct Worker {
    process: Child,
    questions: Option<ChildStdin>,
    answers: BufReader<ChildStdout>,
}

impl Worker {
    fn start(command: &[String], work: &str, length: usize) -> Result<Worker, Failure> {
        let mut process = Command::new(&command[0])
            .args(&command[1..])
            .args([work, &length.to_string()])
            .stdin(Stdio::piped())
            .stdout(Stdio::piped())
            .spawn()?;
        let questions = process.stdin.take();
        let answers = BufReader::new(process.stdout.take().ok_or("no standard output")?);
        Ok(Worker { process, questions, answers })
    }

    fn ask(&mut self, times: u32) -> Result<f64, Failure> {
        writeln!(self.questions.as_mut().ok_or("no standard input")?, "{times}")?;
        let mut answer = String::new();
        self.answers.read_line(&mut answer)?;
        answer.trim().parse().map_err(|_| format!("a worker answered `{answer}`").into())
    }
}

impl Drop for Worker {
    fn drop(&mut self) {
        drop(self.questions.take());
        // The exit status says nothing of its answers.
        let _ = self.process.wait();
    }
}

/// Rust's own worker.
fn work_on_demand(work: &str, length: usize) -> Result<(), Failure> {
    // Unwritten pages would all be the one page of zeros.
    let mut buffer = vec![1_u8; 2 * length + 3 * PAGE];
    let start = buffer.as_ptr().align_offset(PAGE);
    let (input, output) = buffer[start..].split_at_mut(length + PAGE);
    let (input, output) = (&input[..length], &mut output[..length + 16]);
    match work {
        "session" => {
            let engine = engines::find("openssl")?;
            let mut session = open(&*engine, Cipher::Aes128Ctr)?;
            let iv = Iv::new(&[0; 16]).map_err(|_| "no IV")?;
            answer(|| Ok(session.process(&mut [Job::new(iv, input, black_box(output))])?))
        }
        "batch" => {
            let engine = engines::find("openssl")?;
            let mut session = open(&*engine, Cipher::Aes128Gcm)?;
            let iv = Iv::new(&[0; 12]).map_err(|_| "no IV")?;
            let part = length / BATCH;
            let mut outputs = vec![1; BATCH * (part + 16)];
            answer(|| {
                let parts = input.chunks(part).zip(outputs.chunks_mut(part + 16));
                let mut batch: Vec<_> =
                    parts.map(|(input, output)| Job::new(iv, input, output)).collect();
                Ok(session.process(&mut batch)?)
            })
        }
        "parallel" => {
            let pool = Arc::new(Pool::on_all_cores());
            let cipher = ParallelCipher::new(Cipher::Aes128Ctr, &key()?, pool)?;
            let iv = Iv::new(&[0; 16]).map_err(|_| "no IV")?;
            answer(|| cipher.encrypt(iv, input, black_box(output)).map(drop).map_err(Into::into))
        }
        _ => Err(format!("there is no work `{work}`").into()),
    }
}

fn open(engine: &dyn Engine, cipher: Cipher) -> Result<Box<dyn Session>, Failure> {
    let request = SessionRequest { cipher, direction: Direction::Encrypt, key: Some(&key()?) };
    Ok(engine.open(&request)?)
}

fn key() -> Result<Key, Failure> {
    Key::new(&[0; 16]).map_err(|_| "no key".into())
}

/// Repeats the work as often as each line of standard input says.
fn answer(mut work: impl FnMut() -> Result<(), Failure>) -> Result<(), Failure> {
    for line in io::stdin().lines() {
        let times: u32 = line?.trim().parse()?;
        let started = Instant::now();
        for _ in 0..times {
            work()?;
        }
        println!("{}", started.elapsed().as_nanos());
    }
    Ok(())
}

fn median(mut samples: Vec<f64>) -> f64 {
    samples.sort_by(f64::total_cmp);
    samples[samples.len() / 2]
}

/// The measured work, each with its bytes.
const WORKS: &[(&str, usize)] = &[
    ("session", 64 << 10),
    ("session", 1 << 20),
    ("batch", 1 << 20),
    ("parallel", 64 << 10),
    ("parallel", 16 << 20),
];

/// The number of messages in a batch, which share its bytes.
const BATCH: usize = 16;

const PAGE: usize = 4096;
const GENERATIONS: usize = 3;
/// Java compiles frequently executed code; until then it is slow.
const WARMING_ROUNDS: usize = 60;
const ROUNDS: usize = 31;
const SAMPLE_NANOSECONDS: f64 = 4e6;
