//! A JSON object as a part of a page: its values, the objects in it, and lists as tables. Keys that
//! a later command adds are shown as well.

use report::circumstances::in_words;
use report::page;
use report::plot::escaped;
use report::table::{Head, TableCell, table};
use serde_json::{Map, Value};

/// Keys that are no information for a reader.
const HIDDEN: [&str; 3] = ["schema", "answered", "modelled"];
/// Keys whose words are not clear without their command.
const WORDS: [(&str, &str); 12] = [
    ("forecast_missing", "forecast"),
    ("host_written_bytes", "written by the host"),
    ("host_read_bytes", "read by the host"),
    ("nand_written_bytes", "written to the flash"),
    ("media_errors", "errors not corrected"),
    ("reallocated", "replaced sectors or blocks"),
    ("pending", "sectors that cannot be read"),
    ("link_errors", "damaged transfers"),
    ("erases_least", "erases of a block, least"),
    ("erases_mean", "erases of a block, mean"),
    ("erases_most", "erases of a block, most"),
    ("alpha", "flash against used capacity"),
];
/// The key with a drive's verdict on itself.
const VERDICT: &str = "passed";

/// Returns a name in words, and a value; None: it is unknown, or has parts.
fn fact(name: &str, value: &Value) -> Option<(String, String)> {
    let text = match value {
        Value::Bool(flag) if name == VERDICT => {
            let verdict = if *flag { "passed" } else { "FAILING" };
            return Some(("its own verdict".to_owned(), verdict.to_owned()));
        }
        Value::Bool(flag) => if *flag { "yes" } else { "no" }.to_owned(),
        Value::Number(number) => match number.as_u64() {
            Some(whole) => whole.to_string(),
            None => format!("{:.2}", number.as_f64().unwrap_or(0.0)),
        },
        Value::String(text) if text.is_empty() => return None,
        Value::String(text) => text.clone(),
        Value::Null | Value::Array(_) | Value::Object(_) => return None,
    };
    let (words, text) = in_words(name, &text);
    if let Some((_, words)) = WORDS.iter().find(|(key, _)| *key == name) {
        return Some(((*words).to_owned(), text));
    }
    for (suffix, unit) in [(" percent", " %"), (" c", " C"), (" hours", " h")] {
        if let Some(name) = words.strip_suffix(suffix) {
            return Some((name.to_owned(), format!("{text}{unit}")));
        }
    }
    Some((words, text))
}

/// Returns a key as a heading.
fn heading(key: &str) -> String {
    let words = key.replace('_', " ");
    let mut letters = words.chars();
    let first = letters.next().map(|letter| letter.to_uppercase().to_string());
    first.unwrap_or_default() + letters.as_str()
}

/// Returns an object as facts, and its parts below headings.
pub(super) fn object(value: &Value) -> String {
    let empty = Map::new();
    let all = value.as_object().unwrap_or(&empty);
    let shown = || all.iter().filter(|(key, _)| !HIDDEN.contains(&key.as_str()));
    let facts: Vec<_> = shown().filter_map(|(key, value)| fact(key, value)).collect();
    let mut html = String::new();
    if !facts.is_empty() {
        let facts: Vec<(&str, String)> =
            facts.iter().map(|(name, value)| (name.as_str(), value.clone())).collect();
        html += &page::facts(&facts);
    }
    for (key, value) in shown() {
        let heading = heading(key);
        match value {
            Value::Object(_) => html += &page::section(&heading, &object(value)),
            Value::Array(items) => html += &page::section(&heading, &list(&heading, items)),
            _ => {}
        }
    }
    html
}

/// Returns a list: objects as a table if they have no parts, otherwise one after the other.
fn list(name: &str, items: &[Value]) -> String {
    let is_flat = |item: &Value| {
        item.as_object().is_some_and(|it| !it.values().any(|it| it.is_object() || it.is_array()))
    };
    if items.iter().all(Value::is_object) && !items.iter().all(is_flat) {
        return items.iter().map(object).collect();
    }
    if !items.iter().all(is_flat) {
        let words = items.iter().filter_map(|item| fact("", item)).map(|(_, text)| text);
        let lines = words.map(|text| format!("<li>{}</li>\n", escaped(&text)));
        return format!("<ul>\n{}</ul>\n", lines.collect::<String>());
    }
    let Some(first) = items.first().and_then(Value::as_object) else { return String::new() };
    let keys: Vec<&String> = first.keys().collect();
    let words: Vec<String> = keys.iter().map(|key| key.replace('_', " ")).collect();
    let heads: Vec<Head<'_>> = words.iter().map(|word| Head::text(word)).collect();
    let rows = items.iter().map(|item| {
        let cell = |key: &&String| {
            let text = fact(key, &item[key.as_str()]).map_or("-".to_owned(), |(_, text)| text);
            TableCell::from(text)
        };
        keys.iter().map(cell).collect()
    });
    table(name, &heads, &rows.collect::<Vec<Vec<TableCell>>>())
}

#[cfg(test)]
mod tests {
    use super::*;
    use serde_json::json;

    #[test]
    fn all_of_an_object_is_shown_with_units() {
        let html = object(&json!({
            "schema": "x/1", "model": "A <b>", "host_written_bytes": 4096, "worn_percent": 3,
            "temperature_c": 31, "passed": true, "spare": null, "firmware": "", "ratio": 1.5,
            "reasons": ["one", "two"],
            "attributes": [{ "id": 5, "name": "Reallocated" }, { "id": 9, "name": "Hours" }],
            "lately": { "steady": false },
        }));
        for part in [
            "A &lt;b&gt;",
            ">written by the host</th><td>4 KiB<",
            ">worn</th><td>3 %<",
            ">temperature</th><td>31 C<",
            ">its own verdict</th><td>passed<",
            ">ratio</th><td>1.50<",
            "<li>one</li>",
            "Reallocated",
            "<h2>Lately</h2>",
        ] {
            assert!(html.contains(part), "{part}: {html}");
        }
        assert!(!html.contains("x/1") && !html.contains("firmware"), "{html}");
    }
}
