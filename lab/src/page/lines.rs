//! Line charts, as SVG.

use std::fmt::{self, Write};

use super::{escape, grouped};

/// Lines over common axes.
pub(crate) struct LineChart {
    pub(crate) title: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) lines: Vec<Line>,
}

/// An axis.
#[derive(Clone)]
pub(crate) struct Axis {
    /// The label, with the unit.
    pub(crate) label: String,
    pub(crate) scale: Scale,
    /// The marked values; empty to choose round numbers.
    pub(crate) ticks: Vec<f64>,
    /// Its least range; the points may extend it.
    pub(crate) covers: Option<(f64, f64)>,
}

/// The mapping of values to positions.
#[derive(Clone, Copy, Debug, PartialEq, Eq)]
pub(crate) enum Scale {
    Linear,
    /// For values above 0; other values are not drawn.
    Logarithmic,
}

/// A line through points, each of which is marked.
#[derive(Clone)]
pub(crate) struct Line {
    pub(crate) name: String,
    pub(crate) style: LineStyle,
    /// The points, in order of x.
    pub(crate) points: Vec<(f64, f64)>,
}

/// The style of a line. Lines differ in more than their colour, for colour-blind readers.
#[derive(Clone, Copy)]
pub(crate) struct LineStyle {
    pub(crate) colour: &'static str,
    /// The dash pattern, as in SVG's `stroke-dasharray`; empty for a solid line.
    pub(crate) dash: &'static str,
    pub(crate) width: f64,
    pub(crate) marker: Marker,
}

/// The marker of a point.
#[derive(Clone, Copy)]
pub(crate) enum Marker {
    Circle,
    Square,
    Triangle,
    Diamond,
    Cross,
    Star,
}

/// The legend of a figure's charts, as HTML.
pub(crate) fn legend<'a>(lines: impl IntoIterator<Item = (&'a str, LineStyle)>) -> String {
    let mut html = String::from("<ul class=\"legend\">\n");
    for (name, style) in lines {
        html.push_str("<li><svg viewBox=\"0 0 40 16\" aria-hidden=\"true\">");
        // Writing to a string can't fail.
        let _ = style.draw(&mut html, &[(1.0, 8.0), (20.0, 8.0), (39.0, 8.0)], |at| at == 1);
        let _ = writeln!(html, "</svg>{}</li>", escape(name));
    }
    html + "</ul>"
}

impl LineChart {
    /// The chart as an SVG element.
    pub(crate) fn to_svg(&self) -> String {
        let mut svg = String::new();
        let _ = self.draw(&mut svg);
        svg
    }

    fn draw(&self, svg: &mut String) -> fmt::Result {
        let names: Vec<_> = self.lines.iter().map(|line| line.name.as_str()).collect();
        writeln!(
            svg,
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{}: {}\" \
             font-size=\"13\">",
            escape(&self.title),
            escape(names.join(", "))
        )?;
        self.draw_inside(svg)?;
        svg.write_str("</svg>\n")
    }

    /// Draws all of the chart but its frame, from the origin to [`WIDTH`] and [`HEIGHT`].
    pub(super) fn draw_inside(&self, svg: &mut String) -> fmt::Result {
        let points = || self.lines.iter().flat_map(|line| line.points.iter().copied());
        let x = Place::new(&self.x, points().map(|(x, _)| x), LEFT, WIDTH - RIGHT);
        let y = Place::new(&self.y, points().map(|(_, y)| y), HEIGHT - BOTTOM, TOP);
        text(svg, (LEFT, 20.0), "font-size=\"15\" font-weight=\"600\"", &self.title)?;
        self.draw_axes(svg, &x, &y)?;
        for line in &self.lines {
            let seen: Vec<_> =
                line.points.iter().filter(|(at, value)| x.shows(*at) && y.shows(*value)).collect();
            let places: Vec<_> =
                seen.iter().map(|(at, value)| (x.place(*at), y.place(*value))).collect();
            line.style.draw(svg, &places, |_| true)?;
            for (&&(at, value), (left, top)) in seen.iter().zip(places) {
                writeln!(
                    svg,
                    "<circle cx=\"{left:.1}\" cy=\"{top:.1}\" r=\"9\" fill=\"transparent\">\
                     <title>{}, {}: {}</title></circle>",
                    escape(&line.name),
                    number(at),
                    number(value)
                )?;
            }
        }
        Ok(())
    }

    fn draw_axes(&self, svg: &mut String, x: &Place, y: &Place) -> fmt::Result {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for &tick in &y.ticks {
            let at = y.place(tick);
            rule(svg, (LEFT, at), (right, at), "#dedede")?;
            text(svg, (LEFT - 8.0, at + 4.5), "text-anchor=\"end\"", &number(tick))?;
        }
        let mut free = WIDTH;
        for &tick in x.ticks.iter().rev() {
            let at = x.place(tick);
            let name = number(tick);
            // A label that would overlap the next one is left out. A digit is about 8 wide.
            let half = name.len() as f64 * 4.0;
            rule(svg, (at, TOP), (at, bottom), "#efefef")?;
            rule(svg, (at, bottom), (at, bottom + 5.0), "#555")?;
            if at + half <= free {
                text(svg, (at, bottom + 20.0), "text-anchor=\"middle\"", &name)?;
                free = at - half - 4.0;
            }
        }
        rule(svg, (LEFT, bottom), (right, bottom), "#555")?;
        rule(svg, (LEFT, TOP), (LEFT, bottom), "#555")?;
        let middle = (LEFT + right) / 2.0;
        text(svg, (middle, HEIGHT - 6.0), "text-anchor=\"middle\"", &self.x.label)?;
        text(svg, (LEFT, TOP - 10.0), "fill=\"#404040\"", &self.y.label)
    }
}

impl LineStyle {
    /// Draws a line through places, and marks those for whose number `is_marked` is true.
    pub(super) fn draw(
        &self,
        svg: &mut String,
        places: &[(f64, f64)],
        is_marked: impl Fn(usize) -> bool,
    ) -> fmt::Result {
        let LineStyle { colour, dash, width, marker } = *self;
        let joined: Vec<_> = places.iter().map(|(x, y)| format!("{x:.1},{y:.1}")).collect();
        let dash = match dash {
            "" => String::new(),
            dash => format!(" stroke-dasharray=\"{dash}\""),
        };
        writeln!(
            svg,
            "<polyline points=\"{}\" fill=\"none\" stroke=\"{colour}\" stroke-width=\"{width}\" \
             stroke-linejoin=\"round\"{dash}/>",
            joined.join(" ")
        )?;
        let marked = places.iter().enumerate().filter(|(index, _)| is_marked(*index));
        for (_, &(x, y)) in marked {
            let shape = marker.path(x, y, 2.6 + width);
            writeln!(
                svg,
                "<path d=\"{shape}\" fill=\"{colour}\" stroke=\"#fff\" stroke-width=\"0.8\"/>"
            )?;
        }
        Ok(())
    }
}

impl Marker {
    /// A closed path around a place.
    fn path(self, x: f64, y: f64, r: f64) -> String {
        let polygon = |corners: &[(f64, f64)]| {
            let corners: Vec<_> = corners
                .iter()
                .map(|(right, down)| format!("{:.1},{:.1}", x + r * right, y + r * down))
                .collect();
            format!("M{}Z", corners.join("L"))
        };
        match self {
            Marker::Circle => {
                format!(
                    "M{:.1},{y:.1}a{r:.1},{r:.1} 0 1,0 {:.1},0a{r:.1},{r:.1} 0 1,0 -{:.1},0Z",
                    x - r,
                    2.0 * r,
                    2.0 * r
                )
            }
            Marker::Square => polygon(&[(-0.9, -0.9), (0.9, -0.9), (0.9, 0.9), (-0.9, 0.9)]),
            Marker::Triangle => polygon(&[(0.0, -1.2), (1.1, 0.8), (-1.1, 0.8)]),
            Marker::Diamond => polygon(&[(0.0, -1.3), (1.0, 0.0), (0.0, 1.3), (-1.0, 0.0)]),
            Marker::Cross => {
                let (a, b) = (0.4, 1.2);
                polygon(&[
                    (-b, -a),
                    (-a, -a),
                    (-a, -b),
                    (a, -b),
                    (a, -a),
                    (b, -a),
                    (b, a),
                    (a, a),
                    (a, b),
                    (-a, b),
                    (-a, a),
                    (-b, a),
                ])
            }
            Marker::Star => {
                let corner = |number: i32| {
                    let angle = std::f64::consts::PI * (f64::from(number) / 5.0 - 0.5);
                    let far = if number % 2 == 0 { 1.45 } else { 0.65 };
                    (far * angle.cos(), far * angle.sin())
                };
                polygon(&(0..10).map(corner).collect::<Vec<_>>())
            }
        }
    }
}

/// Maps the values of an axis to positions on the page.
struct Place {
    scale: Scale,
    least: f64,
    most: f64,
    from: f64,
    to: f64,
    ticks: Vec<f64>,
}

impl Place {
    fn new(axis: &Axis, values: impl Iterator<Item = f64>, from: f64, to: f64) -> Place {
        let scale = axis.scale;
        let fits = |value: &f64| value.is_finite() && (scale == Scale::Linear || *value > 0.0);
        let covers = axis.covers.map(|(least, most)| [least, most]).into_iter().flatten();
        let (mut least, mut most) = values
            .chain(covers)
            .filter(fits)
            .fold((f64::MAX, f64::MIN), |(least, most), value| (least.min(value), most.max(value)));
        if least > most {
            (least, most) = (1.0, 10.0);
        }
        let mut ticks = axis.ticks.clone();
        if ticks.is_empty() {
            match scale {
                Scale::Linear => {
                    let step = round_step((most - least).max(f64::MIN_POSITIVE) / 5.0);
                    least = (least / step).floor() * step;
                    most = (most / step).ceil() * step;
                    let count = ((most - least) / step).round() as u32;
                    ticks.extend((0..=count).map(|number| least + step * f64::from(number)));
                }
                Scale::Logarithmic => {
                    let decades = least.log10().floor() as i32..=most.log10().ceil() as i32;
                    // 1, 2 and 5 of each decade, if there is room for their labels.
                    let is_wide = most / least > 2e3;
                    let steps: &[f64] = if is_wide { &[1.0] } else { &[1.0, 2.0, 5.0] };
                    let all = decades
                        .flat_map(|power| steps.iter().map(move |step| step * 10_f64.powi(power)));
                    let all: Vec<f64> = all.collect();
                    least = all.iter().copied().rfind(|tick| *tick <= least).unwrap_or(least);
                    most = all.iter().copied().find(|tick| *tick >= most).unwrap_or(most);
                    ticks.extend(all.into_iter().filter(|tick| (least..=most).contains(tick)));
                }
            }
        }
        if least == most {
            (least, most) = (least * 0.5, most * 2.0 + f64::MIN_POSITIVE);
        }
        Place { scale, least, most, from, to, ticks }
    }

    fn shows(&self, value: f64) -> bool {
        // Values may exceed the bounds by rounding.
        let margin = (self.most - self.least) * 1e-9;
        (self.least - margin..=self.most + margin).contains(&value)
    }

    fn place(&self, value: f64) -> f64 {
        let share = match self.scale {
            Scale::Linear => (value - self.least) / (self.most - self.least),
            Scale::Logarithmic => (value / self.least).ln() / (self.most / self.least).ln(),
        };
        self.from + share * (self.to - self.from)
    }
}

/// 1, 2 or 5 times a power of ten, at least `step`.
fn round_step(step: f64) -> f64 {
    let power = 10_f64.powf(step.log10().floor());
    let digit = [1.0, 2.0, 5.0].into_iter().find(|digit| digit * power >= step * 0.999);
    digit.unwrap_or(10.0) * power
}

/// Formats a value with three significant figures, or all of its digits before the point.
fn number(value: f64) -> String {
    let text = match value.abs() {
        large if large >= 100.0 => return grouped(value.round() as u64),
        middle if middle >= 10.0 => format!("{value:.1}"),
        small if small >= 1.0 => format!("{value:.2}"),
        _ => format!("{value:.3}"),
    };
    match text.contains('.') {
        true => text.trim_end_matches('0').trim_end_matches('.').to_owned(),
        false => text,
    }
}

/// Adds text at a place, with further attributes.
pub(crate) fn text(svg: &mut String, (x, y): (f64, f64), style: &str, words: &str) -> fmt::Result {
    writeln!(svg, "<text x=\"{x:.1}\" y=\"{y:.1}\" {style}>{}</text>", escape(words))
}

fn rule(svg: &mut String, from: (f64, f64), to: (f64, f64), colour: &str) -> fmt::Result {
    let ((x1, y1), (x2, y2)) = (from, to);
    writeln!(
        svg,
        "<line x1=\"{x1:.1}\" y1=\"{y1:.1}\" x2=\"{x2:.1}\" y2=\"{y2:.1}\" stroke=\"{colour}\"/>"
    )
}

pub(super) const WIDTH: f64 = 560.0;
pub(super) const HEIGHT: f64 = 390.0;
const LEFT: f64 = 64.0;
const RIGHT: f64 = 22.0;
const TOP: f64 = 56.0;
const BOTTOM: f64 = 50.0;

#[cfg(test)]
mod tests {
    use super::*;

    fn axis(scale: Scale) -> Axis {
        Axis { label: "ms".to_owned(), scale, ticks: Vec::new(), covers: None }
    }

    fn chart(points: Vec<(f64, f64)>) -> LineChart {
        let style = LineStyle { colour: "#000", dash: "", width: 2.0, marker: Marker::Star };
        let lines = vec![Line { name: "<pull>".to_owned(), style, points }];
        let (x, y) = (axis(Scale::Logarithmic), axis(Scale::Logarithmic));
        LineChart { title: "time & size".to_owned(), x, y, lines }
    }

    #[test]
    fn every_point_is_marked_within_the_picture() {
        let svg = chart(vec![(8.0, 0.3), (16.0, 1.0), (64.0, 1e4)]).to_svg();
        assert_eq!(svg.matches("<path").count(), 3);
        assert!(svg.contains("&lt;pull&gt;") && svg.contains("time &amp; size"));
        assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
    }

    #[test]
    fn nothing_senseless_is_drawn() {
        for points in [vec![], vec![(0.0, -1.0)], vec![(1.0, 1.0)], vec![(1.0, f64::NAN)]] {
            let svg = chart(points).to_svg();
            assert!(!svg.contains("NaN") && !svg.contains("inf"), "{svg}");
        }
    }

    #[test]
    fn ticks_are_round_and_enclose_the_values() {
        let place = Place::new(&axis(Scale::Linear), [3.0, 47.0].into_iter(), 0.0, 100.0);
        assert_eq!(place.ticks, [0.0, 10.0, 20.0, 30.0, 40.0, 50.0]);
        let place = Place::new(&axis(Scale::Logarithmic), [3.0, 47.0].into_iter(), 0.0, 100.0);
        assert_eq!(place.ticks, [2.0, 5.0, 10.0, 20.0, 50.0]);
        assert_eq!((place.place(2.0), place.place(50.0).round()), (0.0, 100.0));
    }

    #[test]
    fn numbers_are_short() {
        assert_eq!([0.05, 1.0, 2.5, 47.0, 16384.0].map(number).join(" "), "0.05 1 2.5 47 16,384");
    }
}
