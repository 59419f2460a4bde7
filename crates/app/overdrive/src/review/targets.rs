//! The target of a review, and the rigs on it.

use super::{Arguments, With, usage};
use crate::bench::live;
use crate::volumes;
use block::Size;
use load::Content;
use rigs::{Live, Wishes};
use stack::Failure;
use suites::{Modelled, Plan, Rig, SPAN_MIN, Target};

/// The baseline of modelled drives: a hard drive of a notebook, as The Tech Report's was.
const BASELINE: &str = "model:disk-5400-1000";

/// The target of a review.
pub(super) struct Place {
    target: Target,
    baseline: Option<Target>,
    size: Option<Size>,
    destroy: bool,
}

impl Place {
    /// Returns the target of a command.
    ///
    /// # Errors
    /// It cannot be reviewed, or an option does not fit it.
    pub(super) fn of(arguments: &Arguments) -> Result<Place, Failure> {
        let text = &arguments.target;
        let parse = |text: &str| Target::parse(text).map_err(|error| usage(error.to_string()));
        let baseline = arguments.baseline.as_deref();
        let with = |column| arguments.with.contains(&column);
        if stack::below_limits(text).starts_with("model:") {
            if arguments.destroy || arguments.size.is_some() {
                let what = "is for targets in real time; a modelled drive has no data to lose";
                return Err(usage(format!("--destroy, --size: {what}")));
            }
            if with(With::PageCache) {
                let what = "a modelled drive has no page cache; name a file or a device";
                return Err(usage(format!("--with page-cache: {what}")));
            }
            let baseline = Some(parse(baseline.unwrap_or(BASELINE))?);
            return Ok(Place { target: parse(text)?, baseline, size: None, destroy: false });
        }
        if with(With::Rapid) {
            let what = "its numbers are for modelled drives in virtual time; write model:NAME";
            return Err(usage(format!("--with rapid: {what}")));
        }
        if arguments.prices.is_some() {
            let what = "they are only used in virtual time; omit them for a real target";
            return Err(usage(format!("--prices: {what}")));
        }
        let mut place = Place {
            target: Target::of_rig(text, 0, live::SEED),
            baseline: baseline.map(parse).transpose()?,
            size: arguments.size,
            destroy: arguments.destroy,
        };
        if let Some(size) = place.size.filter(|size| size.0 < SPAN_MIN) {
            let least = Size(SPAN_MIN);
            return Err(usage(format!("--size {size}: a suite works on at least {least}")));
        }
        // Opened once before, so that a refusal comes before anything is written.
        place.target = Target::of_rig(text, place.open(false)?.bytes(), live::SEED);
        if with(With::PageCache) {
            drop(place.open(true)?);
        }
        Ok(place)
    }

    /// Whether the target is a modelled drive.
    pub(super) fn is_virtual(&self) -> bool {
        self.target.model.is_some()
    }

    pub(super) fn target(&self) -> &Target {
        &self.target
    }

    pub(super) fn title(&self) -> &str {
        self.target.title()
    }

    /// Returns the target of the baseline as it was written.
    pub(super) fn baseline(&self) -> Option<&str> {
        self.baseline.as_ref().map(|target| target.text.as_str())
    }

    pub(super) fn baseline_target(&self) -> Option<&Target> {
        self.baseline.as_ref()
    }

    /// Returns facts about the machine and the drive: names and values.
    pub(super) fn facts(&self) -> Vec<(String, String)> {
        let size = Size(self.target.bytes()).to_string();
        let machine = if self.is_virtual() { Vec::new() } else { rigs::machine() };
        let machine = machine.into_iter().map(|(name, value)| (name.to_owned(), value));
        [("size".to_owned(), size)].into_iter().chain(machine).collect()
    }

    fn open(&self, is_buffered: bool) -> Result<Live, Failure> {
        let (limits, below) = stack::split_limits(&self.target.text).map_err(usage)?;
        let content = Content { seed: live::draw_seed()?, data_percent: 100, dedupe_percent: 0 };
        let wishes = Wishes {
            size: self.size,
            destroy: self.destroy,
            read_only: false,
            verify: false,
            content,
        };
        let is_name = !below.contains([':', '/']) && self.size.is_none();
        let is_name = is_name && !std::path::Path::new(below).exists();
        let uri = if is_name { volumes::uri(below)? } else { None };
        let text = uri.as_deref().unwrap_or(below);
        let rig = match is_buffered {
            true => Live::open_buffered(text, &wishes)?,
            false => Live::open(text, &wishes)?,
        };
        Ok(rig.limited(&limits))
    }

    /// Returns a rig for a plan: a new modelled drive, or the target itself.
    ///
    /// # Errors
    /// The target cannot be opened any more, or its options do not fit.
    pub(super) fn rig(&self, plan: &Plan, is_buffered: bool) -> Result<Box<dyn Rig>, Failure> {
        if plan.target.model.is_some() {
            return Ok(Box::new(Modelled::new(&plan.target, plan.prices).map_err(usage)?));
        }
        Ok(Box::new(self.open(is_buffered)?))
    }
}
