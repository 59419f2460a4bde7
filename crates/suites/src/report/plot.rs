//! Plots as SVG.

use super::axis::{Axis, word};
use std::fmt::Write;

const WIDTH: f64 = 760.0;
const HEIGHT: f64 = 300.0;
const LEFT: f64 = 70.0;
const RIGHT: f64 = 16.0;
const TOP: f64 = 34.0;
const BOTTOM: f64 = 46.0;

/// How points are drawn.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Style {
    /// One dot each: scatter is what is to be seen.
    Dots,
    /// Joined.
    Line,
}

/// A curve.
pub(crate) struct Curve<'a> {
    pub(crate) name: &'a str,
    pub(crate) points: Vec<(f64, f64)>,
}

/// A plot.
pub(crate) struct Plot<'a> {
    pub(crate) title: String,
    /// What lies along, and its unit.
    pub(crate) along: String,
    pub(crate) up: String,
    pub(crate) x: Axis,
    pub(crate) y: Axis,
    pub(crate) style: Style,
    pub(crate) curves: Vec<Curve<'a>>,
}

/// Text that stands in a page as it is.
pub(crate) fn escaped(text: &str) -> String {
    text.replace('&', "&amp;").replace('<', "&lt;").replace('>', "&gt;").replace('"', "&quot;")
}

impl Plot<'_> {
    fn across(&self, value: f64) -> f64 {
        LEFT + self.x.place(value) * (WIDTH - LEFT - RIGHT)
    }

    fn height(&self, value: f64) -> f64 {
        HEIGHT - BOTTOM - self.y.place(value) * (HEIGHT - TOP - BOTTOM)
    }

    /// The plot as an element of a page.
    pub(crate) fn svg(&self) -> String {
        let title = escaped(&self.title);
        let mut svg = format!(
            "<svg viewBox=\"0 0 {WIDTH} {HEIGHT}\" role=\"img\" aria-label=\"{title}\">\n\
             <text class=\"title\" x=\"{LEFT}\" y=\"18\">{title}</text>\n"
        );
        self.frame(&mut svg);
        for (number, curve) in self.curves.iter().enumerate() {
            match self.style {
                Style::Dots => self.dots(&mut svg, number, curve),
                Style::Line => self.line(&mut svg, number, curve),
            }
        }
        if self.curves.len() > 1 {
            self.legend(&mut svg);
        }
        svg.push_str("</svg>\n");
        svg
    }

    /// Grid, ticks and the names of the axes.
    fn frame(&self, svg: &mut String) {
        let (right, bottom) = (WIDTH - RIGHT, HEIGHT - BOTTOM);
        for tick in self.y.ticks() {
            let y = self.height(tick);
            _ = writeln!(
                svg,
                "<line class=\"grid\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{y:.1}\" y2=\"{y:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
                LEFT - 7.0,
                y + 4.0,
                word(tick)
            );
        }
        for tick in self.x.ticks() {
            let x = self.across(tick);
            _ = writeln!(
                svg,
                "<line class=\"mark\" x1=\"{x:.1}\" x2=\"{x:.1}\" y1=\"{bottom}\" y2=\"{:.1}\"/>\
                 <text class=\"tick\" text-anchor=\"middle\" x=\"{x:.1}\" y=\"{:.1}\">{}</text>",
                bottom + 4.0,
                bottom + 17.0,
                word(tick)
            );
        }
        _ = writeln!(
            svg,
            "<line class=\"axis\" x1=\"{LEFT}\" x2=\"{right}\" y1=\"{bottom}\" y2=\"{bottom}\"/>\
             <text class=\"name\" text-anchor=\"middle\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <text class=\"name\" text-anchor=\"middle\" transform=\"translate(16 {:.1}) rotate(-90)\">{}</text>",
            (LEFT + right) / 2.0,
            HEIGHT - 8.0,
            escaped(&self.along),
            (TOP + bottom) / 2.0,
            escaped(&self.up),
        );
    }

    /// The points that lie in the frame.
    fn seen<'b>(&self, curve: &'b Curve<'_>) -> impl Iterator<Item = &'b (f64, f64)> {
        let x = self.x;
        curve.points.iter().filter(move |(along, _)| (x.low..=x.high).contains(along))
    }

    fn dots(&self, svg: &mut String, number: usize, curve: &Curve<'_>) {
        _ = write!(svg, "<path class=\"dots c{}\" d=\"", number % 3);
        for (x, y) in self.seen(curve) {
            _ = write!(svg, "M{:.1} {:.1}h0", self.across(*x), self.height(*y));
        }
        svg.push_str("\"/>\n");
    }

    fn line(&self, svg: &mut String, number: usize, curve: &Curve<'_>) {
        _ = write!(svg, "<polyline class=\"line c{}\" points=\"", number % 3);
        for (x, y) in self.seen(curve) {
            _ = write!(svg, "{:.1},{:.1} ", self.across(*x), self.height(*y));
        }
        svg.push_str("\"/>\n");
    }

    /// The curves' names, in their colours, from the right.
    fn legend(&self, svg: &mut String) {
        let mut x = WIDTH - RIGHT;
        for (number, curve) in self.curves.iter().enumerate().rev() {
            _ = writeln!(
                svg,
                "<text class=\"legend f{}\" text-anchor=\"end\" x=\"{x:.1}\" y=\"18\">{}</text>",
                number % 3,
                escaped(curve.name)
            );
            x -= curve.name.chars().count() as f64 * 7.5 + 18.0;
        }
    }
}

/// Bars on a scale of their own, each with its figure.
pub(crate) fn bars(title: &str, unit: &str, bars: &[(String, f64)]) -> String {
    const ROW: f64 = 24.0;
    const NAMES: f64 = 270.0;
    let height = TOP + ROW * bars.len() as f64 + 6.0;
    let most = bars.iter().map(|(_, value)| *value).fold(1e-9, f64::max);
    let title = escaped(&format!("{title}, {unit}"));
    let mut svg = format!(
        "<svg viewBox=\"0 0 {WIDTH} {height}\" role=\"img\" aria-label=\"{title}\">\n\
         <text class=\"title\" x=\"0\" y=\"18\">{title}</text>\n"
    );
    for (index, (name, value)) in bars.iter().enumerate() {
        let y = TOP + ROW * index as f64;
        let width = (WIDTH - NAMES - 90.0) * value / most;
        _ = writeln!(
            svg,
            "<text class=\"tick\" text-anchor=\"end\" x=\"{:.1}\" y=\"{:.1}\">{}</text>\
             <rect class=\"bar\" x=\"{NAMES}\" y=\"{:.1}\" width=\"{width:.1}\" height=\"{:.1}\"/>\
             <text class=\"tick\" x=\"{:.1}\" y=\"{:.1}\">{}</text>",
            NAMES - 8.0,
            y + 14.0,
            escaped(name),
            y + 2.0,
            ROW - 8.0,
            NAMES + width + 6.0,
            y + 14.0,
            super::text::figure(*value)
        );
    }
    svg.push_str("</svg>\n");
    svg
}
