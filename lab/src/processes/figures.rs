//! The paper's figure (throughput by number of processes, with a line per discipline) and further
//! figures, as a page.

use super::report::{Failure, ProcessesReport, Row, label};
use crate::page::{
    Axis, Cell, Line, LineChart, LineStyle, Marker, Page, Scale, Table, escape, grouped, legend,
};

impl ProcessesReport {
    /// The report as a self-contained HTML page, with a chart for each engine.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The report as a self-contained HTML page.
fn page(report: &ProcessesReport) -> String {
    let lead = format!(
        "{}: {} messages of {} bytes in each process, {}, means of {} rounds.",
        report.machine,
        grouped(report.messages as u64),
        grouped(report.length as u64),
        report.cipher,
        report.rounds
    );
    let mut page = Page::new("Many processes that want one engine", &lead);
    for verdict in &report.verdicts {
        page.push(&format!("<p class=\"verdict\">{}</p>", escape(verdict)));
    }
    add_grids(&mut page, report);
    add_throughput(&mut page, report);
    add_others(&mut page, report);
    add_table(&mut page, report);
    add_method(&mut page, report);
    page.to_html()
}

fn add_grids(page: &mut Page, report: &ProcessesReport) {
    page.section("Which discipline wins where");
    page.text(
        "The share of the best discipline's throughput that each has, for each number of \
         processes. Where processes failed, it says how many.",
    );
    page.push(KEYS);
    page.push("<div id=\"winners\">");
    for engine in report.engines() {
        page.push(&grid(report, engine));
    }
    page.push("</div>");
}

/// A grid, dark where a discipline is best.
fn grid(report: &ProcessesReport, engine: &str) -> String {
    let counts = report.counts(engine);
    let head = counts.iter().map(|&count| grouped(count as u64));
    let head = std::iter::once("processes".to_owned()).chain(head).collect();
    let mut table = Table::new(label(engine), "grid", head);
    for (discipline, _) in STYLES {
        let cell = |&count: &usize| {
            let best = report.of(engine).filter(|row| row.processes == count);
            let best = best.map(|row| row.mb_per_s).fold(f64::MIN_POSITIVE, f64::max);
            match (report.row(engine, discipline, count), report.failure(engine, discipline, count))
            {
                (Some(row), _) => share(row.mb_per_s / best),
                (None, Some(failure)) => failed(failure),
                (None, None) => Cell::from("–".to_owned()),
            }
        };
        if report.has(engine, discipline) {
            table.row("", discipline, counts.iter().map(cell).collect());
        }
    }
    table.to_html()
}

fn share(share: f64) -> Cell {
    let class = match share {
        1.0.. => "first",
        0.95.. => "near",
        0.67.. => "half",
        0.5.. => "twice",
        _ => "slow",
    };
    let text = if share >= 1.0 { "★".to_owned() } else { format!("{share:.2}") };
    Cell { text, note: String::new(), class }
}

fn failed(failure: &Failure) -> Cell {
    let note = format!("{} of them", grouped(failure.failed as u64));
    Cell { text: "failed".to_owned(), note, class: "slow" }
}

fn add_throughput(page: &mut Page, report: &ProcessesReport) {
    page.section("Throughput against processes");
    let mut panels = charts(report, "MB/s, of all processes together", |row| row.mb_per_s);
    // The paper publishes only the figure's shape, not its values.
    panels.push(format!("<div class=\"absent\">{}</div>\n", escape(PUBLISHED)));
    let caption = "From the first process's creation to the end of the last. A discipline has no \
                   point where processes failed.";
    page.figure("throughput", &names(report), &panels, caption);
}

fn add_others(page: &mut Page, report: &ProcessesReport) {
    page.section("Context switches, waiting, fairness");
    let panels: Vec<String> = report
        .engines()
        .iter()
        .flat_map(|engine| OTHERS.iter().map(|(label, value)| chart(report, engine, label, *value)))
        .collect();
    page.figure("others", &names(report), &panels, OTHERS_CAPTION);
}

/// A chart for each engine.
fn charts(report: &ProcessesReport, label: &str, value: fn(&Row) -> f64) -> Vec<String> {
    let engines = report.engines();
    engines.into_iter().map(|engine| chart(report, engine, label, value)).collect()
}

fn chart(
    report: &ProcessesReport,
    engine: &str,
    value_name: &str,
    value: fn(&Row) -> f64,
) -> String {
    let line = |&(name, style): &(&str, LineStyle)| {
        let rows = report.of(engine).filter(|row| row.discipline == name);
        let mut points: Vec<(f64, f64)> =
            rows.map(|row| (row.processes as f64, value(row))).collect();
        points.sort_by(|one, other| one.0.total_cmp(&other.0));
        Line { name: name.to_owned(), style, points }
    };
    let ticks: Vec<f64> = report.counts(engine).iter().map(|&count| count as f64).collect();
    let covers = ticks.first().copied().zip(ticks.last().copied());
    let x = Axis { label: "processes".to_owned(), scale: Scale::Logarithmic, ticks, covers };
    let y = Axis {
        label: value_name.to_owned(),
        scale: Scale::Linear,
        ticks: Vec::new(),
        covers: Some((0.0, 0.0)),
    };
    let lines = STYLES.iter().map(line).filter(|line| !line.points.is_empty()).collect();
    LineChart { title: label(engine).to_owned(), x, y, lines }.to_svg()
}

fn names(report: &ProcessesReport) -> String {
    let is_there = |name: &str| report.engines().iter().any(|engine| report.has(engine, name));
    legend(STYLES.iter().filter(|(name, _)| is_there(name)).copied())
}

fn add_table(page: &mut Page, report: &ProcessesReport) {
    page.section("All figures");
    for engine in report.engines() {
        let head = [
            "processes",
            "gate",
            "MB/s",
            "±",
            "context switches",
            "wait, median",
            "99th percentile",
            "Jain's index",
        ];
        let mut table = Table::new(label(engine), "", head.map(str::to_owned).to_vec());
        for count in report.counts(engine) {
            for (discipline, _) in STYLES {
                let name = Cell::from((*discipline).to_owned());
                let cells = match report.row(engine, discipline, count) {
                    Some(row) => vec![
                        name,
                        format!("{:.1}", row.mb_per_s).into(),
                        format!("{:.1}", row.deviation).into(),
                        grouped(row.context_switches.round() as u64).into(),
                        format!("{:.1} ms", row.wait_ms_p50).into(),
                        format!("{:.1} ms", row.wait_ms_p99).into(),
                        format!("{:.3}", row.jain).into(),
                    ],
                    None => match report.failure(engine, discipline, count) {
                        Some(failure) => vec![name, failed(failure)],
                        None => continue,
                    },
                };
                table.row("", &grouped(count as u64), cells);
            }
        }
        page.push(&table.to_html());
    }
}

fn add_method(page: &mut Page, report: &ProcessesReport) {
    page.section("How it was measured");
    page.text(METHOD);
    for permits in &report.permits {
        let all = grouped(permits.permits as u64);
        let lists = grouped(permits.lists as u64);
        page.text(&format!(
            "{}: fifo admits {all} at once, lists {lists}.",
            label(&permits.engine)
        ));
    }
    for failure in &report.failures {
        page.text(&failure.to_string());
    }
    for skipped in &report.skipped {
        page.text(&format!("Skipped: {}: {}", label(&skipped.engine), skipped.why));
    }
}

/// The disciplines in the order of the figures; `none`, the rival, comes first.
const STYLES: &[(&str, LineStyle)] = &[
    ("none", LineStyle { colour: "#6b7280", dash: "2 3", width: 2.2, marker: Marker::Square }),
    ("lists", LineStyle { colour: "#0072b2", dash: "7 4", width: 2.2, marker: Marker::Triangle }),
    ("fifo", LineStyle { colour: "#c2410c", dash: "", width: 2.6, marker: Marker::Circle }),
];

/// A figure of each row: the axis's name and the value.
type Drawn = (&'static str, fn(&Row) -> f64);

/// The figures in addition to the throughput.
const OTHERS: &[Drawn] = &[
    ("context switches a process", |row| row.context_switches / row.processes as f64),
    ("ms at the gate, median", |row| row.wait_ms_p50),
    ("Jain's index", |row| row.jain),
];

const OTHERS_CAPTION: &str = "Context switches are voluntary and not; a wait at the gate is one. \
    Without a gate nobody waits there; everybody waits in the engine or for a core instead. \
    Jain's index is 1 when all processes were served at the same rate.";

const PUBLISHED: &str = "Published (Murakami et al., UltraSPARC T2): the paper's figure has no \
    table. It shows throughput that falls past about 500 processes with plain OCF and stays level \
    with FIFO admission through 64 control lists.";

const METHOD: &str = "All processes are forked by one, as fast as it can; each finds the engine, \
    passes the gate, opens a session, encrypts its messages one after the other and ends. \
    Throughput is all processes' bytes over the time from the first fork to the end of the last \
    process. Jain's index is of the rate at which each process was served: its bytes over the \
    time from its admission (without a gate, from when it would have come there) until its last \
    message was done. The disciplines take turns within each round.";

const KEYS: &str = "<ul class=\"keys\">\
    <li><span class=\"first\"></span>★ the best</li>\
    <li><span class=\"near\"></span>at least 0.95 of its throughput</li>\
    <li><span class=\"half\"></span>at least 0.67</li>\
    <li><span class=\"twice\"></span>at least 0.5</li>\
    <li><span class=\"slow\"></span>less, or processes failed</li></ul>";

#[cfg(test)]
mod tests {
    use super::super::report::tests::{report, row};
    use super::*;

    #[test]
    fn the_page_is_whole_and_has_figures_and_words() {
        let rows = ["none", "fifo"].map(|name| [row(name, 1, 100.0), row(name, 8, 100.0)]);
        let page = page(&report(rows.concat(), Vec::new()));
        for tag in ["html", "title", "style", "h1", "svg", "text", "p", "table", "figure"] {
            let opened = page.matches(&format!("<{tag}>")).count()
                + page.matches(&format!("<{tag} ")).count();
            assert_eq!(opened, page.matches(&format!("</{tag}>")).count(), "{tag}");
            assert!(opened > 0, "{tag}");
        }
        assert!(page.contains("&lt;engine&gt;: fifo makes no difference at 1 and 8"), "{page}");
        assert!(!page.contains("<engine>") && !page.contains("<script"));
    }

    #[test]
    fn every_discipline_has_its_line_and_its_colour() {
        let rows = vec![row("none", 1, 100.0), row("fifo", 1, 96.0), row("fifo", 8, 50.0)];
        let failures = vec![Failure {
            engine: "<engine>".to_owned(),
            discipline: "none",
            processes: 8,
            failed: 3,
            why: "no room".to_owned(),
        }];
        let report = report(rows, failures);
        let chart = charts(&report, "MB/s", |row| row.mb_per_s).concat();
        assert_eq!(chart.matches("<polyline").count(), 2);
        let grid = grid(&report, "<engine>");
        assert!(grid.contains("<td class=\"first\">★"), "{grid}");
        assert!(grid.contains("<td class=\"near\">0.96"), "{grid}");
        assert!(grid.contains("failed<small>3 of them</small>"), "{grid}");
    }
}
