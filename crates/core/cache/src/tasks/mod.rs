//! The tasks of a volume that run beside its requests: on each lane the writeback workers, the
//! readahead tasks, a compressor and a relay; on one lane the flusher and the watchdog.
//!
//! ```text
//!   flusher ---> commit <--- a client's flush
//!                  |  closes an epoch, waits for the workers, flushes the backing, releases
//!   workers ---> runs of blocks and zeros, to the backing
//! ```
//!
//! They use the modules that hold state. Requests wake them, and call the commit; no task calls a
//! request.

pub(crate) mod commit;
mod compressor;
mod flusher;
mod readahead;
mod watchdog;
mod worker;

use crate::handle::Handle;
use alloc::rc::Rc;

/// Starts the tasks of a lane.
pub(crate) fn start(handle: &Rc<Handle>) {
    let lane = &handle.lane;
    let is_first = handle.shared.tasks.join();
    for member in 0..handle.shared.settings.workers {
        let handle = handle.clone();
        lane.spawn(async move { worker::run(&handle, member as usize).await })
            .expect("a lane has room for its workers");
    }
    for _ in 0..handle.shared.settings.readers {
        let handle = handle.clone();
        lane.spawn(async move { readahead::read_ahead(&handle).await })
            .expect("a lane has room for what reads ahead");
    }
    if is_first {
        if handle.shared.settings.stall_time_ns() > 0 {
            let handle = handle.clone();
            let watchdog = async move { watchdog::watch(&handle).await };
            lane.spawn(watchdog).expect("a lane has room for the watchdog");
        }
        let handle = handle.clone();
        lane.spawn(async move { flusher::run(&handle).await })
            .expect("a lane has room for the flusher");
    }
    let compressing = handle.clone();
    lane.spawn(async move { compressor::run(&compressing).await })
        .expect("a lane has room for the compressor");
    let relayed = handle.clone();
    lane.spawn(async move { relay(&relayed).await }).expect("a lane has room for the relay");
}

/// Wakes the lane's tasks when the backing stops answering, and when it answers again.
async fn relay(handle: &Handle) {
    let shared = &handle.shared;
    shared.backing.stall.relay(&handle.lane, || shared.tasks.are_stopping()).await;
}
