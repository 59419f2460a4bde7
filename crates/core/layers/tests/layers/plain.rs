//! A layer that overrides nothing changes nothing.

use crate::common::{GRAIN, read, world, write};
use block::{
    Block, Error, Extent, Kind, Layer, Limits, Padding, Request, Result, Stack, Stall, Stretch,
};
use lane::{Lane, World};
use std::cell::RefCell;
use std::rc::Rc;
use std::sync::Arc;

struct Plain(Stack);

impl Layer for Plain {
    fn lower(&self) -> &Stack {
        &self.0
    }
}

type Log = Rc<RefCell<Vec<String>>>;

/// Returns other values than the defaults of [`Block`].
struct Odd {
    limits: Limits,
    stall: Arc<Stall>,
    log: Log,
}

impl Odd {
    fn note(&self, what: &str, request: &Request) {
        self.log.borrow_mut().push(format!("{what} {:?}", request.extent()));
    }
}

impl Block for Odd {
    fn limits(&self) -> &Limits {
        &self.limits
    }

    fn try_now(&self, request: &Request) -> Option<Result> {
        self.note("now", request);
        matches!(request, Request::Flush).then_some(Err(Error::new(Kind::Stopping, "try")))
    }

    fn prefetch(&self, requests: &[Request]) {
        requests.iter().for_each(|request| self.note("prefetch", request));
    }

    async fn run(&self, request: Request) -> Result {
        self.note("run", &request);
        Err(Error::new(Kind::Io, "run"))
    }

    async fn run_padded(&self, request: Request, padding: Padding) -> Result {
        self.note(&format!("padded {padding:?}"), &request);
        Err(Error::new(Kind::Io, "run a part"))
    }

    async fn status(&self, at: Extent) -> Result<Vec<Stretch>> {
        Err(Error::new(Kind::OutOfRange, if at.first == 8 { "tell" } else { "tell of another" }))
    }

    fn stall(&self) -> Option<&Arc<Stall>> {
        Some(&self.stall)
    }
}

fn odd(lane: &Lane) -> (Stack, Log, Arc<Stall>) {
    let (log, stall) = (Log::default(), Arc::<Stall>::default());
    let limits = Limits { unaligned: true, block_logical_bytes: 4096, ..Limits::plain(64, GRAIN) };
    let device = Odd { limits, stall: stall.clone(), log: log.clone() };
    (Stack::new(lane, device), log, stall)
}

fn ended<T: 'static>(world: &mut World, work: impl Future<Output = T> + 'static) -> T {
    let slot = Rc::new(RefCell::new(None));
    let result = slot.clone();
    let work = async move { *result.borrow_mut() = Some(work.await) };
    world.lane().spawn(work).expect("a slot is free");
    while world.step() {}
    slot.take().expect("it has ended")
}

/// Returns all answers of a stack, and the calls that reached the device.
fn answers(wrap: impl FnOnce(&Lane, Stack) -> Stack) -> Vec<String> {
    let mut world = world();
    let lane = world.lane();
    let (below, log, stall) = odd(&lane);
    let stack = wrap(&lane, below);
    let padding = Padding { head: 3, tail: 5 };
    let mut lines = vec![format!("{:?}", stack.limits())];
    for request in [read(8, 8), write(16, 8, 7), Request::Flush] {
        lines.push(format!("{:?}", stack.try_now(&request)));
        stack.prefetch(std::slice::from_ref(&request));
        lines.push(format!("{:?}", ended(&mut world, stack.run(request.clone()))));
        lines.push(format!("{:?}", ended(&mut world, stack.run_padded(request, padding))));
    }
    lines.push(format!("{:?}", ended(&mut world, stack.status(Extent::new(8, 8)))));
    lines.push(format!("{}", stack.stall().is_some_and(|found| Arc::ptr_eq(found, &stall))));
    lines.extend(log.take());
    lines
}

#[test]
fn a_layer_that_overrides_nothing_changes_nothing() {
    let bare = answers(|_, below| below);
    assert!(bare.iter().any(|line| line.starts_with("prefetch")), "the device was asked: {bare:?}");
    let layered = answers(|lane, below| Stack::new(lane, Plain(below)));
    assert_eq!(layered, bare);
}
