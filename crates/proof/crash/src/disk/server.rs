//! The disk as a server's export: the connections that reach it, and the server's restarts.
//!
//! ```text
//!   request --connection--> server: executes it --answer--> client
//!                |  cut: requests are executed late or never, and no answer comes
//!                v
//!              noticed by the client, at the same time or later: it connects again
//!
//!   restart: every connection is cut; contents that were not durable may be lost
//! ```
//!
//! Premise 5 of SEMANTICS.md: "The server of an NBD export executes no request later than 30 s
//! after the connection that has carried the request was ended by this machine."

use super::{Flight, Moving, State};
use crate::stamp::GRAIN;
use block::Request;
use lane::Random;
use nbd::fence::SETTLE_NS;

/// The use of a connection.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) enum Role {
    /// Changes.
    Changes,
    /// Flushes.
    Anchor,
    /// Reads, of every lane.
    Reads,
}

impl Role {
    pub(crate) const ALL: [Role; 3] = [Role::Changes, Role::Anchor, Role::Reads];
}

/// The connection of one role.
#[derive(Clone, Copy, Default, Debug)]
struct Line {
    /// The number of the present connection; 0: there is none.
    number: u32,
    /// Whether it carries nothing any more.
    is_cut: bool,
    /// Whether the client has noticed that.
    is_noticed: bool,
}

/// The connection that carries a change, and the change's place in the table of the fence.
#[derive(Clone, Copy, PartialEq, Eq, Debug)]
pub(crate) struct Carried {
    pub(crate) connection: u32,
    pub(crate) slot: usize,
    /// Copies of one request have the same number, within one process.
    pub(crate) request: u64,
}

/// A change of an ended connection that will be executed.
#[derive(Clone)]
pub(crate) struct Late {
    pub(crate) moving: Moving,
    at_ns: u64,
}

/// The server, and the connections to it.
#[derive(Clone, Default)]
pub(crate) struct Server {
    /// The server's clock is ahead of the world's by this time, wrapping.
    ahead_ns: u64,
    lines: [Line; 3],
    connections: u32,
    /// Whether it cannot be reached.
    is_away: bool,
    pub(crate) late: Vec<Late>,
    /// The slots of changes whose answers are on the connection of changes.
    unread: Vec<usize>,
    /// Flushes that have failed because the server may have lost changes.
    pub(crate) losses: u32,
    /// Whether one of these may not be mended: no flush was sent after one that has succeeded
    /// since, so that the process may not have handled that success.
    pub(crate) has_unmended: bool,
    /// Whether a flush has succeeded since the last loss.
    pub(crate) has_flushed: bool,
    /// A sector of a change that was sent while another one of its sectors could still arrive.
    pub(crate) unfenced: Option<u32>,
}

impl Server {
    fn line(&mut self, role: Role) -> &mut Line {
        &mut self.lines[role as usize]
    }

    /// Returns the server's clock at this time of the world.
    pub(crate) fn clock_ns(&self, now_ns: u64) -> u64 {
        now_ns.wrapping_add(self.ahead_ns)
    }

    /// Returns the world's time at this time of the server.
    pub(crate) fn world_ns(&self, clock_ns: u64) -> u64 {
        clock_ns.wrapping_sub(self.ahead_ns)
    }

    /// Continues in another world.
    pub(crate) fn move_clock(&mut self, clock_ns: u64, now_ns: u64) {
        self.ahead_ns = clock_ns.wrapping_sub(now_ns);
    }

    /// Returns the connection of this role, or makes one. None: the server cannot be reached.
    pub(crate) fn connect(&mut self, role: Role) -> Option<u32> {
        let is_away = self.is_away;
        if self.line(role).number == 0 {
            if is_away {
                return None;
            }
            self.connections += 1;
            let number = self.connections;
            *self.line(role) = Line { number, ..Line::default() };
        }
        Some(self.line(role).number)
    }

    /// Whether the client has noticed the end of the present connection.
    pub(crate) fn has_ended(&self, role: Role) -> bool {
        let line = &self.lines[role as usize];
        line.number > 0 && line.is_noticed
    }

    /// Whether this connection is still the present one, and its end is not noticed.
    pub(crate) fn is_present(&self, role: Role, number: u32) -> bool {
        let line = &self.lines[role as usize];
        line.number == number && !line.is_noticed
    }

    /// Whether no answer will come on this connection.
    pub(crate) fn is_cut(&self, role: Role, number: u32) -> bool {
        let line = &self.lines[role as usize];
        line.number != number || line.is_cut
    }

    /// Whether a connection is cut that the client has not dropped.
    pub(crate) fn is_cut_anywhere(&self) -> bool {
        self.is_away || self.lines.iter().any(|line| line.is_cut)
    }

    /// Lets the client notice the end of a connection.
    pub(crate) fn notice(&mut self, role: Role) {
        let line = self.line(role);
        line.is_noticed = line.is_cut;
    }

    /// Makes the server impossible to reach, or possible again.
    pub(crate) fn set_away(&mut self, is_away: bool) {
        self.is_away = is_away;
    }

    /// Whether attempts to connect fail.
    pub(crate) fn is_away(&self) -> bool {
        self.is_away
    }

    /// Takes the answer to the change in this slot. False: it is not there.
    pub(crate) fn take_answer(&mut self, slot: usize) -> bool {
        let index = self.unread.iter().position(|unread| *unread == slot);
        index.map(|index| self.unread.swap_remove(index)).is_some()
    }
}

impl State {
    /// Returns the server. The disk must be one.
    pub(crate) fn server(&mut self) -> &mut Server {
        self.server.as_mut().expect("the disk is a server's")
    }

    /// Sends a request on a connection. One on a connection that is cut may be executed all the
    /// same, but is never answered.
    pub(crate) fn send_on(
        &mut self,
        request: &Request,
        (role, connection): (Role, u32),
        carried: Option<Carried>,
        now_ns: u64,
    ) -> Flight {
        let flight = self.send(request, 0, now_ns);
        if matches!(request, Request::Flush) {
            let server = self.server();
            server.has_unmended &= !server.has_flushed;
        }
        if let Some(carried) = carried
            && let Some(moving) = self.moving.last_mut()
        {
            moving.carried = Some(carried);
            let moving = moving.clone();
            self.check_fence(&moving);
        }
        if self.server().is_cut(role, connection) {
            self.leave_requests(role, now_ns);
        }
        flight
    }

    /// Checks C15: "every other change of its range waits until 30 s have passed".
    fn check_fence(&mut self, moving: &Moving) {
        let request = moving.carried.map(|carried| carried.request);
        let server = self.server();
        let is_other = |late: &&Late| {
            late.moving.carried.map(|carried| carried.request) != request
                && late.moving.shares_block(moving, 1)
        };
        if let Some(late) = server.late.iter().find(is_other) {
            server.unfenced = Some(late.moving.first);
        }
    }

    /// Cuts a connection, or lets the client end it.
    pub(crate) fn cut(&mut self, role: Role, now_ns: u64) {
        self.server().line(role).is_cut = true;
        self.leave_requests(role, now_ns);
    }

    /// The client drops the connection of a role, whose end it has noticed or which it ends.
    /// Returns whether there was one.
    pub(crate) fn drop_connection(&mut self, role: Role, now_ns: u64) -> bool {
        self.cut(role, now_ns);
        std::mem::take(self.server().line(role)).number > 0
    }

    /// Leaves the requests of a connection that is cut to the server: each is executed late, or
    /// never.
    fn leave_requests(&mut self, role: Role, now_ns: u64) {
        match role {
            Role::Reads => {}
            Role::Anchor => self.end_flushes_on_link(),
            Role::Changes => {
                self.leave_changes(now_ns, |random| random.one_in(3));
                self.server().unread.clear();
            }
        }
        self.changes += 1;
    }

    fn end_flushes_on_link(&mut self) {
        for flight in std::mem::take(&mut self.flushing) {
            if self.random.one_in(2) {
                self.flush(flight.sent);
            }
            self.clock += 1;
        }
    }

    /// Ends the changes in flight: each is executed at once (`lands`), or is left to the server,
    /// which executes it late or never.
    fn leave_changes(&mut self, now_ns: u64, mut lands: impl FnMut(&mut Random) -> bool) {
        let clock_ns = self.server().clock_ns(now_ns);
        for mut moving in std::mem::take(&mut self.moving) {
            let is_applied = moving.is_applied(self.model.unit_sectors);
            if is_applied || lands(&mut self.random) {
                self.land(&mut moving);
                self.settle_fua(&moving);
                if let Some(carried) = moving.carried {
                    self.server().unread.push(carried.slot);
                }
                continue;
            }
            // The server shows the part that it has executed, and a flush covers that part.
            self.complete_applied(moving.change);
            if !self.random.one_in(3) {
                let at_ns = clock_ns + self.draw_lateness();
                self.server().late.push(Late { moving, at_ns });
            }
        }
    }

    /// Makes a change durable that is executed, if it must be when it is answered.
    fn settle_fua(&mut self, moving: &Moving) {
        let (first, count) = moving.units(self.model.unit_sectors);
        for unit in first as usize..(first + count) as usize {
            let is_it = |version: &super::Version| version.change == moving.change;
            if moving.fua
                && let Some(at) = self.pending[unit].iter().position(is_it)
            {
                self.settle(unit, at);
            }
        }
    }

    /// Kills the process: each of its changes in flight is executed now (`lands`), late, or never.
    pub(crate) fn end_process_on_link(
        &mut self,
        now_ns: u64,
        lands: impl FnMut(&mut Random) -> bool,
    ) {
        self.leave_changes(now_ns, lands);
        self.flushes_asked = 0;
        self.end_flushes_on_link();
        self.changes += 1;
    }

    /// Returns a time within the settle time, often one of its ends.
    fn draw_lateness(&mut self) -> u64 {
        let soon = self.model.latency_ns * 8;
        match self.random.below(4) {
            0 => self.random.below(soon),
            1 => SETTLE_NS - 1 - self.random.below(soon),
            2 => self.random.below(SETTLE_NS / 30),
            _ => self.random.below(SETTLE_NS),
        }
    }

    /// Answers a change.
    pub(crate) fn answer_on_link(&mut self, slot: usize) {
        self.server().unread.push(slot);
    }

    /// Returns the contents that changes of ended connections will write to a sector.
    pub(crate) fn late_stamps(&self, sector: u32) -> impl Iterator<Item = [u8; GRAIN]> + '_ {
        let late = self.server.iter().flat_map(|server| &server.late);
        late.filter_map(move |late| late.moving.stamp(sector))
    }

    /// Executes the changes of ended connections that are due.
    pub(crate) fn land_due(&mut self, now_ns: u64) {
        let Some(server) = &self.server else { return };
        let clock_ns = server.clock_ns(now_ns);
        while let Some(server) = &mut self.server
            && let Some(index) = server.late.iter().position(|late| late.at_ns <= clock_ns)
        {
            let mut moving = server.late.swap_remove(index).moving;
            self.land(&mut moving);
            self.changes += 1;
        }
    }

    /// Restarts the server: each unit keeps its durable contents or any later ones; requests and
    /// connections are gone. Returns the sectors, and the contents, that it has lost.
    pub(crate) fn restart_server(&mut self) -> Vec<(u32, [u8; GRAIN])> {
        let mut dropped = Vec::new();
        for unit in 0..self.pending.len() {
            let kept = self.random.below(self.pending[unit].len() as u64 + 1) as usize;
            if kept > 0 {
                self.settle(unit, kept - 1);
            }
            let first = unit as u32 * self.model.unit_sectors;
            for version in self.pending[unit].drain(..) {
                let sectors = (first..).zip(version.bytes.chunks_exact(GRAIN));
                let sectors = sectors.take(self.model.unit_sectors as usize);
                dropped.extend(sectors.map(|(sector, bytes)| {
                    (sector, *bytes.first_chunk().expect("a chunk is a stamp"))
                }));
            }
            let range = unit * self.model.unit_bytes()..(unit + 1) * self.model.unit_bytes();
            self.visible[range.clone()].copy_from_slice(&self.durable[range]);
        }
        self.moving.clear();
        self.flushing.clear();
        let server = self.server();
        server.late.clear();
        server.unread.clear();
        server.lines.iter_mut().for_each(|line| line.is_cut = true);
        self.clock += 1;
        self.changes += 1;
        dropped
    }

    /// Returns the slot of a change in flight.
    pub(crate) fn slot_of(&self, flight: Flight) -> Option<usize> {
        Some(self.moving[self.position(flight.number)?].carried?.slot)
    }

    /// Counts an error of the link.
    pub(crate) fn note_unreachable(&mut self, request: &Request, kind: usize) {
        self.errors[kind] += 1;
        if let Request::Read { at, .. } = request {
            self.failed_reads.push(self.model.stamps_of(*at));
        }
    }

    /// Whether the anchor of a killed process still answers.
    pub(crate) fn can_flush_on_former_anchor(&mut self) -> bool {
        let line = self.server().lines[Role::Anchor as usize];
        line.number > 0 && !line.is_cut
    }

    /// Flushes for the process that takes over, on the anchor of the one before.
    pub(crate) fn flush_on_former_anchor(&mut self) {
        self.clock += 1;
        self.flush(self.clock);
        self.changes += 1;
    }

    /// Takes the next answer on the connection of changes of a killed process. None: there is none.
    pub(crate) fn take_former_answer(&mut self) -> Option<usize> {
        let line = self.server().lines[Role::Changes as usize];
        match line.number == 0 || line.is_cut {
            true => None,
            false => self.server().unread.pop(),
        }
    }

    /// Ends all connections: the next process makes new ones.
    pub(crate) fn forget_connections(&mut self) {
        let server = self.server();
        server.lines = [Line::default(); 3];
        server.unread.clear();
        server.is_away = false;
    }
}
