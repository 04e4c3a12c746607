//! The papers' figures, redrawn beside the published ones.

use super::reference::{self, BOTH, Published};
use super::report::{PoliciesReport, Rows, Subject};
use super::{Row, summary, tables};
use crate::page::{Axis, Line, LineChart, LineStyle, Marker, Page, Scale, escape, grouped, legend};

impl PoliciesReport {
    /// The report as a self-contained HTML page.
    pub fn to_html(&self) -> String {
        page(self)
    }
}

/// The report as a self-contained HTML page.
fn page(report: &PoliciesReport) -> String {
    let subjects = report.subjects();
    let Some(first) = subjects.first() else {
        let mut page = Page::new(&report.title, "Nothing was measured.");
        add_facts(&mut page, report);
        return page.to_html();
    };
    let main = subjects.iter().find(|subject| is_encryption(subject)).unwrap_or(first);
    let rows = report.of(main);
    let lead = format!("{main}: {}. Less time is better.", tables::counted(&rows));
    let mut page = Page::new(&report.title, &lead);
    page.push(&format!("<p class=\"verdict\">{}</p>", escape(summary::verdict(&rows))));
    add_grids(&mut page, report, &subjects);
    add_time(&mut page, main, &rows);
    add_crossover(&mut page, main, &rows);
    add_files(&mut page, main, &rows);
    add_decryption(&mut page, report, main);
    add_key_lengths(&mut page, report, main);
    page.section("The papers' tables");
    tables::add_to(&mut page, report);
    add_facts(&mut page, report);
    page.to_html()
}

fn add_grids(page: &mut Page, report: &PoliciesReport, subjects: &[Subject]) {
    page.section("Which policy wins where");
    page.text(
        "How many times as long as the fastest policy each takes, for files of each size. A \
         policy that never loses has a dark line all the way.",
    );
    page.push(summary::KEYS);
    page.push("<div id=\"winners\">");
    for subject in subjects {
        page.push(&summary::grid(&report.of(subject), &subject.to_string()));
    }
    page.push("</div>");
}

fn add_time(page: &mut Page, subject: &Subject, rows: &Rows<'_>) {
    page.section("Time against size");
    let published = reference::published(subject);
    let chart = |title: &str, rows: &Rows<'_>| time_chart(title, rows, Scale::Logarithmic).to_svg();
    let panels = beside(&published, chart("here", rows), |title, rows| chart(title, rows));
    let caption = "Time for all files of a size; both axes are logarithmic.";
    page.figure("time", &policies_legend(rows, &published), &panels, caption);
}

/// Adds the figure of the sizes around the crossover, above which the module alone is faster than
/// the CPU alone.
fn add_crossover(page: &mut Page, subject: &Subject, rows: &Rows<'_>) {
    page.section("Around the crossover");
    let Some(crossover) = crossover(rows) else {
        page.text(
            "There is none: at all sizes the processor alone is faster than the module alone, or \
             at all sizes slower, or one of them was not measured.",
        );
        return;
    };
    let published = reference::published(subject);
    let chart = |title: &str, rows: &Rows<'_>| {
        let near = crossover_rows(rows);
        time_chart(title, &near, Scale::Linear).to_svg()
    };
    let panels = beside(&published, chart("here", rows), |title, rows| chart(title, rows));
    let caption = format!(
        "Here the module alone overtakes the processor alone at about {} bytes. Both axes are \
         linear.",
        grouped(crossover.round() as u64)
    );
    page.figure("crossover", &policies_legend(rows, &published), &panels, &caption);
}

fn add_files(page: &mut Page, subject: &Subject, rows: &Rows<'_>) {
    page.section("Files taken by the module");
    // The 2013 paper has no such figures.
    let published = reference::published(subject)
        .filter(|published| published.rows.iter().any(|row| row.files_module > 0.0));
    let chart = |title: &str, rows: &Rows<'_>| {
        let share = |row: &Row| 100.0 * row.files_module / (row.files_cpu + row.files_module);
        let lines = lines(rows, share);
        let lines = lines.into_iter().filter(|line| !line.name.ends_with("-only")).collect();
        let y = Axis {
            label: "files done by the module, %".to_owned(),
            scale: Scale::Linear,
            ticks: vec![0.0, 20.0, 40.0, 60.0, 80.0, 100.0],
            covers: Some((0.0, 100.0)),
        };
        LineChart { title: title.to_owned(), x: size_axis(rows), y, lines }.to_svg()
    };
    let panels = beside(&published, chart("here", rows), |title, rows| chart(title, rows));
    let caption = "The rest is done by the processor. Where the module costs more processor time \
                   than the encryption itself, every file that it gets is a loss.";
    page.figure("files", &policies_legend(rows, &published), &panels, caption);
}

fn add_decryption(page: &mut Page, report: &PoliciesReport, main: &Subject) {
    page.section("Decryption");
    let subject = Subject { direction: "decrypt".to_owned(), ..main.clone() };
    let rows = report.of(&subject);
    if rows.0.is_empty() {
        page.text("It was not measured.");
        return;
    }
    let encryption = report.of(main);
    let covers = span(rows.0.iter().chain(&encryption.0).map(|row| row.ms_median));
    let chart = |title: &str, rows: &Rows<'_>| {
        let mut chart = time_chart(title, rows, Scale::Logarithmic);
        chart.y.covers = covers;
        chart.to_svg()
    };
    let panels = [chart("decryption", &rows), chart("encryption", &encryption)];
    let panels = if main.direction == "decrypt" { &panels[..1] } else { &panels[..] };
    let caption = format!("{} {} The papers give no times for it.", subject, "beside encryption.");
    page.figure("decryption", &policies_legend(&rows, &None), panels, &caption);
}

fn add_key_lengths(page: &mut Page, report: &PoliciesReport, main: &Subject) {
    page.section("Key lengths");
    let of_family: Vec<Subject> = report
        .subjects()
        .into_iter()
        .filter(|subject| {
            family(&subject.cipher) == family(&main.cipher) && subject.direction == main.direction
        })
        .collect();
    if of_family.len() < 2 {
        page.text("One was measured.");
        return;
    }
    let styles = [Marker::Circle, Marker::Square, Marker::Triangle].into_iter().zip([
        ("#0072b2", ""),
        ("#d55e00", "7 4"),
        ("#111", "2 3"),
    ]);
    let styles =
        styles.map(|(marker, (colour, dash))| LineStyle { colour, dash, width: 2.0, marker });
    let keyed: Vec<(&Subject, LineStyle)> = of_family.iter().zip(styles).collect();
    let times = of_family.iter().flat_map(|subject| report.of(subject).0);
    let covers = span(times.map(|row| row.ms_median));
    let mut panels = Vec::new();
    for policy in report.of(main).policies() {
        if !matches!(policy, "cpu-only" | "module-only" | "pull" | "adaptive") {
            continue;
        }
        let line = |(subject, style): &(&Subject, LineStyle)| Line {
            name: subject.cipher.clone(),
            style: *style,
            points: points(&report.of(subject).by_size(policy), |row| row.ms_median),
        };
        let x = size_axis(&report.of(main));
        let mut y = time_axis(Scale::Logarithmic);
        y.covers = covers;
        let lines = keyed.iter().map(line).collect();
        panels.push(LineChart { title: policy.to_owned(), x, y, lines }.to_svg());
    }
    let names = keyed.iter().map(|(subject, style)| (subject.cipher.as_str(), *style));
    let caption = "One policy a picture, one key length a line.";
    page.figure("key-lengths", &legend(names), &panels, caption);

    let published = reference::of_2013();
    let rows = Rows(published.rows.iter().collect());
    let long = Subject { cipher: "aes-256-cbc".to_owned(), direction: "encrypt".to_owned() };
    let ours = report.of(&long);
    if !ours.0.is_empty() {
        let chart = |title: &str, rows: &Rows<'_>| time_chart(title, rows, Scale::Logarithmic);
        let panels = [
            chart("aes-256-cbc encrypt, here", &ours).to_svg(),
            chart(&format!("aes-256-cbc encrypt, {}", published.source), &rows).to_svg(),
        ];
        let caption = "The 2013 paper's sizes are its own: 5 to 7,168 bytes.";
        page.figure("aes-256", &policies_legend(&ours, &Some(published)), &panels, caption);
    }
}

fn add_facts(page: &mut Page, report: &PoliciesReport) {
    page.section("How this was made");
    let facts = report
        .facts
        .iter()
        .map(|(name, fact)| format!("<dt>{}</dt><dd>{}</dd>\n", escape(name), escape(fact)));
    page.push(&format!("<dl>\n{}</dl>", facts.collect::<String>()));
    for skipped in &report.skipped {
        page.text(&format!("Skipped: {skipped}"));
    }
}

/// Our panel and, if any, the published one.
fn beside(
    published: &Option<Published>,
    ours: String,
    draw: impl Fn(&str, &Rows<'_>) -> String,
) -> Vec<String> {
    let theirs = published.as_ref().map(|published| {
        let title = format!("published: {}", published.source);
        draw(&title, &Rows(published.rows.iter().collect()))
    });
    let none = || "<div class=\"absent\">Nothing was published for this.</div>\n".to_owned();
    vec![ours, theirs.unwrap_or_else(none)]
}

fn time_chart(title: &str, rows: &Rows<'_>, scale: Scale) -> LineChart {
    let x = match scale {
        Scale::Logarithmic => size_axis(rows),
        Scale::Linear => Axis { scale, ticks: Vec::new(), ..size_axis(rows) },
    };
    let lines = lines(rows, |row| row.ms_median);
    LineChart { title: title.to_owned(), x, y: time_axis(scale), lines }
}

fn size_axis(rows: &Rows<'_>) -> Axis {
    let ticks = rows.sizes().into_iter().map(|bytes| bytes as f64).collect();
    let label = "file size, bytes".to_owned();
    Axis { label, scale: Scale::Logarithmic, ticks, covers: None }
}

fn time_axis(scale: Scale) -> Axis {
    let covers = (scale == Scale::Linear).then_some((0.0, 0.0));
    Axis { label: "time, ms".to_owned(), scale, ticks: Vec::new(), covers }
}

fn lines(rows: &Rows<'_>, figure: impl Fn(&Row) -> f64) -> Vec<Line> {
    let line = |policy: &str| Line {
        name: policy.to_owned(),
        style: style(policy),
        points: points(&rows.by_size(policy), &figure),
    };
    rows.policies().into_iter().map(line).collect()
}

fn points(rows: &[&Row], figure: impl Fn(&Row) -> f64) -> Vec<(f64, f64)> {
    rows.iter().map(|row| (row.bytes as f64, figure(row))).collect()
}

fn policies_legend(rows: &Rows<'_>, published: &Option<Published>) -> String {
    let mut names = rows.policies();
    for row in published.iter().flat_map(|published| &published.rows) {
        if !names.contains(&row.policy.as_str()) {
            names.push(&row.policy);
        }
    }
    legend(names.into_iter().map(|name| (name, style(name))))
}

/// The style of a policy, the same in every figure. The colours are those of Okabe and Ito, for
/// colour-blind readers.
fn style(policy: &str) -> LineStyle {
    let (colour, dash, width, marker) = match policy {
        "cpu-only" => ("#0072b2", "", 2.0, Marker::Circle),
        "module-only" => ("#e69f00", "", 2.0, Marker::Square),
        "round-robin" => ("#757575", "5 4", 2.0, Marker::Triangle),
        "polling" => ("#cc79a7", "2 3", 2.0, Marker::Diamond),
        "pull" => ("#009e73", "9 3", 2.0, Marker::Cross),
        BOTH => ("#009e73", "", 2.0, Marker::Diamond),
        _ => ("#111", "", 3.2, Marker::Star),
    };
    LineStyle { colour, dash, width, marker }
}

/// The size at which the lines of the two engines alone cross, if they do.
fn crossover(rows: &Rows<'_>) -> Option<f64> {
    let ahead = |bytes: usize| {
        let (cpu, module) = (rows.find("cpu-only", bytes)?, rows.find("module-only", bytes)?);
        Some((bytes as f64, cpu.ms_median - module.ms_median))
    };
    let aheads: Vec<_> = rows.sizes().into_iter().filter_map(ahead).collect();
    // The last crossing: noise makes lines that are close together cross more than once.
    aheads.windows(2).rev().find_map(|pair| match *pair {
        [(from, before), (to, after)] if before < 0.0 && after >= 0.0 => {
            Some(from + (to - from) * before / (before - after))
        }
        _ => None,
    })
}

/// The rows with sizes near the crossover: within a factor of two and a half, and at least two on
/// each side of it.
fn crossover_rows<'a>(rows: &Rows<'a>) -> Rows<'a> {
    let Some(at) = crossover(rows) else { return Rows(Vec::new()) };
    let sizes = rows.sizes();
    let above = sizes.partition_point(|&bytes| (bytes as f64) < at);
    let least = sizes.get(above.saturating_sub(2)).map_or(0.0, |&bytes| bytes as f64);
    let most = sizes.get(above + 1).or(sizes.last()).map_or(at, |&bytes| bytes as f64);
    let near = least.min(at / 2.5)..=most.max(at * 2.5);
    Rows(rows.0.iter().filter(|row| near.contains(&(row.bytes as f64))).copied().collect())
}

/// Returns `aes-cbc` for `aes-128-cbc`.
fn family(cipher: &str) -> String {
    let parts: Vec<_> = cipher.split('-').filter(|part| part.parse::<u32>().is_err()).collect();
    parts.join("-")
}

fn is_encryption(subject: &Subject) -> bool {
    subject.direction == "encrypt"
}

fn span(values: impl Iterator<Item = f64>) -> Option<(f64, f64)> {
    let widen = |span: Option<(f64, f64)>, value: f64| match span {
        None => Some((value, value)),
        Some((least, most)) => Some((least.min(value), most.max(value))),
    };
    values.fold(None, widen)
}

#[cfg(test)]
mod tests {
    use super::super::report::tests::row;
    use super::*;

    fn report() -> PoliciesReport {
        let mut report = PoliciesReport::new("<board>", vec![("Machine".into(), "m & m".into())]);
        for cipher in ["aes-128-cbc", "aes-256-cbc"] {
            for direction in ["encrypt", "decrypt"] {
                for (policy, start, slope) in
                    [("cpu-only", 1.0, 2.0), ("module-only", 50.0, 1.0), ("pull", 2.0, 1.0)]
                {
                    report.rows.extend([8, 16, 64, 256].map(|bytes| Row {
                        cipher: cipher.to_owned(),
                        direction: direction.to_owned(),
                        ..row(policy, bytes, start + slope * bytes as f64)
                    }));
                }
            }
        }
        report
    }

    #[test]
    fn the_page_has_every_figure() {
        let html = page(&report());
        for figure in ["time", "crossover", "files", "decryption", "key-lengths", "aes-256"] {
            assert!(html.contains(&format!("<figure id=\"{figure}\">")), "{figure}");
        }
        assert!(html.contains("id=\"winners\"") && html.contains("&lt;board&gt;"));
        assert!(html.contains("about 49 bytes") && html.contains("Kaneko, Saito, Kikuchi 2015"));
        assert!(!html.contains("NaN") && !html.contains("<script"));
    }

    #[test]
    fn what_was_not_measured_is_said() {
        let mut report = PoliciesReport::new("", Vec::new());
        assert!(page(&report).contains("Nothing was measured"));
        report.rows = vec![row("pull", 8, 0.0)];
        let html = page(&report);
        assert!(html.contains("It was not measured") && html.contains("There is none"));
        assert!(!html.contains("NaN"));
    }

    #[test]
    fn the_crossover_is_between_the_points() {
        let published = reference::of_2015().rows;
        let rows = Rows(published.iter().collect());
        let at = crossover(&rows).unwrap();
        assert!((4096.0..8192.0).contains(&at), "{at}");
        assert_eq!(crossover_rows(&rows).sizes(), [1024, 4096, 8192, 16_384]);
        assert_eq!(family("aes-128-cbc"), family("aes-256-cbc"));
    }
}
