//! A front of a few lines, through the whole life of a daemon: the daemon's core uses no protocol.

use super::*;
use crate::front::{EndFuture, Front};
use crate::lanes::Job;
use block::{CacheSpec, Extent, Padding, Request, Size, Spec};
use export::{Bounds, Client, Export, Operation, Stop};
use lane::Event;
use ring::Polling;
use stack::{OpenFlags, Volume};
use std::cell::{Cell, RefCell};
use std::future::Future;
use std::os::unix::net::UnixStream;
use std::sync::atomic::{AtomicU64, Ordering};

/// Serves requests of its own process.
#[derive(Default)]
struct Direct {
    exports: RefCell<Vec<Export>>,
    stop: Arc<Stop>,
    callers: Cell<usize>,
    left: Event,
    endings: RefCell<Vec<Ending>>,
}

impl Front for Direct {
    fn address(&self, export: &str) -> String {
        format!("direct:{export}")
    }

    fn open(self: Rc<Self>, exports: Vec<Export>, _lanes: &Rc<Lanes>) {
        *self.exports.borrow_mut() = exports;
    }

    fn remove(&self, export: &str) {
        self.exports.borrow_mut().retain(|served| served.name != export);
    }

    fn close(&self, ending: Ending) {
        self.exports.borrow_mut().clear();
        self.stop.ask();
        self.endings.borrow_mut().push(ending);
    }

    fn end(&self, _deadline_ns: u64) -> EndFuture<'_> {
        Box::pin(async {
            loop {
                let seen = self.left.seen();
                if self.callers.get() == 0 {
                    return;
                }
                self.left.after(seen).await;
            }
        })
    }

    fn handover_files(&self) -> Vec<(String, File)> {
        Vec::new()
    }
}

impl Direct {
    /// Returns a new client of this export, if it is served.
    fn enter(self: &Rc<Self>, export: &str) -> Option<Caller> {
        let exports = self.exports.borrow();
        let export = exports.iter().find(|served| served.name == export)?;
        let bounds =
            Bounds { in_flight_max: 4, in_flight_bytes_max: 1 << 20, budget: Arc::default() };
        let client = Client::new(export, export.limits(1 << 20), &self.stop, bounds);
        self.callers.set(self.callers.get() + 1);
        Some(Caller { front: self.clone(), client })
    }
}

/// A client, which uses the first block.
struct Caller {
    front: Rc<Direct>,
    client: Client,
}

impl Drop for Caller {
    fn drop(&mut self) {
        self.front.callers.set(self.front.callers.get() - 1);
        self.front.left.notify();
    }
}

impl Caller {
    async fn carry_out(&self, operation: Operation) -> block::Result {
        self.client.note(&operation).await;
        let answer = operation.plain().and_then(|request| self.client.ask(request));
        match answer {
            Some(result) => result,
            None => self.client.run(operation).await,
        }
    }

    async fn transfer(&self, request: impl FnOnce(Extent, block::Buf) -> Request) -> Vec<u8> {
        let admitted = self.client.admit(4096, async || ()).await;
        let buffer = admitted.expect("nothing has stalled").expect("it has a payload");
        let request = request(Extent::new(0, 8), buffer.sectors(8));
        let operation = self.client.operation(request, Padding::NONE, false);
        self.carry_out(operation).await.expect("the backing is well");
        let data = buffer.sectors(8).to_vec();
        self.client.answered(1, &mut vec![buffer]);
        data
    }

    async fn write(&self, byte: u8) {
        let write = |at, from: block::Buf| {
            from.write(&[byte; 4096]);
            Request::Write { at, from, fua: false }
        };
        self.transfer(write).await;
    }

    async fn flush(&self) {
        assert_eq!(
            self.client.admit(0, async || ()).await.map(|buffer| buffer.is_none()),
            Ok(true)
        );
        let flush = self.client.operation(Request::Flush, Padding::NONE, false);
        self.carry_out(flush).await.expect("the backing is well");
        self.client.answered(1, &mut Vec::new());
    }

    /// Stays until it is requested to end.
    fn leave_when_asked(self) {
        let lane = self.client.lane().clone();
        lane.spawn(async move { self.client.stop().wait().await }).expect("a slot is free");
    }
}

/// Actions of clients and an operator while the volume is served.
async fn act(front: Rc<Direct>, services: Rc<VolumeServices>) {
    let service = services.find("one").expect("it is served");
    assert_eq!(service.row().uri, "direct:one");
    assert!(front.enter("three").is_none());
    let (one, two) = (front.enter("one"), front.enter("two"));
    let (one, two) = (one.expect("it is served"), two.expect("it is served"));
    assert_eq!(service.clients(), 1);

    let shared = service.shared().expect("it has a cache").clone();
    one.write(1).await;
    assert_eq!((shared.dirty_blocks(), shared.counters(0).writes_through_unproven), (0, 1));
    // C11: the client has now proven that it flushes.
    one.flush().await;
    one.write(2).await;
    assert_eq!((shared.dirty_blocks(), shared.counters(0).writes_through_unproven), (1, 1));
    assert_eq!(one.transfer(|at, into| Request::Read { at, into }).await, [2; 4096]);
    assert_eq!(one.client.in_flight(), 0);

    one.leave_when_asked();
    services.detach("one", false).await.expect("all is written out");
    assert_eq!((service.clients(), shared.dirty_blocks()), (0, 0));
    assert!(front.enter("one").is_none(), "it is off the list");
    two.write(3).await;
    two.leave_when_asked();
    services.end(Ending::Stop);
}

fn volume(name: &str) -> Volume {
    let cache = CacheSpec { memory: Size(2 << 20), guard: false, ..CacheSpec::default() };
    let spec = Spec::Cache { cache, below: Box::new(Spec::Ram { size: Size(8 << 20) }) };
    let flags = OpenFlags { name: name.to_owned(), ..OpenFlags::default() };
    Volume::open(spec, flags, &mut |_| ()).expect("memory alone")
}

/// Returns volumes of two names, served on this number of threads.
fn services(ring: &Ring, fronts: Fronts, names: &[String], count: usize) -> Rc<VolumeServices> {
    let threads = Threads::default();
    let services = names.iter().map(|name| {
        let volume = volume(name);
        let lane_volume = LaneVolume::new(name, &volume, &threads, true);
        VolumeService::new(
            name,
            "ram:8M",
            fronts.addresses(name).remove(0),
            volume,
            lane_volume,
            ring,
            None,
        )
        .expect("it attaches")
    });
    let services: Vec<_> = services.collect();
    threads.join(ring.polled());
    let lanes = Lanes::start(count, &setup(&services, &threads), Polling::Off)
        .expect("threads are to be had");
    let devices = Devices::new(ring.lane(), Path::new("/nowhere"));
    VolumeServices::new(
        services,
        fronts,
        devices,
        lanes,
        Err("a test".to_owned()),
        Configured::default(),
    )
}

/// Runs the life of a daemon while `acting` acts on it; the daemon ends with that.
fn run(ring: &Ring, services: &Rc<VolumeServices>, acting: impl Future<Output = ()> + 'static) {
    let runtime = tempfile::tempdir().expect("room");
    // No signal arrives.
    let (signals, _other_end) = UnixStream::pair().expect("a pair");
    let daemon = RunningDaemon {
        ring: ring.clone(),
        services: services.clone(),
        control: Listener::bind_private(&runtime.path().join("control")).expect("a socket"),
        scrapes: None,
        #[cfg(feature = "history")]
        sampler: None,
        #[cfg(feature = "history")]
        drive_samples: None,
        signals: Arc::new(signals.into()),
        // Other tests of this process go on.
        needs: None,
    };
    let lane = ring.lane().clone();
    let captive = ring.block_on(async move {
        let running =
            daemon.run(ReadyActions::new(None, &[], &[], &[], Vec::new(), Box::new(|_| ())));
        // It runs once the front is open.
        lane.spawn(acting).expect("a slot is free");
        running.await
    });
    assert!(captive.expect("the ring is well").is_none());
    assert!(services.failure().is_none());
}

#[test]
fn another_front_needs_no_change_of_the_daemon() {
    let ring = Ring::new(&Lane::new()).expect("io_uring");
    let (front, fronts) = (Rc::new(Direct::default()), Fronts::default());
    let names = ["one", "two"].map(str::to_owned);
    fronts.add(front.clone(), &names);
    let services = services(&ring, fronts, &names, 1);
    run(&ring, &services, act(front.clone(), services.clone()));
    assert_eq!((front.callers.get(), front.endings.take()), (0, vec![Ending::Stop]));
    let served: Vec<_> = services.served().into_iter().map(|served| served.uri).collect();
    assert_eq!(served, ["direct:one", "direct:two"]);
}

/// The report of a job.
type Report = Arc<(AtomicU64, Event)>;

async fn wait_for(report: &Report, count: u64) {
    loop {
        let seen = report.1.seen();
        if report.0.load(Ordering::SeqCst) == count {
            return;
        }
        report.1.after(seen).await;
    }
}

/// Returns a client on a further lane: it reads the data written on the lane before, and writes its
/// own number.
fn client_of(number: u8, report: &Report) -> Job {
    let report = report.clone();
    Box::new(move |local| {
        let export = local.exports(&["one".to_owned()]).pop().expect("it is served here");
        let stop = Arc::new(Stop::new());
        let bounds =
            Bounds { in_flight_max: 4, in_flight_bytes_max: 1 << 20, budget: Arc::default() };
        let client = Client::new(&export, export.limits(1 << 20), &stop, bounds);
        let caller = Caller { front: Rc::default(), client };
        caller.front.callers.set(1);
        let acting = async move {
            caller.flush().await;
            let found = caller.transfer(|at, into| Request::Read { at, into }).await;
            assert_eq!(found, [number - 1; 4096]);
            caller.write(number).await;
            drop(caller);
            report.0.fetch_add(1, Ordering::SeqCst);
            report.1.notify();
        };
        local.ring.lane().spawn(acting).expect("a slot is free");
    })
}

#[test]
fn clients_on_several_lanes_meet_in_one_volume() {
    let ring = Ring::new(&Lane::new()).expect("io_uring");
    let (front, fronts) = (Rc::new(Direct::default()), Fronts::default());
    let names = ["one", "two"].map(str::to_owned);
    fronts.add(front.clone(), &names);
    let services = services(&ring, fronts, &names, 3);
    let acting = services.clone();
    run(&ring, &services, async move {
        let lanes = &acting.lanes;
        // One connection on each lane, then a second one on the first lane that loses a connection.
        let mut seats: Vec<_> = (0..3).map(|_| lanes.seat()).collect();
        let is_home: Vec<_> = seats.iter().map(|seat| seat.further_lane().is_none()).collect();
        assert_eq!(is_home, [true, false, false]);
        drop(seats.remove(0));
        assert!(lanes.seat().further_lane().is_none());
        let report = Report::default();
        for number in 1..=2 {
            let lane = seats[usize::from(number) - 1].further_lane().expect("looked before");
            lane.post(client_of(number, &report));
            wait_for(&report, number.into()).await;
        }
        let service = acting.find("one").expect("it is served");
        let shared = service.shared().expect("a cache").clone();
        assert_eq!((service.clients(), shared.dirty_blocks()), (0, 1));
        drop(service);
        // Written back, and off every lane: no handle of it is left.
        acting.detach("one", false).await.expect("all is written out");
        assert_eq!(shared.dirty_blocks(), 0);
        let lane = acting.find("two").expect("it is served").ring.lane().clone();
        while Arc::strong_count(&shared) > 1 {
            lane.sleep_until(lane.now() + 1_000_000).await;
        }
        acting.end(Ending::Stop);
    });
}
