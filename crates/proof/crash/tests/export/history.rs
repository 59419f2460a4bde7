//! A random history of a client with a fence, over a link that is cut and a server that restarts.

use crate::scene::{Answer, BLOCKS, Connection, Request, Server};
use block::{Extent, Memory};
use lane::Random;
use nbd::fence::{Begin, Export, Fence, FlushMark, SETTLE_NS, Sent, TABLE_BYTES};
use std::sync::Arc;

const EXPORT: Export = Export { sectors: BLOCKS as u64, abilities: [1, 2] };

/// Events of histories.
#[derive(Default, Debug)]
pub(crate) struct Tally {
    pub(crate) answers: u64,
    pub(crate) cuts: u64,
    pub(crate) kills: u64,
    /// Kills of daemons that read the answers of an earlier one.
    pub(crate) kills_of_readers: u64,
    /// Kills after which answers cannot be read.
    pub(crate) unreadable: u64,
    /// Those that leave answered changes which no flush covers.
    pub(crate) doubts: u64,
    pub(crate) restarts: u64,
    pub(crate) held: u64,
    pub(crate) resent: u64,
    pub(crate) flushes: u64,
    pub(crate) losses: u64,
    pub(crate) kept: u64,
    /// Reads whose data must not be kept.
    pub(crate) unkept: u64,
}

/// A change that the client has not been answered yet.
#[derive(Clone, Copy)]
struct Change {
    request: u64,
    first: usize,
    count: usize,
    value: u64,
    fua: bool,
    /// The copy that is sent on the present connection.
    copy: Option<Sent>,
    was_sent: bool,
}

/// Knowledge about a block.
#[derive(Clone, Copy, Default)]
struct Block {
    /// Its contents after the newest answered change. None: they are not certain.
    known: Option<u64>,
    /// Whether the server has lost them.
    is_lost: bool,
}

struct History<'a> {
    random: Random,
    /// Whether a next daemon cannot read the answers of a killed one: the link is encrypted.
    is_encrypted: bool,
    now_ns: u64,
    memory: Arc<Memory>,
    fence: Fence,
    server: Server,
    changes_link: Option<Connection>,
    anchor: Option<Connection>,
    changes: Vec<Change>,
    /// The flush under way, and the contents that it covers.
    flush: Option<(FlushMark, [Option<u64>; BLOCKS])>,
    blocks: [Block; BLOCKS],
    /// The contents that a flush has covered.
    flushed: [u64; BLOCKS],
    /// The contents that a cache has read, and keeps.
    kept: [Option<u64>; BLOCKS],
    values: u64,
    tally: &'a mut Tally,
}

/// Runs a history.
///
/// # Errors
/// The first broken promise, as a sentence.
pub(crate) fn history(seed: u64, steps: u64, tally: &mut Tally) -> Result<(), String> {
    let memory = Arc::new(Memory::heap(TABLE_BYTES));
    let mut history = History {
        random: Random::new(seed),
        is_encrypted: seed % 2 == 1,
        now_ns: SETTLE_NS,
        fence: Fence::new(&memory, EXPORT),
        memory,
        server: Server::new(),
        changes_link: None,
        anchor: None,
        changes: Vec::new(),
        flush: None,
        blocks: [Block { known: Some(0), is_lost: false }; BLOCKS],
        flushed: [0; BLOCKS],
        kept: [None; BLOCKS],
        values: 0,
        tally,
    };
    for step in 0..steps {
        history.step().map_err(|what| format!("step {step}: {what}"))?;
    }
    Ok(())
}

impl History<'_> {
    fn step(&mut self) -> Result<(), String> {
        let far = self.random.one_in(12);
        self.now_ns += self.random.below(if far { SETTLE_NS } else { SETTLE_NS / 100 });
        self.server.pass(self.now_ns, &mut self.random);
        match self.random.below(40) {
            0..=7 => self.write(),
            8..=16 => self.send(),
            17 => {
                self.send();
                if self.random.one_in(3) {
                    self.kill()?;
                }
            }
            18..=23 => self.serve(),
            24..=31 => self.receive()?,
            32..=33 => self.send_flush()?,
            34 => self.server.destage(&mut self.random),
            39 => self.read(),
            35 => self.cut_changes(),
            36 if self.random.one_in(2) => self.cut_all(),
            37 if self.random.one_in(2) => self.restart(),
            38 => self.kill()?,
            _ => {}
        }
        self.check()
    }

    fn check(&self) -> Result<(), String> {
        for (index, block) in self.blocks.iter().enumerate() {
            let is_open = self.is_open(index);
            let (shown, Some(known)) = (self.server.volatile[index], block.known) else { continue };
            if !is_open && !block.is_lost && shown != known {
                return Err(format!("block {index} shows {shown} after {known} was answered"));
            }
        }
        Ok(())
    }

    fn is_open(&self, block: usize) -> bool {
        self.changes.iter().any(|it| (it.first..it.first + it.count).contains(&block))
    }

    /// Begins a change of blocks without another one, as the engine does.
    fn write(&mut self) {
        let first = self.random.below(BLOCKS as u64) as usize;
        let count = 1 + self.random.below((BLOCKS - first).min(3) as u64) as usize;
        if (first..first + count).any(|block| self.is_open(block)) {
            return;
        }
        self.values += 1;
        let (request, fua) = (self.fence.request(), self.random.one_in(3));
        let value = self.values;
        let change = Change { request, first, count, value, fua, copy: None, was_sent: false };
        self.changes.push(change);
        self.kept[first..first + count].fill(None);
    }

    /// Reads a block without a change under way, as a cache does.
    fn read(&mut self) {
        let block = self.random.below(BLOCKS as u64) as usize;
        if self.is_open(block) || self.kept[block].is_some() {
            return;
        }
        let may_keep = self.fence.may_keep(Extent::new(block as u64, 1));
        self.kept[block] = may_keep.then_some(self.server.volatile[block]);
        *if may_keep { &mut self.tally.kept } else { &mut self.tally.unkept } += 1;
    }

    /// Checks that a cache shows what the server has for good, once a flush has succeeded.
    fn check_kept(&self) -> Result<(), String> {
        for (index, kept) in self.kept.iter().enumerate() {
            let durable = self.server.durable[index];
            if let Some(kept) = *kept
                && kept != durable
                && !self.is_open(index)
            {
                return Err(format!("block {index} has {durable}, but a cache still shows {kept}"));
            }
        }
        Ok(())
    }

    /// Sends a change that is not sent, on a connection of the present session.
    fn send(&mut self) {
        self.anchor.get_or_insert_with(|| connect(&self.server));
        let link = self.changes_link.get_or_insert_with(|| connect(&self.server));
        let unsent: Vec<_> = self.changes.iter_mut().filter(|it| it.copy.is_none()).collect();
        let count = unsent.len().max(1) as u64;
        let index = self.random.below(count) as usize;
        let Some(change) = unsent.into_iter().nth(index) else { return };
        let Change { first, count, value, fua, request, .. } = *change;
        let at = Extent::new(first as u64, count as u32);
        match self.fence.begin(at, fua, request, self.now_ns) {
            Begin::Held(_) | Begin::Full => self.tally.held += 1,
            Begin::Sent(copy) => {
                self.tally.resent += u64::from(change.was_sent);
                (change.copy, change.was_sent) = (Some(copy), true);
                let slot = copy.slot();
                link.requests.push(Request::Change { slot, first, count, value, fua });
            }
        }
    }

    fn serve(&mut self) {
        for link in [&mut self.changes_link, &mut self.anchor].into_iter().flatten() {
            self.server.serve(link, &mut self.random);
        }
    }

    /// Receives the next answer on each connection.
    fn receive(&mut self) -> Result<(), String> {
        let answer = self.changes_link.as_mut().and_then(|link| next(&mut link.answers));
        if let Some(Answer::Change { slot }) = answer {
            self.answered(slot)?;
        }
        match self.anchor.as_mut().and_then(|anchor| next(&mut anchor.answers)) {
            Some(Answer::Flush) => self.flush_answered(),
            _ => Ok(()),
        }
    }

    fn answered(&mut self, slot: usize) -> Result<(), String> {
        let is_it = |it: &Change| it.copy.is_some_and(|copy| copy.slot() == slot);
        let index = self.changes.iter().position(is_it).ok_or("an answer to no change")?;
        let change = self.changes.swap_remove(index);
        self.fence.answered(change.copy.ok_or("it was found by its copy")?);
        self.tally.answers += 1;
        let lost = self.changes_link.as_ref().is_some_and(|link| link.life != self.server.life);
        for block in &mut self.blocks[change.first..change.first + change.count] {
            *block = Block { known: Some(change.value), is_lost: lost && !change.fua };
        }
        Ok(())
    }

    fn send_flush(&mut self) -> Result<(), String> {
        if self.flush.is_some() {
            return Ok(());
        }
        let anchor = self.anchor.get_or_insert_with(|| connect(&self.server));
        match self.fence.flush_begins(self.now_ns) {
            Ok(mark) => {
                anchor.requests.push(Request::Flush);
                self.flush = Some((mark, self.blocks.map(|block| block.known)));
            }
            Err(_) => self.lost(),
        }
        Ok(())
    }

    fn flush_answered(&mut self) -> Result<(), String> {
        let Some((mark, covered)) = self.flush.take() else { return Ok(()) };
        if self.fence.flush_ends(mark, true).is_err() {
            self.lost();
            return Ok(());
        }
        self.tally.flushes += 1;
        for (index, value) in covered.into_iter().enumerate() {
            let durable = self.server.durable[index];
            // A newer change may have reached the disk since.
            if let Some(value) = value {
                if durable < value {
                    return Err(format!("block {index} has {durable} after a flush of {value}"));
                }
                self.flushed[index] = value;
            }
        }
        self.check_kept()
    }

    /// A flush has failed: the engine writes again all that no flush has covered.
    fn lost(&mut self) {
        self.tally.losses += 1;
        for (block, flushed) in self.blocks.iter_mut().zip(self.flushed) {
            block.known = block.known.filter(|&known| known == flushed);
        }
        self.kept = [None; BLOCKS];
    }

    /// The connection of changes ends; the anchor does not.
    fn cut_changes(&mut self) {
        let Some(link) = self.changes_link.take() else { return };
        self.tally.cuts += 1;
        self.server.end(link, self.now_ns, &mut self.random);
        self.fence.changes_end(self.now_ns);
        self.changes.iter_mut().for_each(|change| change.copy = None);
    }

    /// The end of the anchor is seen, and ends the session.
    fn cut_all(&mut self) {
        let Some(anchor) = self.anchor.take() else { return };
        self.server.end(anchor, self.now_ns, &mut self.random);
        if let Some(link) = self.changes_link.take() {
            self.server.end(link, self.now_ns, &mut self.random);
        }
        self.tally.cuts += 1;
        self.fence.session_ends(self.now_ns);
        self.changes.iter_mut().for_each(|change| change.copy = None);
        // Its client sends it again, or receives the error.
        self.flush = None;
    }

    /// The server restarts. The client sees the ends of its connections later.
    fn restart(&mut self) {
        self.tally.restarts += 1;
        self.server.restart();
        for (block, now) in self.blocks.iter_mut().zip(self.server.volatile) {
            block.is_lost |= block.known.is_some_and(|known| known != now);
        }
    }

    /// The daemon is killed, and the next one takes over.
    fn kill(&mut self) -> Result<(), String> {
        self.tally.kills += 1;
        self.kept = [None; BLOCKS];
        for change in self.changes.drain(..) {
            // The engine still has the data, and writes it again.
            let blocks = &mut self.blocks[change.first..change.first + change.count];
            blocks.iter_mut().for_each(|block| block.known = None);
        }
        self.flush = None;
        self.adopt()?;
        if self.is_encrypted {
            return self.abandon();
        }
        let mut link = self.changes_link.take();
        while self.random.one_in(4) {
            // The next daemon is killed while it reads.
            self.tally.kills_of_readers += 1;
            self.read_old_answers(link.as_mut());
            self.adopt()?;
        }
        self.read_old_answers(link.as_mut());
        if let Some(link) = link {
            self.server.end(link, self.now_ns, &mut self.random);
        }
        self.fence.changes_end(self.now_ns);
        // An anchor whose server does not answer is given up.
        let is_alive = |anchor: &Connection| anchor.life == self.server.life;
        match self.anchor.take().filter(|anchor| is_alive(anchor) && !self.random.one_in(4)) {
            Some(anchor) => {
                let covered = self.blocks.map(|block| block.known);
                self.anchor = Some(Connection { life: anchor.life, ..Connection::default() });
                let Ok(mark) = self.fence.flush_begins(self.now_ns) else {
                    self.lost();
                    return Ok(());
                };
                self.server.durable = self.server.volatile;
                self.flush = Some((mark, covered));
                self.flush_answered()
            }
            None => {
                self.fence.session_ends(self.now_ns);
                Ok(())
            }
        }
    }

    /// The next daemon ends the connections of the killed one unread. Its cache writes again all
    /// that no flush has covered, before it flushes.
    fn abandon(&mut self) -> Result<(), String> {
        self.tally.unreadable += 1;
        for link in [self.changes_link.take(), self.anchor.take()].into_iter().flatten() {
            self.server.end(link, self.now_ns, &mut self.random);
        }
        self.fence.abandon(self.now_ns);
        if self.random.one_in(4) {
            // It is killed before its cache has noted the loss.
            self.tally.kills_of_readers += 1;
            self.adopt()?;
            self.fence.abandon(self.now_ns);
        }
        if self.fence.has_loss() {
            self.tally.doubts += 1;
            self.lost();
            self.fence.note_reported();
        }
        Ok(())
    }

    fn adopt(&mut self) -> Result<(), String> {
        let fence = Fence::adopt(&self.memory, EXPORT, self.now_ns);
        self.fence = fence.ok_or("the table is refused")?;
        Ok(())
    }

    /// Reads the answers on the connection of the killed daemon, to the end or until patience is
    /// over.
    fn read_old_answers(&mut self, link: Option<&mut Connection>) {
        let Some(link) = link else { return };
        if self.random.one_in(3) {
            // The killed daemon has received an answer, and has not handled it.
            let _ = next(&mut link.answers);
        }
        if self.random.one_in(3) {
            // The last request is incomplete.
            link.requests.pop();
        }
        // A server that does nothing for a while leaves all requests for later.
        let patience = if self.random.one_in(3) { 0 } else { self.random.below(20) };
        for _ in 0..patience {
            self.server.serve(link, &mut self.random);
            if let Some(Answer::Change { slot }) = next(&mut link.answers) {
                self.fence.answered_earlier(slot);
            }
        }
    }
}

fn connect(server: &Server) -> Connection {
    Connection { life: server.life, ..Connection::default() }
}

fn next(answers: &mut Vec<Answer>) -> Option<Answer> {
    (!answers.is_empty()).then(|| answers.remove(0))
}
