//! The past of a drive: its wear with the forecast, written data and temperature.

use super::drawing::{Chart, Points, Times, axis, range};
use super::{now_s, read_or_fail};
use crate::app::App;
use crate::words::{path_segment, size};
use report::axis::Axis;
use report::circumstances::utc;
use report::page::section;
use report::plot::escaped;
use report::table::{Head, TableCell, table};
use serde_json::Value;
use stack::Exit;

const DAY_S: f64 = 86_400.0;
const TIB: f64 = 1_099_511_627_776.0;
/// Maximum number of members of a pool whose past is shown.
const MEMBERS_MAX: usize = 16;
/// Maximum number of lines of the table.
const LINES_MAX: usize = 60;
/// Maximum time that a forecast is drawn ahead, as a multiple of the past.
const AHEAD_MAX: f64 = 1.0;
/// Shortest time axis, in days.
const DAYS_MIN: f64 = 7.0;

/// A sample: its time in days before now, and its figures.
struct Sample<'a> {
    day: f64,
    value: &'a Value,
}

impl Sample<'_> {
    fn number(&self, key: &str) -> Option<f64> {
        self.value[key].as_f64()
    }
}

/// A forecast of wear, as `drive health` prints it.
struct Forecast {
    percent_per_day: f64,
    sentence: String,
}

/// Returns the past of the drive with this name or, for a pool or stripe, of its members, below the
/// report of its health.
pub(crate) async fn of_drives(app: &App, name: &str, health: &Value) -> String {
    if let Some(members) = health["members"].as_array() {
        let mut html = String::new();
        for member in members.iter().take(MEMBERS_MAX) {
            let Some(name) = member["name"].as_str().filter(|_| member["health"].is_object())
            else {
                continue;
            };
            html +=
                &section(&format!("Past of {name}"), &of_drive(app, name, &member["health"]).await);
        }
        return html;
    }
    // A modelled drive begins with its daemon.
    if health["modelled"] == true {
        return String::new();
    }
    match of_drive(app, name, health).await {
        past if past.is_empty() => past,
        past => section("Past", &past),
    }
}

/// Returns the past of a drive as HTML.
async fn of_drive(app: &App, name: &str, health: &Value) -> String {
    // Its serial number stays the same at every device.
    let mut reported = ["serial", "device"].into_iter().filter_map(|key| health[key].as_str());
    let name = reported.find(|text| !text.is_empty()).unwrap_or(name);
    match read_or_fail(app, &["drive", "history", "--json", "--", name]).await {
        Ok(past) => part(&past, health, &path_segment(name), now_s()),
        // Neither a report nor a past: the reason why there is no report is enough.
        Err(failure) if health.is_null() && failure.exit == Exit::Negative => String::new(),
        Err(failure) => format!("<p>{}</p>\n", escaped(&failure.message)),
    }
}

fn part(past: &Value, health: &Value, path: &str, now_s: i64) -> String {
    let samples = past["samples"].as_array().into_iter().flatten();
    let samples: Vec<Sample<'_>> = samples
        .filter_map(|value| {
            let day = (value["at_s"].as_i64()?.min(now_s) - now_s) as f64 / DAY_S;
            Some(Sample { day, value })
        })
        .collect();
    let Some(first) = samples.first() else {
        return "<p>No sample was recorded yet.</p>\n".to_owned();
    };
    let forecast = forecast(health);
    let before = (-first.day).max(DAYS_MIN);
    format!(
        "<div class=\"plots\">\n{}</div>\n<p><a href=\"/drive/{path}/history.csv\">All samples as \
         CSV</a></p>\n{}",
        charts(&samples, before, forecast.as_ref()),
        lines(&samples),
    )
}

fn forecast(health: &Value) -> Option<Forecast> {
    let forecast = &health["forecast"];
    let (left, interval) = (forecast["days_left"].as_f64()?, &forecast["days_left_interval"]);
    let (low, high) = (interval[0].as_f64()?, interval[1].as_f64()?);
    let sentence = format!(
        "Forecast from {} samples over {:.0} days: the rated life ends in {:.0} days if the load \
         stays the same (95 %: {low:.0} to {high:.0}).",
        forecast["samples"].as_u64().unwrap_or(0),
        forecast["history_days"].as_f64().unwrap_or(0.0),
        left,
    );
    Some(Forecast { percent_per_day: forecast["percent_per_day"].as_f64()?, sentence })
}

fn charts(samples: &[Sample<'_>], before: f64, forecast: Option<&Forecast>) -> String {
    let points = |key: &str| -> Points {
        samples.iter().filter_map(|it| Some((it.day, it.number(key)?))).collect()
    };
    let tebibytes = |key: &str| -> Points {
        points(key).into_iter().map(|(day, bytes)| (day, bytes / TIB)).collect()
    };
    let times = Times { name: "days before now", before, after: 0.0, joined_within: f64::INFINITY };
    let mut html = String::new();
    let wear = points("worn_percent");
    if let Some((_, worn)) = wear.last().copied() {
        let ahead = before * AHEAD_MAX;
        let line = forecast.map(|forecast| -> Points {
            let left = (100.0 - worn).max(0.0) / forecast.percent_per_day.max(1e-9);
            let day = ahead.min(left);
            vec![(0.0, worn), (day, worn + day * forecast.percent_per_day)]
        });
        let after = if line.is_some() { ahead } else { 0.0 };
        let name = if line.is_some() { "days from now" } else { times.name };
        let mut words = format!("Worn: {}.", range(&wear, |it| format!("{it:.0} %")));
        match forecast {
            Some(forecast) => words += &format!(" {}", forecast.sentence),
            None => words += " There is no forecast yet; the report above has the reason.",
        }
        let line = line.unwrap_or_default();
        html += &Chart {
            title: "Wear".to_owned(),
            up: "% of the rated life",
            y: axis([&wear, &line], 1.0),
            words,
            curves: vec![("worn", wear), ("forecast", line)],
        }
        .html(Times { name, after, ..times });
    }
    let bytes = |tib: f64| size((tib * TIB).max(0.0) as u64);
    let (host, nand) = (tebibytes("host_written_bytes"), tebibytes("nand_written_bytes"));
    if !host.is_empty() || !nand.is_empty() {
        html += &Chart {
            title: "Written data since the drive was new".to_owned(),
            up: "TiB",
            y: Axis::around(host.iter().chain(&nand).map(|point| point.1)),
            words: format!(
                "Written by the host: {}. Written to the flash: {}.",
                range(&host, bytes),
                range(&nand, bytes)
            ),
            curves: vec![("by the host", host), ("to the flash", nand)],
        }
        .html(times);
    }
    let heat = points("temperature_c");
    if !heat.is_empty() {
        html += &Chart {
            title: "Temperature".to_owned(),
            up: "degrees Celsius",
            y: Axis::around(heat.iter().map(|point| point.1)),
            words: format!("Temperature: {}.", range(&heat, |it| format!("{it:.0} C"))),
            curves: vec![("temperature", heat)],
        }
        .html(times);
    }
    html
}

/// Returns the table of the newest samples, closed until it is opened.
fn lines(samples: &[Sample<'_>]) -> String {
    let heads = [
        Head::text("at (UTC)"),
        Head::number("worn"),
        Head::number("spare"),
        Head::number("host writes"),
        Head::number("flash writes"),
        Head::number("temperature"),
        Head::number("errors"),
        Head::number("reallocated"),
    ];
    let row = |it: &Sample<'_>| -> Vec<TableCell> {
        let with = |key: &str, unit: &str| -> TableCell {
            it.number(key).map_or("-".to_owned(), |number| format!("{number:.0}{unit}")).into()
        };
        let bytes =
            |key: &str| -> TableCell { it.value[key].as_u64().map_or("-".to_owned(), size).into() };
        let at = utc(it.value["at_s"].as_u64().unwrap_or(0));
        let at = at.get(..16).unwrap_or(&at).replace('T', " ");
        vec![
            at.into(),
            with("worn_percent", " %"),
            with("spare_percent", " %"),
            bytes("host_written_bytes"),
            bytes("nand_written_bytes"),
            with("temperature_c", " C"),
            with("media_errors", ""),
            with("reallocated", ""),
        ]
    };
    let rows: Vec<_> = samples.iter().rev().take(LINES_MAX).map(row).collect();
    let summary = match samples.len() <= LINES_MAX {
        true => "Table of the samples".to_owned(),
        false => format!("Table of the newest {LINES_MAX} samples"),
    };
    format!(
        "<details><summary>{summary}</summary>\n{}</details>\n",
        table("Samples", &heads, &rows)
    )
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    const NOW_S: i64 = 1_764_000_000;

    #[test]
    fn wear_is_drawn_with_its_forecast() {
        let sample = |days: i64| {
            json!({
                "at_s": NOW_S - days * 86_400, "worn_percent": 30 - days / 10,
                "host_written_bytes": (1000 - days) * 1_000_000_000, "temperature_c": 30 + days % 3,
            })
        };
        let past = json!({ "samples": (0..100).rev().map(sample).collect::<Vec<_>>() });
        let health = json!({ "forecast": {
            "percent_per_day": 0.1, "days_left": 700.0, "days_left_interval": [650.0, 760.0],
            "history_days": 99.0, "samples": 100,
        }});
        let html = part(&past, &health, "sda", NOW_S);
        for part in [
            "Worn: latest 30 %, from 21 % to 30 %. Forecast from 100 samples over 99 days: the \
             rated life ends in 700 days if the load stays the same (95 %: 650 to 760).",
            "days from now",
            "Written to the flash: no value.",
            "Temperature: latest 30 C, from 30 C to 32 C.",
            "href=\"/drive/sda/history.csv\"",
            "Table of the newest 60 samples",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        let without = part(&past, &json!({ "forecast": null }), "sda", NOW_S);
        assert!(without.contains("There is no forecast yet"), "{without}");
        assert!(part(&json!({}), &health, "", NOW_S).contains("No sample was recorded yet"));
    }

    #[test]
    fn a_drive_that_reports_nothing_has_a_table_only() {
        let past = json!({ "samples": [{ "at_s": NOW_S + 60, "passed": true }] });
        let html = part(&past, &json!({}), "x", NOW_S);
        assert!(html.contains("Table of the samples") && !html.contains("<figure"), "{html}");
    }
}
