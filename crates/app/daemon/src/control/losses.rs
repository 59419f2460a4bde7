//! Acknowledged writes that a volume has lost, as far as its daemon can detect, for messages about
//! the contents of the backing.

use block::Size;
use serde::{Deserialize, Serialize};

/// Dirty data that an operator has discarded.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct GivenUp {
    /// Amount of data, in bytes.
    pub bytes: u64,
    /// The file to which the same command saved it first.
    pub saved_to: Option<String>,
}

/// Losses of a volume since its daemon started serving it.
#[derive(Clone, PartialEq, Eq, Debug, Default, Serialize, Deserialize)]
#[serde(default)]
pub struct Losses {
    /// Discarded data, in the order of time.
    pub given_up: Vec<GivenUp>,
    /// A flush of the backing has failed, and no copy in memory could repair that: writes made
    /// directly to the backing before it may be missing.
    pub unflushed: bool,
    /// An earlier process was killed while a flush of the backing was in progress: writes that had
    /// bypassed the cache before may be missing.
    pub in_doubt: bool,
    /// Number of damaged headers in the memory of an earlier process, whose blocks were left out.
    pub damaged_headers: u64,
}

impl Losses {
    /// Returns one part of a sentence per loss.
    fn parts(&self) -> Vec<String> {
        let given_up = self.given_up.iter().map(|given_up| {
            let amount = Size(given_up.bytes);
            match &given_up.saved_to {
                Some(file) => {
                    format!("{amount} of acknowledged writes was discarded, and is saved in {file}")
                }
                None => format!("{amount} of acknowledged writes was discarded"),
            }
        });
        let mut parts: Vec<String> = given_up.collect();
        if self.unflushed {
            parts.push(
                "a flush of the backing has failed, and writes made directly to it before may be \
                 missing"
                    .to_owned(),
            );
        }
        if self.in_doubt {
            parts.push(
                "an earlier process was killed during a flush of the backing, and writes made \
                 directly to it before may be missing"
                    .to_owned(),
            );
        }
        if self.damaged_headers > 0 {
            parts.push(format!(
                "blocks of {} damaged headers in the memory of an earlier process were left out",
                self.damaged_headers
            ));
        }
        parts
    }

    /// Returns the losses as one sentence without its full stop. None: the daemon has detected no
    /// loss.
    pub fn sentence(&self) -> Option<String> {
        let parts = self.parts();
        (!parts.is_empty()).then(|| parts.join("; "))
    }

    /// Returns a description of the backing once all dirty data has been written back and flushed.
    pub fn outcome(&self, backing: &str) -> String {
        match self.sentence() {
            None => format!("every write acknowledged since its daemon began is on {backing}"),
            Some(missing) => format!(
                "{missing}; every other write acknowledged since its daemon began is on {backing}"
            ),
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn discarded_data_is_not_claimed_to_be_on_the_backing() {
        let mut losses = Losses::default();
        assert_eq!(losses.sentence(), None);
        let all = "every write acknowledged since its daemon began is on g.img";
        assert_eq!(losses.outcome("g.img"), all);
        let saved_to = Some("/safe/F".to_owned());
        losses.given_up.push(GivenUp { bytes: 1 << 20, saved_to });
        losses.given_up.push(GivenUp { bytes: 4096, saved_to: None });
        let outcome = losses.outcome("g.img");
        for words in [
            "1 MiB of acknowledged writes was discarded, and is saved in /safe/F; 4 KiB",
            "every other write",
        ] {
            assert!(outcome.contains(words), "{outcome}");
        }
        let losses = Losses { unflushed: true, damaged_headers: 2, ..Losses::default() };
        let outcome = losses.outcome("g.img");
        assert!(outcome.contains("may be missing; blocks of 2 damaged headers"), "{outcome}");
        let outcome = Losses { in_doubt: true, ..Losses::default() }.outcome("g.img");
        assert!(outcome.starts_with("an earlier process was killed during a flush"), "{outcome}");
    }
}
