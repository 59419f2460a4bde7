//! The suites, one per file, and their shared parts.

mod as_ssd;
mod cdm;
mod consistency;
mod corners;
mod custom;
mod era;
mod filebench;
mod fourcorners;
mod generated;
mod hdtune;
mod iometer;
mod loadtime;
mod parts;
mod pts;
mod qd1;
mod replayed;
mod seqfill;
mod sizes;
mod sweep;
mod title;
mod trim;

pub use era::{Era, plan_in};
pub use qd1::{QD1_READ, QD1_SATURATING, QD1_WRITE};
pub use title::title;

use crate::halt::{Halt, Watch};
use crate::outcome::{IN_USE, Outcome, Row};
use crate::plan::{Plan, Profile};
use crate::plots;
use crate::rig::{Modelled, Rig};
use crate::test_rig::TestRig;
use block::{CacheSpec, Size, WriteMode};

/// A suite: the tests on a device, and their report. It is one file of this folder and a line in
/// [`ALL`].
pub trait Suite: Sync {
    /// Returns its name and its defaults.
    fn profile(&self) -> &'static Profile;

    /// Returns other years, in which reviewers ran it in other ways.
    fn eras(&self) -> Vec<Era> {
        Vec::new()
    }

    /// Runs it. In any case the outcome contains everything measured until then.
    ///
    /// # Errors
    /// Why it is not complete.
    fn run(&self, rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt>;

    /// Returns the cache with this much memory that it uses by default.
    ///
    /// Our own loads need not prove that they flush, so writes are buffered from the first on. The
    /// guard is off, so that a result does not depend on its decisions.
    fn cache(&self, memory: Size) -> CacheSpec {
        usual_cache(memory)
    }

    /// Whether it makes sense without its writes.
    fn without_writes(&self) -> WithoutWrites {
        WithoutWrites::Never
    }

    /// Whether it works on files: those of a directory if the target is one, otherwise by replaying
    /// a recording.
    fn is_of_files(&self) -> bool {
        false
    }

    /// Whether it replays a generated trace, which has a scale.
    fn is_generated(&self) -> bool {
        false
    }

    /// Returns the summary, in one sentence. None: the number of tests is shown.
    fn verdict(&self, _outcome: &Outcome) -> Option<String> {
        None
    }

    /// Returns the figures in the form of the original program. None: there is no such form.
    fn block(&self, _outcome: &Outcome) -> Option<String> {
        None
    }

    /// Returns the page's plots, as SVG elements; by default each row is a bar.
    fn plots(&self, outcome: &Outcome) -> Vec<String> {
        plots::rows(outcome)
    }

    /// Returns the plots of several outcomes that differ in the spare part only; by default those
    /// of each.
    fn overlaid(&self, outcomes: &[Outcome]) -> Vec<String> {
        outcomes.iter().flat_map(|outcome| self.plots(outcome)).collect()
    }
}

/// Whether a suite makes sense without its writes.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub enum WithoutWrites {
    /// No: it measures writes.
    Never,
    /// Its reads are separate tests.
    IfAsked,
    /// Like the program of the same name, it only reads unless writes are allowed.
    Usually,
}

/// Every suite.
pub static ALL: &[&dyn Suite] = &[
    &corners::Corners,
    &fourcorners::FourCorners,
    &consistency::Consistency,
    &trim::Trim,
    &seqfill::Seqfill,
    &qd1::Qd1,
    &sizes::SIZES,
    &sizes::ATTO,
    &cdm::Cdm,
    &as_ssd::AsSsd,
    &hdtune::HdTune,
    &iometer::Iometer,
    &sweep::Sweep,
    &pts::Iops,
    &pts::Throughput,
    &pts::LatencyTest,
    &pts::Saturation,
    &custom::Custom,
    &filebench::FileBench,
    &loadtime::LoadTime,
    &generated::DRIVEBENCH1,
    &generated::DRIVEBENCH2,
    &generated::HEAVY,
    &generated::LIGHT,
    &generated::DESTROYER,
    &generated::PCMARK,
];

/// Returns the suite of this name, ignoring case.
pub fn find(name: &str) -> Option<&'static dyn Suite> {
    ALL.iter().copied().find(|suite| suite.profile().name.eq_ignore_ascii_case(name))
}

/// Runs a suite on the plan's modelled drive, in virtual time. In any case the outcome contains
/// everything measured until then.
///
/// # Errors
/// Returned with the outcome: why it is not complete.
pub fn run(plan: &Plan, watch: &mut dyn Watch) -> (Outcome, Result<(), Halt>) {
    let rig = plan.check().and_then(|()| Modelled::new(&plan.target, plan.prices));
    match rig {
        Ok(rig) => run_on(Box::new(rig), plan, watch),
        Err(what) => (Outcome::new(plan), Err(Halt::Plan(what))),
    }
}

/// Returns the cache of a suite that has no other.
pub fn usual_cache(memory: Size) -> CacheSpec {
    CacheSpec { memory, write: WriteMode::BackNow, guard: false, ..CacheSpec::default() }
}

/// Runs a suite on a rig for the plan's target. In any case the outcome contains everything
/// measured until then.
///
/// # Errors
/// Returned with the outcome: why it is not complete.
pub fn run_on(
    rig: Box<dyn Rig>,
    plan: &Plan,
    watch: &mut dyn Watch,
) -> (Outcome, Result<(), Halt>) {
    let mut outcome = Outcome::new(plan);
    let result = run_into(rig, plan, watch, &mut outcome);
    outcome.complete = result.is_ok();
    (outcome, result)
}

/// A pass of a suite over a rig that several passes share.
#[derive(Clone, Debug)]
pub struct Pass {
    /// The plan: all passes have the same suite and target.
    pub plan: Plan,
    /// The cache keeps its blocks where the suite would empty it.
    pub keeps_cache: bool,
}

/// Runs a suite several times on one device: each pass finds the device, and the cache if it has
/// the same, as the pass before has left them. Each outcome contains everything measured until
/// then.
///
/// # Errors
/// Returned with the outcomes: why the last one is not complete.
pub fn run_passes(
    rig: Box<dyn Rig>,
    passes: &[Pass],
    watch: &mut dyn Watch,
) -> (Vec<Outcome>, Result<(), Halt>) {
    let mut outcomes = Vec::new();
    let Some(first) = passes.first() else { return (outcomes, Ok(())) };
    let start = first.plan.check().map_err(Halt::Plan);
    let mut rig = match start.and_then(|()| TestRig::with_rig(rig, &first.plan, watch)) {
        Ok(rig) => rig,
        Err(halt) => return (outcomes, Err(halt)),
    };
    for pass in passes {
        let mut outcome = Outcome::new(&pass.plan);
        rig.keep_cache(pass.keeps_cache);
        let start = rig.set_cache(&pass.plan);
        let result = start.and_then(|()| run_pass(&mut rig, &pass.plan, &mut outcome));
        outcome.complete = result.is_ok();
        outcomes.push(outcome);
        if result.is_err() {
            return (outcomes, result);
        }
    }
    (outcomes, Ok(()))
}

fn run_into(
    rig: Box<dyn Rig>,
    plan: &Plan,
    watch: &mut dyn Watch,
    outcome: &mut Outcome,
) -> Result<(), Halt> {
    plan.check().map_err(Halt::Plan)?;
    let mut rig = TestRig::with_rig(rig, plan, watch)?;
    run_pass(&mut rig, plan, outcome)
}

fn run_pass(rig: &mut TestRig, plan: &Plan, outcome: &mut Outcome) -> Result<(), Halt> {
    plan.check().map_err(Halt::Plan)?;
    let unknown = || Halt::Plan(format!("there is no suite '{}'", plan.suite.name));
    let suite = find(plan.suite.name).ok_or_else(unknown)?;
    let era = plan.era.map(|year| era::find(suite, year)).transpose().map_err(Halt::Plan)?;
    outcome.time = rig.time();
    if let Some(era) = era {
        outcome.say(format!("The test is that of {era}: {}.", era.about));
    }
    outcome.say(preparation_text(plan, outcome.time));
    outcome.facts = rig.facts();
    let direct = outcome.facts.iter().find(|(name, value)| *name == "direct_io" && value != "yes");
    if let Some((_, why)) = direct.cloned() {
        outcome.say(format!(
            "The target has no direct I/O ({why}): these are figures of the page cache."
        ));
    }
    let in_use = outcome.facts.iter().find(|(name, _)| *name == IN_USE);
    if let Some((_, users)) = in_use.cloned() {
        outcome.say(format!("{users}: the results include the load of other users."));
    }
    let (start_ns, active_ns) = (rig.now(), rig.active_ns());
    let result = suite.run(rig, plan, outcome);
    outcome.elapsed_ns = rig.now() - start_ns;
    let active_ns = rig.active_ns().zip(active_ns).map(|(end, start)| end.saturating_sub(start));
    add_energy(outcome, plan, active_ns);
    outcome.counters = rig.cache_counters();
    outcome.drive = rig.health();
    rig.remarks().iter().for_each(|sentence| outcome.say(sentence));
    // A suite that was stopped in its last part is also interrupted.
    rig.halt().cloned().map_or(result, Err)
}

/// Adds the energy that the drive took, if a source gives its power.
fn add_energy(outcome: &mut Outcome, plan: &Plan, active_ns: Option<u64>) {
    let power = plan.target.model.as_ref().and_then(|model| model.power);
    let Some((power, active_ns)) = power.zip(active_ns) else { return };
    if outcome.rows.is_empty() {
        return;
    }
    let joules = power.joules(outcome.elapsed_ns, active_ns);
    outcome.joules = Some(joules);
    outcome.say(format!(
        "The drive takes {} W when idle and {} W when active; it was active for {:.1} of {:.1} s.",
        power.idle_w,
        power.active_w,
        active_ns.min(outcome.elapsed_ns) as f64 / 1e9,
        outcome.elapsed_ns as f64 / 1e9
    ));
    outcome.rows.push(Row::plain(ENERGY, "J", joules));
}

/// The name of the row of the drive's energy over the whole suite.
const ENERGY: &str = "energy of the drive";

/// Describes the preparation of the drive in one sentence.
fn preparation_text(plan: &Plan, time: &str) -> String {
    let span = block::Size(plan.span());
    if plan.reads_only {
        let idle = match plan.preparation.0.is_empty() {
            true => String::new(),
            false => format!(" It was idle before ({}).", plan.preparation),
        };
        return format!(
            "Reads only: the target was opened read-only, and tests that write were omitted. Reads \
             of parts that were never written do not reach the device.{idle}"
        );
    }
    if time == "real" {
        let (state, own) = (&plan.state, &plan.preparation);
        return format!(
            "The target was used as found. Preparation of the whole: {state}; then of its first \
             {span}: {own}."
        );
    }
    let own = match plan.preparation.0.is_empty() {
        true => String::new(),
        false => format!("; its first {span} were prepared: {}", plan.preparation),
    };
    format!("The drive was purged, then prepared: {}{own}.", plan.state)
}
