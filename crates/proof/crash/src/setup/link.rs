//! Histories whose disk is the export of a server, behind a link.

use super::dice::Dice;
use super::{Scale, Setup};
use crate::model::Faults;
use block::{Discard, Fua, LinkDown};
use lane::Random;

/// The link of a history.
#[derive(Clone, Copy, Debug)]
pub struct LinkPlan {
    /// How the engine handles a link that is down.
    pub policy: LinkDown,
    /// Number of cuts and restarts in the life of each process.
    pub events: u32,
    /// The longest time between two of them, in virtual nanoseconds.
    pub gap_ns: u64,
    /// Whether a next process cannot read the answers of a killed one.
    pub is_encrypted: bool,
}

impl Dice {
    /// Makes the disk the export of a server. Nothing but the link and the server fails.
    pub(super) fn plan_link(&mut self, setup: &mut Setup) {
        setup.faults = Faults::default();
        (setup.flushes_fail, setup.clears, setup.discards, setup.looks) = (false, 0, 0, 0);
        setup.kills_after_flush = false;
        let model = &mut setup.model;
        (model.over_link, model.answers_now) = (true, false);
        (model.absent, setup.cut) = (0, 0);
        (model.discard, model.fua) = (Discard::Zeroes, self.pick(&[Fua::Native, Fua::None]));
        let policy = self.pick(&[LinkDown::Wait, LinkDown::Wait, LinkDown::Fail]);
        // With separate dice: the histories of the other policies stay unchanged.
        let policy = match policy {
            LinkDown::Fail if Random::new(setup.seed ^ 0x005e_4e0c).one_in(2) => {
                LinkDown::ServeClean
            }
            policy => policy,
        };
        // At least one second, as in the product.
        setup.engine.stall_time_ns = self.pick(&[1_000_000_000, 5_000_000_000]);
        setup.engine.retry_time_ns = self.pick(&[20_000_000, setup.engine.stall_time_ns]);
        if policy != LinkDown::Wait {
            setup.clears = self.number_between(0, 3);
        }
        let small = setup.scale == Scale::Exhaustive;
        setup.link = Some(LinkPlan {
            policy,
            events: if small { self.number_between(1, 2) } else { self.number_between(1, 6) },
            gap_ns: setup.model.latency_ns * self.pick(&[2, 8, 40]),
            is_encrypted: self.0.one_in(3),
        });
        setup.mix.flush = setup.mix.flush.max(self.number_between(1, 3));
        setup.takeovers = setup.takeovers.max(self.number_between(0, 2));
        // Most requests meet others of the same blocks.
        setup.hot_one_in = self.pick(&[1, 1, 2, setup.hot_one_in]);
    }
}
