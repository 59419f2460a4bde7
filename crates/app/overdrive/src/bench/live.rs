//! Targets in real time: their special options, and how they are found.

use crate::volumes;
use block::Size;
use daemon::units;
use load::Content;
use rigs::{Live, Wishes};
use stack::{Exit, Failure};
use std::io::Read;
use std::path::Path;
use suites::fio::FioTarget;
use suites::{Job, SPAN_MIN, Suite, Target, WithoutWrites};

/// Number of modelled drives suggested if no target has the given name.
const SUGGESTIONS_MAX: usize = 4;
/// Seed of all random choices of a suite.
pub(crate) const SEED: u64 = 1;

/// Returns a seed for this run's data, so that data of another run differs from it.
pub(crate) fn draw_seed() -> Result<u64, Failure> {
    let mut bytes = [0; 8];
    let random = std::fs::File::open("/dev/urandom").and_then(|mut it| it.read_exact(&mut bytes));
    random.map_err(|error| Failure::new(Exit::Io, format!("/dev/urandom: {error}")))?;
    Ok(u64::from_ne_bytes(bytes))
}

/// Whether a target is memory, which stores nothing and requires no pauses.
pub(crate) fn is_memory(text: &str) -> bool {
    let text = stack::below_limits(text);
    text.starts_with("null:") || text.starts_with("ram:")
}

/// A target in real time that is open.
pub(crate) struct Opened {
    pub(crate) target: Target,
    pub(crate) rig: Live,
    /// The suite may only read.
    pub(crate) reads_only: bool,
}

/// Options for targets in real time.
#[derive(clap::Args, Debug)]
pub(crate) struct LiveOptions {
    /// Accept the loss of the target's data: the suite writes to the target.
    #[arg(long)]
    destroy: bool,

    /// Only read, so that the target keeps its data; it is opened read-only, even while it is
    /// mounted.
    #[arg(long, conflicts_with_all = ["destroy", "size", "verify", "data", "dedupe"])]
    read_only: bool,

    /// Make a file of this size for the duration of the test.
    #[arg(long, value_name = "SIZE", value_parser = units::size)]
    size: Option<Size>,

    /// Compare reads with the written data; stale duplicates are not detected.
    #[arg(long)]
    verify: bool,

    /// Percentage of the written data that cannot be compressed [default: 100]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    data: Option<u32>,

    /// Percentage of the written data that is duplicate, in blocks of 4 KiB [default: 0]
    #[arg(long, value_name = "PERCENT", value_parser = clap::value_parser!(u32).range(0..=100))]
    dedupe: Option<u32>,
}

impl LiveOptions {
    /// Checks the size of a file before it is made.
    fn check_size(&self) -> Result<(), Failure> {
        match self.size {
            Some(size) if size.0 < SPAN_MIN => {
                let least = Size(SPAN_MIN);
                let message =
                    format!("--size {size}: a suite works on at least {least}; write more");
                Err(Failure::new(Exit::Usage, message))
            }
            Some(size) => size
                .volume_sectors()
                .map(drop)
                .map_err(|what| Failure::new(Exit::Usage, format!("--size {size}: {what}"))),
            None => Ok(()),
        }
    }

    /// Whether only reads were requested.
    pub(crate) fn is_read_only(&self) -> bool {
        self.read_only
    }

    /// Whether a file is made.
    pub(crate) fn makes_file(&self) -> bool {
        self.size.is_some()
    }

    /// Refuses these options for a modelled drive.
    pub(crate) fn check_unused(&self) -> Result<(), Failure> {
        let mends = [
            "a modelled drive has no data to lose",
            "a modelled drive is new, and has no data",
            "write model:NAME?size=SIZE",
            "in virtual time a modelled drive has no data",
            "write model:NAME?data=PERCENT",
            "write model:NAME?dedupe=PERCENT",
        ];
        self.refuse("is for targets in real time", mends)
    }

    /// Refuses these options for the files of a directory.
    pub(super) fn check_unused_on_files(&self) -> Result<(), Failure> {
        let mends = [
            "existing files are not written",
            "existing files are not written; loadtime only reads",
            "write --share PERCENT for smaller sets of files",
            "data read from files is not compared",
            "each set has its own data",
            "the sets have no duplicates",
        ];
        self.refuse("is for files, devices and exports as a whole", mends)
    }

    /// Refuses the first option that was given, with a correction.
    fn refuse(&self, why: &str, mends: [&str; 6]) -> Result<(), Failure> {
        let said = [
            ("--destroy", self.destroy),
            ("--read-only", self.read_only),
            ("--size", self.size.is_some()),
            ("--verify", self.verify),
            ("--data", self.data.is_some()),
            ("--dedupe", self.dedupe.is_some()),
        ];
        let mut said = said.iter().zip(mends).filter(|((_, is_said), _)| *is_said);
        match said.next() {
            Some(((option, _), mend)) => {
                Err(Failure::new(Exit::Usage, format!("{option}: {why}; {mend}")))
            }
            None => Ok(()),
        }
    }

    /// Whether the target is only read: because of the option, or because the suite only reads if
    /// it may not write.
    ///
    /// # Errors
    /// The suite, or a custom load, makes no sense without writes.
    pub(super) fn reads_only(
        &self,
        text: &str,
        suite: &dyn Suite,
        jobs: &[Job],
    ) -> Result<bool, Failure> {
        let name = suite.profile().name;
        let writing = jobs.iter().find(|job| name == "custom" && job.reads_percent < 100);
        let may_write = self.destroy || self.size.is_some() || self.verify || is_memory(text);
        let usage = |what: String| Err(Failure::new(Exit::Usage, format!("--read-only: {what}")));
        match (suite.without_writes(), writing) {
            (WithoutWrites::Never, _) if self.read_only => {
                let others =
                    suites::ALL.iter().map(|suite| (suite.without_writes(), suite.profile()));
                let others = others.filter(|(without, _)| *without != WithoutWrites::Never);
                let others: Vec<&str> = others.map(|(_, profile)| profile.name).collect();
                usage(format!("{name} writes; choose one of {}", others.join(", ")))
            }
            (_, Some(job)) if self.read_only => usage(format!(
                "load '{}' writes; write 'reads = 100' for it, or --reads 100",
                job.name()
            )),
            (WithoutWrites::Usually, None) => Ok(self.read_only || !may_write),
            _ => Ok(self.read_only),
        }
    }

    /// Returns the content of writes.
    pub(super) fn content(&self) -> Content {
        Content {
            seed: load::content_seed(SEED),
            data_percent: self.data.unwrap_or(100),
            dedupe_percent: self.dedupe.unwrap_or(0),
        }
    }

    /// Returns the URI of a volume given by name; None: the text is not a name, but a path or a
    /// URI, or a file is made.
    ///
    /// # Errors
    /// Neither a file nor a volume has that name; similar modelled drives are listed.
    fn uri(&self, text: &str) -> Result<Option<String>, Failure> {
        let is_name = !text.contains([':', '/']) && !Path::new(text).exists();
        if !is_name || self.size.is_some() {
            return Ok(None);
        }
        let uri = volumes::uri(text)?;
        let near = stack::similar(text, drives::Model::names(), SUGGESTIONS_MAX);
        if uri.is_some() || near.is_empty() {
            return Ok(uri);
        }
        let near: Vec<String> = near.iter().map(|name| format!("model:{name}")).collect();
        let message = format!(
            "{text}: there is no such file, and no served volume of that name; did you mean {}?",
            near.join(" or ")
        );
        Err(Failure::new(Exit::Negative, message))
    }

    /// Returns the target as fio would find it, and its size: nothing is written, so no data is
    /// lost.
    pub(super) fn look(&self, text: &str) -> Result<(Target, FioTarget), Failure> {
        self.check_size()?;
        let uri = self.uri(text)?;
        let place = uri.as_deref().unwrap_or(text);
        let bytes = match self.size {
            Some(size) => size.0,
            None => rigs::size_of(place)?,
        };
        let place = match place.starts_with("nbd+unix://") {
            true => FioTarget::Uri(place.to_owned()),
            false => FioTarget::Path(place.to_owned()),
        };
        Ok((Target::of_rig(text, bytes, SEED), place))
    }

    /// Opens a target for a suite: the file or device at this path, or the volume of this name,
    /// with its limits.
    pub(super) fn open(
        &self,
        text: &str,
        suite: &dyn Suite,
        jobs: &[Job],
    ) -> Result<Opened, Failure> {
        self.open_as(text, self.reads_only(text, suite, jobs)?)
    }

    /// Opens a target, only for reads or for all requests.
    pub(crate) fn open_as(&self, text: &str, reads_only: bool) -> Result<Opened, Failure> {
        self.check_size()?;
        let wishes = Wishes {
            size: self.size,
            destroy: self.destroy,
            read_only: reads_only,
            verify: self.verify,
            content: Content { seed: draw_seed()?, ..self.content() },
        };
        let (limits, below) =
            stack::split_limits(text).map_err(|what| Failure::new(Exit::Usage, what))?;
        let uri = self.uri(below)?;
        let rig = Live::open(uri.as_deref().unwrap_or(below), &wishes)?.limited(&limits);
        if let Some(users) = rig.in_use() {
            daemon::tell!(
                "overdrive: {users}; it is only read, and the results include the load of other \
                 users"
            );
        }
        Ok(Opened { target: Target::of_rig(text, rig.bytes(), SEED), rig, reads_only })
    }
}
