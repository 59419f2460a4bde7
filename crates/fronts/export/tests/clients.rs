//! Clients of an export, as seen by a front without a protocol.

use block::{Block, Extent, Fua, Limits, Padding, Request, Result, Stack};
use export::{Bounds, Budget, Client, Export, Load, Session, Stop};
use lane::{Event, Lane, World};
use std::cell::Cell;
use std::rc::Rc;
use std::sync::{Arc, Mutex, MutexGuard};

/// The requests, in order. Sessions write to it too, and may end on any thread.
#[derive(Clone, Default)]
struct Log(Arc<Mutex<Vec<String>>>);

impl Log {
    fn borrow(&self) -> MutexGuard<'_, Vec<String>> {
        self.0.lock().expect("no test panics in it")
    }
}

/// A device that answers later and logs its requests.
struct Device {
    lane: Lane,
    limits: Limits,
    log: Option<Log>,
}

impl Device {
    fn new(lane: &Lane, log: Option<Log>) -> Device {
        let limits = Limits { flush_needed: true, fua: Fua::None, ..Limits::plain(1 << 10, 512) };
        Device { lane: lane.clone(), limits, log }
    }
}

impl Block for Device {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    async fn run(&self, request: Request) -> Result {
        if let Some(log) = &self.log {
            log.borrow().push(match request {
                Request::Write { fua, .. } => format!("write, fua {fua}"),
                Request::Flush => "flush".to_owned(),
                other => format!("{other:?}"),
            });
        }
        self.lane.rest().await;
        Ok(())
    }
}

struct Watched(Log);

impl Session for Watched {
    fn flushed(&self) {
        self.0.borrow().push("proven".to_owned());
    }
}

impl Drop for Watched {
    fn drop(&mut self) {
        self.0.borrow().push("gone".to_owned());
    }
}

fn client(export: &Export, budget: &Arc<Budget>) -> Rc<Client> {
    let bounds = Bounds { in_flight_max: 4, in_flight_bytes_max: 1 << 20, budget: budget.clone() };
    Rc::new(Client::new(export, export.limits(1 << 20), &Arc::new(Stop::new()), bounds))
}

/// Writes a block in a separate task, and waits for the answer.
async fn write(client: &Rc<Client>, done: &Rc<Event>, fua: bool) {
    let admitted = client.admit(4096, async || ()).await;
    let buffer = admitted.expect("nothing stalls").expect("it has a payload");
    let request = Request::Write { at: Extent::new(0, 8), from: buffer.sectors(8), fua };
    let operation = client.operation(request, Padding::NONE, fua);
    client.note(&operation).await;
    let request = operation.plain();
    let answer = request.and_then(|request| client.ask(request));
    assert!(answer.is_none(), "the device answers later");
    let (seen, running, ended) = (done.seen(), client.clone(), done.clone());
    let task = async move {
        running.run(operation).await.expect("the device is well");
        running.answered(1, &mut vec![buffer]);
        ended.notify();
    };
    client.launch(task).await;
    done.after(seen).await;
}

#[test]
fn fua_is_a_write_and_a_flush_and_proves_that_the_client_flushes() {
    let mut world = World::chosen(1);
    let (lane, log, budget) = (world.lane(), Log::default(), Arc::default());
    let device = Device::new(&lane, Some(log.clone()));
    let mut export = Export::new("disk", Stack::new(&lane, device));
    let watched = log.clone();
    export.session = Rc::new(move || Box::new(Watched(watched.clone())));
    let acting = async move {
        let (client, done) = (client(&export, &budget), Rc::new(Event::new()));
        write(&client, &done, false).await;
        write(&client, &done, true).await;
    };
    lane.spawn(acting).expect("a slot is free");
    while world.step() {}
    let expected = ["write, fua false", "proven", "write, fua false", "flush", "gone"];
    assert_eq!(*log.borrow(), expected);
}

/// Runs this change in a separate task, and logs its answer.
async fn start(client: &Rc<Client>, log: &Log, name: &'static str, request: Request) {
    let operation = client.operation(request, Padding::NONE, false);
    client.turn().await;
    if client.ask(operation.plain().expect("nothing follows")).is_some() {
        return log.borrow().push(format!("{name} answered"));
    }
    client.admit(0, async || ()).await.expect("nothing stalls");
    let (running, ended, log) = (client.run(operation), client.clone(), log.clone());
    let task = async move {
        running.await.expect("the device is well");
        log.borrow().push(format!("{name} answered"));
        ended.withdraw(None);
    };
    client.launch(task).await;
}

#[test]
fn a_change_waits_for_earlier_changes_that_it_overlaps_and_for_no_others() {
    let mut apart_first = 0;
    for seed in 0..200 {
        let mut world = World::chosen(seed);
        let (lane, log, budget) = (world.lane(), Log::default(), Arc::default());
        let device = Device::new(&lane, Some(log.clone()));
        let export = Export::new("disk", Stack::new(&lane, device));
        let task_log = log.clone();
        let acting = async move {
            let client = client(&export, &budget);
            let at = |first| Extent::new(first, 8);
            let zero = |first| Request::Zero { at: at(first), fua: false, may_unmap: false };
            start(&client, &task_log, "one", Request::Discard { at: at(0) }).await;
            start(&client, &task_log, "two", zero(4)).await;
            start(&client, &task_log, "apart", zero(16)).await;
            start(&client, &task_log, "three", Request::Discard { at: at(8) }).await;
        };
        lane.spawn(acting).expect("a slot is free");
        while world.step() {}
        let log = log.borrow();
        let index = |what: &str| {
            log.iter().position(|line| line == what).unwrap_or_else(|| panic!("{what}: {log:?}"))
        };
        let begun = |request: Request| index(&format!("{request:?}"));
        let zero =
            |first| Request::Zero { at: Extent::new(first, 8), fua: false, may_unmap: false };
        assert!(index("one answered") < begun(zero(4)), "seed {seed}: {log:?}");
        let three = begun(Request::Discard { at: Extent::new(8, 8) });
        assert!(index("two answered") < three, "seed {seed}: {log:?}");
        apart_first += u32::from(begun(zero(16)) < index("one answered"));
    }
    assert!(apart_first > 20, "a change that overlaps none has waited: {apart_first} of 200");
}

#[test]
fn a_full_budget_stops_no_client_for_good() {
    for seed in 0..100 {
        let mut world = World::chosen(seed);
        let lane = world.lane();
        let budget = Arc::new(Budget::new(8192, 1 + seed as usize % 3));
        let export = Export::new("disk", Stack::new(&lane, Device::new(&lane, None)));
        for _ in 0..4 {
            let client = client(&export, &budget);
            // Two at a time for each: one of them always waits.
            for _ in 0..2 {
                let (client, done) = (client.clone(), Rc::new(Event::new()));
                let acting = async move {
                    for _ in 0..10 {
                        write(&client, &done, false).await;
                    }
                };
                lane.spawn(acting).expect("a slot is free");
            }
        }
        while world.step() {}
        assert_eq!(lane.tasks(), 0, "seed {seed}: a client waits for ever");
        assert_eq!(budget.used(), Load::default());
    }
}

#[test]
fn in_stride_a_request_takes_no_memory() {
    let (lane, budget) = (Lane::new(), Arc::new(Budget::default()));
    let export = Export::new("disk", Stack::new(&lane, Device::new(&lane, None)));
    let client = client(&export, &budget);
    let taken = Rc::new(Cell::new(None));
    let result = taken.clone();
    let acting = async move {
        let (done, mut buffers) = (Rc::new(Event::new()), Vec::with_capacity(1));
        let mut before = 0;
        for round in 0..200 {
            if round == 100 {
                before = allocations::of_this_thread();
            }
            let admitted = client.admit(4096, async || ()).await;
            let buffer = admitted.expect("nothing stalls").expect("it has a payload");
            let from = buffer.sectors(8);
            let request = Request::Write { at: Extent::new(0, 8), from, fua: false };
            let operation = client.operation(request, Padding::NONE, true);
            client.note(&operation).await;
            let request = operation.plain();
            let answer = request.and_then(|request| client.ask(request));
            assert!(answer.is_none(), "the device answers later");
            let (seen, running, ended) = (done.seen(), client.clone(), done.clone());
            let task = async move {
                running.run(operation).await.expect("the device is well");
                ended.notify();
            };
            client.launch(task).await;
            done.after(seen).await;
            buffers.push(buffer);
            client.answered(1, &mut buffers);
        }
        result.set(Some(allocations::of_this_thread() - before));
    };
    lane.spawn(acting).expect("a slot is free");
    while lane.step() {}
    assert_eq!(taken.get(), Some(0), "in a hundred requests");
}
