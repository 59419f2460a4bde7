//! A device with configurable behaviour.

use block::{Block, Buf, Error, Extent, Kind, Limits, Ram, Request, Result, Stall, Stretch};
use lane::{Event, Lane, Lock, Random};
use std::cell::{Cell, RefCell};
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

/// Events, in order. Sessions write to it too, and may end on any thread.
#[derive(Clone, Default)]
pub(crate) struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    pub(crate) fn borrow(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no test panics in it")
    }
}

/// Whether a device hangs, and the requests that wait.
#[derive(Default)]
pub(crate) struct Hang {
    on: Cell<bool>,
    changed: Event,
    /// Buffers of the requests that hang.
    pub(crate) held: RefCell<Vec<Buf>>,
}

impl Hang {
    pub(crate) fn set(&self, on: bool) {
        self.on.set(on);
        self.changed.notify();
    }

    async fn wait(&self, request: Option<&Request>) {
        let buf = request.and_then(|request| match request {
            Request::Read { into: buf, .. } | Request::Write { from: buf, .. } => Some(buf),
            _ => None,
        });
        if self.on.get() {
            self.held.borrow_mut().extend(buf.cloned());
        }
        loop {
            let seen = self.changed.seen();
            if !self.on.get() {
                self.held.borrow_mut().clear();
                return;
            }
            self.changed.after(seen).await;
        }
    }
}

#[derive(Clone)]
pub(crate) struct Device {
    pub(crate) ram: Ram,
    pub(crate) lane: Lane,
    pub(crate) limits: Limits,
    /// Answers immediately in this number of 4 cases.
    pub(crate) at_once: u64,
    pub(crate) random: Rc<RefCell<Random>>,
    /// Maximum delay of other answers, in nanoseconds.
    pub(crate) delay_ns: u64,
    /// Requests that touch this sector fail.
    pub(crate) fails: Option<(u64, Kind)>,
    /// Known state of the contents, from the first sector on.
    pub(crate) known: Rc<RefCell<Vec<Stretch>>>,
    pub(crate) hang: Rc<Hang>,
    pub(crate) stall: Option<Arc<Stall>>,
    pub(crate) log: Log,
    /// Locked in every step, as in a cache: simulated worlds forbid two steps without an await.
    pub(crate) shard: Arc<Lock<()>>,
    pub(crate) running: Rc<Cell<usize>>,
    pub(crate) running_max: Rc<Cell<usize>>,
}

impl Device {
    pub(crate) fn new(lane: &Lane, sectors: u64, seed: u64) -> Device {
        let ram = Ram::new(sectors, 512);
        Device {
            limits: ram.limits().clone(),
            ram,
            lane: lane.clone(),
            at_once: 4,
            random: Rc::new(RefCell::new(Random::new(seed))),
            delay_ns: 1000,
            fails: None,
            known: Rc::default(),
            hang: Rc::default(),
            stall: None,
            log: Log::default(),
            shard: Arc::default(),
            running: Rc::default(),
            running_max: Rc::default(),
        }
    }

    fn serve(&self, request: &Request) -> Result {
        let name = match request {
            Request::Read { .. } => "read",
            Request::Write { fua: true, .. } => "write fua",
            Request::Write { .. } => "write",
            Request::Flush => "flush",
            Request::Discard { .. } => "discard",
            Request::Zero { fua: true, .. } => "zero fua",
            Request::Zero { may_unmap: true, .. } => "zero unmap",
            Request::Zero { .. } => "zero",
            Request::Advise { .. } => "advise",
        };
        self.log.borrow().push(name.to_owned());
        if let (Some((sector, kind)), Some(at)) = (self.fails, request.extent())
            && (at.first..at.end()).contains(&sector)
        {
            return Err(Error::new(kind, "do what the test forbids"));
        }
        self.ram.try_now(request).expect("memory always answers")
    }
}

impl Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        self.shard.with(|()| ());
        let answers = self.random.borrow_mut().below(4) < self.at_once;
        answers.then(|| self.serve(request))
    }

    fn prefetch(&self, requests: &[Request]) {
        self.shard.with(|()| ());
        assert!(requests.len() > 1 && requests.iter().all(|request| !request.is_change()));
    }

    async fn run(&self, request: Request) -> Result {
        self.running.set(self.running.get() + 1);
        let most = self.running_max.get().max(self.running.get());
        self.running_max.set(most);
        self.hang.wait(Some(&request)).await;
        let delay = self.random.borrow_mut().below(self.delay_ns.max(1));
        self.lane.sleep_until(self.lane.now() + delay).await;
        self.shard.with(|()| ());
        let result = self.serve(&request);
        self.running.set(self.running.get() - 1);
        result
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        self.hang.wait(None).await;
        self.lane.turn().await;
        self.shard.with(|()| ());
        self.log.borrow().push("status".to_owned());
        if let Some((sector, kind)) = self.fails
            && (at.first..at.end()).contains(&sector)
        {
            return Err(Error::new(kind, "tell what the test forbids"));
        }
        let mut list = Vec::new();
        let mut end = 0;
        for stretch in self.known.borrow().iter() {
            let start: u64 = end;
            end += stretch.sectors;
            let from = start.max(at.first);
            list.extend((from < end).then(|| stretch.resized(end - from)));
        }
        Ok(if list.is_empty() { vec![Stretch::data(at.count)] } else { list })
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        self.stall.as_ref()
    }
}
