//! The page of RAPID, from the JSON of a review.

use crate::document::{Compared, Document};
use report::bars::{Bar, Test, bars};
use report::picture::picture;
use serde_json::Value;

/// The name of its files.
pub(crate) const NAME: &str = "840-evo-rapid";

fn text(value: &Value) -> String {
    value.as_str().unwrap_or_default().to_owned()
}

fn list(value: &Value) -> impl Iterator<Item = &Value> {
    value.as_array().into_iter().flatten()
}

/// Returns the evidence from agreement of a figure, by its use.
fn evidence(row: &Value) -> &'static str {
    match row["use"].as_str() {
        Some("set") => "set",
        Some("predicted") => "predicted",
        _ => "not tested",
    }
}

fn compared(row: &Value) -> Compared {
    let found = row["found"].as_f64();
    let own = row["own"].as_f64().map_or("-".to_owned(), |own| format!("{own:.2}"));
    let agreement = text(&row["agreement"]);
    let is_too_short = agreement.starts_with("too short");
    let reason = match found {
        None => Some("the review does not run it"),
        Some(_) if is_too_short => Some(agreement.as_str()),
        Some(_) => None,
    };
    Compared {
        what: text(&row["test"]),
        published: text(&row["published"]),
        found: found.map_or("-".to_owned(), |it| format!("{it:.2} (this cache {own})")),
        error: row["error"].as_f64(),
        is_direction_right: reason.is_none() && agreement != "WRONG DIRECTION",
        evidence: if is_too_short { "not compared" } else { evidence(row) },
        reason: reason.map(str::to_owned),
    }
}

/// Returns the page.
///
/// # Errors
/// The text is no review with RAPID.
pub(crate) fn document(json: &str) -> Result<Document, String> {
    let review: Value = serde_json::from_str(json).map_err(|error| error.to_string())?;
    let rows: Vec<&Value> = list(&review["rapid_published"]).collect();
    if review["schema"] != "overdrive.review/1" || rows.is_empty() {
        return Err("is no review with --with rapid".to_owned());
    }
    if review["complete"] != true {
        return Err("is not complete".to_owned());
    }
    let names = ["RAPID, imitated".to_owned(), "this cache".to_owned()];
    let tests = rows.iter().filter(|row| row["found"].is_number()).map(|row| {
        let bar = |key: &str| row[key].as_f64().map(|value| Bar { value, interval: None });
        let name = format!("{} ({})", text(&row["test"]), text(&row["published"]));
        Test { name, bars: vec![bar("found"), bar("own")], published: None }
    });
    let tests: Vec<Test> = tests.collect();
    let drawn = bars("Gain, on / off", "times", &names, &tests);
    let mut about: Vec<String> = list(&review["verdict"]).map(text).collect();
    let slower = list(&review["slower"]).count();
    about.push(format!(
        "{slower} figures of this cache are slower than without it. All figures are ratios of on to \
         off; 'here' is the imitated RAPID. Its numbers were set on the rows marked 'set'; all \
         others are predictions. [RAPID in the lab](../REVIEW.md#rapid) says how."
    ));
    let command = list(&review["command"]).skip(1).map(text).collect::<Vec<_>>().join(" ");
    Ok(Document {
        name: NAME,
        title: "The review of RAPID on the 840 EVO",
        about,
        compared: rows.into_iter().map(compared).collect(),
        caption: "Gain of the imitated RAPID (blue) and of this cache (red); published gains in \
                  brackets"
            .into(),
        picture: picture(&drawn).ok_or("has no figures")?,
        commands: vec![format!("overdrive {command}")],
    })
}
