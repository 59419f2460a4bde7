//! A review as one JSON object, `overdrive.review/1`. Keys are only ever added.

use crate::line::{Line, lines};
use crate::published::compare_with_rapid;
use crate::review::Review;
use crate::score::score;
use crate::verdict::{RULES, verdict};
use serde_json::{Map, Value, json};

/// The name of the schema.
pub const SCHEMA: &str = "overdrive.review/1";

/// Returns the object. Times are nanoseconds, sizes bytes.
pub fn json(review: &Review) -> Value {
    let lines = lines(review);
    let verdict = verdict(review, &lines);
    let place = |at: usize, column: usize| {
        let (line, column) = (&lines[at], &review.columns[column]);
        json!({ "suite": line.suite, "test": line.test, "column": column.name })
    };
    let slower = verdict.slower.iter().map(|(at, column, ratio)| {
        let mut object = place(*at, *column);
        object["speed"] = json!(ratio);
        object["noise"] = json!(lines[*at].cells[*column].noise);
        object
    });
    let longest = verdict.longest_write.map(|(at, column, ratio)| {
        let mut object = place(at, column);
        object["ratio"] = json!(ratio);
        object
    });
    let columns = review.columns.iter().enumerate().map(|(at, column)| {
        let rows = judged(&column.rows, &lines, at);
        json!({ "name": column.name, "rows": rows })
    });
    let score = score(review).into_iter();
    let score = score.map(
        |score| json!({ "column": score.column, "percent": score.percent, "tests": score.tests }),
    );
    let runs = review.runs.iter().map(|run| {
        let (name, expected_ns, elapsed_ns) = (&run.name, run.expected_ns, run.elapsed_ns);
        json!({ "name": name, "expected_ns": expected_ns, "elapsed_ns": elapsed_ns })
    });
    let facts = review.facts.iter().map(|(name, value)| (name.clone(), json!(value)));
    json!({
        "schema": SCHEMA,
        "target": review.target,
        "title": review.title,
        "time": review.time,
        "extent": review.extent,
        "cache_bytes": review.cache_bytes,
        "complete": review.complete,
        "verdict": verdict.sentences,
        "rules": RULES,
        "slower": slower.collect::<Vec<_>>(),
        "longest_write": longest,
        "score": {
            "baseline": review.baseline.as_ref().map_or(&review.target, |drive| &drive.target),
            "columns": score.collect::<Vec<_>>(),
        },
        "columns": columns.collect::<Vec<_>>(),
        "rapid_published": published(review, &lines),
        "spread": review.spread.len(),
        "method": review.method,
        "facts": facts.collect::<Map<_, _>>(),
        "command": review.command,
        "runs": runs.collect::<Vec<_>>(),
        "elapsed_ns": review.elapsed_ns,
        "versions": { "overdrive": env!("CARGO_PKG_VERSION") },
    })
}

/// Returns rows with their speed, noise and change.
fn judged(rows: &[Value], lines: &[Line], column: usize) -> Vec<Value> {
    let mut rows = rows.to_vec();
    for (key, row) in crate::line::keyed(&rows.clone()).into_iter().zip(&mut rows) {
        let (suite, test, number) = key.0;
        let mut same = lines.iter().filter(|line| line.suite == suite && line.test == test);
        let Some(line) = same.nth(number) else { continue };
        let cell = &line.cells[column];
        if let Some(noise) = cell.noise.or(line.noise) {
            row["noise"] = json!(noise);
        }
        if let Some(ratio) = cell.ratio {
            row["speed"] = json!(ratio);
            row["change"] = cell.change.word().into();
        }
    }
    rows
}

fn published(review: &Review, lines: &[Line]) -> Vec<Value> {
    let compared = compare_with_rapid(review, lines).into_iter();
    let one = compared.map(|it| {
        json!({
            "test": it.figure.what,
            "published": it.figure.words(),
            "found": it.found,
            "error": it.error,
            "agreement": it.agreement.words(),
            "use": it.figure.how.word(),
            "own": it.own,
        })
    });
    one.collect()
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::line::tests::sample;

    #[test]
    fn the_object_has_columns_with_rows_and_the_verdict() {
        let object = json(&sample());
        assert_eq!(object["schema"], SCHEMA);
        assert_eq!(object["verdict"].as_array().map(Vec::len), Some(3));
        let columns = object["columns"].as_array().expect("columns");
        let names: Vec<&str> = columns.iter().filter_map(|it| it["name"].as_str()).collect();
        assert_eq!(names, ["bare", "cold", "warm", "again", "rapid"]);
        assert_eq!(columns[1]["rows"][1]["change"], "slower");
        assert_eq!(columns[1]["rows"][1]["test"], "random 4 KiB read, QD1");
        assert!(columns[0]["rows"][0].get("change").is_none(), "it is the reference");
        assert_eq!(object["slower"][0]["column"], "cold");
        assert_eq!(object["rapid_published"][0]["agreement"], "agrees");
    }
}
