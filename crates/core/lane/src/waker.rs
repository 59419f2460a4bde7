//! The waker of a task: a packed [`TaskRef`], no pointer and no count.
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
    // SAFETY: the data pointer is a plain number that is never dereferenced; clone, wake and drop
    // work on that number alone and the mailboxes they reach are static, so the contract of
    // RawWakerVTable (thread safety included) holds.
    unsafe { Waker::from_raw(RawWaker::new(packed, &VTABLE)) }
}

/// The task behind a waker of this crate; None for a waker of some other executor.
pub(crate) fn task_of(waker: &Waker) -> Option<TaskRef> {
    std::ptr::eq(waker.vtable(), &VTABLE).then(|| TaskRef::unpack(waker.data().addr()))
}
