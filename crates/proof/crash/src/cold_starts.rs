//! Cold starts: images of the disk from which a process with empty memory has already been started
//! and verified.
//!
//! The behaviour of such a process depends only on the image and on the settings of its engine,
//! unless a seed chooses the order of its tasks. In one history many power cuts leave the same
//! image: each is judged by the promises of its moment, but the process is started on it only once.

use crate::setup::EngineSetup;
use crate::stamp;
use std::collections::BTreeMap;

/// A moment of a run, for the oracle: at equal moments, the same states may be left.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Moment {
    /// The seed of the run.
    pub(crate) run: u64,
    /// The clock of the run's oracle.
    pub(crate) clock: u32,
    /// Number of changes that the write buffer has admitted.
    pub(crate) admissions: u64,
}

/// Whether an image has occurred before.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Image {
    /// It has not.
    New,
    /// It has, at another moment.
    Known,
    /// It has, when the same states could be left.
    Repeated,
}

/// The cold starts of one history, by the settings of the engine: when each image was left last.
#[derive(Default)]
pub(crate) struct ColdStarts {
    images: Vec<(EngineSetup, BTreeMap<u128, Moment>)>,
}

impl ColdStarts {
    /// Notes that a process with these settings would start on this image, which was left now.
    pub(crate) fn insert(&mut self, engine: &EngineSetup, image: &[u8], now: Moment) -> Image {
        let known = self.images.iter().position(|(other, _)| other == engine);
        let index = known.unwrap_or_else(|| {
            self.images.push((engine.clone(), BTreeMap::new()));
            self.images.len() - 1
        });
        match self.images[index].1.insert(stamp::fingerprint(image), now) {
            None => Image::New,
            Some(before) if before == now => Image::Repeated,
            Some(_) => Image::Known,
        }
    }
}

#[cfg(test)]
mod tests {
    use super::*;
    use crate::setup::{Scale, Setup};
    use crate::stamp::GRAIN;

    #[test]
    fn an_image_is_new_once_for_each_engine() {
        let engine = Setup::new(1, Scale::Swarm).engine;
        let other = EngineSetup { slots_least: engine.slots_least + 1, ..engine.clone() };
        let mut image = vec![0; 8 * GRAIN];
        stamp::fill(&mut image, 7, 0);
        let now = Moment { run: 1, clock: 2, admissions: 3 };
        let mut starts = ColdStarts::default();
        assert_eq!(starts.insert(&engine, &image, now), Image::New);
        assert_eq!(starts.insert(&engine, &image, now), Image::Repeated);
        for later in
            [Moment { clock: 3, ..now }, Moment { admissions: 4, ..now }, Moment { run: 2, ..now }]
        {
            assert_eq!(starts.insert(&engine, &image, later), Image::Known);
        }
        assert_eq!(starts.insert(&other, &image, now), Image::New);
        for bit in 0..image.len() * 8 {
            image[bit / 8] ^= 1 << (bit % 8);
            assert_eq!(starts.insert(&engine, &image, now), Image::New, "bit {bit}");
            image[bit / 8] ^= 1 << (bit % 8);
        }
        assert_eq!(starts.insert(&engine, &image, now), Image::Known);
    }
}
