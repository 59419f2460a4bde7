//! `--export-fio`: the loads of a suite as a job file of fio.

use super::{Arguments, incomplete, plan, runs};
use crate::page_file::PageFile;
use stack::{Exit, Failure};
use std::path::Path;
use std::process::ExitCode;
use suites::Listing;

/// Writes the loads of a suite as a job file of fio.
pub(super) fn run(arguments: &Arguments, file: &Path) -> Result<ExitCode, Failure> {
    let text = arguments.target();
    if arguments.suite().is_of_files() {
        let message = format!(
            "--export-fio: {} copies or reads files, which a job of fio cannot do in the same way",
            arguments.suite().profile().name
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    if arguments.suite().is_generated() {
        let name = arguments.suite().profile().name;
        let message = format!(
            "--export-fio: {name} replays a trace; write it by 'overdrive trace generate {name} \
             FILE', and convert it with --to fio-3"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    if ["model:", "null:", "ram:"].iter().any(|kind| text.starts_with(kind)) {
        let message = format!("{text}: fio runs on files, devices and exports; name one of these");
        return Err(Failure::new(Exit::Usage, message));
    }
    if stack::below_limits(text) != text {
        let message = format!("{text}: a job of fio has no such limit; name the target below it");
        return Err(Failure::new(Exit::Usage, message));
    }
    let (target, place) = arguments.live.look(text)?;
    if let Some(why) = place.misread() {
        let message = format!(
            "--export-fio: {text:?}: fio {why}, and would measure another file; rename it, or name a link to it"
        );
        return Err(Failure::new(Exit::Usage, message));
    }
    let page = PageFile::open(file, &arguments.inputs())?;
    let (jobs, reads_only) = (plan::jobs(arguments)?, arguments.live.is_read_only());
    if reads_only {
        arguments.live.reads_only(text, arguments.suite(), &jobs)?;
    }
    let spare_percent = runs::only_spare(arguments)?;
    let plan = plan::of_target(arguments, target, jobs, spare_percent, reads_only)?;
    let Listing { loads, ended, .. } = suites::list(&plan);
    ended.map_err(|halt| incomplete::failure(&plan, &halt))?;
    let usual = arguments.live.content();
    let content = |name: &str| {
        let job = plan.jobs.iter().find(|job| job.name() == name);
        job.map_or(usual, |job| job.content(usual))
    };
    let loads = loads.into_iter().map(|(name, load)| {
        let content = content(&name);
        (name, load, content)
    });
    let loads: Vec<_> = loads.collect();
    page.write(&suites::fio::job_file(plan.suite.name, &place, &loads))?;
    Ok(ExitCode::SUCCESS)
}
