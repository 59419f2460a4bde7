//! The waker of a task: a packed [`TaskRef`], without pointer and reference count.
#![allow(unsafe_code)]

use crate::mailbox::TaskRef;
use std::task::{RawWaker, RawWakerVTable, Waker};

static VTABLE: RawWakerVTable = RawWakerVTable::new(
    |packed| RawWaker::new(packed, &VTABLE),
    |packed| TaskRef::unpack(packed.addr()).wake(),
    |packed| TaskRef::unpack(packed.addr()).wake(),
    |_| (),
);

/// The waker that wakes `task`.
pub(crate) fn waker(task: TaskRef) -> Waker {
    let packed = std::ptr::without_provenance(task.pack());
    // SAFETY: the data pointer is a plain number that is never dereferenced. Clone, wake and drop
    // use only that number, and the mailboxes that they access are static, so the contract of
    // RawWakerVTable (thread safety included) holds.
    unsafe { Waker::from_raw(RawWaker::new(packed, &VTABLE)) }
}

/// Returns the task of a waker of this crate; None for a waker of another executor.
pub(crate) fn task_of(waker: &Waker) -> Option<TaskRef> {
    std::ptr::eq(waker.vtable(), &VTABLE).then(|| TaskRef::unpack(waker.data().addr()))
}
