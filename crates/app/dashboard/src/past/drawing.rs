//! Charts over time with the sentence that states their figures.

use report::axis::Axis;
use report::plot::{Curve, Names, Plot, Style, escaped};

/// A figure over time: the time relative to now, and the value.
pub(super) type Points = Vec<(f64, f64)>;

/// The time axis of charts.
#[derive(Clone, Copy)]
pub(super) struct Times {
    /// Its name and unit.
    pub(super) name: &'static str,
    /// Its beginning, in that unit before now.
    pub(super) before: f64,
    /// Its end, in that unit after now.
    pub(super) after: f64,
    /// Maximum distance of two points that are joined.
    pub(super) joined_within: f64,
}

/// A chart.
pub(super) struct Chart<'a> {
    pub(super) title: String,
    /// The name and unit of the vertical axis.
    pub(super) up: &'a str,
    pub(super) y: Axis,
    pub(super) curves: Vec<(&'a str, Points)>,
    /// The sentence that states its figures.
    pub(super) words: String,
}

impl Chart<'_> {
    /// Returns the chart; only the sentence if it has no points.
    pub(super) fn html(self, times: Times) -> String {
        let Chart { title, up, y, curves, words } = self;
        let words = format!("<p class=\"sub\">{}</p>", escaped(&words));
        let curves: Vec<_> = curves.into_iter().filter(|(_, points)| !points.is_empty()).collect();
        if curves.is_empty() {
            return format!("<div class=\"chart\">{words}</div>\n");
        }
        let most = curves.iter().map(|(_, points)| points.len()).max().unwrap_or(0);
        let curve = |(name, points)| {
            let joined_within = times.joined_within;
            Curve { joined_within, ..Curve::new(name, points) }
        };
        let plot = Plot {
            title,
            along: times.name.to_owned(),
            up: up.to_owned(),
            x: Axis::exact(-times.before, times.after),
            y,
            style: if most <= MARKED_MAX { Style::Marked } else { Style::Line },
            names: Names::Above,
            curves: curves.into_iter().map(curve).collect(),
            levels: Vec::new(),
        };
        format!("<div class=\"chart\">{}{words}</div>\n", plot.figure_without_csv())
    }
}

/// Number of points up to which each is marked.
const MARKED_MAX: usize = 40;

/// Returns an axis from zero that shows all values; at least up to `least`.
pub(super) fn axis<'a>(curves: impl IntoIterator<Item = &'a Points>, least: f64) -> Axis {
    let values = curves.into_iter().flatten().map(|(_, value)| *value);
    Axis::linear(values.chain([least]))
}

/// Returns the latest, the lowest and the highest value in words.
pub(super) fn range(points: &Points, word: impl Fn(f64) -> String) -> String {
    let Some((_, last)) = points.last().copied() else { return "no value".to_owned() };
    let (low, high) = points
        .iter()
        .fold((last, last), |(low, high), (_, value)| (low.min(*value), high.max(*value)));
    format!("latest {}, from {} to {}", word(last), word(low), word(high))
}
