//! Cold starts: images of the disk that a process with empty memory has shown as they are.
//!
//! Of such a process nothing but the image and the settings of its engine decides what it does, unless
//! a seed chooses the order of its tasks. In one history many power cuts leave the same image: each is
//! judged by what was promised at its moment, but the process starts on it only once.

use crate::setup::EngineSetup;
use crate::stamp;
use std::collections::HashSet;

/// The cold starts of one history, by the settings of the engine.
#[derive(Default)]
pub(crate) struct ColdStarts {
    images: Vec<(EngineSetup, HashSet<u128>)>,
}

impl ColdStarts {
    /// A process with these settings starts on this image. False: one has done so before.
    pub(crate) fn insert(&mut self, engine: &EngineSetup, image: &[u8]) -> bool {
        let known = self.images.iter().position(|(other, _)| other == engine);
        let index = known.unwrap_or_else(|| {
            self.images.push((engine.clone(), HashSet::new()));
            self.images.len() - 1
        });
        self.images[index].1.insert(stamp::fingerprint(image))
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
        let mut starts = ColdStarts::default();
        assert!(starts.insert(&engine, &image));
        assert!(!starts.insert(&engine, &image));
        assert!(starts.insert(&other, &image));
        for bit in 0..image.len() * 8 {
            image[bit / 8] ^= 1 << (bit % 8);
            assert!(starts.insert(&engine, &image), "bit {bit}");
            image[bit / 8] ^= 1 << (bit % 8);
        }
        assert!(!starts.insert(&engine, &image));
    }
}
