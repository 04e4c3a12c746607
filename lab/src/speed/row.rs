//! A figure.

use serde::{Deserialize, Serialize};

/// A figure.
#[derive(Clone, Debug, PartialEq, Serialize, Deserialize)]
pub struct Row {
    /// The engine's name.
    pub engine: String,
    /// The cipher's OpenSSL name. Results from elsewhere may have ciphers that Evener lacks.
    pub cipher: String,
    /// `encrypt` or `decrypt`.
    pub direction: String,
    /// True if the CPU's AES instructions were available and the cipher can use them.
    pub aes_instructions: bool,
    /// The number of threads at work.
    pub threads: usize,
    /// The length of a message.
    pub bytes: usize,
    /// The total of all threads, in thousands of bytes a second: the median of the rounds.
    pub kb_per_s: f64,
}
