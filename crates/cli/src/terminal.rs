//! The user's terminal, for asking for secrets.

use std::fs::File;
use std::io::{self, Read, Write};

use evener::program::shown_text;
use rustix::termios::{LocalModes, OptionalActions, Termios, tcgetattr, tcsetattr};
use zeroize::Zeroizing;

/// The terminal and its original settings.
pub(crate) struct Terminal {
    device: File,
    settings: Termios,
}

impl Terminal {
    /// # Errors
    /// When there is no terminal.
    pub(crate) fn open() -> io::Result<Terminal> {
        let device = File::options().read(true).write(true).open("/dev/tty")?;
        let settings = tcgetattr(&device)?;
        Ok(Terminal { device, settings })
    }

    /// Shows a prompt, and turns off the echo. The keys for editing a line and for interrupting,
    /// quitting or stopping the program work as usual.
    pub(crate) fn prompt(&self, text: &str) -> io::Result<()> {
        let mut settings = self.settings.clone();
        settings.local_modes.remove(LocalModes::ECHO);
        let kept = LocalModes::ICANON | LocalModes::ISIG | LocalModes::ECHONL;
        settings.local_modes.insert(kept);
        tcsetattr(&self.device, OptionalActions::Now, &settings)?;
        // It may contain text of a device or a file's name.
        write!(&self.device, "{}", shown_text(text))
    }

    /// Reads up to the end of the line or of the input.
    pub(crate) fn read_line(&self) -> io::Result<Zeroizing<Vec<u8>>> {
        // A buffer that had to grow would leave copies of the secret behind.
        let mut line = Zeroizing::new(vec![0; LONGEST]);
        let mut length = 0;
        while length < LONGEST && !line[..length].ends_with(b"\n") {
            match (&self.device).read(&mut line[length..]) {
                Ok(0) => break,
                Ok(count) => length += count,
                Err(error) if error.kind() == io::ErrorKind::Interrupted => {}
                Err(error) => return Err(error),
            }
        }
        line.truncate(length);
        if line.ends_with(b"\n") {
            line.pop();
        }
        Ok(line)
    }

    /// Restores the settings.
    pub(crate) fn put_right(&self) {
        // A closed terminal needs no settings.
        let _ = tcsetattr(&self.device, OptionalActions::Now, &self.settings);
    }

    /// Like [`Terminal::put_right`], in the middle of a line.
    pub(crate) fn leave_line(&self) {
        self.put_right();
        let _ = writeln!(&self.device);
    }
}

/// The kernel's limit for an edited line.
const LONGEST: usize = 4096;
