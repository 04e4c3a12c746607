//! Metrics of a command while it runs, for `--metrics`.
//!
//! A command flattens [`MetricsOptions`] into its options, calls [`Metrics::open`] before its work,
//! and names what is counted with [`Metrics::watch`] and [`Metrics::watch_stores`]. The port is open
//! until the [`Metrics`] are dropped.

mod request;
mod samples;
mod server;

use std::net::SocketAddr;
use std::sync::Arc;

use evener::Control;

use crate::options::MetricsOptions;
use crate::stores::Stores;
use crate::trouble::{Trouble, complain};
use samples::Watched;
use server::Server;

/// The metrics of a command, served if the user wants them.
pub(crate) struct Metrics(Option<Serving>);

struct Serving {
    watched: Arc<Watched>,
    /// Serves until it is dropped.
    _server: Server,
}

impl Metrics {
    /// Opens the port, if one is given. Unless the command `is_quiet`, this tells which port the
    /// system chose.
    ///
    /// # Errors
    /// When the port can't be opened.
    pub(crate) fn open(options: &MetricsOptions, is_quiet: bool) -> Result<Metrics, Trouble> {
        let Some(address) = options.metrics else { return Ok(Metrics(None)) };
        let watched = Arc::new(Watched::new());
        let server = Server::open(address, {
            let watched = watched.clone();
            move || watched.text()
        });
        let server = server.map_err(|cause| Trouble::Metrics { address, cause })?;
        if address.port() == 0 && !is_quiet {
            complain(&format_args!("metrics are at {}", url(server.address())));
        }
        Ok(Metrics(Some(Serving { watched, _server: server })))
    }

    /// Counts the files and engines of an operation.
    pub(crate) fn watch(&self, control: &Arc<Control>) {
        self.0.iter().for_each(|serving| serving.watched.add_control(control.clone()));
    }

    /// Counts the requests to object stores.
    pub(crate) fn watch_stores(&self, stores: &Stores) {
        self.0.iter().for_each(|serving| serving.watched.add_traffic(stores.traffic()));
    }
}

fn url(address: SocketAddr) -> String {
    format!("http://{address}/metrics")
}
