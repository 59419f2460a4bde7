//! FileBench on a mounted file system: copies of file sets, fresh and used.

use super::bench_folder::{BenchFolder, left_before};
use super::look::{Look, failed};
use super::set::Set;
use super::site::TestDirectory;
use crate::{Live, Wishes, machine};
use block::{Error, Kind, Size};
use load::Content;
use rustix::fs::{FallocateFlags, OFlags, fallocate, ftruncate};
use rustix::io::Errno;
use stack::{Exit, Failure};
use std::fs::File;
use std::path::{Path, PathBuf};
use suites::{
    FILE_SETS, FileSet, Halt, Outcome, Plan, Preparation, Row, Step, Target, TestRig, Watch,
};

/// Default part of the free space that random writes fill for the used state.
const USED_PERCENT: u64 = 90;

/// The file of random writes, and the unit and minimum of its size.
const WORN_FILE: &str = "random-writes";
const WORN_UNIT: u64 = 1 << 20;

/// Options of the suite.
#[derive(Clone, Copy, PartialEq, Debug)]
pub struct Wanted {
    /// The part of each set, in percent: above 0, at most 100.
    pub share_percent: f64,
    /// Bytes of the file of random writes for the used state. None: nine tenths of the free space.
    pub worn_bytes: Option<u64>,
}

/// A run that is ready to start.
pub struct FileBench {
    site: TestDirectory,
    folder: BenchFolder,
    left_before: Vec<PathBuf>,
    plan: Plan,
    wanted: Wanted,
}

/// The used state, and how it was reached.
struct Worn {
    /// The steps that led to it.
    preparation: String,
    /// The size of the file of random writes.
    bytes: u64,
}

/// The action named in errors about the file of random writes.
const MAKING_WORN: &str = "make the file of the random writes";

/// Gives a new file this size, and allocates its space.
fn extend(file: &File, bytes: u64) -> Result<(), Halt> {
    let space = || fallocate(file, FallocateFlags::empty(), 0, bytes);
    match ftruncate(file, bytes).and_then(|()| space()) {
        // On a file system without fallocate, space is allocated when it is written.
        Ok(()) | Err(Errno::OPNOTSUPP) => Ok(()),
        Err(errno) => Err(failed(MAKING_WORN)(errno.into())),
    }
}

/// The states, in order.
const STATES: [&str; 2] = ["fresh", "used"];

fn test(set: &FileSet, state: &str) -> String {
    format!("{}, {state}", set.name)
}

impl FileBench {
    /// Checks the free space, and creates the folder.
    ///
    /// # Errors
    /// The directory does not exist, cannot be written, or has too little space, with the space
    /// needed. Or the plan selects only a test that does not exist.
    pub fn open(directory: &Path, plan: &Plan, wanted: Wanted) -> Result<FileBench, Failure> {
        let site = TestDirectory::find(directory)?;
        if let Some(bytes) = wanted.worn_bytes.filter(|bytes| *bytes < WORN_UNIT) {
            let message =
                format!("--span {}: random writes need a file of at least 1M", Size(bytes));
            return Err(Failure::new(Exit::Usage, message));
        }
        let of_plan = |set: &&FileSet| STATES.iter().any(|state| plan.selects(&test(set, state)));
        let sets = FILE_SETS.iter().filter(of_plan).map(|set| set.scaled(wanted.share_percent));
        let Some(largest) = sets.max_by_key(|set| set.bytes + 4096 * set.files) else {
            let only = plan.only.as_deref().unwrap_or_default();
            let tests = FILE_SETS.map(|set| test(&set, "fresh")).join("; ");
            let message = format!(
                "--only {only}: {} has no such test; it has {tests}, and each of these as 'used'",
                plan.suite.name
            );
            return Err(Failure::new(Exit::Usage, message));
        };
        let what = format!("the set {} and its copy", largest.name);
        site.check_room(2 * largest.files, 2 * largest.bytes, &what)?;
        let left_before = left_before(directory);
        let folder = BenchFolder::new(directory)?;
        Ok(FileBench { site, folder, left_before, plan: plan.clone(), wanted })
    }

    /// Returns folders that earlier runs have left behind, for example because they were killed.
    /// They are not changed.
    pub fn left_before(&self) -> &[PathBuf] {
        &self.left_before
    }

    /// Removes the folder with everything created in it, and nothing else. If this is not called,
    /// dropping does the same without reporting errors.
    ///
    /// # Errors
    /// The files left behind, and why.
    pub fn remove(mut self) -> Result<(), Failure> {
        self.folder.remove()
    }

    /// Copies the sets. In any case the outcome contains everything measured until then.
    ///
    /// # Errors
    /// Returned with the outcome: why it is not complete.
    pub fn run(&mut self, watch: &mut dyn Watch) -> (Outcome, Result<(), Halt>) {
        let mut outcome = Outcome::new(&self.plan);
        outcome.time = "real";
        outcome.facts = machine();
        outcome.facts.extend(self.site.facts());
        outcome.method.extend(self.method());
        let look = &mut Look::new(watch);
        let start_ns = super::look::now_ns();
        let result = STATES.iter().try_for_each(|state| self.state(state, look, &mut outcome));
        outcome.elapsed_ns = super::look::now_ns() - start_ns;
        outcome.complete = result.is_ok();
        (outcome, result)
    }

    fn method(&self) -> Vec<String> {
        let share = match self.wanted.share_percent {
            100.0 => "each set whole".to_owned(),
            percent => format!("{percent} % of each set"),
        };
        vec![
            format!(
                "Copies of generated files within {}, {share}, in a folder of their own. Before each \
                 copy its sources were made durable and dropped from the page cache (posix_fadvise); their names and \
                 inodes stay cached.",
                self.plan.target.text
            ),
            "Files are read and written one after the other, 128 KiB at a time. One syncfs of the whole file system ends \
             a copy and is part of its time."
                .to_owned(),
            "Fresh is the file system as found: it was not erased. Used is after random writes of \
             4 KiB, 32 at a time, to a separate file, which is removed before the copies."
                .to_owned(),
        ]
    }

    /// Runs all copies of a state.
    fn state(
        &mut self,
        state: &str,
        look: &mut Look<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Halt> {
        let wanted = |set: &&FileSet| self.plan.selects(&test(set, state));
        let sets: Vec<&FileSet> = FILE_SETS.iter().filter(wanted).collect();
        if sets.is_empty() {
            return Ok(());
        }
        let worn = match state {
            "used" => Some(self.wear(look, outcome)?),
            _ => None,
        };
        sets.into_iter().try_for_each(|set| self.copy(set, state, worn.as_ref(), look, outcome))
    }

    fn copy(
        &mut self,
        whole: &FileSet,
        state: &str,
        worn: Option<&Worn>,
        look: &mut Look<'_>,
        outcome: &mut Outcome,
    ) -> Result<(), Halt> {
        let scaled = whole.scaled(self.wanted.share_percent);
        let shortened = self.shortened(whole, &scaled, worn);
        let set = Set::new(scaled, self.plan.target.options.seed);
        let folder = self.folder.own();
        set.make(folder, look)?;
        let coldness = set.drop_from_page_cache(folder, look)?;
        let (copied, result) = set.copy(folder, look);
        let mb_per_second = copied.bytes as f64 * 1e3 / copied.took_ns.max(1) as f64;
        let row = Row::plain(test(whole, state), "MB/s", mb_per_second);
        let prepared = worn.map_or("as found", |worn| &worn.preparation);
        if copied.bytes > 0 {
            outcome.rows.push(Row {
                cold: coldness.is_cold(),
                flush_ns: (copied.sync_ns > 0).then_some(copied.sync_ns),
                prepared: format!("{prepared}, sources dropped: {}", coldness.text()),
                shortened,
                partial: result.is_err(),
                ..row
            });
        }
        result?;
        set.remove(folder)
    }

    /// Describes how a row is shorter than the test of the review.
    fn shortened(&self, whole: &FileSet, set: &FileSet, worn: Option<&Worn>) -> Option<String> {
        let mut how = Vec::new();
        if set != whole {
            how.push(format!("{} of {} files", set.files, whole.files));
            how.push(format!(
                "{:.1} of {:.0} MB",
                set.bytes as f64 / 1e6,
                whole.bytes as f64 / 1e6
            ));
        }
        if let Some(worn) = worn {
            how.extend(self.time_shortened());
            let is_asked = self.wanted.worn_bytes.is_some();
            how.extend(is_asked.then(|| format!("random writes over {} only", Size(worn.bytes))));
        }
        (!how.is_empty()).then(|| how.join(", "))
    }

    /// Describes how the random writes are shorter than those of the review.
    fn time_shortened(&self) -> Option<String> {
        let (time_ns, usual_ns) = (self.plan.time_ns, self.plan.suite.time_ns);
        let seconds = |ns: u64| ns as f64 / 1e9;
        (time_ns < usual_ns)
            .then(|| format!("random writes for {} of {} s", seconds(time_ns), seconds(usual_ns)))
    }

    /// Brings the file system into the used state.
    fn wear(&mut self, look: &mut Look<'_>, outcome: &mut Outcome) -> Result<Worn, Halt> {
        let free = self.site.room().map_err(|failure| Halt::Plan(failure.message))?.bytes;
        let usual = free / 100 * USED_PERCENT;
        let bytes = self.wanted.worn_bytes.unwrap_or(usual).min(usual) / WORN_UNIT * WORN_UNIT;
        if bytes == 0 {
            return Err(Halt::Failed(Error::new(Kind::NoSpace, MAKING_WORN)));
        }
        let file =
            self.folder.own().make_file(WORN_FILE, OFlags::RDWR).map_err(failed(MAKING_WORN))?;
        let worn =
            extend(&file, bytes).and_then(|()| self.write_at_random(file, bytes, look, outcome));
        // A failure to remove it is reported at the end.
        let _ = self.folder.own().remove_file(WORN_FILE);
        worn
    }

    fn write_at_random(
        &self,
        file: File,
        bytes: u64,
        look: &mut Look<'_>,
        outcome: &mut Outcome,
    ) -> Result<Worn, Halt> {
        let seed = self.plan.target.options.seed;
        let content = Content::random(seed);
        let wishes =
            Wishes { size: None, destroy: false, read_only: false, verify: false, content };
        let rig = Live::from_file(file.into(), &wishes);
        let rig = rig.map_err(|failure| Halt::Plan(failure.message))?;
        let torture = Step::torture(self.plan.time_ns);
        let steps = Preparation(vec![Step::Fill { data_percent: 100 }, torture]);
        let target = Target::of_rig(&self.plan.target.text, bytes, seed);
        let plan = Plan { target, cache: None, ..self.plan.clone() };
        let mut rig = TestRig::with_rig(Box::new(rig), &plan, look.watch())?;
        let prepared = rig.prepare(&steps, bytes, seed);
        let preparation = format!("{steps} on a file of {}", Size(bytes));
        for record in prepared.iter().flatten() {
            let row = Row::rate("random writes before the used state", record);
            let shortened = self.time_shortened();
            outcome.rows.push(Row { prepared: preparation.clone(), shortened, ..row });
        }
        rig.halt().cloned().map_or(Ok(()), Err)?;
        prepared.map(|_| Worn { preparation, bytes })
    }
}

#[cfg(test)]
mod tests {
    use super::*;

    #[test]
    fn only_what_is_full_is_called_so() {
        let file = tempfile::NamedTempFile::new().expect("a file");
        let kind = |file: &File, bytes| match extend(file, bytes) {
            Err(Halt::Failed(error)) => Some(error.kind),
            _ => None,
        };
        assert_eq!(kind(file.as_file(), 1 << 20), None);
        // Larger than a file can be.
        assert_eq!(kind(file.as_file(), 1 << 62), Some(Kind::NoSpace));
        let read_only = File::open(file.path()).expect("it is there");
        assert_eq!(kind(&read_only, 1 << 20), Some(Kind::Invalid));
    }
}
