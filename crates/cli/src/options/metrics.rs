//! The option of commands that serve metrics.

use std::net::{Ipv4Addr, SocketAddr};

use clap::Args;

#[derive(Args, Clone, Debug, Default)]
pub(crate) struct MetricsOptions {
    /// Serve metrics for Prometheus at ADDRESS during the run, such as 127.0.0.1:9400
    ///
    /// http://ADDRESS/metrics counts files, bytes, failures, the work of each engine, waits, and
    /// requests to object stores, without names of files. A port alone is one of 127.0.0.1. With
    /// port 0, the system chooses a port, and Evener prints the address
    #[arg(long, value_name = "ADDRESS", value_parser = address, help_heading = "Messages")]
    pub(crate) metrics: Option<SocketAddr>,
}

/// An address to listen at. Without one, a port is for this machine alone.
fn address(text: &str) -> Result<SocketAddr, String> {
    let port = text.strip_prefix(':').unwrap_or(text);
    if !port.is_empty() && port.bytes().all(|byte| byte.is_ascii_digit()) {
        let port = port.parse::<u16>().map_err(|_| "a port is at most 65535".to_owned())?;
        return Ok((Ipv4Addr::LOCALHOST, port).into());
    }
    text.parse().map_err(|_| NO_ADDRESS.to_owned())
}

const NO_ADDRESS: &str =
    "not a port, or an IP address with a port, such as 9400, 127.0.0.1:9400 or [::1]:9400";

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn a_port_alone_is_for_this_machine() {
        let told = |text| address(text).map(|address| address.to_string());
        for text in ["9400", ":9400", "127.0.0.1:9400"] {
            assert_eq!(told(text).unwrap(), "127.0.0.1:9400");
        }
        for text in ["0.0.0.0:9400", "[::]:9400", "[::1]:0", "192.0.2.7:1"] {
            assert_eq!(told(text).unwrap(), text);
        }
    }

    #[test]
    fn other_text_is_refused() {
        for text in ["", ":", "localhost:9400", "127.0.0.1", "+9400", "::1", "[::1]", "x", "-1"] {
            assert_eq!(address(text), Err(NO_ADDRESS.to_owned()), "{text}");
        }
        assert_eq!(address(":65536").unwrap_err(), "a port is at most 65535");
    }
}
