//! Runs the benchmark from start to end.

use std::fs;
use std::time::Duration;

use super::client::{Client, Visit};
use super::contender::Contender;
use super::server::{Nginx, Server};
use super::site::Site;
use super::starts;
use super::{Case, Row, TlsOptions, TlsReport, Turn};
use crate::pin::pin;
use crate::watch::Watch;
use crate::{LabError, Machine};

/// Runs the benchmark; `say` is called with each step.
///
/// With [`TlsOptions::client_cores`] the calling thread stays on those cores for good.
///
/// # Errors
/// When a program is missing, a server or a request fails, a contender's provider does not encrypt
/// the records, or Ctrl-C was pressed. No server keeps running.
pub fn run(options: &TlsOptions, say: &mut dyn FnMut(&str)) -> Result<TlsReport, LabError> {
    let mut watch = Watch::new(say);
    // This precedes the pinning of this thread to fewer cores.
    let machine = Machine::look();
    let nginx = Nginx::find(options)?;
    let load = fs::read_to_string("/proc/loadavg").unwrap_or_default();
    let site = Site::new(&options.lengths)?;
    let contenders = Contender::all(options, &site)?;
    let (cases, left_out) = cases(options);
    pin(&options.client_cores)?;

    let mut turns = vec![vec![Vec::new(); contenders.len()]; cases.len()];
    for round in 0..options.rounds as usize {
        let start = |contender| nginx.start(&site, contender);
        let servers = contenders.iter().map(start).collect::<Result<Vec<Server>, _>>()?;
        for (case, turns) in cases.iter().zip(&mut turns) {
            watch.next(&format!("round {} of {}: {case}", round + 1, options.rounds))?;
            // Each round begins with a different contender.
            for place in 0..contenders.len() {
                let index = (place + round) % contenders.len();
                watch.go_on()?;
                let (contender, server) = (&contenders[index], &servers[index]);
                turns[index].push(take_turn(contender, server, case, &site, options.seconds)?);
            }
        }
    }
    let starts = starts::measure(&contenders, options.starts, &mut watch)?;

    let rows = cases.into_iter().zip(turns).flat_map(|(case, turns)| {
        let default = turns[0].clone();
        let of = |(contender, turns): (&Contender, Vec<Turn>)| {
            Row::new(case, &contender.name, turns, &default)
        };
        contenders.iter().zip(turns).map(of).collect::<Vec<_>>()
    });
    Ok(TlsReport {
        machine,
        load: load.split(' ').take(3).collect::<Vec<_>>().join(" "),
        server: nginx.version.clone(),
        workers: options.workers,
        record: options.record,
        client: openssl::version::version().to_owned(),
        server_cores: options.server_cores.clone(),
        client_cores: options.client_cores.clone(),
        rounds: options.rounds,
        seconds: options.seconds,
        rows: rows.collect(),
        starts,
        left_out,
    })
}

/// Takes a turn, and checks that the contender's provider counted it.
fn take_turn(
    contender: &Contender,
    server: &Server,
    case: &Case,
    site: &Site,
    seconds: f64,
) -> Result<Turn, LabError> {
    let client = Client::new(&site.certificate(), case.cipher, case.tls).map_err(|error| {
        LabError::Unavailable(format!("the client's OpenSSL can't do {case}: {error}"))
    })?;
    let (time, content) = (Duration::from_secs_f64(seconds), site.content(case.bytes));
    let visit = Visit { client: &client, port: server.port, case, time, content };
    let before = contender.encrypted()?;
    let turn = visit.pay(|| server.cpu_time())?;
    contender.check(before, turn.bytes)?;
    Ok(turn)
}

/// Returns the cases to measure, and those with too many bytes.
fn cases(options: &TlsOptions) -> (Vec<Case>, Vec<Case>) {
    let mut cases = Vec::new();
    for &cipher in &options.suites {
        for &tls in options.versions.iter().filter(|&&tls| cipher.name(tls).is_some()) {
            for &keep_alive in &options.keep_alive {
                for &bytes in &options.lengths {
                    let with = |&connections| Case { cipher, tls, keep_alive, bytes, connections };
                    cases.extend(options.connections.iter().map(with));
                }
            }
        }
    }
    let most = options.most.saturating_mul(1 << 20);
    cases.into_iter().partition(|case| case.bytes * u64::from(case.connections) <= most)
}

#[cfg(test)]
mod tests {
    use clap::Parser;

    use super::super::{Suite, Version};
    use super::*;

    #[derive(Parser)]
    struct Line {
        #[command(flatten)]
        options: TlsOptions,
    }

    #[test]
    fn cbc_is_measured_where_tls_has_it() {
        let line = ["tls", "--cipher", "aes-128-cbc-sha,aes-128-gcm", "--tls", "1.2,1.3"];
        let (cases, _) = cases(&Line::parse_from(line).options);
        let of = |cipher, tls| cases.iter().any(|case| (case.cipher, case.tls) == (cipher, tls));
        assert!(of(Suite::Aes128CbcSha, Version::Tls12) && of(Suite::Aes128Gcm, Version::Tls13));
        assert!(!of(Suite::Aes128CbcSha, Version::Tls13));
    }

    #[test]
    fn cases_of_too_many_bytes_are_left_out() {
        let (cases, left_out) = cases(&Line::parse_from(["tls"]).options);
        assert_eq!((cases.len(), left_out.len()), (22, 2));
        let is_largest = |case: &Case| (case.bytes, case.connections) == (1 << 26, 256);
        assert!(left_out.iter().all(is_largest) && !cases.iter().any(is_largest));
    }
}
