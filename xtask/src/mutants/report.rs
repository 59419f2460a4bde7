//! Results of the mutants: a table, the survivors, JSON, and whether the reasons for survivors in
//! `mutants.toml` are still valid.

use super::list::Mutant;
use crate::cargo;
use anyhow::{Context, ensure};
use std::collections::BTreeMap;
use std::collections::btree_map::Entry;

/// Result of a mutant.
#[derive(Clone, PartialEq, Eq, Debug)]
pub(crate) enum Fate {
    /// Detected by the test with this name.
    Killed(String),
    /// The test with this name did not end.
    TimedOut(String),
    Survived,
    /// It does not compile.
    Unviable,
    /// It could not be selected at run time.
    Untried,
    /// It is in code that only a planted bug runs.
    Planted,
}

/// Sums of the results, for a file or for all files.
#[derive(Clone, Default, PartialEq, Eq, Debug)]
pub(crate) struct Sum {
    by: BTreeMap<String, u32>,
    timed_out: u32,
    survived: u32,
    unviable: u32,
    untried: u32,
    planted: u32,
}

impl Sum {
    fn add(&mut self, fate: &Fate) {
        match fate {
            // The laboratory counts as one test, whatever its time, and so do all unit tests.
            Fate::Killed(by) => {
                let test = by.split(" for ").next().unwrap_or(by);
                let test = test.split(" of ").next().unwrap_or(test).to_owned();
                *self.by.entry(test).or_default() += 1;
            }
            Fate::TimedOut(_) => self.timed_out += 1,
            Fate::Survived => self.survived += 1,
            Fate::Unviable => self.unviable += 1,
            Fate::Untried => self.untried += 1,
            Fate::Planted => self.planted += 1,
        }
    }

    fn killed(&self) -> u32 {
        self.by.values().sum::<u32>() + self.timed_out
    }

    /// Share of killed mutants among those that could be tried; 1 if none could.
    pub(crate) fn share(&self) -> f64 {
        let tried = self.killed() + self.survived;
        if tried == 0 { 1.0 } else { f64::from(self.killed()) / f64::from(tried) }
    }

    fn line(&self, name: &str) -> String {
        let of = |test: &str| self.by.get(test).copied().unwrap_or(0);
        let (unit, laboratory) = (of("unit tests"), of("laboratory"));
        let tests = self.killed() - self.timed_out - unit - laboratory;
        let Sum { timed_out, survived, unviable, untried, planted, .. } = self;
        let all = self.killed() + survived + unviable + untried + planted;
        let share = self.share() * 100.0;
        format!(
            "{name:22} {all:7} {unviable:8} {untried:7} {planted:7} {unit:6} {tests:6} {laboratory:10} \
             {timed_out:9} {survived:8} {share:6.1}"
        )
    }
}

const HEAD: &str = "file                   mutants unviable untried planted   unit  tests laboratory timed out \
                    survived      %";

/// Returns a table with a line per file and one for all, and the sums of the latter.
pub(crate) fn table(fates: &[(&Mutant, Fate)]) -> (String, Sum) {
    let mut files: BTreeMap<&str, Sum> = BTreeMap::new();
    let mut all = Sum::default();
    for (mutant, fate) in fates {
        files.entry(&mutant.file).or_default().add(fate);
        all.add(fate);
    }
    let lines = files.iter().map(|(file, sum)| sum.line(file));
    let lines = std::iter::once(HEAD.to_owned()).chain(lines).chain([all.line("all")]);
    (lines.map(|line| line + "\n").collect(), all)
}

/// Returns the whole result as one JSON object, which [`earlier`] reads.
pub(crate) fn as_json(fates: &[(&Mutant, Fate)], known: &Explained) -> serde_json::Value {
    let mutants = fates.iter().map(|(mutant, fate)| {
        let (word, by) = match fate {
            Fate::Killed(by) => ("killed", by.as_str()),
            Fate::TimedOut(by) => ("timed out", by.as_str()),
            Fate::Survived => ("survived", ""),
            Fate::Unviable => ("unviable", ""),
            Fate::Untried => ("untried", ""),
            Fate::Planted => ("planted", ""),
        };
        serde_json::json!({
            "mutant": mutant.title(),
            "key": mutant.key,
            "fate": word,
            "by": by,
            "why": known.0.get(&mutant.key),
        })
    });
    serde_json::json!({
        "schema": "overdrive.mutants/1",
        "mutants": mutants.collect::<Vec<_>>(),
    })
}

/// Returns the results of an earlier run, by the mutants' keys, without survivors.
///
/// # Errors
/// This is not the JSON of a run.
pub(crate) fn earlier(json: &str) -> anyhow::Result<BTreeMap<String, Fate>> {
    let object: serde_json::Value = serde_json::from_str(json).context("this is not JSON")?;
    ensure!(object["schema"] == "overdrive.mutants/1", "this is not a result of 'mutants --json'");
    let mutants = object["mutants"].as_array().context("there is no list of mutants")?;
    let found = mutants.iter().filter_map(|it| {
        let by = it["by"].as_str()?.to_owned();
        let fate = match it["fate"].as_str()? {
            "killed" => Fate::Killed(by),
            "timed out" => Fate::TimedOut(by),
            "unviable" => Fate::Unviable,
            "untried" => Fate::Untried,
            "planted" => Fate::Planted,
            _ => return None,
        };
        Some((it["key"].as_str()?.to_owned(), fate))
    });
    Ok(found.collect())
}

/// Accepted survivors: the reason for each mutant's key.
pub(crate) struct Explained(BTreeMap<String, String>);

impl Explained {
    /// Reads `xtask/mutants.toml`.
    ///
    /// # Errors
    /// The file does not follow the rules at its beginning.
    pub(crate) fn load() -> anyhow::Result<Explained> {
        let path = cargo::root().join("xtask/mutants.toml");
        let text = std::fs::read_to_string(&path);
        let text = text.with_context(|| format!("cannot read {}", path.display()))?;
        Explained::parse(&text).with_context(|| path.display().to_string())
    }

    fn parse(text: &str) -> anyhow::Result<Explained> {
        let table: toml::Table = text.parse()?;
        let mut reasons = BTreeMap::new();
        let groups = table.get("survivors").and_then(toml::Value::as_array);
        for group in groups.into_iter().flatten() {
            let why =
                group.get("why").and_then(toml::Value::as_str).context("a 'why' is missing")?;
            let mutants = group.get("mutants").and_then(toml::Value::as_array);
            for key in mutants.with_context(|| format!("no 'mutants' where: {why}"))? {
                let key = key.as_str().context("a mutant is a string")?.to_owned();
                match reasons.entry(key) {
                    Entry::Vacant(place) => _ = place.insert(why.trim().to_owned()),
                    Entry::Occupied(known) => anyhow::bail!("twice: {}", known.key()),
                }
            }
        }
        Ok(Explained(reasons))
    }

    /// Compares these results with the reasons: which mutants survived without a reason, and which
    /// reasons are void.
    pub(crate) fn judge(&self, fates: &[(&Mutant, Fate)]) -> Judged {
        let mut judged = Judged::default();
        let mut files: Vec<&str> = fates.iter().map(|(mutant, _)| mutant.file.as_str()).collect();
        files.dedup();
        let fates: BTreeMap<&str, _> =
            fates.iter().map(|(mutant, fate)| (mutant.key.as_str(), (mutant, fate))).collect();
        for (mutant, fate) in fates.values() {
            if *fate == &Fate::Survived && !self.0.contains_key(&mutant.key) {
                judged.unexplained.push((mutant.title(), mutant.key.clone()));
            }
        }
        for key in self.0.keys() {
            let file = key.split(": ").next().unwrap_or_default();
            match fates.get(key.as_str()) {
                Some((_, Fate::Survived)) => judged.explained += 1,
                Some((_, Fate::Killed(by) | Fate::TimedOut(by))) => {
                    judged.void.push(format!("{key} (killed: {by})"));
                }
                Some(_) => judged.void.push(format!("{key} (not tried)")),
                None if files.contains(&file) => judged.void.push(format!("{key} (gone)")),
                None => {}
            }
        }
        judged
    }
}

/// See [`Explained::judge`].
#[derive(Default, PartialEq, Eq, Debug)]
pub(crate) struct Judged {
    /// Survivors with a reason.
    pub(crate) explained: u32,
    /// Survivors without a reason: title and key.
    pub(crate) unexplained: Vec<(String, String)>,
    /// Reasons for mutants that do not survive.
    pub(crate) void: Vec<String>,
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::mutants::list::{Genre, Position};

    fn mutant(id: u32) -> Mutant {
        let (at, what) = (Position { line: 7, column: 3 }, "replace < with <=".to_owned());
        let (file, replacement) = ("a.rs".to_owned(), "<=".to_owned());
        let key = format!("a.rs: {what}: line {id}");
        Mutant { id, file, genre: Genre::BinaryOperator, at, replacement, what, key }
    }

    #[test]
    fn what_kills_is_counted_by_its_kind() {
        let mut sum = Sum::default();
        for by in ["unit tests of cache", "unit tests of policy", "model", "laboratory for 2 s"] {
            sum.add(&Fate::Killed(by.to_owned()));
        }
        let line = sum.line("a.rs");
        let numbers: Vec<&str> = line.split_whitespace().collect();
        assert_eq!(numbers, ["a.rs", "4", "0", "0", "0", "2", "1", "1", "0", "0", "100.0"]);
    }

    #[test]
    fn void_reasons_and_survivors_without_one_are_reported() {
        let text = "[[survivors]]\nwhy = 'it is so'\nmutants = [\n\
                    'a.rs: replace < with <=: line 1', 'a.rs: replace < with <=: line 2',\n\
                    'a.rs: gone: line 9', 'b.rs: not chosen: line 1']\n";
        let explained = Explained::parse(text).expect("reasons");
        let [one, two, three] = [1, 2, 3].map(mutant);
        let killed = Fate::Killed("laboratory for 2 s".to_owned());
        let fates = [(&one, Fate::Survived), (&two, killed), (&three, Fate::Survived)];
        let judged = explained.judge(&fates);
        assert_eq!(judged.explained, 1);
        assert_eq!(judged.unexplained, [(three.title(), three.key.clone())]);
        assert_eq!(
            judged.void,
            [
                "a.rs: gone: line 9 (gone)",
                "a.rs: replace < with <=: line 2 (killed: laboratory for 2 s)"
            ]
        );
        let again = earlier(&as_json(&fates, &explained).to_string()).expect("our own JSON");
        assert_eq!(again, BTreeMap::from([(two.key.clone(), fates[1].1.clone())]));
        let (_, sum) = table(&fates);
        assert!((sum.share() - 1.0 / 3.0).abs() < 1e-9);
        assert!(Explained::parse(&(text.to_owned() + text)).is_err(), "twice the same mutant");
    }
}
