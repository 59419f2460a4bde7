//! A volume that two or three threads serve, and clients on each of them.

use crate::{Clock, Disk, Ledger, drive};
use block::{Buf, Durability, Extent, Memory, Request, Stack, WriteMode};
use cache::planted::{self, Admitted};
use cache::{Arena, Cache, Geometry, Settings, Shared};
use lane::atomic::{AtomicU32, Ordering};
use lane::{Event, Lane, Random};
use policy::Kind;
use shuttle::rand::Rng;
use std::sync::Arc;

const GRAIN: u32 = 16;
const BLOCK: u64 = cache::BLOCK_SECTORS as u64;
/// Sectors of a cell: half a block.
const CELL: u64 = BLOCK / 2;
/// A region and another one: with two shards, both have blocks.
const BLOCKS: u64 = 8;

/// Time for which a volume is left idle, in nanoseconds.
const REST_NS: u64 = 500_000_000;

/// Setup and amount of work of an execution.
#[derive(Clone, Copy, Debug)]
pub struct Plan {
    /// Threads, each with a lane.
    pub lanes: u32,
    /// Clients per lane.
    pub clients: u32,
    /// Requests per client.
    pub requests: u32,
    /// Shards of the cache.
    pub shards: u32,
    /// Maximum number of dirty blocks.
    pub dirty_blocks_max: u32,
    /// How writes are handled at first.
    pub write: WriteMode,
    /// The guarantee of a flush.
    pub durability: Durability,
    /// Writeback workers per lane.
    pub workers: u32,
    /// Whether the cache is also bypassed, and the write mode changes.
    pub changes: bool,
    /// Whether each client only writes, each of its blocks once: no version replaces another.
    pub once: bool,
    /// Whether the disk answers immediately, and no copy of a write-through is held: then writes
    /// may bypass the whole cache.
    pub answers_now: bool,
}

impl Plan {
    fn geometry(&self) -> Geometry {
        Geometry {
            slots: 16,
            shards: self.shards,
            region_blocks: 4,
            extents: 4,
            fills: 4,
            run_blocks: 4,
            slice_blocks: 2,
            ..Geometry::SMALLEST
        }
    }

    fn settings(&self) -> Settings {
        Settings {
            // LRU has no sampler. With so few slots the lock of a sampler would be taken at each
            // access, and the races tested here would occur less often.
            policy: Kind::Lru,
            write: self.write,
            durability: self.durability,
            dirty_blocks_max: self.dirty_blocks_max,
            // Longer than any run: waiting tasks must be woken by events.
            dirty_age_ns: 3_600_000_000_000,
            flush_target_ns: 0,
            retry_time_ns: 100_000_000,
            workers: self.workers,
            absorb_blocks_max: 4,
            fill_cost_ns: if self.answers_now { 1_000_000_000 } else { 0 },
            ..Settings::default()
        }
    }
}

/// State that the threads share.
struct SharedState {
    plan: Plan,
    shared: Arc<Shared>,
    disk: Disk,
    ledger: Ledger,
    clock: Clock,
    /// Clients that have not ended.
    left: AtomicU32,
    ended: Event,
}

/// A client, which is the only writer of some blocks.
struct Client {
    shared_state: Arc<SharedState>,
    stack: Stack,
    cache: Cache,
    number: u32,
    random: Random,
}

/// The first sector of a cell.
fn sector(cell: u64) -> u64 {
    cell * CELL
}

/// Returns the value that these bytes of a cell represent.
fn value_of(cell: u64, bytes: &[u8]) -> u64 {
    let mut values = bytes.chunks(GRAIN as usize).map(|sector| {
        u64::from_le_bytes(sector[..8].try_into().expect("a sector has eight bytes"))
    });
    let first = values.next().expect("a cell has sectors");
    assert!(values.all(|value| value == first), "C4: cell {cell} is torn");
    first
}

/// Returns the value of a cell in a memory.
fn value_in(memory: &Memory, cell: u64) -> u64 {
    let mut bytes = vec![0; CELL as usize * GRAIN as usize];
    memory.read(sector(cell) as usize * GRAIN as usize, &mut bytes);
    value_of(cell, &bytes)
}

fn filled(value: u64, sectors: u64) -> Buf {
    let mut bytes = vec![0; sectors as usize * GRAIN as usize];
    for sector in bytes.chunks_mut(GRAIN as usize) {
        sector[..8].copy_from_slice(&value.to_le_bytes());
    }
    let buf = Buf::new(sectors as u32, GRAIN);
    buf.write(&bytes);
    buf
}

async fn ask(stack: &Stack, request: Request) {
    if stack.try_now(&request).is_none() {
        stack.lane().turn().await;
        stack.run(request).await.expect("the disk does not fail");
    }
}

/// Reads a cell, and returns its value.
async fn read(stack: &Stack, cell: u64) -> u64 {
    let into = Buf::new(CELL as u32, GRAIN);
    let at = Extent::new(sector(cell), CELL as u32);
    ask(stack, Request::Read { at, into: into.clone() }).await;
    value_of(cell, &into.to_vec())
}

impl Client {
    /// Chooses one of this client's blocks.
    fn own_block(&mut self) -> u64 {
        let clients = u64::from(self.shared_state.plan.lanes * self.shared_state.plan.clients);
        let mine = (BLOCKS - 1 - u64::from(self.number)) / clients + 1;
        u64::from(self.number) + clients * self.random.below(mine)
    }

    /// Chooses a block or half of it. Returns its cells.
    fn cells_of(&mut self, block: u64) -> std::ops::Range<u64> {
        let first = 2 * block;
        match self.random.below(3) {
            0 => first..first + 1,
            1 => first + 1..first + 2,
            _ => first..first + 2,
        }
    }

    async fn change(&mut self, step: u32) {
        let block = self.own_block();
        let cells = self.cells_of(block);
        let sectors = sector(cells.end) - sector(cells.start);
        let at = Extent::new(sector(cells.start), sectors as u32);
        let stamp = u64::from(self.number + 1) << 32 | u64::from(step + 1);
        let fua = self.random.one_in(5);
        let (value, request) = match self.random.below(8) {
            0 => (0, Request::Zero { at, fua, may_unmap: true }),
            1 => (0, Request::Discard { at }),
            _ => (stamp, Request::Write { at, from: filled(stamp, sectors), fua }),
        };
        let ledger = &self.shared_state.ledger;
        let sent: Vec<_> =
            cells.map(|cell| (cell as usize, ledger.record_send(cell as usize, value))).collect();
        ask(&self.stack, request).await;
        sent.iter().for_each(|(cell, index)| ledger.record_answer(*cell, *index));
    }

    /// Writes each of this client's blocks once.
    async fn fill(&self) {
        let clients = u64::from(self.shared_state.plan.lanes * self.shared_state.plan.clients);
        for block in (u64::from(self.number)..BLOCKS).step_by(clients as usize) {
            let stamp = u64::from(self.number + 1) << 32 | (block + 1);
            let at = Extent::new(sector(2 * block), BLOCK as u32);
            let cells = [2 * block as usize, 2 * block as usize + 1];
            let sent = cells.map(|cell| (cell, self.shared_state.ledger.record_send(cell, stamp)));
            ask(&self.stack, Request::Write { at, from: filled(stamp, BLOCK), fua: false }).await;
            sent.iter()
                .for_each(|(cell, index)| self.shared_state.ledger.record_answer(*cell, *index));
        }
    }

    async fn read(&mut self) {
        let cell = self.random.below(2 * BLOCKS);
        let floor = self.shared_state.ledger.floor(cell as usize);
        let value = read(&self.stack, cell).await;
        self.shared_state.ledger.check_read(cell as usize, value, floor);
    }

    async fn flush(&mut self) {
        let cells = 0..2 * BLOCKS as usize;
        let floors: Vec<_> = cells.map(|cell| self.shared_state.ledger.floor(cell)).collect();
        ask(&self.stack, Request::Flush).await;
        if self.shared_state.plan.durability == Durability::Flush {
            for (cell, floor) in floors.into_iter().enumerate() {
                let value = value_in(self.shared_state.disk.durable(), cell as u64);
                self.shared_state.ledger.check_durable(cell, value, floor);
            }
        }
    }

    async fn work(&mut self) {
        if self.shared_state.plan.once {
            return self.fill().await;
        }
        for step in 0..self.shared_state.plan.requests {
            let Plan { changes, answers_now, .. } = self.shared_state.plan;
            let kinds = if changes { 12 } else { 10 };
            match self.random.below(kinds) {
                4..7 if answers_now => self.read().await,
                0..7 => self.change(step).await,
                7..9 => self.read().await,
                9 => self.flush().await,
                10 => {
                    let (reads, writes) = (self.random.one_in(2), self.random.one_in(2));
                    let now = self.stack.lane().now();
                    self.cache.shared().force_bypass(reads, writes, now);
                }
                _ => {
                    let modes = [WriteMode::BackNow, WriteMode::Back, WriteMode::Through];
                    self.cache.shared().set_write_mode(modes[self.random.below(3) as usize]);
                }
            }
            // Lets other clients of the lane run in between.
            if self.random.one_in(2) {
                self.stack.lane().rest().await;
            }
        }
    }
}

impl SharedState {
    fn new(plan: Plan) -> Arc<SharedState> {
        let disk = Disk::new(BLOCKS * BLOCK, GRAIN);
        let geometry = plan.geometry();
        let memory = Arc::new(Memory::heap(Arena::bytes(&geometry, GRAIN)));
        let shared = Shared::new(disk.limits(), geometry, plan.settings(), 7, memory)
            .expect("a fresh arena");
        if plan.answers_now {
            shared.force_bypass(false, true, 0);
        }
        Arc::new(SharedState {
            plan,
            shared,
            disk,
            ledger: Ledger::new(2 * BLOCKS as usize),
            clock: Clock::new(plan.lanes as usize),
            left: AtomicU32::new(plan.lanes * plan.clients),
            ended: Event::new(),
        })
    }

    /// Checks that all blocks that should be written back were: no request is in flight, and all
    /// lanes sleep.
    fn at_rest(&self) {
        let most = self.plan.dirty_blocks_max;
        let open_most = (most * 7).div_ceil(16);
        let dirty = self.shared.dirty_blocks();
        assert!(dirty * 4 < open_most * 3, "C6: {dirty} blocks wait, of {open_most}");
        assert_eq!(self.shared.closed_epochs(), 0, "C2: nothing writes out what is closed");
        self.shared.check();
    }

    /// Waits for all clients, flushes, and checks the contents.
    async fn end(&self, cache: &Cache) {
        loop {
            let seen = self.ended.seen();
            if self.left.load(Ordering::SeqCst) == 0 {
                break;
            }
            self.ended.after(seen).await;
        }
        // Long enough that all work has come to rest.
        cache.lane().sleep_until(cache.lane().now() + REST_NS).await;
        self.at_rest();
        cache.drain().await.expect("the disk does not fail");
        assert_eq!(self.shared.dirty_blocks(), 0);
        self.shared.check();
        let stack = Stack::new(&cache.lane(), cache.clone());
        for cell in 0..2 * BLOCKS {
            let newest = self.ledger.newest(cell as usize);
            assert_eq!(value_in(self.disk.now(), cell), newest, "cell {cell} on the disk");
            assert_eq!(value_in(self.disk.durable(), cell), newest, "cell {cell} after a cut");
            assert_eq!(read(&stack, cell).await, newest, "C10: cell {cell} in the cache");
        }
        self.shared.stop();
    }
}

/// Runs one lane on this thread.
fn serve(shared_state: &Arc<SharedState>, number: u32, seed: u64) {
    let lane = Lane::new();
    let disk = shared_state.disk.on(&lane, shared_state.plan.answers_now);
    let cache = Cache::attach(&shared_state.shared, &lane, Stack::new(&lane, disk));
    for client in 0..shared_state.plan.clients {
        let number = number * shared_state.plan.clients + client;
        let mut client = Client {
            shared_state: shared_state.clone(),
            stack: Stack::new(&lane, cache.clone()),
            cache: cache.clone(),
            number,
            random: Random::new(seed ^ u64::from(number)),
        };
        let works = async move {
            client.work().await;
            client.shared_state.left.fetch_sub(1, Ordering::SeqCst);
            client.shared_state.ended.notify();
        };
        lane.spawn(works).expect("a lane has room");
    }
    if number == 0 {
        let shared_state = shared_state.clone();
        lane.spawn(async move { shared_state.end(&cache).await }).expect("a lane has room");
    }
    drive(&lane, &shared_state.clock, number as usize);
}

/// Checks the amount of dirty data when a change has been admitted. A change that replaces a block
/// counts both versions for a moment. In other shards that moment may be now, so one block per
/// other lane is allowed.
fn observe(admitted: Admitted, plan: Plan) {
    let at_once = if plan.shards > 1 && !plan.once { plan.lanes - 1 } else { 0 };
    assert!(
        admitted.dirty_blocks <= admitted.dirty_blocks_max + at_once,
        "C6: {} blocks are dirty, {} may be",
        admitted.dirty_blocks,
        admitted.dirty_blocks_max
    );
}

/// Runs one execution. The clients' requests follow from a seed that the explorer draws.
///
/// # Panics
/// If a guarantee is broken.
pub fn run(plan: Plan) {
    planted::observe(Some(Box::new(move |admitted| observe(admitted, plan))));
    let seed = shuttle::rand::thread_rng().r#gen();
    let shared_state = SharedState::new(plan);
    let threads: Vec<_> = (0..plan.lanes)
        .map(|number| {
            let shared_state = shared_state.clone();
            shuttle::thread::spawn(move || serve(&shared_state, number, seed))
        })
        .collect();
    threads.into_iter().for_each(|thread| thread.join().expect("a lane's thread ends"));
}
