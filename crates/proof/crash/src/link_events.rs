//! The events of a link: cuts of connections, and restarts of the server.

use crate::book::Book;
use crate::disk::Role;
use crate::link::{Link, NOTICE_NS};
use crate::setup::LinkPlan;
use crate::trace;
use lane::{Lane, Random};
use std::cell::RefCell;
use std::rc::Rc;

/// The events of one process's link.
pub(crate) struct Events {
    pub(crate) link: Rc<Link>,
    pub(crate) book: Rc<RefCell<Book>>,
    pub(crate) plan: LinkPlan,
    pub(crate) random: Random,
    pub(crate) latency_ns: u64,
}

/// A part of an event that follows its cut.
#[derive(Clone, Copy, PartialEq, Eq, PartialOrd, Ord, Debug)]
enum Later {
    /// The client notices the end of a connection.
    Notice(usize),
    /// The server can be reached again.
    Return,
}

impl Events {
    /// Lets the events happen, one after the other.
    pub(crate) async fn happen(mut self, lane: Lane) {
        for _ in 0..self.plan.events {
            let pause_ns = self.random.below(self.plan.gap_ns);
            lane.sleep_until(lane.now() + pause_ns).await;
            lane.turn().await;
            let later = self.strike(lane.now());
            for (at_ns, part) in later {
                lane.sleep_until(at_ns).await;
                lane.turn().await;
                self.follow(part, lane.now());
            }
        }
    }

    /// Cuts connections now. Returns what follows, in the order of time.
    fn strike(&mut self, now_ns: u64) -> Vec<(u64, Later)> {
        let restarts = self.random.one_in(3);
        let roles: Vec<Role> = match self.random.below(4) {
            _ if restarts => Role::ALL.to_vec(),
            0 => vec![Role::Changes],
            1 => vec![Role::ALL[self.random.below(3) as usize]],
            _ => Role::ALL.to_vec(),
        };
        let mut later: Vec<(u64, Later)> = Vec::new();
        for role in &roles {
            later.push((now_ns + self.draw_notice(), Later::Notice(*role as usize)));
        }
        let down_ns = self.draw_outage();
        later.push((now_ns + down_ns, Later::Return));
        later.sort_unstable();
        trace::event(
            [now_ns, u64::from(restarts), down_ns],
            format_args!(
                "--- {}, {roles:?} cut at {now_ns} ns, for {down_ns} ns",
                match restarts {
                    true => "the server restarts",
                    false => "the link fails",
                }
            ),
        );
        let dropped = self.link.disk.with(|state| {
            state.server().set_away(down_ns > 0);
            if restarts {
                return state.restart_server();
            }
            roles.iter().for_each(|role| state.cut(*role, now_ns));
            Vec::new()
        });
        if restarts {
            self.book.borrow_mut().record_restart(&dropped);
        }
        later
    }

    fn follow(&mut self, part: Later, now_ns: u64) {
        let link = &self.link;
        let is_away = link.disk.with(|state| {
            match part {
                Later::Notice(role) => state.server().notice(Role::ALL[role]),
                Later::Return => state.server().set_away(false),
            }
            state.server().is_away()
        });
        trace::event([now_ns, 11, 0], format_args!("--- link: {part:?} at {now_ns} ns"));
        // The lines keep themselves connected, also without a request.
        if is_away || matches!(part, Later::Notice(_)) {
            link.state.note_lost(now_ns);
        }
        if !is_away {
            link.state.note_up(now_ns);
        }
        link.changed.notify();
    }

    fn draw_notice(&mut self) -> u64 {
        match self.random.below(4) {
            0 | 1 => 0,
            2 => self.random.below(self.latency_ns * 8),
            _ => self.random.below(NOTICE_NS - 1_000_000_000),
        }
    }

    fn draw_outage(&mut self) -> u64 {
        match self.random.below(6) {
            0 | 1 => 0,
            2 => self.random.below(self.latency_ns * 8),
            3 => self.random.below(1_000_000_000),
            4 => 1_000_000_000 + self.random.below(10_000_000_000),
            _ => self.random.below(90_000_000_000),
        }
    }
}
