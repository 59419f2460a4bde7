//! Names similar to a wrong one, for suggestions.

/// Minimum length of a prefix or part that counts; shorter ones occur in too many names.
const PART_CHARACTERS_MIN: usize = 3;

/// How a known name resembles a wrong one; the first variant is the nearest.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord)]
enum Likeness {
    /// The names differ only in case or punctuation.
    Same,
    /// The known name begins with the wrong one.
    Prefix,
    /// The known name contains the wrong one.
    Part,
    /// The names differ in a few letters.
    Mistyped,
}

/// Returns the letters and digits of a name, in lower case.
fn plain(name: &str) -> String {
    name.chars().filter(|letter| letter.is_alphanumeric()).flat_map(char::to_lowercase).collect()
}

fn likeness(wrong: &str, known: &str, distance: usize) -> Option<Likeness> {
    let is_part = wrong.chars().count() >= PART_CHARACTERS_MIN;
    match known {
        _ if known == wrong && !wrong.is_empty() => Some(Likeness::Same),
        _ if is_part && known.starts_with(wrong) => Some(Likeness::Prefix),
        _ if is_part && known.contains(wrong) => Some(Likeness::Part),
        _ if distance <= known.len().div_ceil(3) => Some(Likeness::Mistyped),
        _ => None,
    }
}

/// Returns the names nearest to a wrong one, at most `most`. Case and punctuation are ignored.
pub fn similar<'a>(wrong: &str, known: impl Iterator<Item = &'a str>, most: usize) -> Vec<&'a str> {
    let wrong = plain(wrong);
    let ranked = known.filter_map(|name| {
        let known = plain(name);
        let distance = strsim::damerau_levenshtein(&wrong, &known);
        Some((likeness(&wrong, &known, distance)?, distance, name))
    });
    let mut ranked: Vec<_> = ranked.collect();
    ranked.sort_unstable();
    let best = ranked.first().map(|(likeness, ..)| *likeness);
    let alike = ranked.into_iter().filter(|(likeness, ..)| Some(*likeness) == best);
    // For a mistyped name, only the nearest is suggested.
    let most = if best == Some(Likeness::Mistyped) { 1.min(most) } else { most };
    alike.map(|(.., name)| name).take(most).collect()
}

/// Returns the name nearest to a wrong one, if one is similar enough.
pub fn near<'a>(wrong: &str, known: impl Iterator<Item = &'a str>) -> Option<&'a str> {
    similar(wrong, known, 1).first().copied()
}

/// Describes in a sentence that there is no such thing of this kind: with the nearest name, or all
/// names.
pub fn unknown<'a>(
    kind: &str,
    wrong: &str,
    known: impl Iterator<Item = &'a str> + Clone,
) -> String {
    match near(wrong, known.clone()) {
        Some(near) => format!("there is no such {kind}; did you mean '{near}'?"),
        None => {
            let all = known.collect::<Vec<_>>().join(", ");
            format!("there is no such {kind}; choose one of {all}")
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn the_nearest_names_are_found_whatever_their_case_and_marks() {
        let suites = ["corners", "cdm", "consistency", "as-ssd", "qd1", "pts-wsat"];
        let one = |wrong: &str| near(wrong, suites.into_iter());
        assert_eq!(one("cmd"), Some("cdm"));
        assert_eq!(one("CDM"), Some("cdm"));
        assert_eq!(one("ASSSD"), Some("as-ssd"));
        assert_eq!(one("corner"), Some("corners"));
        assert_eq!(one("wsat"), Some("pts-wsat"));
        assert_eq!(one("list"), None);
        assert_eq!(one(""), None);
        assert_eq!(near("lur", ["adaptive", "lru", "fifo"].into_iter()), Some("lru"));
        let drives = ["samsung-840-pro-256", "samsung-850-pro-128", "samsung-850-pro-256"];
        let all = |wrong: &str| similar(wrong, drives.into_iter(), 3);
        assert_eq!(all("850pro"), drives[1..]);
        assert_eq!(all("Samsung 850 Pro 256"), [drives[2]]);
        assert_eq!(all("samsung-850-por-256"), [drives[2]]);
        assert_eq!(all("xyz").len(), 0);
    }
}
