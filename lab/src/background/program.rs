//! The foreground program as a child process.

use std::ffi::OsString;
use std::io::{self, BufRead, BufReader, Write};
use std::path::PathBuf;
use std::process::{Child, ChildStdout, Command, Stdio};
use std::time::Duration;

use super::BackgroundOptions;
use super::foreground::{self, Pace};
use crate::LabError;

/// The command that starts the foreground program, which calls [`Program::perform`].
#[derive(Clone, Debug)]
pub struct Program {
    /// The program.
    pub path: PathBuf,
    /// The arguments before the options.
    pub arguments: Vec<OsString>,
}

impl Program {
    /// Runs the foreground program: it works for this many seconds, and prints a line when it
    /// begins and its figures at the end.
    ///
    /// # Errors
    /// When it can't start a new session, or standard output is closed.
    pub fn perform(options: &BackgroundOptions, seconds: f64) -> Result<(), LabError> {
        let told = LabError::file("write", "standard output");
        if !options.same_session {
            rustix::process::setsid().map_err(|error| {
                LabError::file("have a session of its own", "/proc/self")(error.into())
            })?;
        }
        let working_set = options.working_set as usize * 1024;
        let mut begun = Ok(());
        let time = Duration::from_secs_f64(seconds);
        let pace = foreground::work(options.threads(), working_set, time, || begun = tell(BEGUN));
        let json = serde_json::to_string(&pace).map_err(io::Error::from);
        begun.and(json).and_then(|json| tell(&json)).map_err(told)
    }

    /// Starts the program, and returns when its work has begun.
    pub(super) fn start(&self, options: &BackgroundOptions) -> Result<Running, LabError> {
        let mut command = Command::new(&self.path);
        command
            .args(&self.arguments)
            .arg(format!("--only-foreground={}", options.seconds))
            .arg(format!("--working-set={}", options.working_set))
            .args(options.foreground_threads.map(|n| format!("--foreground-threads={n}")))
            .args(options.same_session.then_some("--same-session"))
            .stdin(Stdio::null())
            .stdout(Stdio::piped());
        let failed = |source| LabError::Start { program: self.path.clone(), source };
        let mut child = command.spawn().map_err(failed)?;
        let said = child.stdout.take().map(BufReader::new);
        let said = said.ok_or_else(|| failed(io::ErrorKind::BrokenPipe.into()))?;
        let mut running = Running { child, said, name: evener_core::shown(&self.path).to_string() };
        match running.line()?.as_str() {
            BEGUN => Ok(running),
            other => Err(running.failure(other)),
        }
    }
}

/// The running foreground program. Dropping it ends it.
pub(super) struct Running {
    child: Child,
    said: BufReader<ChildStdout>,
    name: String,
}

impl Running {
    /// Waits for the program's figures.
    pub(super) fn finish(mut self) -> Result<Pace, LabError> {
        let line = self.line()?;
        serde_json::from_str(&line).map_err(|_| self.failure(&line))
    }

    fn line(&mut self) -> Result<String, LabError> {
        let mut line = String::new();
        self.said.read_line(&mut line).map_err(LabError::file("read from", &self.name))?;
        Ok(line.trim_end().to_owned())
    }

    fn failure(&mut self, said: &str) -> LabError {
        let _ = self.child.kill();
        match self.child.wait() {
            Err(source) => LabError::Start { program: self.name.clone().into(), source },
            Ok(status) => LabError::Failed {
                program: format!("the foreground program {}", self.name),
                status,
                message: format!("it said `{said}`"),
            },
        }
    }
}

impl Drop for Running {
    fn drop(&mut self) {
        let _ = self.child.kill();
        let _ = self.child.wait();
    }
}

fn tell(line: &str) -> io::Result<()> {
    let mut output = io::stdout().lock();
    writeln!(output, "{line}")?;
    output.flush()
}

/// The line that it prints when the clocks start.
const BEGUN: &str = "begun";

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: BackgroundOptions,
    }

    fn shell(script: &str) -> Program {
        let arguments = ["-c", script].map(OsString::from).to_vec();
        Program { path: "sh".into(), arguments }
    }

    #[test]
    fn what_it_says_is_read() {
        let options = Line::parse_from(["background", "--same-session"]).options;
        let said = r#"echo begun; echo '{"unit_us":2,"late_us_p50":3,"late_us_p99":4}'"#;
        let pace = shell(said).start(&options).unwrap().finish().unwrap();
        assert_eq!(pace, Pace { unit_us: 2.0, late_us_p50: 3.0, late_us_p99: 4.0 });
    }

    #[test]
    fn a_program_that_fails_is_told() {
        let options = Line::parse_from(["background"]).options;
        let Err(error) = shell("exit 3").start(&options) else { panic!("it began") };
        assert!(matches!(error, LabError::Failed { .. }), "{error}");
        let running = shell("echo begun; echo never").start(&options).unwrap();
        assert!(running.finish().unwrap_err().to_string().contains("never"));
    }
}
