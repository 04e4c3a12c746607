//! A file in memory that has a name as long as it lives.

use std::fs::File;
use std::io::{Read, Seek, SeekFrom, Write};
use std::os::fd::{AsRawFd, OwnedFd};
use std::path::PathBuf;

use rustix::fs::{MemfdFlags, Mode, fchmod, memfd_create};

pub(crate) struct MemoryFile(File);

impl MemoryFile {
    /// A file of mode 0600 with this content, at its beginning.
    pub(crate) fn new(content: &[u8]) -> MemoryFile {
        let file = memfd_create("fuzz", MemfdFlags::CLOEXEC).expect("memory for a file");
        fchmod(&file, Mode::RUSR | Mode::WUSR).expect("its mode");
        let mut file = File::from(file);
        file.write_all(content).expect("memory for its content");
        file.rewind().expect("its beginning");
        MemoryFile(file)
    }

    pub(crate) fn path(&self) -> PathBuf {
        format!("/proc/self/fd/{}", self.0.as_raw_fd()).into()
    }

    /// Another descriptor of it, which shares its position.
    pub(crate) fn descriptor(&self) -> OwnedFd {
        self.0.try_clone().expect("a descriptor").into()
    }

    pub(crate) fn content(mut self) -> Vec<u8> {
        let mut content = Vec::new();
        self.0.seek(SeekFrom::Start(0)).expect("its beginning");
        self.0.read_to_end(&mut content).expect("its content");
        content
    }
}
