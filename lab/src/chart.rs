//! Bar charts of ratios, as SVG.
//!
//! The scale is logarithmic and shared by all panels. Bars start at the line of the reference,
//! ratio 1: faster is to the left, slower to the right.

use std::fmt::{self, Write};

use crate::page::text;

/// A chart.
pub(crate) struct Chart {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    /// The meaning of ratio 1.
    pub(crate) reference: String,
    pub(crate) panels: Vec<Panel>,
}

/// Bars under one heading.
pub(crate) struct Panel {
    pub(crate) title: String,
    pub(crate) bars: Vec<Bar>,
}

/// One ratio.
pub(crate) struct Bar {
    pub(crate) label: String,
    /// Greater than 0.
    pub(crate) value: f64,
    pub(crate) emphasised: bool,
}

impl Chart {
    /// The chart as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let mut svg = String::new();
        // Writing to a string can't fail.
        let _ = self.draw(&mut svg);
        svg
    }

    fn draw(&self, svg: &mut String) -> fmt::Result {
        let scale = Scale::of(self.panels.iter().flat_map(|panel| &panel.bars));
        let rows: usize = self.panels.iter().map(|panel| panel.bars.len()).sum();
        let height = TOP + PANEL_HEAD * self.panels.len() as f64 + ROW * rows as f64 + 40.0;
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {WIDTH} {height}\" \
             width=\"{WIDTH}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"12\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        )?;
        text(svg, (16.0, 26.0), "font-size=\"16\" font-weight=\"bold\"", &self.title)?;
        text(svg, (16.0, 46.0), "font-size=\"11\" fill=\"#555\"", &self.subtitle)?;

        let mut y = TOP;
        for panel in &self.panels {
            text(svg, (16.0, y + 18.0), "font-weight=\"bold\"", &panel.title)?;
            y += PANEL_HEAD;
            scale.draw_lines(svg, y, y + ROW * panel.bars.len() as f64)?;
            for bar in &panel.bars {
                bar.draw(svg, &scale, y)?;
                y += ROW;
            }
        }
        for tick in scale.ticks() {
            let name = if tick == 1.0 { self.reference.clone() } else { format!("{tick}×") };
            let style = "text-anchor=\"middle\" fill=\"#555\"";
            text(svg, (scale.x(tick), y + 18.0), style, &name)?;
        }
        svg.push_str("</svg>\n");
        Ok(())
    }
}

impl Bar {
    fn draw(&self, svg: &mut String, scale: &Scale, y: f64) -> fmt::Result {
        let (one, end) = (scale.x(1.0), scale.x(self.value));
        let (left, width) = (one.min(end), (end - one).abs());
        let colour = if self.emphasised { "#c2410c" } else { "#94a3b8" };
        let middle = y + ROW / 2.0 + 4.0;
        text(svg, (LEFT - 8.0, middle), "text-anchor=\"end\"", &self.label)?;
        writeln!(
            svg,
            "<rect x=\"{left:.1}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\" fill=\"{colour}\"/>",
            y + 2.0,
            ROW - 4.0
        )?;
        let value = format!("{:.2}", self.value);
        text(svg, (left + width + 6.0, middle), "font-size=\"11\" fill=\"#333\"", &value)
    }
}

/// Maps ratios to positions on the page.
struct Scale {
    least: f64,
    most: f64,
}

impl Scale {
    /// A scale that covers all bars, and from half to twice the reference.
    fn of<'a>(bars: impl Iterator<Item = &'a Bar>) -> Scale {
        let finite = bars.map(|bar| bar.value).filter(|value| value.is_finite() && *value > 0.0);
        finite.fold(Scale { least: 0.5, most: 2.0 }, |scale, value| Scale {
            least: scale.least.min(value * 0.9),
            most: scale.most.max(value * 1.1),
        })
    }

    fn x(&self, value: f64) -> f64 {
        let share = (value / self.least).ln() / (self.most / self.least).ln();
        LEFT + share.clamp(0.0, 1.0) * (RIGHT - LEFT)
    }

    /// Draws a line at each tick; the reference's is dark.
    fn draw_lines(&self, svg: &mut String, top: f64, bottom: f64) -> fmt::Result {
        for tick in self.ticks() {
            let x = self.x(tick);
            let stroke = if tick == 1.0 { "#222" } else { "#ddd" };
            writeln!(
                svg,
                "<line x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{top}\" y2=\"{bottom}\" stroke=\"{stroke}\"/>"
            )?;
        }
        Ok(())
    }

    /// Returns 1, 2 and 5 in every decade of the scale.
    fn ticks(&self) -> Vec<f64> {
        const TICKS: [f64; 16] = [
            0.01, 0.02, 0.05, 0.1, 0.2, 0.5, 1.0, 2.0, 5.0, 10.0, 20.0, 50.0, 100.0, 200.0, 500.0,
            1000.0,
        ];
        TICKS.into_iter().filter(|tick| (self.least..=self.most).contains(tick)).collect()
    }
}

const WIDTH: f64 = 900.0;
/// Left and right edge of the bars' area; the numbers are to its right.
const LEFT: f64 = 190.0;
const RIGHT: f64 = WIDTH - 70.0;
const TOP: f64 = 60.0;
const PANEL_HEAD: f64 = 28.0;
const ROW: f64 = 20.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn bar(value: f64) -> Bar {
        Bar { label: "a < b & c".to_owned(), value, emphasised: false }
    }

    #[test]
    fn the_reference_divides_fast_from_slow() {
        let scale = Scale::of([bar(0.25), bar(40.0)].iter());
        assert!(scale.x(0.25) < scale.x(1.0) && scale.x(1.0) < scale.x(40.0));
        assert!(scale.ticks().contains(&1.0) && scale.ticks().contains(&20.0));
        assert_eq!(scale.x(0.0), LEFT);
    }

    #[test]
    fn text_is_escaped() {
        let panels = vec![Panel { title: "small".to_owned(), bars: vec![bar(3.0)] }];
        let (title, subtitle) = ("title".to_owned(), String::new());
        let svg = Chart { title, subtitle, reference: "cp".to_owned(), panels }.to_svg();
        assert!(svg.contains("a &lt; b &amp; c") && svg.ends_with("</svg>\n"), "{svg}");
    }
}
