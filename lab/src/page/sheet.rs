//! Charts on a sheet, as a stand-alone SVG document.

use std::fmt::{self, Write};

use super::lines::{HEIGHT, LineChart, LineStyle, WIDTH, text};

/// Charts, two per row, with a legend below.
pub(crate) struct Sheet {
    pub(crate) title: String,
    pub(crate) subtitle: String,
    pub(crate) charts: Vec<LineChart>,
    /// The legend of all charts.
    pub(crate) legend: Vec<(String, LineStyle)>,
}

impl Sheet {
    /// The sheet as an SVG document.
    pub(crate) fn to_svg(&self) -> String {
        let mut svg = String::new();
        // Writing to a string can't fail.
        let _ = self.draw(&mut svg);
        svg
    }

    fn draw(&self, svg: &mut String) -> fmt::Result {
        let bottom = HEAD + HEIGHT * self.charts.len().div_ceil(2) as f64;
        let height = bottom + ENTRY * self.legend.len() as f64 + MARGIN;
        let width = 2.0 * WIDTH;
        writeln!(
            svg,
            "<svg xmlns=\"http://www.w3.org/2000/svg\" viewBox=\"0 0 {width} {height}\" \
             width=\"{width}\" height=\"{height}\" font-family=\"sans-serif\" font-size=\"13\">\n\
             <rect width=\"100%\" height=\"100%\" fill=\"white\"/>"
        )?;
        text(svg, (MARGIN, 26.0), "font-size=\"17\" font-weight=\"bold\"", &self.title)?;
        text(svg, (MARGIN, 46.0), "fill=\"#555\"", &self.subtitle)?;
        for (number, chart) in self.charts.iter().enumerate() {
            let (left, top) = ((number % 2) as f64 * WIDTH, (number / 2) as f64 * HEIGHT + HEAD);
            writeln!(svg, "<g transform=\"translate({left} {top})\">")?;
            chart.draw_inside(svg)?;
            writeln!(svg, "</g>")?;
        }
        for (number, (name, style)) in self.legend.iter().enumerate() {
            let y = bottom + ENTRY * (number as f64 + 0.5);
            let sample = [MARGIN, MARGIN + 20.0, MARGIN + 40.0].map(|x| (x, y));
            style.draw(svg, &sample, |at| at == 1)?;
            text(svg, (MARGIN + 50.0, y + 4.5), "", name)?;
        }
        writeln!(svg, "</svg>")
    }
}

/// The room for the title.
const HEAD: f64 = 60.0;
/// The height of a line of the legend.
const ENTRY: f64 = 20.0;
const MARGIN: f64 = 16.0;
