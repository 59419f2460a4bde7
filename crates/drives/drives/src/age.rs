//! Ages a modelled drive to random steady state, without time, and compares the result with theory.

use crate::{
    Attribute, Fast, FlashModel, Health, Kind, Model, Options, Predicted, Random, SLOT_BYTES,
    predicted,
};
use alloc::string::{String, ToString};
use alloc::vec::Vec;
use core::fmt;

/// The result of ageing.
#[derive(Clone, Debug)]
pub struct Aged {
    /// The drive's health afterwards.
    pub health: Health,
    /// The same as the vendor's attributes.
    pub attributes: Vec<Attribute>,
    /// Random overwrites of the whole drive until it was steady.
    pub overwrites: f64,
    /// Amplification of the last quarter of an overwrite.
    pub simulated: f64,
    /// The drive's flash in use, divided by the visible size.
    pub alpha: f64,
    /// The amplification predicted by theory, for victims with a closed form.
    pub predicted: Option<Predicted>,
    /// Whether two quarters were close enough to each other.
    pub steady: bool,
}

/// Reason why a drive was not aged.
#[derive(Clone, PartialEq, Eq, Debug)]
pub enum Ageless {
    /// A hard disk has no flash.
    Disk,
    /// The drive cannot be built; the text names the wrong numbers.
    Broken(String),
}

impl fmt::Display for Ageless {
    fn fmt(&self, f: &mut fmt::Formatter<'_>) -> fmt::Result {
        match self {
            Ageless::Disk => f.write_str("a hard disk has no flash; name a flash drive"),
            Ageless::Broken(words) => f.write_str(words),
        }
    }
}

impl core::error::Error for Ageless {}

/// Windows of an overwrite, and the maximum difference of two quarters in steady state.
const WINDOWS: u64 = 16;
const NEAR: f64 = 0.01;
/// Maximum number of overwrites.
const MOST: u64 = 6;

/// Fills the drive sequentially, then writes at random over all of it until the amplification of a
/// quarter of an overwrite differs by less than a percent from that of the quarter before. Calls
/// `progress` with the bytes written and their maximum.
///
/// # Errors
/// A hard disk does not age, or the drive cannot be built.
pub fn age(model: &Model, progress: &mut dyn FnMut(u64, u64)) -> Result<Aged, Ageless> {
    let Kind::Flash(flash) = &model.kind else { return Err(Ageless::Disk) };
    let ftl = model.ftl(&Options::default());
    let ftl = ftl.map_err(|error| Ageless::Broken(error.to_string()))?;
    let mut fast = Fast::new(ftl.expect("a flash drive"));
    Ok(settle(flash, &mut fast, progress))
}

fn settle(flash: &FlashModel, fast: &mut Fast, progress: &mut dyn FnMut(u64, u64)) -> Aged {
    let slots = u64::from(fast.ftl().shape().logical_slots);
    let window = (slots / WINDOWS).max(1);
    let most = slots * (1 + MOST) * SLOT_BYTES;
    let mut show_progress =
        |fast: &Fast| progress(fast.ftl().counters().host_writes * SLOT_BYTES, most);
    for part in 0..WINDOWS {
        let first = part * window;
        let end = if part + 1 == WINDOWS { slots } else { first + window };
        fast.write_sequential(first as u32, end - first);
        show_progress(fast);
    }
    let mut random = Random::new(1);
    let mut before = *fast.ftl().counters();
    let (mut quarters, mut steady) = (Vec::new(), false);
    while quarters.len() < 4 * MOST as usize && !steady {
        for _ in 0..WINDOWS / 4 {
            fast.write_random(u32::MAX, window, &mut random);
            show_progress(fast);
        }
        quarters.push(fast.ftl().counters().amplification_since(&before));
        before = *fast.ftl().counters();
        // The first overwrite still affects data that was written in order.
        steady = match quarters.as_slice() {
            [_, _, _, .., last, now] => (now / last - 1.0).abs() < NEAR,
            _ => false,
        };
    }
    let ftl = fast.ftl();
    let health = Health::of_ftl(flash, ftl, 0);
    Aged {
        health,
        attributes: health.attributes(flash.vendor),
        overwrites: quarters.len() as f64 / 4.0,
        simulated: quarters.last().copied().unwrap_or(1.0),
        alpha: ftl.alpha(),
        predicted: predicted(ftl.settings().victims, ftl.alpha(), ftl.shape().superblock_slots()),
        steady,
    }
}
